package loadgen

import (
	"fmt"
	"math"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"chokepoint/internal/cli"
	"chokepoint/internal/load/ledger"
)

const (
	frozenRate   = 500 // per second
	frozenWindow = 2 * time.Second
	frozenFor    = frozenWindow / 4
	planned      = frozenRate * int(frozenWindow/time.Second)
)

// freezer is a server that answers at once, but for a quarter of the window, after
// which it answers everything that waited.
type freezer struct {
	mu     sync.Mutex
	begun  bool
	thaw   chan struct{} // nil while the server answers at once
	frozen time.Time
	thawed time.Time
	last   time.Time // when the last of those that waited was answered
	waited int
}

func (f *freezer) serve(http.ResponseWriter, *http.Request) {
	f.mu.Lock()
	if !f.begun { // due at 0
		f.begun = true
		time.AfterFunc(frozenWindow/4, f.freeze)
	}
	thaw := f.thaw
	if thaw != nil {
		f.waited++
	}
	f.mu.Unlock()
	if thaw == nil {
		return
	}
	<-thaw
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last = time.Now()
}

func (f *freezer) freeze() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.frozen, f.thaw = time.Now(), make(chan struct{})
	time.AfterFunc(frozenFor, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.thawed = time.Now()
		close(f.thaw)
		f.thaw = nil
	})
}

// times are how long the server was frozen, how long it then took to answer those who
// had waited, and how many they were.
func (f *freezer) times() (freeze, drain time.Duration, waited int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.thawed.Sub(f.frozen), f.last.Sub(f.thawed), f.waited
}

// TestFrozenServer: the server stands still for F of a window W. A request due x before
// the thaw waits x, whatever the tool does meanwhile, so that the share of requests
// that wait longer than x is (F - x) / W, and the percentile p is F - (1 - p) * W: of a
// quarter, p90 is 0.15 W and p99 0.24 W. A tool that waits with its next request for the
// answer to the last sees one slow request per connection.
func TestFrozenServer(t *testing.T) {
	for _, workers := range []int{300, 3000} {
		t.Run(fmt.Sprintf("%d workers", workers), func(t *testing.T) {
			onBothEngines(t, func(t *testing.T, engine string) {
				f := &freezer{}
				url, seen := serve(t, f.serve)
				o := play(t, engine, url, fmt.Sprintf("-rate=%d", frozenRate), "-duration="+frozenWindow.String(), fmt.Sprintf("-workers=%d", workers), anyLag)
				o.checkIdentities(t, planned, seen)
				e := o.endpoint()
				if o.code != cli.ExitOK || e.OK != planned {
					t.Errorf("exit code %d, %d ok; want %d, %d: %v", o.code, e.OK, cli.ExitOK, planned, o.load.Validity.Reasons)
				}
				// A timer of the server may be late, its answers leave one after the
				// other, and a crowded machine reads them as late as it sends: all of
				// it is known.
				freeze, drain, waited := f.times()
				late := drain.Seconds() + e.Lag.P99/1000
				for _, percentile := range []struct {
					p   float64
					got float64
				}{{0.90, e.Response.P90}, {0.99, e.Response.P99}} {
					want := freeze - time.Duration((1-percentile.p)*float64(frozenWindow))
					tolerance := 0.03*want.Seconds() + late
					if got := percentile.got / 1000; math.Abs(got-want.Seconds()) > tolerance {
						t.Errorf("p%.0f is %.3f s, want %.3f s within %.3f s (frozen for %v, %d waited, answered in %v, lag p99 %v ms)",
							100*percentile.p, got, want.Seconds(), tolerance, freeze, waited, drain, e.Lag.P99)
					}
				}
				t.Logf("p90 %v ms, p99 %v ms; frozen for %v, answered in %v, lag p99 %v ms", e.Response.P90, e.Response.P99, freeze, drain, e.Lag.P99)
			})
		})
	}
}

// TestFrozenServerAndTooFewWorkers: what cannot be sent when it is due is dropped, each
// arrival is counted where it fell due, and the run says that it may not be believed.
func TestFrozenServerAndTooFewWorkers(t *testing.T) {
	const workers = 50
	onBothEngines(t, func(t *testing.T, engine string) {
		f := &freezer{}
		url, seen := serve(t, f.serve)
		o := play(t, engine, url, fmt.Sprintf("-rate=%d", frozenRate), "-duration="+frozenWindow.String(), fmt.Sprintf("-workers=%d", workers), anyLag)
		o.checkIdentities(t, planned, seen)
		e := o.endpoint()
		if o.code != cli.ExitInvalid || !strings.HasPrefix(o.stdout, "INVALID") || !strings.Contains(o.stdout, fmt.Sprintf("url: %d of %d arrivals were dropped", e.Dropped, planned)) {
			t.Errorf("exit code %d, want %d and the drops named:\n%s", o.code, cli.ExitInvalid, o.stdout)
		}
		// As many as there are workers wait; the others of a freeze find none free.
		waiting := int(frozenFor.Seconds() * frozenRate)
		if _, _, waited := f.times(); e.Dropped < (waiting-workers)*9/10 || waited < workers {
			t.Errorf("%d dropped and %d waiting, want some %d and %d", e.Dropped, waited, waiting-workers, workers)
		}
		if n := len(seen.reads()); n != e.Started || e.Started != planned-e.Dropped || e.OK != e.Started {
			t.Errorf("%d started, %d ok, %d read by the server; want %d of each", e.Started, e.OK, n, planned-e.Dropped)
		}
		seconds := make([]int, int(frozenWindow/time.Second))
		for _, r := range o.requests {
			if r.Outcome == ledger.Dropped.String() {
				seconds[r.Due/time.Second]++
			}
		}
		for i, n := range o.load.Drops["url"] {
			if seconds[i] != n {
				t.Errorf("%d drops in second %d, and the rows have %d", n, i, seconds[i])
			}
		}
	})
}

// TestFrozenServerAndAClosedModel is the control: as many requests as there are workers
// see the freeze, however long it is, since whoever waits for an answer sends nothing.
func TestFrozenServerAndAClosedModel(t *testing.T) {
	const workers = 5
	onBothEngines(t, func(t *testing.T, engine string) {
		f := &freezer{}
		url, seen := serve(t, func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(5 * time.Millisecond)
			f.serve(w, r)
		})
		o := play(t, engine, url, fmt.Sprintf("-closed=%d", workers), "-duration="+frozenWindow.String(), anyLag)
		e := o.endpoint()
		o.checkIdentities(t, 0, seen)
		slow := 0
		for _, r := range o.requests {
			if r.Response > frozenFor*9/10 {
				slow++
			}
		}
		if _, _, waited := f.times(); waited != workers || slow != workers || e.OK != e.Started || e.OK < 10*workers {
			t.Errorf("%d requests waited for the thaw and %d say so, of %d (%d ok); want %d of many", waited, slow, e.Started, e.OK, workers)
		}
	})
}
