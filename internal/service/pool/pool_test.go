package pool

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// job is a Work that holds its worker for a while.
type job struct {
	hold   time.Duration
	stands Where // Idle: it does not say
	gone   func() bool
	ran    func(wait time.Duration)
}

func (j job) Run(wait time.Duration, spot *Spot) {
	if j.stands != Idle {
		spot.Enter(j.stands)
	}
	if j.ran != nil {
		j.ran(wait)
	}
	time.Sleep(j.hold)
}

func (j job) Gone() bool { return j.gone != nil && j.gone() }

func newPool(t *testing.T, cfg Config) *Pool {
	t.Helper()
	cfg.Labels = []string{"fast", "upstream"}
	p, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func closePool(t *testing.T, p *Pool) {
	t.Helper()
	if err := p.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
}

func TestGrowsOnDemandAndQueuesBehindTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, Config{Min: 2, Max: 5})
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() { p.Do(0, job{hold: time.Second}) })
		}
		synctest.Wait()
		if s := p.Stats(); s.Workers != 5 || s.Busy != 5 || s.Queued != 3 || !s.IdleSince.IsZero() {
			t.Errorf("8 requests on 2 to 5 workers: %+v", s)
		}
		wg.Wait()
		synctest.Wait()
		s := p.Stats()
		if s.Workers != 5 || s.Busy != 0 || s.Queued != 0 || s.MaxBusy != 5 || s.MaxQueue != 3 {
			t.Errorf("after them: %+v", s)
		}
		p.ResetExtremes()
		if s := p.Stats(); s.MaxBusy != 0 || s.MaxQueue != 0 || s.MaxWorkers != 5 {
			t.Errorf("after a reset: %+v", s)
		}
		if got := time.Since(s.IdleSince); got != 0 {
			t.Errorf("idle since %v ago, want just now", got)
		}
		closePool(t, p)
	})
}

// A worker stands where its work says, is running where it says nothing, and idle
// without a request; of an unbounded pool nobody stands anywhere without one.
func TestWorkersSayWhereTheyStand(t *testing.T) {
	for name, tc := range map[string]struct {
		cfg           Config
		during, after []Where
	}{
		"bounded": {
			Config{Min: 4, Max: 4},
			[]Where{Idle, Running, UpstreamRead, Database}, []Where{Idle, Idle, Idle, Idle},
		},
		"unbounded": {Config{Unbounded: true}, []Where{Running, UpstreamRead, Database}, []Where{}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPool(t, tc.cfg)
				where := func() []Where {
					synctest.Wait()
					all := p.Where()
					slices.Sort(all)
					return all
				}
				for range 2 { // the second time on the spots of the first
					for _, stands := range []Where{Idle, UpstreamRead, Database} {
						go p.Do(0, job{hold: time.Second, stands: stands})
					}
					if got := where(); !slices.Equal(got, tc.during) {
						t.Errorf("in the middle %v, want %v", got, tc.during)
					}
					time.Sleep(time.Second)
					if got := where(); !slices.Equal(got, tc.after) {
						t.Errorf("after it %v, want %v", got, tc.after)
					}
				}
				closePool(t, p)
			})
		})
	}
}

// A worker is free before its client has the answer, so that requests one after
// the other never make the pool grow.
func TestOneAfterTheOtherNeedsOneWorker(t *testing.T) {
	p := newPool(t, Config{Min: 1, Max: 10})
	for i := range 10_000 {
		if err := p.Do(0, job{}); err != nil {
			t.Fatal(err)
		}
		if s := p.Stats(); s.Workers != 1 || s.Busy != 0 {
			t.Fatalf("after request %d: %+v", i, s)
		}
	}
	closePool(t, p)
}

func TestQueueIsFirstInFirstOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, Config{Min: 1, Max: 1})
		var order []int
		var waits []time.Duration
		var wg sync.WaitGroup
		for i := range 5 {
			wg.Go(func() {
				p.Do(0, job{hold: time.Second, ran: func(wait time.Duration) {
					order, waits = append(order, i), append(waits, wait)
				}})
			})
			synctest.Wait()
		}
		wg.Wait()
		for i, got := range order {
			if got != i || waits[i] != time.Duration(i)*time.Second {
				t.Errorf("place %d: request %d after %v; want request %d after %ds", i, got, waits[i], i, i)
			}
		}
		closePool(t, p)
	})
}

func TestShedsByLengthAndByWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, Config{Min: 1, Max: 1, MaxQueue: 2, MaxQueueWait: time.Second})
		results := make([]error, 4)
		took := make([]time.Duration, 4)
		var wg sync.WaitGroup
		for i := range 4 {
			wg.Go(func() {
				start := time.Now()
				results[i] = p.Do(0, job{hold: 3 * time.Second})
				took[i] = time.Since(start)
			})
			synctest.Wait()
		}
		wg.Wait()
		want := []error{nil, ErrOverloaded, ErrOverloaded, ErrOverloaded}
		wantTook := []time.Duration{3 * time.Second, time.Second, time.Second, 0}
		for i := range results {
			if !errors.Is(results[i], want[i]) || took[i] != wantTook[i] {
				t.Errorf("request %d: %v after %v; want %v after %v", i, results[i], took[i], want[i], wantTook[i])
			}
		}
		if s := p.Stats(); s.Shed != 3 || s.Queued != 0 {
			t.Errorf("stats: %+v", s)
		}
		closePool(t, p)
	})
}

func TestAbandonedIsCountedAlwaysAndSkippedOnRequest(t *testing.T) {
	for _, skip := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			p := newPool(t, Config{Min: 1, Max: 1, SkipAbandoned: skip})
			ran := false
			err := p.Do(0, job{gone: func() bool { return true }, ran: func(time.Duration) { ran = true }})
			if skip == ran || errors.Is(err, ErrAbandoned) != skip {
				t.Errorf("skip=%v: ran=%v err=%v", skip, ran, err)
			}
			if s := p.Stats(); s.Abandoned != 1 {
				t.Errorf("skip=%v: abandoned %d, want 1", skip, s.Abandoned)
			}
			closePool(t, p)
		})
	}
}

func TestUnboundedRunsEverythingAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, Config{Unbounded: true})
		var wg sync.WaitGroup
		for range 300 {
			wg.Go(func() { p.Do(1, job{hold: time.Second}) })
		}
		synctest.Wait()
		if s := p.Stats(); s.Busy != 300 || s.Workers != 300 || s.Queued != 0 {
			t.Errorf("while they run: %+v", s)
		}
		wg.Wait()
		if s := p.Stats(); s.Busy != 0 || s.Workers != 0 || s.MaxBusy != 300 || s.IdleSince.IsZero() {
			t.Errorf("after: %+v", s)
		}
	})
}

func TestCloseAnswersTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, Config{Min: 1, Max: 1})
		results := make(chan error, 3)
		for range 3 {
			go func() { results <- p.Do(0, job{hold: time.Second}) }()
			synctest.Wait()
		}
		closePool(t, p)
		var ok, closed int
		for range 3 {
			switch err := <-results; {
			case err == nil:
				ok++
			case errors.Is(err, ErrClosed):
				closed++
			}
		}
		if ok != 1 || closed != 2 {
			t.Errorf("ok %d, closed %d; want the running one answered and both queued ones refused", ok, closed)
		}
		if err := p.Do(0, job{}); !errors.Is(err, ErrClosed) {
			t.Errorf("Do after Close: %v", err)
		}
	})
}

func TestCloseGivesUpWithItsContextAndCanBeAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, Config{Min: 1, Max: 2})
		go p.Do(0, job{hold: time.Minute})
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		if err := p.Close(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Second {
			t.Errorf("%v after %v, want to have given up after 1s", err, time.Since(start))
		}
		if s := p.Stats(); s.Busy != 1 {
			t.Errorf("%d busy, want the held one still counted", s.Busy)
		}
		closePool(t, p)
		if took := time.Since(start); took != time.Minute {
			t.Errorf("the second Close took until %v, want the minute of the held worker", took)
		}
	})
}

func TestUnboundedRefusesAfterClose(t *testing.T) {
	p := newPool(t, Config{Unbounded: true})
	closePool(t, p)
	ran := false
	if err := p.Do(0, job{ran: func(time.Duration) { ran = true }}); !errors.Is(err, ErrClosed) || ran {
		t.Errorf("Do after Close: %v, ran %v", err, ran)
	}
}

func TestSizesThatCannotWorkAreRefused(t *testing.T) {
	for _, tc := range []struct {
		cfg Config
		ok  bool
	}{
		{Config{Min: 0, Max: 1}, true},
		{Config{Min: 5, Max: 5}, true},
		{Config{Unbounded: true}, true},
		{Config{}, false},
		{Config{Min: 2, Max: 1}, false},
		{Config{Min: -1, Max: 1}, false},
	} {
		if err := tc.cfg.Validate(); (err == nil) != tc.ok {
			t.Errorf("%+v: %v", tc.cfg, err)
		}
	}
}

// TestEveryRequestIsAnsweredOnce drives random pools with random requests: each
// has one outcome, no bound is passed, and nothing stays behind.
func TestEveryRequestIsAnsweredOnce(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		cfg := Config{
			Min:          rapid.IntRange(0, 3).Draw(rt, "min"),
			MaxQueue:     rapid.IntRange(0, 5).Draw(rt, "max queue"),
			MaxQueueWait: time.Duration(rapid.IntRange(0, 30).Draw(rt, "max wait ms")) * time.Millisecond,
		}
		cfg.Max = cfg.Min + rapid.IntRange(1, 4).Draw(rt, "more workers")
		holds := rapid.SliceOfN(rapid.IntRange(0, 20), 1, 60).Draw(rt, "holds ms")
		gaps := rapid.SliceOfN(rapid.IntRange(0, 5), len(holds), len(holds)).Draw(rt, "gaps ms")
		synctest.Test(t, func(t *testing.T) {
			p := newPool(t, cfg)
			var mu sync.Mutex
			ran, ok, shed := 0, 0, 0
			var wg sync.WaitGroup
			for i, hold := range holds {
				time.Sleep(time.Duration(gaps[i]) * time.Millisecond)
				wg.Go(func() {
					err := p.Do(i%2, job{hold: time.Duration(hold) * time.Millisecond, ran: func(wait time.Duration) {
						mu.Lock()
						defer mu.Unlock()
						ran++
						if cfg.MaxQueueWait > 0 && wait > cfg.MaxQueueWait {
							t.Errorf("ran after %v in a queue bounded by %v", wait, cfg.MaxQueueWait)
						}
					}})
					mu.Lock()
					defer mu.Unlock()
					switch {
					case err == nil:
						ok++
					case errors.Is(err, ErrOverloaded):
						shed++
					default:
						t.Errorf("unexpected error %v", err)
					}
				})
			}
			wg.Wait()
			synctest.Wait()
			s := p.Stats()
			if ok+shed != len(holds) || ran != ok || s.Shed != shed {
				t.Errorf("%d requests: ok %d, shed %d, ran %d, stats %+v", len(holds), ok, shed, ran, s)
			}
			if s.MaxBusy > cfg.Max || s.Workers > cfg.Max || s.Busy != 0 || s.Queued != 0 {
				t.Errorf("bounds of %+v passed: %+v", cfg, s)
			}
			if cfg.MaxQueue > 0 && s.MaxQueue > cfg.MaxQueue {
				t.Errorf("queue of %d reached %d", cfg.MaxQueue, s.MaxQueue)
			}
			closePool(t, p)
		})
	})
}
