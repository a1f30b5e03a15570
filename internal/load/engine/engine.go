// Package engine is the open-model load generator: requests fall due by the
// clock and are sent then, whatever has become of those before.
//
// The arrivals of all endpoints are played in due order. Each takes a preallocated
// worker of its endpoint and never waits for one; if none is free the arrival
// counts as dropped. The due time travels with the arrival, so
// response times are free of coordinated omission, and being late is on record
// as lag. The ledger of every run is checked at its end.
//
// The engine refuses to retry, to skip a late arrival, to slow down, and to call
// a run valid when it was itself the bottleneck.
package engine

import (
	"context"
	"time"

	"chokepoint/internal/load/ledger"
	"chokepoint/internal/result"
)

// Kind names an engine.
type Kind string

// The engines. All pass the same tests: what a run counts does not depend on
// which one played it, how precise and how cheap it was does.
const (
	// Auto is Loop if that can play the plan, else Goroutines.
	Auto Kind = "auto"
	// Loop is event loops on a thread each: http on Linux only. The most precise
	// and the leanest.
	Loop Kind = "loop"
	// Goroutines has a goroutine for each worker, and plays every plan.
	Goroutines Kind = "goroutines"
)

// Engine is a plan that is ready to be played, once.
type Engine interface {
	// Run plays the plan and reports it.
	//
	// When ctx ends no further arrival is scheduled, requests in flight get
	// GracefulStop or a second, whichever is shorter, and the report is as whole
	// and balanced as ever, but invalid. The error is that of writing the
	// interval log; the report is good in spite of it.
	Run(ctx context.Context) (*Report, error)
	// Close frees what New took, whether Run was called or not.
	Close()
}

// New makes the engine that c asks for; c must have its defaults and be valid.
// It may resolve names, until ctx ends, and sends nothing; StartAt must still lie
// ahead then. The error is one line.
func New(ctx context.Context, c Config) (Engine, error) {
	e, err := newEngine(ctx, c)
	if err != nil {
		return nil, err
	}
	if err := c.validateStart(); err != nil {
		e.Close()
		return nil, err
	}
	return e, nil
}

func newEngine(ctx context.Context, c Config) (Engine, error) {
	if c.engine() == Loop {
		return newLoopEngine(ctx, c)
	}
	return newGoroutines(ctx, c)
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

// offering watches ctx for a run whose due time 0 is start. The function that it
// gives is called once, at the end, and says how much of the window was offered: all
// of it, or what had passed when ctx ended.
func (c Config) offering(ctx context.Context, start time.Time) func() time.Duration {
	offered := c.Duration
	noted := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		offered = min(c.Duration, max(0, time.Since(start)))
		close(noted)
	})
	return func() time.Duration {
		if !stop() {
			<-noted
		}
		return offered
	}
}

// notice is the time between the last preparation and due time 0.
const notice = 10 * time.Millisecond

// CancelGrace is the longest that a run whose context has ended waits for the
// answers in flight.
const CancelGrace = time.Second

// startTime is the moment of due time 0.
func (c Config) startTime() time.Time {
	now := time.Now()
	if c.StartAt.IsZero() {
		// A moment's notice, so that the first arrival is not late already.
		return now.Add(notice + c.Warmup)
	}
	// Carry the wall-clock moment over to the monotonic clock.
	return now.Add(c.StartAt.Sub(now))
}
