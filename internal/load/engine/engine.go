// Package engine is the open-model load generator: requests fall due by the
// clock and are sent then, whatever has become of those before.
//
// One pacer plays the arrivals of all endpoints in due order. It hands each to a
// preallocated worker of its endpoint, never waits for one, and counts the
// arrival as dropped if none is free. The due time travels with the arrival, so
// response times are free of coordinated omission, and being late is on record
// as lag. The ledger of every run is checked at its end.
//
// The engine refuses to retry, to skip a late arrival, to slow down, and to call
// a run valid when it was itself the bottleneck.
package engine

import (
	"context"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"chokepoint/internal/load/arrival"
	"chokepoint/internal/load/ledger"
	"chokepoint/internal/result"
)

// Exchange is one request as its worker saw it.
type Exchange struct {
	Began  time.Time // just before the first connect or write call
	Done   time.Time // the answer was complete, or given up
	Answer ledger.Answer
}

// Client performs one request at a time: that with the given index among its
// endpoint's arrivals, waiting until deadline and no longer.
type Client func(index int, deadline time.Time) Exchange

// Sender is what the workers send through.
type Sender interface {
	// NewClient makes the client of one worker of the endpoint with that index in
	// the Config. All are made before the load starts.
	NewClient(endpoint int) Client
	// Interrupt ends every request in flight, and every later one, at once and as
	// ledger.Interrupted.
	Interrupt()
}

// Report is what a run leaves.
type Report struct {
	Load result.Load
	// Timings holds the histograms behind Load's percentiles, by endpoint.
	Timings map[string]Timings
	// Requests holds every scheduled arrival in due order, if the Config asked
	// for it.
	Requests []Request
	// StoppedEarly says that the context ended the run.
	StoppedEarly bool
}

// Request is the record of one arrival. Lag, Service and Response are 0 for a
// dropped one; Response is that of an interrupted one until it was given up.
type Request struct {
	Endpoint string
	Index    int
	Due      time.Duration // from the start
	Lag      time.Duration
	Service  time.Duration
	Response time.Duration
	Answer   ledger.Answer
}

// notice is the time between the last preparation and due time 0.
const notice = 10 * time.Millisecond

// cancelGrace is the longest that a run whose context has ended waits for the
// answers in flight.
const cancelGrace = time.Second

// Run plays the plan through sender, on goroutines, and reports it. c must have
// its defaults and be valid.
//
// When ctx ends no further arrival is scheduled, requests in flight get
// GracefulStop or a second, whichever is shorter, and the report is as whole and
// balanced as ever, but invalid. The error is that of writing c.Log; the report
// is good in spite of it.
func Run(ctx context.Context, c Config, sender Sender) (*Report, error) {
	return run(ctx, c, sender, pacing)
}

// wait blocks until the moment and returns true, or false once ctx has ended.
type wait func(ctx context.Context, until time.Time) bool

// run is Run with the way to wait for a due time given: prepare is called on the
// pacer's goroutine.
func run(ctx context.Context, c Config, sender Sender, prepare func() wait) (*Report, error) {
	crews := make([]*crew, len(c.Endpoints))
	tallies := make([]*tally, len(c.Endpoints))
	for i, e := range c.Endpoints {
		tallies[i] = newTally(c, i)
		crews[i] = newCrew(e.Workers)
	}
	var ready, finished sync.WaitGroup
	var start time.Time
	started := make(chan struct{})
	for i, crew := range crews {
		for w := range crew.all {
			client := sender.NewClient(i)
			ready.Add(1)
			finished.Go(func() {
				ready.Done()
				<-started
				work(crew, w, client, tallies[i], start, c.Endpoints[i].Timeout)
			})
		}
	}
	ready.Wait()
	before := usage()
	// A moment's notice, so that the first arrival is not late already.
	start = time.Now().Add(notice)
	if !c.StartAt.IsZero() {
		// Carry the wall-clock moment over to the monotonic clock.
		now := time.Now()
		start = now.Add(c.StartAt.Sub(now))
	}
	close(started)
	log := newIntervals(c, tallies, start)
	pace(ctx, c, crews, tallies, start, prepare)
	for _, crew := range crews {
		crew.dismiss()
	}
	stopped := drain(ctx, c, sender, &finished, start)
	last := time.Now()
	err := log.close()
	used := usage().since(before)
	return report(c, tallies, start, last, used, stopped), err
}

// pace schedules every arrival at its due time until they are over or ctx has
// ended.
func pace(ctx context.Context, c Config, crews []*crew, tallies []*tally, start time.Time, prepare func() wait) {
	sequences := make([]arrival.Sequence, len(c.Endpoints))
	for i := range sequences {
		sequences[i] = c.sequence(i)
	}
	arrivals := arrival.Merge(sequences...)
	index := make([]int, len(sequences))
	var cancelled atomic.Bool
	defer context.AfterFunc(ctx, func() { cancelled.Store(true) })()

	var pacer sync.WaitGroup
	pacer.Go(func() {
		// The thread is changed by pacing and ends with this goroutine.
		runtime.LockOSThread()
		waitUntil := prepare()
		// Before the start every arrival is waited for, also the first, due at 0.
		now := time.Duration(math.MinInt64)
		for {
			due, i, ok := arrivals.Next()
			if !ok {
				return
			}
			if due > now {
				if now = time.Since(start); due > now {
					if !waitUntil(ctx, start.Add(due)) {
						return
					}
					now = time.Since(start)
				}
			}
			if cancelled.Load() {
				return
			}
			a := job{index: index[i], due: due}
			index[i]++
			tallies[i].schedule(a, crews[i].offer(a))
		}
	})
	pacer.Wait()
}

// drain waits for the answers in flight as long as the plan allows, interrupts
// the rest, and says whether ctx ended the run.
func drain(ctx context.Context, c Config, sender Sender, finished *sync.WaitGroup, start time.Time) (stopped bool) {
	done := make(chan struct{})
	go func() {
		finished.Wait()
		close(done)
	}()
	var patience <-chan time.Time
	if c.GracefulStop != nil {
		timer := time.NewTimer(time.Until(start.Add(c.Duration + *c.GracefulStop)))
		defer timer.Stop()
		patience = timer.C
	}
	select {
	case <-done:
		return ctx.Err() != nil
	case <-patience:
	case <-ctx.Done():
		grace := cancelGrace
		if c.GracefulStop != nil {
			grace = min(grace, *c.GracefulStop)
		}
		timer := time.NewTimer(grace)
		defer timer.Stop()
		select {
		case <-done:
			return true
		case <-timer.C:
		}
	}
	sender.Interrupt()
	<-done
	return ctx.Err() != nil
}
