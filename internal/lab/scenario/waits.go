package scenario

import (
	"time"

	"chokepoint/internal/adminapi"
	"chokepoint/internal/result"
)

// waits says where the waits of an endpoint's clients went: what the load generator
// knows of each request, joined by its id with what the victim knows. The two are
// processes of one machine and share its clock. Nil if the victim did not follow
// every request that it read.
func (e *evidence) waits(name string) *result.Waits {
	if e.load == nil || e.visits == nil || len(e.visits[name]) < len(e.seen[name]) {
		return nil
	}
	var total split
	var w result.Waits
	for _, r := range e.requests {
		if r.Endpoint != name || r.Outcome == outcomeDropped || r.Outcome == outcomeInterrupted {
			continue
		}
		w.Requests++
		visit, seen := e.visits[name][r.ID]
		total.add(follow(r, e.load.StartedAt, visit, seen))
	}
	if w.Requests == 0 {
		return nil
	}
	mean := func(d time.Duration) float64 { return d.Seconds() * 1000 / float64(w.Requests) }
	w.Lag, w.Accept, w.Queue, w.Permit = mean(total.lag), mean(total.accept), mean(total.queue), mean(total.permit)
	w.Upstream, w.Database, w.Other = mean(total.upstream), mean(total.database), mean(total.other)
	return &w
}

// split is one response time by where it went, or several added up.
type split struct{ lag, accept, queue, permit, upstream, database, other time.Duration }

func (s *split) add(o split) {
	s.lag += o.lag
	s.accept += o.accept
	s.queue += o.queue
	s.permit += o.permit
	s.upstream += o.upstream
	s.database += o.database
	s.other += o.other
}

// follow splits the response time of a request: it is in one place after the other,
// and what its client did not wait for is not counted. start is the moment of due
// time 0. A request that the victim has not read, or not yet, was on its way to it
// for the whole wait; one that is not finished is still where it last went.
func follow(r result.Request, start time.Time, v adminapi.Visit, seen bool) split {
	left := r.Response
	spend := func(d time.Duration) time.Duration {
		d = min(max(d, 0), left)
		left -= d
		return d
	}
	var s split
	s.lag = spend(r.Lag)
	if !seen {
		s.accept = spend(left)
		return s
	}
	received := time.Unix(0, v.ReceivedNS)
	s.accept = spend(received.Sub(start.Add(r.Due + r.Lag)))
	switch {
	case v.Finished:
		s.queue, s.permit = spend(time.Duration(v.QueueNS)), spend(time.Duration(v.PermitNS))
		s.upstream, s.database = spend(time.Duration(v.UpstreamNS)), spend(time.Duration(v.DatabaseNS))
	case v.StartedNS == 0:
		s.queue = spend(left)
	default:
		s.queue = spend(time.Unix(0, v.StartedNS).Sub(received))
		if r.Endpoint == "fast" {
			s.database = spend(left)
		} else {
			s.upstream = spend(left)
		}
	}
	s.other = left
	return s
}
