package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"chokepoint/internal/evidence/page"
	"chokepoint/internal/evidence/stacks"
	"chokepoint/internal/result"
)

// wait is one place in which a request spends its time.
type wait struct {
	name   string
	colour page.Colour
	ms     float64 // the mean over the requests
	known  bool
}

// waitsOf follows a request of an endpoint from its due time on. Of a run in which
// the requests were not followed, the accept queue is known by its length alone: all
// that stood in it, summed over time, is what all requests together waited there
// (Little's law).
func (r runFolder) waitsOf(name string) []wait {
	e := r.summary.Endpoints[name]
	if w := e.Waits; w != nil {
		return []wait{
			{"generator's lag", stacks.Other, w.Lag, true},
			{"accept queue", stacks.Idle, w.Accept, true},
			{"for a worker", stacks.Queued, w.Queue, true},
			{"for a permit", stacks.PermitWait, w.Permit, true},
			{"in the upstream", stacks.UpstreamRead, w.Upstream, true},
			{"in the database", stacks.Database, w.Database, true},
			{"the rest", stacks.Running, w.Other, true},
		}
	}
	lag, hasLag := r.meanLagMS(name)
	accept, hasAccept := r.meanAcceptMS()
	t, timed := result.ServerTiming{}, e.ServerTiming != nil
	if timed {
		t = *e.ServerTiming
	}
	return []wait{
		{"generator's lag", stacks.Other, lag, hasLag},
		{"accept queue", stacks.Idle, accept, hasAccept},
		{"for a worker", stacks.Queued, t.Queue, timed},
		{"for a permit", stacks.PermitWait, t.Permit, timed},
		{"in the upstream", stacks.UpstreamRead, t.Upstream, timed},
		{"in the database", stacks.Database, t.Database, timed},
		{"the rest", stacks.Running, 0, false},
	}
}

func (r runFolder) meanLagMS(name string) (float64, bool) {
	if r.requests == nil || r.requests.endpoints[name] == nil || r.requests.endpoints[name].started == 0 {
		return 0, false
	}
	e := r.requests.endpoints[name]
	return e.lag.Seconds() * 1000 / float64(e.started), true
}

// meanAcceptMS is the same for all endpoints: they share the listener.
func (r runFolder) meanAcceptMS() (float64, bool) {
	started := 0
	for _, e := range r.summary.Endpoints {
		started += e.Started
	}
	if len(r.timeline) < 2 || started == 0 {
		return 0, false
	}
	seconds := 0.0 // of connections in the queue, in scenario time
	for i, row := range r.timeline[1:] {
		seconds += float64(row.AcceptQueue) * (row.AtS - r.timeline[i].AtS)
	}
	return seconds * r.summary.Run.Scale * 1000 / float64(started), true
}

// How waits are measured: of requests that were followed, and of others.
const (
	followedNote = "Means over every request that ended, each followed by its id from its due time until its client had the answer or gave up, and no further: together they are the mean response time. " +
		"The accept queue is all between the client's first call and the victim's reading of the request."
	unfollowedNote = "Means over the requests that the victim finished, including those whose client had gone by then, by the victim's own clock; those still queued when the run ended are missing. " +
		"The lag is the generator's, by its own clock. The accept queue is worked out from its length, as the timeline has it, for all endpoints together."
)

func waitNote(s result.Summary) string {
	for _, e := range s.Endpoints {
		if e.Waits != nil {
			return followedNote
		}
	}
	return unfollowedNote
}

// waitRow is one line of a table, and the bar that shows it.
func waitRow(name text, waits []wait) (cells []text, row barRow) {
	row.name = name
	for _, w := range waits {
		if w.known {
			row.full += w.ms
		}
	}
	for _, w := range waits {
		switch {
		case !w.known:
			cells = append(cells, plain(none))
		case row.full == 0:
			cells = append(cells, plain(inUnit(w.ms, "ms")))
		default:
			share := percent(w.ms / row.full)
			cells = append(cells, plain(fmt.Sprintf("%s, %s", inUnit(w.ms, "ms"), share)))
			row.parts = append(row.parts, barPart{label: fmt.Sprintf("%s %s, %s", inUnit(w.ms, "ms"), w.name, share), colour: w.colour, value: w.ms})
		}
	}
	row.end = plain(inUnit(row.full, "ms"))
	return cells, row
}

// waitBlocks says where the time of a request went; nil where the server does not
// tell.
func waitBlocks(r runFolder) []block {
	t := table{columns: []column{words("endpoint")}}
	b := bars{caption: plain(waitNote(r.summary) + " A bar is the whole of its endpoint's own wait.")}
	var most []string
	for _, name := range endpointNames(r.summary) {
		if r.summary.Endpoints[name].ServerTiming == nil {
			continue
		}
		waits := r.waitsOf(name)
		if len(b.keys) == 0 {
			for _, w := range waits {
				t.columns = append(t.columns, numbers(w.name))
				b.keys = append(b.keys, barKey{w.name, w.colour})
			}
		}
		cells, row := waitRow(endpoint(name), waits)
		b.rows = append(b.rows, row)
		t.rows = append(t.rows, append([]text{endpoint(name)}, cells...))
		if row.full > 0 {
			longest := slices.MaxFunc(waits, func(a, b wait) int { return cmp.Compare(a.ms, b.ms) })
			most = append(most, fmt.Sprintf("%s of the wait of /%s was %s", percent(longest.ms/row.full), name, longest.name))
		}
	}
	if len(t.rows) == 0 {
		return nil
	}
	b.standIn = []block{paragraph{plain(waitNote(r.summary))}, t}
	b.numbers = []block{t}
	if len(most) == 0 {
		return []block{b}
	}
	return []block{paragraph{strong(strings.Join(most, "; ") + ".")}, b}
}
