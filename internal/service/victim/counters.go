package victim

import (
	"strconv"
	"sync"
	"time"

	"chokepoint/internal/adminapi"
)

// phases are the phases that are told apart; the last takes all others.
var phases = [...]string{
	adminapi.PhaseReadiness, adminapi.PhaseBaseline, adminapi.PhaseWarmup, adminapi.PhaseLoad,
	adminapi.PhaseRecovery, adminapi.PhaseDose, adminapi.PhaseOther,
}

// phaseOf finds a phase's index by the header's value.
func phaseOf(header []byte) int {
	for i, name := range phases {
		if string(header) == name {
			return i
		}
	}
	return len(phases) - 1
}

// counters counts requests by endpoint and phase.
type counters struct {
	mu    sync.Mutex
	cells [endpointCount][len(phases)]cell
}

type cell struct {
	received int
	status   map[int]int
	finished int
	spent    spent
}

func (c *counters) received(endpoint, phase int) {
	c.mu.Lock()
	c.cells[endpoint][phase].received++
	c.mu.Unlock()
}

func (c *counters) finished(r *request, status int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	cell := &c.cells[r.endpoint][r.phase]
	if cell.status == nil {
		cell.status = map[int]int{}
	}
	cell.status[status]++
	cell.finished++
	cell.spent.queue += r.spent.queue
	cell.spent.permit += r.spent.permit
	cell.spent.upstream += r.spent.upstream
	cell.spent.database += r.spent.database
}

func (c *counters) stats() map[string]map[string]adminapi.EndpointStats {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := map[string]map[string]adminapi.EndpointStats{}
	for endpoint, name := range endpointNames {
		all[name] = map[string]adminapi.EndpointStats{}
		for phase, cell := range c.cells[endpoint] {
			if cell.received == 0 {
				continue
			}
			s := adminapi.EndpointStats{Received: cell.received, Status: map[string]int{}}
			for status, n := range cell.status {
				s.Status[strconv.Itoa(status)] = n
			}
			mean := func(d time.Duration) float64 {
				return d.Seconds() * 1000 / float64(max(cell.finished, 1))
			}
			s.QueueMS, s.PermitMS = mean(cell.spent.queue), mean(cell.spent.permit)
			s.UpstreamMS, s.DatabaseMS = mean(cell.spent.upstream), mean(cell.spent.database)
			all[name][phases[phase]] = s
		}
	}
	return all
}

// seen keeps every request by its id: how often it was read, so that the client's
// ledger can be reconciled with what really arrived, and what became of it, so that
// a client's wait can be followed.
type seen struct {
	mu  sync.Mutex
	ids [len(phases)][endpointCount]map[string]*visit
}

// visit is one id.
type visit struct {
	times int
	adminapi.Visit
}

// add counts one reading of an id. It returns nil for one that is not followed:
// the id was read before, or there are too many.
func (s *seen) add(phase, endpoint int, id string, received time.Time) *visit {
	s.mu.Lock()
	defer s.mu.Unlock()
	ids := s.ids[phase][endpoint]
	if ids == nil {
		ids = map[string]*visit{}
		s.ids[phase][endpoint] = ids
	}
	if v := ids[id]; v != nil {
		v.times++
		return nil
	}
	v := &visit{times: 1}
	ids[id] = v
	if len(ids) > adminapi.MaxVisits {
		return nil
	}
	v.ReceivedNS = received.UnixNano()
	return v
}

// started notes that a worker has the request.
func (s *seen) started(v *visit, at time.Time) {
	if v == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	v.StartedNS = at.UnixNano()
}

// finished notes where the request's time went.
func (s *seen) finished(v *visit, spent spent) {
	if v == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	v.Finished = true
	v.QueueNS, v.PermitNS = spent.queue.Nanoseconds(), spent.permit.Nanoseconds()
	v.UpstreamNS, v.DatabaseNS = spent.upstream.Nanoseconds(), spent.database.Nanoseconds()
}

// snapshot copies one phase.
func (s *seen) snapshot(phase int) adminapi.Seen {
	s.mu.Lock()
	defer s.mu.Unlock()
	copied := adminapi.Seen{}
	for endpoint, name := range endpointNames {
		copied[name] = map[string]int{}
		for id, v := range s.ids[phase][endpoint] {
			copied[name][id] = v.times
		}
	}
	return copied
}

// visits copies what is followed of one phase.
func (s *seen) visits(phase int) adminapi.Visits {
	s.mu.Lock()
	defer s.mu.Unlock()
	copied := adminapi.Visits{}
	for endpoint, name := range endpointNames {
		copied[name] = map[string]adminapi.Visit{}
		for id, v := range s.ids[phase][endpoint] {
			if v.ReceivedNS != 0 {
				copied[name][id] = v.Visit
			}
		}
	}
	return copied
}
