package engine

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"chokepoint/internal/load/arrival"
	"chokepoint/internal/load/latency"
	"chokepoint/internal/load/ledger"
	"chokepoint/internal/result"
)

// timings are what is recorded of each request: its response time as that of a
// good answer or of a failure, and two more. The response times of all are the
// sum of the two, so nothing is recorded twice.
type timings struct {
	ok, failed, service, lag *latency.Histogram
}

func newTimings() *timings {
	return &timings{ok: latency.New(), failed: latency.New(), service: latency.New(), lag: latency.New()}
}

// tally is everything that is counted of one endpoint. The pacer's figures and
// the workers' are kept apart, and meet only in the ledger's check.
type tally struct {
	name       string
	shard      arrival.Shard
	closed     bool    // of a closed model, which plans nothing
	warmUp     bool    // of a warm-up: there are no figures but the ledger
	planned    int     // of the shard
	targetRate float64 // per second; the mean of a pattern

	// Written by the pacers alone; atomic for whoever shows progress.
	scheduled, started, dropped atomic.Int64

	// requests is nil unless records are kept. Its elements are written by the
	// one goroutine that decides an arrival's fate. Those of a closed model, whose
	// number is not known before, are added under mu.
	requests []Request

	mu       sync.Mutex
	drops    []result.DropSecond // in the order of their seconds
	ledger   ledger.Ledger
	received int64    // bytes of the answers, also of those that were cut off
	overhang int      // requests of a warm-up that were in flight at due time 0
	interval *timings // of what ended in the running second
	// What ended after it, before it was closed: a second is closed a little late,
	// and on a crowded machine more than a little.
	until time.Duration // its end, from the start
	after *timings
	ahead ledger.Outcomes

	// Used by intervals alone: the timings of the second before, and of all.
	spare    *timings
	response *latency.Histogram // of the second before, good and failed
	total    Timings
}

func newTallies(c Config) []*tally {
	tallies := make([]*tally, len(c.Endpoints))
	for i := range tallies {
		tallies[i] = newTally(c, i)
	}
	return tallies
}

func newTally(c Config, i int) *tally {
	t := &tally{
		name: c.Endpoints[i].Name, shard: c.Shard, closed: c.Closed > 0, planned: c.planned(i), targetRate: c.targetRate(i),
		interval: newTimings(), until: time.Second, after: newTimings(), spare: newTimings(), response: latency.New(), total: newTotal(),
	}
	if c.KeepRequests {
		t.requests = make([]Request, t.planned)
	}
	return t
}

// newWarmUpTally counts the warm-up of endpoint i.
func newWarmUpTally(c Config, i int) *tally {
	return &tally{name: c.Endpoints[i].Name, shard: c.Shard, closed: true, warmUp: true}
}

// next counts a request of a closed model as started, and gives it its index.
func (t *tally) next() int {
	t.scheduled.Add(1)
	return int(t.started.Add(1)) - 1
}

// schedule counts an arrival that fell due, and whether a worker took it.
func (t *tally) schedule(j job, taken bool) {
	t.scheduled.Add(1)
	if taken {
		t.started.Add(1)
		return
	}
	t.dropped.Add(1)
	if t.warmUp {
		return
	}
	t.dropAt(j.due)
	if t.requests != nil {
		t.requests[t.shard.Position(j.index)] = Request{Endpoint: t.name, Index: j.index, Due: j.due, Answer: ledger.Answer{Outcome: ledger.Dropped}}
	}
}

// dropAt counts a drop in its second. Those of one pacer come in due order, those
// of several do not.
func (t *tally) dropAt(due time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	second := int(due / time.Second)
	at := len(t.drops)
	for at > 0 && t.drops[at-1].Second >= second {
		at--
	}
	if at == len(t.drops) || t.drops[at].Second != second {
		t.drops = slices.Insert(t.drops, at, result.DropSecond{Second: second, FirstDueNS: int64(due), LastDueNS: int64(due)})
	}
	d := &t.drops[at]
	d.Dropped++
	d.FirstDueNS, d.LastDueNS = min(d.FirstDueNS, int64(due)), max(d.LastDueNS, int64(due))
}

// finish counts what became of a started request, for which so many bytes came. The response time is the sum of
// lag and service time.
func (t *tally) finish(j job, lag, service time.Duration, received int64, answer ledger.Answer) {
	response := lag + service
	record := Request{
		Endpoint: t.name, Index: j.index, Due: j.due,
		Lag: lag, Service: service, Response: response, Answer: answer,
	}
	if !t.closed && t.requests != nil {
		t.requests[t.shard.Position(j.index)] = record
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ledger.Finish(answer)
	if t.warmUp {
		if j.due+response > 0 {
			t.overhang++
		}
		return
	}
	t.received += received
	into := t.interval
	if j.due+response >= t.until {
		into = t.after
		t.ahead[answer.Outcome]++
	}
	if !t.closed {
		into.lag.Record(lag)
	} else if t.requests != nil {
		t.requests = append(t.requests, record)
	}
	if !answer.Outcome.Completed() {
		return
	}
	// What was never sent was in nobody's service.
	if answer.Cause != CauseUnsent {
		into.service.Record(service)
	}
	if answer.Outcome == ledger.OK {
		into.ok.Record(response)
	} else {
		into.failed.Record(response)
	}
}

// rotate closes the second that ends at to, or, if it is the last, all that there
// is: it gives the timings of what ended in it, and adds them to the total, and the
// counts so far. The timings are valid until the next call.
func (t *tally) rotate(to time.Duration, last bool) (Timings, counts) {
	// What the spare held has been dealt with.
	t.spare.reset()
	t.mu.Lock()
	done := t.interval
	t.interval, t.after, t.spare = t.after, t.spare, done
	now := counts{outcomes: t.ledger.Outcomes()}
	if last {
		done.merge(t.interval)
	} else {
		now.outcomes = now.outcomes.Since(t.ahead)
		for _, d := range slices.Backward(t.drops) {
			if time.Duration(d.Second)*time.Second < to {
				break
			}
			now.droppedAhead += d.Dropped
		}
	}
	t.until, t.ahead = to+time.Second, ledger.Outcomes{}
	t.mu.Unlock()
	now.started, now.dropped = int(t.started.Load()), int(t.dropped.Load())
	t.response.Reset()
	t.response.Merge(done.ok)
	t.response.Merge(done.failed)
	second := Timings{Response: t.response, OKResponse: done.ok, FailedResponse: done.failed, Service: done.service, Lag: done.lag}
	t.total.merge(second)
	return second, now
}

func (t *timings) merge(from *timings) {
	t.ok.Merge(from.ok)
	t.failed.Merge(from.failed)
	t.service.Merge(from.service)
	t.lag.Merge(from.lag)
}

func (t *timings) reset() {
	t.ok.Reset()
	t.failed.Reset()
	t.service.Reset()
	t.lag.Reset()
}

// close completes the ledger with the pacer's side.
func (t *tally) close() *ledger.Ledger {
	l := &t.ledger
	l.Planned, l.Scheduled = t.planned, int(t.scheduled.Load())
	l.Started, l.Dropped = int(t.started.Load()), int(t.dropped.Load())
	if t.closed {
		l.Planned = l.Scheduled
	}
	return l
}

// endpoint is the tally as a result, once it is closed. offered is how much of the
// window was offered, and elapsed the time from its start until the last answer.
func (t *tally) endpoint(e Endpoint, offered, elapsed time.Duration) result.Endpoint {
	r := result.Endpoint{
		Method: e.Method, URL: Redacted(e.URL), Headers: e.headerNames(),
		TargetRate:    t.targetRate,
		AchievedRate:  perSecond(float64(t.started.Load()), offered),
		ReceivedBytes: t.received, ReceivedRate: perSecond(float64(t.received), elapsed),
		Workers:         e.Workers,
		ClientTimeoutMS: float64(e.Timeout) / float64(time.Millisecond),
		Response:        t.total.Response.Percentiles(),
		OKResponse:      t.total.OKResponse.Percentiles(),
		FailedResponse:  t.total.FailedResponse.Percentiles(),
		Service:         t.total.Service.Percentiles(),
		Lag:             t.total.Lag.Percentiles(),
	}
	t.close().Fill(&r)
	if t.closed {
		r.Planned = 0
	}
	return r
}

// perSecond is n over a time, and 0 over none.
func perSecond(n float64, over time.Duration) float64 {
	if over <= 0 {
		return 0
	}
	return n / over.Seconds()
}
