package guard

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"chokepoint/internal/profile"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errSlow = errors.New("slow upstream")

// slow is an upstream that answers after delay, cut off at the deadline.
func slow(delay time.Duration) Call {
	return func(deadline time.Time) error {
		if deadline.IsZero() || time.Until(deadline) >= delay {
			time.Sleep(delay)
			return nil
		}
		time.Sleep(time.Until(deadline))
		return errSlow
	}
}

// offer sends n calls, one every gap, and counts how they ended.
func offer(g *Guard, n int, gap time.Duration, call Call) map[error]int {
	outcomes := map[error]int{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			_, err := g.Do(call)
			mu.Lock()
			defer mu.Unlock()
			outcomes[err]++
		})
		time.Sleep(gap)
	}
	wg.Wait()
	return outcomes
}

func lookup(t *testing.T, name string) profile.Profile {
	t.Helper()
	p, err := profile.Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestNothingIsGuardedWithoutAProfile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := New(lookup(t, "anti"))
		if got := offer(g, 100, 50*time.Millisecond, slow(30*time.Second)); got[nil] != 100 {
			t.Errorf("outcomes %v, want 100 answers", got)
		}
		if held, limit := g.Permits(); held != 0 || limit != 0 || g.Breaker() != "none" {
			t.Errorf("permits %d of %d, breaker %s; want none", held, limit, g.Breaker())
		}
	})
}

func TestTimeoutBoundsTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := New(lookup(t, "timeout"))
		start := time.Now()
		_, err := g.Do(slow(30 * time.Second))
		if took := time.Since(start); !errors.Is(err, errSlow) || took != 2*time.Second {
			t.Errorf("%v after %v, want the slow error after 2s", err, took)
		}
	})
}

// Twenty permits of two seconds pass ten calls a second of the twenty offered:
// half are refused, as the published run found (601 : 600).
func TestBulkheadAndTimeoutPassHalf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := New(lookup(t, "fixed"))
		// 51 ms, not 50: no arrival ties with a permit that comes free.
		got := offer(g, 1200, 51*time.Millisecond, slow(30*time.Second))
		passed, refused := got[errSlow], got[ErrBulkheadFull]
		if passed+refused != 1200 || passed < 600 || passed > 632 {
			t.Errorf("passed %d, refused %d of 1200; want about 1200 x 51/100 passed", passed, refused)
		}
		if held, _ := g.Permits(); held != 0 {
			t.Errorf("%d permits still held", held)
		}
	})
}

func TestFullBulkheadRefusesAfterTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := New(profile.Profile{Permits: 1, PermitWait: 100 * time.Millisecond})
		go g.Do(slow(time.Second))
		synctest.Wait()
		if held, limit := g.Permits(); held != 1 || limit != 1 {
			t.Errorf("permits %d of %d, want 1 of 1", held, limit)
		}
		wait, err := g.Do(slow(0))
		if !errors.Is(err, ErrBulkheadFull) || wait != 100*time.Millisecond {
			t.Errorf("%v after %v, want bulkhead full after 100ms", err, wait)
		}
		time.Sleep(time.Second)
	})
}

func TestBreakerOpensProbesAndCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := New(lookup(t, "breaker"))
		for i := range 6 {
			if _, err := g.Do(slow(30 * time.Second)); !errors.Is(err, errSlow) {
				t.Fatalf("call %d: %v", i, err)
			}
		}
		if g.Breaker() != "open" {
			t.Fatalf("breaker is %s after six failures, want open", g.Breaker())
		}
		if _, err := g.Do(slow(0)); !errors.Is(err, ErrBreakerOpen) {
			t.Errorf("call while open: %v", err)
		}
		time.Sleep(10*time.Second + 1)
		probe := make(chan error)
		go func() { _, err := g.Do(slow(time.Second)); probe <- err }()
		synctest.Wait()
		if _, err := g.Do(slow(0)); !errors.Is(err, ErrBreakerOpen) {
			t.Errorf("call beside the probe: %v, want breaker open", err)
		}
		if err := <-probe; err != nil || g.Breaker() != "closed" {
			t.Errorf("probe: %v, breaker %s; want it closed again", err, g.Breaker())
		}
	})
}

func TestFullBulkheadIsNoFailureToTheBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := lookup(t, "breaker")
		p.Permits = 1
		g := New(p)
		go g.Do(slow(time.Second))
		synctest.Wait()
		for range 8 {
			if _, err := g.Do(slow(0)); !errors.Is(err, ErrBulkheadFull) {
				t.Fatalf("got %v, want bulkhead full", err)
			}
		}
		if g.Breaker() != "closed" {
			t.Errorf("breaker is %s after eight refusals, want closed", g.Breaker())
		}
		time.Sleep(time.Second)
	})
}
