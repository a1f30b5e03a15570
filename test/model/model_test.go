// Package model runs what the victim is built of, the real worker pool, bulkhead
// and circuit breaker, under the exhaustion load in fake time, and holds the
// prediction of evidence/queueing to it, request by request.
//
// The overheads are those of the model's nominal case. What the network and the
// database do is not here: test/e2e has them.
package model

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"chokepoint/internal/adminapi"
	"chokepoint/internal/evidence/queueing"
	"chokepoint/internal/profile"
	"chokepoint/internal/rate"
	"chokepoint/internal/service/guard"
	"chokepoint/internal/service/pool"
)

// The scenario of DESIGN section 4, at scale 1.
const (
	window    = 60 * time.Second
	perSecond = 20
	delay     = 30 * time.Second // of the upstream
	minPool   = 10
	maxPool   = 200

	// What the machine adds; see queueing.Overheads.
	hop     = 100 * time.Microsecond
	wake    = 300 * time.Microsecond
	service = time.Millisecond
)

// streams are the two endpoints, in the order in which they send.
var streams = []queueing.Stream{
	{Name: "fast", Rate: rate.Rate(perSecond), Timeout: 30 * time.Second},
	{Name: "upstream", Rate: rate.Rate(perSecond), Timeout: 60 * time.Second, CallsUpstream: true},
}

// figures are what a run and its prediction are compared by.
type figures struct {
	// Outcomes counts, for each endpoint, "ok", "timeout" (the client's) and the
	// adminapi.Cause... of error answers.
	Outcomes                       map[string]map[string]int
	MaxBusy, MaxQueued, MaxPermits int
	// Recovery is from the end of the window until nothing is busy or queued.
	Recovery time.Duration
}

func TestTheModelIsRightAboutTheRealPool(t *testing.T) {
	for _, name := range profile.Names() {
		t.Run(name, func(t *testing.T) {
			p, err := profile.Lookup(name)
			if err != nil {
				t.Fatal(err)
			}
			want := predict(t, p)
			synctest.Test(t, func(t *testing.T) {
				if diff := cmp.Diff(want, run(t, p)); diff != "" {
					t.Errorf("(-predicted +real)\n%s", diff)
				}
			})
		})
	}
}

// predict is the model's nominal case.
func predict(t *testing.T, p profile.Profile) figures {
	t.Helper()
	prediction, err := queueing.Predict(queueing.Config{
		Streams: streams, Duration: window, GracefulStop: queueing.WaitForAll,
		Profile: p, PoolMin: minPool, PoolMax: maxPool, Delay: queueing.Constant(delay), Scale: 1,
		RecoveryWait: 3 * window,
		Overheads:    queueing.Overheads{Hop: hop, Wake: wake, Service: service},
	})
	if err != nil {
		t.Fatal(err)
	}
	f := figures{
		Outcomes:   map[string]map[string]int{},
		MaxBusy:    int(prediction.Pool.MaxBusy.Nominal),
		MaxQueued:  int(prediction.Pool.MaxQueued.Nominal),
		MaxPermits: int(prediction.Pool.MaxPermits.Nominal),
		Recovery:   time.Duration(prediction.RecoverySeconds.Nominal * float64(time.Second)).Round(time.Microsecond),
	}
	for name, e := range prediction.Endpoints {
		counts := map[string]int{}
		keep := func(outcome string, n queueing.Figure) {
			if n.Nominal > 0 {
				counts[outcome] = int(n.Nominal)
			}
		}
		keep("ok", e.OK)
		keep("timeout", e.Timeout)
		for cause, n := range e.Causes {
			keep(cause, n)
		}
		f.Outcomes[name] = counts
	}
	return f
}

var errUpstreamTimeout = errors.New("the upstream did not answer in time")

// causes are the error answers, as the victim gives them.
var causes = map[error]string{
	pool.ErrOverloaded:    adminapi.CauseOverloaded,
	guard.ErrBulkheadFull: adminapi.CauseBulkheadFull,
	guard.ErrBreakerOpen:  adminapi.CauseBreakerOpen,
	errUpstreamTimeout:    adminapi.CauseUpstreamTimeout,
}

// world is the real pool and the real guard.
type world struct {
	pool  *pool.Pool
	guard *guard.Guard

	mu       sync.Mutex
	outcomes map[string]map[string]int
	permits  int // the most that were held
}

// run sends the load within a synctest bubble and returns what came of it.
func run(t *testing.T, p profile.Profile) figures {
	// The bubble's timers fire on the instant, those of the model late by wake.
	if p.PermitWait > 0 {
		p.PermitWait += wake
	}
	if p.MaxQueueWait > 0 {
		p.MaxQueueWait += wake
	}
	w := &world{guard: guard.New(p), outcomes: map[string]map[string]int{}}
	cfg := pool.Config{Min: minPool, Max: maxPool, MaxQueue: p.MaxQueue, MaxQueueWait: p.MaxQueueWait,
		SkipAbandoned: p.SkipAbandoned, Unbounded: p.Unbounded}
	for _, s := range streams {
		cfg.Labels = append(cfg.Labels, s.Name)
		w.outcomes[s.Name] = map[string]int{}
	}
	var err error
	if w.pool, err = pool.New(cfg); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	var clients sync.WaitGroup
	for i := range streams[0].Rate.Count(window) {
		time.Sleep(time.Until(start.Add(time.Duration(i) * streams[0].Rate.Interval())))
		for endpoint := range streams {
			due := time.Now()
			clients.Go(func() { w.send(endpoint, due) })
			// The endpoints send at one instant, in this order: a nanosecond keeps it.
			time.Sleep(time.Nanosecond)
		}
	}
	clients.Wait()
	stats := w.pool.Stats()
	if err := w.pool.Close(t.Context()); err != nil {
		t.Error(err)
	}
	return figures{
		Outcomes: w.outcomes, MaxBusy: stats.MaxBusy, MaxQueued: stats.MaxQueue, MaxPermits: w.permits,
		// A breaker may have the pool idle before the window ends.
		Recovery: max(0, stats.IdleSince.Sub(start.Add(window)).Round(time.Microsecond)),
	}
}

// send is one client: its request travels, is worked on or refused, and the
// answer travels back, in time or not.
func (w *world) send(endpoint int, due time.Time) {
	stream := streams[endpoint]
	r := &request{world: w, stream: stream, gone: due.Add(stream.Timeout + wake + hop)}
	time.Sleep(hop)
	if err := w.pool.Do(endpoint, r); err != nil {
		r.err = err
	}
	time.Sleep(hop + wake)
	outcome := "ok"
	switch {
	case time.Since(due) >= stream.Timeout+wake:
		outcome = "timeout" // the answer, if there was one, found nobody
	case r.err != nil:
		outcome = causes[r.err]
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.outcomes[stream.Name][outcome]++
}

// request is the pool.Work of one client.
type request struct {
	world  *world
	stream queueing.Stream
	gone   time.Time // when the victim can know that the client has left
	err    error
}

func (r *request) Gone() bool { return !time.Now().Before(r.gone) }

func (r *request) Run(time.Duration, *pool.Spot) {
	if !r.stream.CallsUpstream {
		time.Sleep(service)
		return
	}
	_, r.err = r.world.guard.Do(r.world.call)
}

// call is the upstream: it answers after the delay, and a call with a deadline
// is given up, which takes a timer and the closing of a connection.
func (w *world) call(deadline time.Time) error {
	held, _ := w.guard.Permits()
	w.mu.Lock()
	w.permits = max(w.permits, held)
	w.mu.Unlock()
	if deadline.IsZero() {
		time.Sleep(hop + delay + wake + hop)
		return nil
	}
	time.Sleep(time.Until(deadline) + wake + hop)
	return errUpstreamTimeout
}
