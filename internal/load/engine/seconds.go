package engine

import (
	"time"

	"chokepoint/internal/load/latency"
	"chokepoint/internal/result"
)

// Second is what happened in one second of a run; the last one is cut short by
// the last answer.
type Second struct {
	From, To  time.Duration // offsets from the start
	Endpoints []EndpointSecond
}

// EndpointSecond is what happened to one endpoint within a second. Over a whole
// run
//
//	scheduled = started + dropped
//	started   = ok + failed
//
// and the sums are those of the ledger; failed includes the interrupted.
type EndpointSecond struct {
	Name                        string
	Scheduled, Started, Dropped int
	OK, Failed                  int
	// InFlight is how many requests had no outcome at the end of the second.
	InFlight int
	// Response is that of the requests that ended within the second.
	Response result.Percentiles
}

// counts are those of an endpoint from the start to some moment.
type counts struct {
	started, dropped, ok, finished int
}

// since is what happened between two moments.
func (now counts) since(before counts, name string, response *latency.Histogram) EndpointSecond {
	started, dropped := now.started-before.started, now.dropped-before.dropped
	ok := now.ok - before.ok
	return EndpointSecond{
		Name: name, Scheduled: started + dropped, Started: started, Dropped: dropped,
		OK: ok, Failed: now.finished - before.finished - ok,
		// A worker can be done before the pacer has counted the start.
		InFlight: max(0, now.started-now.finished),
		Response: response.Percentiles(),
	}
}

// Timings are the histograms of an endpoint over a whole run.
type Timings struct {
	Response, OKResponse, FailedResponse, Service, Lag *latency.Histogram
}
