package scenario

import (
	"cmp"
	"math"
	"slices"
	"time"

	"chokepoint/internal/result"
	"chokepoint/internal/stats"
)

// failures are when the first and the last request of an endpoint failed. One that
// the generator dropped or stopped waiting for was not failed by the service.
func failures(requests []result.Request, endpoint string, seconds func(time.Duration) float64) []result.Event {
	var failed []time.Duration
	for _, r := range requests {
		switch r.Outcome {
		case outcomeOK, outcomeDropped, outcomeInterrupted:
		default:
			if r.Endpoint == endpoint {
				failed = append(failed, r.Due+r.Response)
			}
		}
	}
	if len(failed) == 0 {
		return nil
	}
	return []result.Event{
		{AtS: seconds(slices.Min(failed)), Name: "first_" + endpoint + "_failed"},
		{AtS: seconds(slices.Max(failed)), Name: "last_" + endpoint + "_failed"},
	}
}

// addRequests counts in each row the requests that ended since the one before:
// those of the endpoint that must survive, and all others.
func addRequests(rows []result.TimelineRow, requests []result.Request, protect string, scale float64) {
	done := append([]result.Request(nil), requests...)
	slices.SortFunc(done, func(a, b result.Request) int { return cmp.Compare(a.Due+a.Response, b.Due+b.Response) })
	next := 0
	for i := range rows {
		at := time.Duration(math.Round(rows[i].AtS * scale * float64(time.Second)))
		from := next
		for next < len(done) && done[next].Due+done[next].Response <= at {
			next++
		}
		countDone(&rows[i], done[from:next], protect)
	}
}

// addMarks puts each event into the first row that is not before it.
func addMarks(rows []result.TimelineRow, events []result.Event) {
	event := 0
	for i := range rows {
		for event < len(events) && events[event].AtS <= rows[i].AtS {
			mark := events[event].Name
			if detail := events[event].Detail; detail != "" {
				mark += ":" + detail
			}
			rows[i].Marks = append(rows[i].Marks, mark)
			event++
		}
	}
}

// countDone counts the requests that ended in a row's interval.
func countDone(row *result.TimelineRow, done []result.Request, protect string) {
	var fastMS []float64
	for _, r := range done {
		failed := 0
		if r.Outcome != outcomeOK {
			failed = 1
		}
		switch {
		case r.Outcome == outcomeDropped || r.Outcome == outcomeInterrupted:
		case r.Endpoint == protect:
			row.FastDone++
			row.FastFailed += failed
			fastMS = append(fastMS, r.Response.Seconds()*1000)
		default:
			row.UpstreamDone++
			row.UpstreamFailed += failed
		}
	}
	if len(fastMS) > 0 {
		slices.Sort(fastMS)
		p50, p99 := stats.Quantile(fastMS, 0.5), stats.Quantile(fastMS, 0.99)
		row.FastP50MS, row.FastP99MS = &p50, &p99
	}
}

// dumpWindows are when the full dumps of a load were under way.
type dumpWindows struct {
	loadOn  time.Time
	windows [][2]time.Time
}

// quiet are the percentiles of an endpoint's good answers without those that
// were in flight while a dump stopped the world; nothing if no dump was taken.
func (d dumpWindows) quiet(requests []result.Request, name string) result.Percentiles {
	var ms []float64
	for _, r := range requests {
		if r.Endpoint == name && r.Outcome == outcomeOK && !d.contain(r) {
			ms = append(ms, r.Response.Seconds()*1000)
		}
	}
	if len(d.windows) == 0 || len(ms) == 0 {
		return result.Percentiles{}
	}
	slices.Sort(ms)
	p := result.Percentiles{
		Min: ms[0], Max: ms[len(ms)-1], Count: int64(len(ms)),
		P50: stats.Quantile(ms, 0.5), P90: stats.Quantile(ms, 0.9), P95: stats.Quantile(ms, 0.95), P99: stats.Quantile(ms, 0.99),
	}
	if len(ms) >= 1000 {
		p999 := stats.Quantile(ms, 0.999)
		p.P999 = &p999
	}
	return p
}

func (d dumpWindows) contain(r result.Request) bool {
	due, done := d.loadOn.Add(r.Due), d.loadOn.Add(r.Due+r.Response)
	for _, w := range d.windows {
		if !done.Before(w[0]) && !due.After(w[1]) {
			return true
		}
	}
	return false
}
