package engine

import (
	"context"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"chokepoint/internal/load/ledger"
)

// goroutines is the engine with a goroutine for each worker, and one that paces.
type goroutines struct {
	c    Config
	http *HTTP
}

func newGoroutines(ctx context.Context, c Config) (*goroutines, error) {
	h, err := NewHTTP(ctx, c)
	if err != nil {
		return nil, err
	}
	return &goroutines{c: c, http: h}, nil
}

// Run implements Engine.
func (g *goroutines) Run(ctx context.Context) (*Report, error) {
	r, err := run(ctx, g.c, g.http, pacing)
	for i, t := range g.http.targets {
		r.connectedTo(g.c.Endpoints[i].Name, t.remote)
	}
	return r, err
}

// Close implements Engine.
func (g *goroutines) Close() { g.http.Close() }

// Exchange is one request as its worker saw it.
type Exchange struct {
	Began  time.Time // just before the first connect or write call
	Done   time.Time // the answer was complete, or given up
	Answer ledger.Answer
	// Received is how many bytes of HTTP came for it, whatever came of it.
	Received int64
}

// Client performs one request at a time: that with the given index among its
// endpoint's arrivals, waiting until deadline and no longer.
type Client func(index int, deadline time.Time) Exchange

// Sender is what the workers send through.
type Sender interface {
	// NewClient makes the client of one worker of the endpoint with that index in
	// the Config, for its warm-up or its load. All are made before either starts.
	NewClient(endpoint int, warmUp bool) Client
	// Interrupt ends every request in flight, and every later one, at once and as
	// ledger.Interrupted.
	Interrupt()
}

// wait blocks until the moment and returns true, or false once ctx has ended.
type wait func(ctx context.Context, until time.Time) bool

// run plays c through sender. prepare makes the way to wait for a due time; it is
// called on the pacer's goroutine.
func run(ctx context.Context, c Config, sender Sender, prepare func() wait) (*Report, error) {
	tallies := newTallies(c)
	streams := newStreams(c, tallies)
	crews := make([]*crew, len(streams))
	var ready, warmUp, load sync.WaitGroup
	var start time.Time
	started := make(chan struct{})
	for i, s := range streams {
		e := c.Endpoints[s.endpoint]
		crews[i] = newCrew(e.Workers)
		finished := &load
		if s.warmUp {
			finished = &warmUp
		}
		for w := range e.Workers {
			client := sender.NewClient(s.endpoint, s.warmUp)
			ready.Add(1)
			finished.Go(func() {
				ready.Done()
				<-started
				if c.Closed > 0 {
					workClosed(ctx, s, client, start, e.Timeout)
					return
				}
				work(crews[i], w, client, s.tally, start, e.Timeout)
			})
		}
	}
	ready.Wait()
	start = c.startTime()
	close(started)
	offered := c.offering(ctx, start)
	log := newIntervals(c, tallies, start)
	if c.Closed == 0 {
		pace(ctx, c, crews, streams, start, log.meter, prepare)
	}
	for _, crew := range crews {
		crew.dismiss()
	}
	stopped := drain(ctx, c, sender, &load, start)
	last := time.Now()
	// Nothing but the warm-up can be in flight now, and nobody waits for it.
	sender.Interrupt()
	warmUp.Wait()
	err := log.close()
	r := report(c, tallies, start, last, offered(), log.meter, stopped)
	reportWarmUp(c, streams, &r.Load)
	return r, err
}

// pace schedules every arrival at its due time until they are over or ctx has
// ended.
func pace(ctx context.Context, c Config, crews []*crew, streams []stream, start time.Time, m *meter, prepare func() wait) {
	arrivals := c.played()
	var cancelled atomic.Bool
	defer context.AfterFunc(ctx, func() { cancelled.Store(true) })()

	var pacer sync.WaitGroup
	pacer.Go(func() {
		// The thread is changed by pacing and ends with this goroutine.
		runtime.LockOSThread()
		defer m.enlist()()
		waitUntil := prepare()
		// Before the start every arrival is waited for, also the first.
		now := time.Duration(math.MinInt64)
		for {
			next, ok := arrivals.Next()
			if !ok {
				return
			}
			if leaves := c.sendAt(next.Due); leaves > now {
				if now = time.Since(start); leaves > now {
					if !waitUntil(ctx, start.Add(leaves)) {
						return
					}
					now = time.Since(start)
				}
			}
			if cancelled.Load() {
				return
			}
			j := job{index: next.Index, due: next.Due}
			streams[next.From].tally.schedule(j, crews[next.From].offer(j))
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
		grace := CancelGrace
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
