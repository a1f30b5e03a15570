package engine

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"chokepoint/internal/adminapi"
	"chokepoint/internal/load/arrival"
	"chokepoint/internal/load/latency"
	"chokepoint/internal/load/ledger"
	"chokepoint/internal/result"
)

// identities are the phases and ids that a peer has read, sorted.
func identities(p *peer) []string {
	heads, _ := p.requests()
	var all []string
	for _, head := range heads {
		_, phase, _ := strings.Cut(head, adminapi.HeaderPhase+": ")
		phase, _, _ = strings.Cut(phase, "\r\n")
		_, id, _ := strings.Cut(head, adminapi.HeaderID+": ")
		id, _, _ = strings.Cut(id, "\r\n")
		all = append(all, phase+" "+id)
	}
	slices.Sort(all)
	return all
}

// withEachPlayer runs the test for each engine, and for the loop with several
// threads too.
func withEachPlayer(t *testing.T, test func(t *testing.T, with func(*Config))) {
	withEachEngine(t, func(t *testing.T, kind Kind, _ newClient) {
		test(t, func(c *Config) { c.Engine = kind })
		if kind == Loop {
			t.Run("3", func(t *testing.T) {
				test(t, func(c *Config) { c.Engine, c.Loops = kind, 3 })
			})
		}
	})
}

// about are the warnings of a run that have the word.
func about(r *Report, word string) []string {
	var all []string
	for _, w := range r.Load.Validity.Warnings {
		if strings.Contains(w, word) {
			all = append(all, w)
		}
	}
	return all
}

// numbered are n identities with the same beginning, sorted.
func numbered(prefix string, n int) []string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf("%s%d", prefix, i))
	}
	slices.Sort(all)
	return all
}

func TestAWarmUpIsInNoFigure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		seconds := map[string]int{}
		c := plan(Endpoint{Name: "fast", Rate: 20})
		c.Duration, c.Warmup = 10*time.Second, 5*time.Second
		c.KeepRequests, c.Log = true, &log
		c.EachSecond = func(s Second) {
			for _, e := range s.Endpoints {
				seconds["scheduled"] += e.Scheduled
				seconds["ok"] += e.Outcomes[ledger.OK]
			}
		}
		began := time.Now()
		// Those due at -650 to -50 ms are still in flight at 0.
		r := play(t, t.Context(), c, newFake(after(700*time.Millisecond)))
		e := r.Load.Endpoints["fast"]
		if e.Planned != 200 || e.Scheduled != 200 || e.OK != 200 || e.AchievedRate != 20 {
			t.Errorf("got %+v, want 200 of everything", e)
		}
		if e.Response.Count != 200 || e.Lag.Count != 200 || len(r.Requests) != 200 || r.Requests[0].Due != 0 {
			t.Errorf("%d responses, %d lags, %d records; want 200 of each", e.Response.Count, e.Lag.Count, len(r.Requests))
		}
		if diff := cmp.Diff(map[string]int{"scheduled": 200, "ok": 200}, seconds); diff != "" {
			t.Errorf("by the second:\n%s", diff)
		}
		read, err := latency.ReadLog(&log)
		if err != nil {
			t.Fatal(err)
		}
		if n := read.Series["fast/response"].Total.Count(); n != 200 {
			t.Errorf("%d responses in the log, want 200", n)
		}
		want := &result.Warmup{Seconds: 5, Endpoints: map[string]result.WarmupEndpoint{"fast": {Scheduled: 100, Started: 100, OK: 100, Overhang: 13}}}
		if diff := cmp.Diff(want, r.Load.Warmup); diff != "" {
			t.Error(diff)
		}
		if !r.Load.Validity.Valid || len(about(r, "warm-up")) > 0 {
			t.Errorf("validity %+v", r.Load.Validity)
		}
		if lead := r.Load.StartedAt.Sub(began); lead != c.Warmup+notice {
			t.Errorf("due time 0 is %v after the call, want %v", lead, c.Warmup+notice)
		}
	})
}

func TestAWarmUpHasItsOwnPhaseAndItsConnectionsStay(t *testing.T) {
	withEachPlayer(t, func(t *testing.T, with func(*Config)) {
		p := newPeer(t, write(okAnswer))
		// "fast-w0" is a name by which ids could clash.
		c := plan(Endpoint{Name: "fast", URL: p.url(), Rate: 10}, Endpoint{Name: "fast-w0", URL: p.url(), Rate: 10})
		c.Warmup, c.Duration = 200*time.Millisecond, 300*time.Millisecond
		with(&c)
		r := live(t, c)
		ids := slices.Concat(numbered("load fast-", 3), numbered("load fast-w0-", 3), numbered("warmup fast-w", 2), numbered("warmup fast-w0-w", 2))
		slices.Sort(ids)
		if diff := cmp.Diff(ids, identities(p)); diff != "" {
			t.Error(diff)
		}
		// Each request is answered long before the next one is due, unless the machine
		// is crowded. Loops do not share connections, and each has one arrival of the
		// three.
		want, got := 2, 0
		if c.Loops > 1 {
			want *= c.Loops
		}
		if got, _, _ = p.counts(); got < want || got >= 10 {
			t.Errorf("%d connections, want %d, one of each endpoint and loop, and not one of each request", got, want)
		}
		if w := r.Load.Warmup.Endpoints["fast"]; w.Scheduled != 2 || w.Started != 2 || w.OK != 2 {
			t.Errorf("warm-up %+v", w)
		}
	})
}

// muteInWarmUp answers the load and leaves the warm-up without an answer.
func muteInWarmUp(conn *net.TCPConn, head string) bool {
	if strings.Contains(head, adminapi.HeaderPhase+": "+adminapi.PhaseWarmup) {
		return true
	}
	return write(okAnswer)(conn, head)
}

func TestWhatAWarmUpLeavesInFlightTakesNothingFromTheLoad(t *testing.T) {
	withEachPlayer(t, func(t *testing.T, with func(*Config)) {
		p := newPeer(t, muteInWarmUp)
		c := plan(Endpoint{Name: "fast", URL: p.url(), Rate: 20, Timeout: time.Hour, Workers: 6})
		c.Warmup, c.Duration = 500*time.Millisecond, 500*time.Millisecond
		with(&c)
		began := time.Now()
		r := live(t, c)
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("took %v: somebody waited for the warm-up", took)
		}
		if e := r.Load.Endpoints["fast"]; e.OK != 10 || e.Dropped != 0 {
			t.Errorf("got %+v, want 10 ok", e)
		}
		want := map[string]result.WarmupEndpoint{"fast": {Scheduled: 10, Started: 6, Dropped: 4, Failed: 6, Overhang: 6}}
		if diff := cmp.Diff(want, r.Load.Warmup.Endpoints); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]string{"fast: warm-up: 4 of 10 arrivals were dropped", "fast: warm-up: 6 of 6 requests failed"}, about(r, "warm-up")); diff != "" {
			t.Error(diff)
		}
		for _, reason := range r.Load.Validity.Reasons {
			if strings.Contains(reason, "warm-up") {
				t.Errorf("the warm-up made the run invalid: %s", reason)
			}
		}
		eventually(t, "every connection ends", func() bool { connections, _, gone := p.counts(); return gone == connections })
	})
}

func TestCancelInTheWarmUp(t *testing.T) {
	withEachPlayer(t, func(t *testing.T, with func(*Config)) {
		for _, closed := range []int{0, 3} {
			arrived := make(chan struct{}, 1_000_000)
			p := newPeer(t, func(conn *net.TCPConn, head string) bool {
				arrived <- struct{}{}
				return muteInWarmUp(conn, head)
			})
			c := plan(Endpoint{Name: "fast", URL: p.url(), Rate: 20, Timeout: time.Hour, Workers: 50})
			if c.Closed = closed; closed > 0 {
				c.Endpoints[0].Rate = 0
			}
			c.Warmup = time.Hour
			with(&c)
			r := stoppedAfter(t, c, arrived)
			e := r.Load.Endpoints["fast"]
			if !r.StoppedEarly || r.Load.Validity.Valid || e.Scheduled != 0 || r.Load.ElapsedS != 0 {
				t.Errorf("stopped early: %v, %+v, validity %+v", r.StoppedEarly, e, r.Load.Validity)
			}
			if w := r.Load.Warmup.Endpoints["fast"]; w.Started < 1 || w.Failed != w.Started {
				t.Errorf("warm-up %+v", w)
			}
			eventually(t, "every connection ends", func() bool { connections, _, gone := p.counts(); return gone == connections })
		}
	})
}

func TestTheWarmUpOfEveryPattern(t *testing.T) {
	pattern := func(text string) arrival.Pattern {
		p, err := arrival.ParsePattern(text, 10*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	for _, tt := range []struct {
		name   string
		change func(*Config)
		want   []time.Duration
	}{
		{"constant", func(*Config) {}, []time.Duration{-time.Second, -750 * time.Millisecond, -500 * time.Millisecond, -250 * time.Millisecond}},
		{"poisson", func(c *Config) { c.Arrivals = Poisson }, []time.Duration{-time.Second, -750 * time.Millisecond, -500 * time.Millisecond, -250 * time.Millisecond}},
		{"ramp", func(c *Config) { c.Pattern, c.Endpoints[0].Rate = pattern("ramp:2/s..100/s"), 0 }, []time.Duration{-time.Second, -500 * time.Millisecond}},
		{"steps", func(c *Config) { c.Pattern, c.Endpoints[0].Rate = pattern("steps:1/s:5s,9/s:5s"), 0 }, []time.Duration{-time.Second}},
		{"shard", func(c *Config) { c.Shard = arrival.Shard{Index: 1, Of: 3} }, []time.Duration{-750 * time.Millisecond}},
		{"quantum", func(c *Config) { c.Quantum, c.MaxLag = 400*time.Millisecond, time.Second }, []time.Duration{-time.Second, -750 * time.Millisecond, -500 * time.Millisecond, -250 * time.Millisecond}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := plan(Endpoint{Name: "fast", Rate: 4})
			c.Duration, c.Warmup, c.StartAt = 10*time.Second, time.Second, time.Now().Add(time.Hour)
			tt.change(&c)
			c = c.WithDefaults()
			if err := c.Validate(); err != nil {
				t.Fatal(err)
			}
			var got []time.Duration
			load := 0
			for played := c.played(); ; {
				next, ok := played.Next()
				switch {
				case !ok:
					if diff := cmp.Diff(tt.want, got); diff != "" {
						t.Error(diff)
					}
					if load != c.planned(0) {
						t.Errorf("%d arrivals of the load, want %d", load, c.planned(0))
					}
					return
				case next.From == 0:
					load++
				default:
					got = append(got, next.Due)
				}
			}
		})
	}
	c := plan(Endpoint{Name: "fast"})
	c.Pattern, c.Duration, c.Warmup = pattern("ramp:0/s..100/s"), 10*time.Second, time.Second
	if err := c.WithDefaults().Validate(); err == nil || !strings.Contains(err.Error(), "the ramp arrivals begin at rate 0") {
		t.Errorf("a ramp from 0: %v", err)
	}
}

func TestAQuantumRoundsUpOnBothSidesOfTheStart(t *testing.T) {
	c := Config{Quantum: 10}
	got := map[time.Duration]time.Duration{}
	for _, due := range []time.Duration{-21, -20, -19, -1, 0, 1, 10, 11} {
		got[due] = c.sendAt(due)
	}
	want := map[time.Duration]time.Duration{-21: -20, -20: -20, -19: -10, -1: 0, 0: 0, 1: 10, 10: 10, 11: 20}
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestAnOpenResultSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if r := play(t, ctx, plan(Endpoint{Name: "fast", Rate: 1}), newFake(after(0))); r.Load.Model != result.ModelOpen || r.Load.Warmup != nil {
			t.Errorf("model %q, warm-up %v", r.Load.Model, r.Load.Warmup)
		}
	})
}
