package engine

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"chokepoint/internal/load/latency"
	"chokepoint/internal/load/ledger"
)

func TestTenMillionArrivalsInASecond(t *testing.T) {
	window := time.Second
	if raceDetector {
		window /= 20
	}
	planned := int(10_000_000 * window / time.Second)
	withEachRun(t, func(t *testing.T, _ Kind, on func(*Config)) {
		p := newPeer(t, write(okAnswer))
		c := plan(Endpoint{Name: "fast", URL: p.url(), Rate: 10_000_000, Timeout: time.Hour, Workers: 4})
		c.Duration = window
		on(&c)
		began := time.Now()
		r := live(t, c)
		// Several seconds on a busy machine; a worker for each would never end.
		if took := time.Since(began); took > time.Minute {
			t.Errorf("took %v", took)
		}
		e := r.Load.Endpoints["fast"]
		if e.Planned != planned || e.Scheduled != planned || e.Started < 4 || e.Dropped < 1 || e.OK != e.Started || r.Load.Validity.Valid {
			t.Errorf("got %+v, validity %+v; want all of them accounted for, and an invalid run", e, r.Load.Validity)
		}
		if sum := sum(r.Load.Drops["fast"]); sum != e.Dropped {
			t.Errorf("%d drops by the second, and %d in all", sum, e.Dropped)
		}
		if _, requests, _ := p.counts(); requests != e.Started {
			t.Errorf("the server saw %d requests of %d", requests, e.Started)
		}
	})
}

// 30/s for 30 s, thirty times as fast: what the plan says is what the server sees.
func TestNineHundredArriveAtTheServer(t *testing.T) {
	withEachRun(t, func(t *testing.T, _ Kind, on func(*Config)) {
		p := newPeer(t, write(okAnswer))
		c := plan(Endpoint{Name: "fast", URL: p.url(), Rate: 900})
		c.Duration = time.Second
		on(&c)
		if e := live(t, c).Load.Endpoints["fast"]; e.Planned != 900 || e.Scheduled != 900 || e.OK != 900 {
			t.Errorf("got %+v, want 900 ok", e)
		}
		if diff := cmp.Diff(numbered("load fast-", 900), identities(p)); diff != "" {
			t.Errorf("what the server saw:\n%s", diff)
		}
	})
}

func sum(all []int) int {
	n := 0
	for _, v := range all {
		n += v
	}
	return n
}

// A figure that is no number cannot be written as JSON.
func TestEveryFigureIsANumber(t *testing.T) {
	never := func(int, int) time.Duration { return 24 * time.Hour }
	open := func() Config { return plan(Endpoint{Name: "fast", Rate: 20}) }
	for _, tt := range []struct {
		name   string
		plan   func() Config
		sender Sender
	}{
		{"nothing is answered", func() Config {
			c := open()
			c.GracefulStop = new(time.Duration)
			return c
		}, newFake(never)},
		{"everything is refused", open, refusing{ledger.Answer{Outcome: ledger.ConnectError, Cause: CauseRefused}}},
		{"everything is dropped but one", func() Config {
			c := open()
			c.Endpoints[0].Workers, c.GracefulStop = 1, new(time.Duration)
			return c
		}, newFake(never)},
		{"one arrival in a month", func() Config {
			c := open()
			c.Endpoints[0].Rate, c.Duration = 1e-9, time.Nanosecond
			return c
		}, newFake(never)},
		{"a closed model without an answer", func() Config {
			c := open()
			c.Endpoints[0].Rate, c.Closed, c.GracefulStop = 0, 3, new(time.Duration)
			return c
		}, newFake(never)},
		{"a warm-up without an answer", func() Config {
			c := open()
			c.Warmup = time.Minute
			return c
		}, newFake(never)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if f, ok := tt.sender.(*fake); ok {
					tt.sender = newFake(f.service) // its channel belongs to this test
				}
				r := play(t, t.Context(), tt.plan(), tt.sender)
				if _, err := json.Marshal(r.Load); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestTimesBeyondTheHistogramAreClampedAndCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const beyond = latency.Highest + time.Minute
		c := plan(Endpoint{Name: "fast", Rate: 1, Timeout: beyond})
		c.Duration = 10 * time.Second
		r := play(t, t.Context(), c, newFake(func(_, index int) time.Duration {
			if index < 4 {
				return time.Second
			}
			return 2 * beyond
		}))
		e := r.Load.Endpoints["fast"]
		if e.OK != 4 || e.Timeout != 6 || e.Response.Count != 10 {
			t.Errorf("got %+v, want 4 ok and 6 timeouts, all with a time", e)
		}
		// The maximum is exact; a percentile is not above the range.
		highest := float64(latency.Highest) / float64(time.Millisecond)
		if e.Response.Max != float64(beyond)/float64(time.Millisecond) || e.Response.P50 < 0.999*highest || e.Response.P50 > 1.001*highest || e.OKResponse.Max != 1000 {
			t.Errorf("responses %+v, good ones %+v", e.Response, e.OKResponse)
		}
		if found := about(r, "6 responses took longer than a histogram can tell apart"); len(found) != 1 || !strings.HasPrefix(found[0], "fast: ") {
			t.Errorf("warnings %q", r.Load.Validity.Warnings)
		}
	})
}
