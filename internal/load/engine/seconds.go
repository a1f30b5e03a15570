package engine

import (
	"time"

	"chokepoint/internal/load/arrival"
	"chokepoint/internal/load/latency"
	"chokepoint/internal/load/ledger"
)

// Second is what happened in one second of a run; the last one is cut short by
// the last answer.
type Second struct {
	From, To  time.Duration // offsets from the start
	Window    time.Duration // the length of the load window
	Generator GeneratorSecond
	Endpoints []EndpointSecond
}

// EndpointSecond is what happened to one endpoint within a second. Over a whole
// run
//
//	scheduled = started + dropped
//	started   = the sum of outcomes
//
// and the sums are those of the ledger.
type EndpointSecond struct {
	Name string
	// Planned is how many arrivals the plan has in the second. A generator that is
	// late has scheduled fewer at its end. 0 in a closed model, which plans none.
	Planned                     int
	Scheduled, Started, Dropped int
	Outcomes                    ledger.Outcomes
	// InFlight is how many requests had no outcome at the end of the second.
	InFlight int
	// Timings are those of the requests that ended within the second. They are
	// only lent: what is kept of them must be copied before EachSecond returns.
	Timings Timings
}

// counts are those of an endpoint from the start to some moment.
type counts struct {
	started, dropped int
	droppedAhead     int // of the dropped, those that fell due after the moment
	outcomes         ledger.Outcomes
}

// until leaves out what was sent or dropped after the moment, before it was looked
// at: a pacer goes in due order, so it is what is more than planned until then.
func (c counts) until(planned int) counts {
	c.started -= max(0, c.started+c.dropped-planned-c.droppedAhead)
	c.dropped -= c.droppedAhead
	return c
}

// since is what happened between two moments.
func (now counts) since(before counts) EndpointSecond {
	started, dropped := now.started-before.started, now.dropped-before.dropped
	return EndpointSecond{
		Scheduled: started + dropped, Started: started, Dropped: dropped,
		Outcomes: now.outcomes.Since(before.outcomes),
		// A worker can be done before the pacer has counted the start.
		InFlight: max(0, now.started-now.outcomes.Finished()),
	}
}

// Timings are the histograms of an endpoint over a second or a whole run.
// Response holds what is in OKResponse and FailedResponse together.
type Timings struct {
	Response, OKResponse, FailedResponse, Service, Lag *latency.Histogram
}

func newTotal() Timings {
	return Timings{
		Response: latency.New(), OKResponse: latency.New(), FailedResponse: latency.New(),
		Service: latency.New(), Lag: latency.New(),
	}
}

func (t Timings) merge(from Timings) {
	t.Response.Merge(from.Response)
	t.OKResponse.Merge(from.OKResponse)
	t.FailedResponse.Merge(from.FailedResponse)
	t.Service.Merge(from.Service)
	t.Lag.Merge(from.Lag)
}

// calendar counts what the plan has in one second after the other.
type calendar struct {
	endpoints int
	arrivals  *arrival.Merged
	next      arrival.Arrival
	more      bool // next is one
}

func newCalendar(c Config) *calendar {
	k := &calendar{endpoints: len(c.Endpoints), arrivals: c.arrivals()}
	k.next, k.more = k.arrivals.Next()
	return k
}

// until is how many arrivals of each endpoint fall due before to and were not
// counted by a call before; it costs some 10 ns for each.
func (k *calendar) until(to time.Duration) []int {
	planned := make([]int, k.endpoints)
	for k.more && k.next.Due < to {
		planned[k.next.From]++
		k.next, k.more = k.arrivals.Next()
	}
	return planned
}
