package queueing

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"chokepoint/internal/result"
)

// Tolerances around a predicted range (DESIGN section 5).
const (
	ratioTolerance = 0.02 // absolute
	countTolerance = 0.02 // of the count, and leastCount at the least
	leastCount     = 2    // requests
	timeTolerance  = 0.02 // of the time, and leastMS or one poll at the least
	leastMS        = 5    // real
	// recoveryPoll is real: the lab asks for the pool's state and probes /fast a few
	// times a second, so it sees recovery up to this late.
	recoveryPoll = 250 * time.Millisecond
	// A worker that passes from one call to the next stands, for a moment, in
	// neither; the shorter the scenario, the more of them a dump catches.
	handOvers           = 2
	handOversSmallScale = 5
	smallScale          = 0.2
)

// Units of result.PredictionRow.
const (
	unitRatio = "ratio"
	unitCount = "count"
	unitMS    = "ms"
	unitS     = "s"
)

// Compare puts the prediction beside the run. Its rows are, in this order:
//
//	<endpoint>.scheduled .dropped .interrupted .timeout   count
//	<endpoint>.failed_ratio                               ratio
//	<endpoint>.p50_ms                                     real ms, of the response time
//	<endpoint>.status_<code>                              count
//	<endpoint>.<cause>                                    count, of error answers by cause
//	<endpoint>.connect_error .transport_error             count, only where there were any
//	dump.<point>.<where>                                  count
//	pool.max_busy pool.max_queued                         count
//	pool.max_accept_queue                                 count, only where the cap on connections fills it
//	recovery.seconds                                      scenario seconds
//
// A status or a cause has a row if it was predicted or seen. A row whose figure
// the run does not have, because it was stopped early or a dump is missing, says
// so in its Note and does not agree. The prediction agrees if every row does.
//
// dump.<point>.serving is what a dump calls "database" and "running" together:
// the model does not know which part of answering a request waits. Idle workers
// are compared before the load only (see the package comment).
func Compare(p Prediction, s result.Summary) result.Prediction {
	c := &comparison{prediction: &p}
	for _, name := range slices.Sorted(maps.Keys(p.Endpoints)) {
		c.endpoint(name, p.Endpoints[name], s.Endpoints)
	}
	for _, d := range p.Dumps {
		c.dump(d, s.Dumps)
	}
	c.add("pool.max_busy", unitCount, p.Pool.MaxBusy, float64(s.Pool.MaxBusy), countWithin(p.Pool.MaxBusy))
	c.add("pool.max_queued", unitCount, p.Pool.MaxQueued, float64(s.Pool.MaxQueued), countWithin(p.Pool.MaxQueued))
	if p.Pool.MaxAcceptQueue.High > 0 {
		c.add("pool.max_accept_queue", unitCount, p.Pool.MaxAcceptQueue, float64(s.Pool.MaxAcceptQueue), countWithin(p.Pool.MaxAcceptQueue))
	}
	c.recovery(s.Recovery)

	out := result.Prediction{Agrees: true, Rows: c.rows}
	for _, r := range c.rows {
		out.Agrees = out.Agrees && r.OK
	}
	return out
}

// comparison collects rows. While missing is set, the figures that are added are
// not to be had from the run, for that reason.
type comparison struct {
	prediction *Prediction
	rows       []result.PredictionRow
	missing    string
}

func (c *comparison) add(name, unit string, f Figure, measured, tolerance float64) {
	c.rows = append(c.rows, result.PredictionRow{
		Name: name, Unit: unit,
		Predicted: f.Nominal, Low: f.Low, High: f.High,
		Measured: measured, Tolerance: tolerance,
		OK:   c.missing == "" && measured >= f.Low-tolerance && measured <= f.High+tolerance,
		Note: c.missing,
	})
}

func (c *comparison) endpoint(name string, p Endpoint, endpoints map[string]result.Endpoint) {
	e, measured := endpoints[name]
	switch {
	case !measured:
		c.missing = "the run has no such endpoint"
	case e.Scheduled < e.Planned:
		c.missing = fmt.Sprintf("the run was stopped early: %d of %d requests fell due", e.Scheduled, e.Planned)
	}
	defer func() { c.missing = "" }()

	count := func(what string, f Figure, measured int) {
		c.add(name+"."+what, unitCount, f, float64(measured), countWithin(f))
	}
	count("scheduled", p.Scheduled, e.Scheduled)
	count("dropped", p.Dropped, e.Dropped)
	count("interrupted", p.Interrupted, e.Interrupted)
	count("timeout", p.Timeout, e.Timeout)
	c.add(name+".failed_ratio", unitRatio, p.FailedRatio, e.FailedRatio, ratioTolerance)
	c.add(name+".p50_ms", unitMS, p.P50MS, e.Response.P50, max(leastMS, timeTolerance*p.P50MS.Nominal))
	for _, status := range union(p.Status, e.Status) {
		count("status_"+status, p.Status[status], e.Status[status])
	}
	for _, cause := range union(p.Causes, e.ErrorBodies) {
		count(cause, p.Causes[cause], e.ErrorBodies[cause])
	}
	if e.ConnectError > 0 {
		count("connect_error", Figure{}, e.ConnectError)
	}
	if e.TransportError > 0 {
		count("transport_error", Figure{}, e.TransportError)
	}
}

func (c *comparison) dump(p Dump, dumps []result.Dump) {
	i := slices.IndexFunc(dumps, func(d result.Dump) bool { return d.Point == p.Point })
	where := map[string]int{}
	if i < 0 {
		c.missing = "the run has no dump at this point"
		defer func() { c.missing = "" }()
	} else {
		maps.Copy(where, dumps[i].Where)
		where[WhereServing] = where["database"] + where["running"]
	}
	for _, w := range append(slices.Sorted(maps.Keys(p.Where)), "other") {
		f := p.Where[w]
		tolerance := countWithin(f)
		if limit := c.prediction.PoolMax; inCall(w) && limit > 0 && p.Where[WhereUpstreamRead].High+p.Where[WhereUpstreamConnect].High >= float64(limit) {
			tolerance = handOvers
			if c.prediction.Scale < smallScale {
				tolerance = handOversSmallScale
			}
		}
		// A queue with a bounded wait stands on that bound while it is long: a stall
		// anywhere in the bound before the dump has shortened it.
		if w == WhereQueued && f.High > 0 {
			tolerance = max(tolerance, c.prediction.StallArrivals)
		}
		c.add("dump."+p.Point+"."+w, unitCount, f, float64(where[w]), tolerance)
	}
}

// recovery compares numbers where the run has one. Where it has none, it agrees
// if the model, too, allows a recovery after the end of the wait.
func (c *comparison) recovery(r result.Recovery) {
	f := c.prediction.RecoverySeconds
	poll := recoveryPoll.Seconds() / c.prediction.Scale
	tolerance := max(poll, timeTolerance*f.Nominal)
	if r.Seconds != nil && r.Recovered {
		c.add("recovery.seconds", unitS, f, *r.Seconds, tolerance)
		if row := &c.rows[len(c.rows)-1]; !row.OK && f.Low > c.prediction.RecoveryWait.Seconds() {
			row.Note = fmt.Sprintf("predicted not to recover within the wait of %s", seconds(c.prediction.RecoveryWait.Seconds()))
		}
		return
	}
	c.add("recovery.seconds", unitS, f, r.WaitedS, tolerance)
	row := &c.rows[len(c.rows)-1]
	wait := c.prediction.RecoveryWait.Seconds()
	switch {
	case r.WaitedS+poll < wait:
		row.OK = false
		row.Note = fmt.Sprintf("the run stopped watching after %s of %s", seconds(r.WaitedS), seconds(wait))
	case c.prediction.NeverRecovers || f.High+tolerance >= wait:
		row.OK = true
		row.Note = fmt.Sprintf("not recovered within the wait of %s, as predicted", seconds(wait))
	default:
		row.OK = false
		row.Note = fmt.Sprintf("not recovered within the wait of %s", seconds(wait))
	}
}

// inCall says whether those who stand there are in a call to the upstream.
func inCall(where string) bool { return where == WhereUpstreamRead || where == WhereUpstreamConnect }

func countWithin(f Figure) float64 { return max(leastCount, countTolerance*math.Abs(f.Nominal)) }

func union(predicted map[string]Figure, measured map[string]int) []string {
	keys := map[string]bool{}
	for k := range predicted {
		keys[k] = true
	}
	for k := range measured {
		keys[k] = true
	}
	return slices.Sorted(maps.Keys(keys))
}

func seconds(s float64) string { return strconv.FormatFloat(s, 'g', 4, 64) + " s" }
