package queueing

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"chokepoint/internal/adminapi"
	"chokepoint/internal/profile"
	"chokepoint/internal/rate"
)

// anyConfig draws small runs of every shape: overloaded and idle, with and
// without each protection, short of client workers, stopped while waiting.
func anyConfig() *rapid.Generator[Config] {
	seconds := func(t *rapid.T, name string, least, most float64) time.Duration {
		return time.Duration(rapid.Float64Range(least, most).Draw(t, name) * float64(time.Second))
	}
	return rapid.Custom(func(t *rapid.T) Config {
		p := profile.Profile{Name: "drawn", Unbounded: rapid.Bool().Draw(t, "unbounded")}
		if rapid.Bool().Draw(t, "has timeout") {
			p.Timeout = seconds(t, "timeout", 0.01, 5)
		}
		if rapid.Bool().Draw(t, "has bulkhead") {
			p.Permits = rapid.IntRange(1, 8).Draw(t, "permits")
			if rapid.Bool().Draw(t, "has permit wait") {
				p.PermitWait = seconds(t, "permit wait", 0.01, 1)
			}
		}
		if rapid.Bool().Draw(t, "has breaker") {
			p.BreakerFailures = rapid.IntRange(1, 5).Draw(t, "failures")
			p.BreakerOpenFor = seconds(t, "open for", 0.1, 5)
		}
		if !p.Unbounded {
			p.MaxQueue = rapid.IntRange(0, 10).Draw(t, "max queue")
			p.MaxQueueWait = seconds(t, "max queue wait", 0, 2)
			p.SkipAbandoned = rapid.Bool().Draw(t, "skip abandoned")
		}
		cfg := Config{
			Streams: []Stream{
				{Name: "fast", Rate: rate.Rate(rapid.Float64Range(5, 40).Draw(t, "fast rate")), Timeout: seconds(t, "fast timeout", 0.1, 10)},
				{Name: "upstream", Rate: rate.Rate(rapid.Float64Range(5, 40).Draw(t, "upstream rate")), Timeout: seconds(t, "upstream timeout", 0.1, 10),
					CallsUpstream: true, Poisson: rapid.Bool().Draw(t, "poisson"), Workers: rapid.IntRange(0, 40).Draw(t, "workers")},
			},
			Duration:     seconds(t, "duration", 1, 2),
			GracefulStop: seconds(t, "graceful stop", -1, 5),
			Profile:      p,
			PoolMin:      rapid.IntRange(0, 3).Draw(t, "pool min"),
			PoolMax:      rapid.IntRange(3, 12).Draw(t, "pool max"),
			Delay:        func(r *rand.Rand) time.Duration { return time.Duration(r.ExpFloat64() * float64(time.Second)) },
			Fault:        rapid.SampledFrom([]adminapi.Fault{adminapi.FaultNone, adminapi.FaultError, adminapi.FaultHang}).Draw(t, "fault"),
			FaultRate:    rapid.Float64Range(0, 1).Draw(t, "fault rate"),
			Scale:        rapid.SampledFrom([]float64{1, 0.2, 0.05}).Draw(t, "scale"),
			Seed:         rapid.Uint64().Draw(t, "seed"),
		}
		cfg.DumpAt = []DumpPoint{{"middle", cfg.Duration / 2}}
		return cfg.withDefaults()
	})
}

// census counts the requests that stand at each stage, from the requests
// themselves.
func census(s *simulation) map[stage]int {
	n := map[stage]int{queued: 0, permitWaiting: 0, calling: 0, serving: 0}
	for i := range s.requests {
		n[s.requests[i].stage]++
	}
	return n
}

// The counters that the model keeps as it goes agree with the requests, and no
// bound is ever exceeded, after each single event and under all conditions.
func TestBoundsHoldAtEveryEvent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := anyConfig().Draw(t, "config")
		s := newSimulation(&cfg, variant(&cfg, rapid.IntRange(0, fullEnsemble-1).Draw(t, "variant")))
		for last := s.now; s.step(); last = s.now {
			if s.now < last {
				t.Fatalf("time went back from %v to %v", last, s.now)
			}
			n := census(s)
			if diff := cmp.Diff(map[stage]int{queued: s.waiting, permitWaiting: s.wanting, calling: s.inCall, serving: s.inService},
				map[stage]int{queued: n[queued], permitWaiting: n[permitWaiting], calling: n[calling], serving: n[serving]}); diff != "" {
				t.Fatalf("at %v the counters differ from the requests:\n%s", s.now, diff)
			}
			p := cfg.Profile
			switch {
			case s.busy != n[permitWaiting]+n[calling]+n[serving]:
				t.Fatalf("at %v %d workers are busy with %v", s.now, s.busy, n)
			case !p.Unbounded && s.busy > cfg.PoolMax:
				t.Fatalf("at %v %d of %d workers are busy", s.now, s.busy, cfg.PoolMax)
			case n[queued] > 0 && s.busy < cfg.PoolMax:
				t.Fatalf("at %v %d requests wait for a worker while %d of %d are busy", s.now, n[queued], s.busy, cfg.PoolMax)
			case p.Permits > 0 && s.held != n[calling] || s.held > p.Permits:
				t.Fatalf("at %v %d of %d permits are held by %d calls", s.now, s.held, p.Permits, n[calling])
			case n[permitWaiting] > 0 && s.held < p.Permits:
				t.Fatalf("at %v %d requests wait for a permit while %d of %d are held", s.now, n[permitWaiting], s.held, p.Permits)
			case n[permitWaiting] > 0 && p.PermitWait == 0:
				t.Fatalf("at %v %d requests wait for a permit, though none may wait", s.now, n[permitWaiting])
			case p.MaxQueue > 0 && n[queued] > p.MaxQueue:
				t.Fatalf("at %v %d requests are in a queue of %d", s.now, n[queued], p.MaxQueue)
			}
		}
	})
}

// First come, first served: with the same overheads for all, requests are read in
// the order of their numbers, so none may hold a worker (or a permit) while an
// earlier one still waits for it.
func TestFirstComeFirstServed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := anyConfig().Draw(t, "config")
		s := newSimulation(&cfg, nominal(&cfg))
		for s.step() {
			firstQueued, firstPermit := math.MaxInt, math.MaxInt
			for i := range s.requests {
				switch s.requests[i].stage {
				case queued:
					firstQueued = min(firstQueued, i)
				case permitWaiting:
					firstPermit = min(firstPermit, i)
				}
				holds := slices.Contains([]stage{permitWaiting, calling, serving}, s.requests[i].stage)
				if holds && i > firstQueued {
					t.Fatalf("at %v request %d has a worker, request %d still waits", s.now, i, firstQueued)
				}
				if s.requests[i].stage == calling && i > firstPermit {
					t.Fatalf("at %v request %d has a permit, request %d still waits", s.now, i, firstPermit)
				}
			}
		}
	})
}

// The ledger of DESIGN section 3 balances in every case.
func TestLedgerBalances(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := anyConfig().Draw(t, "config")
		cond := nominal(&cfg)
		if i := rapid.IntRange(-1, fullEnsemble-1).Draw(t, "variant"); i >= 0 {
			cond = variant(&cfg, i)
		}
		s := newSimulation(&cfg, cond)
		for s.step() {
		}
		for i, l := range s.tally.ledgers {
			name := cfg.Streams[i].Name
			if !cfg.Streams[i].Poisson && l.scheduled != cfg.Streams[i].Rate.Count(cfg.Duration) {
				t.Fatalf("%s: %d scheduled of %d planned", name, l.scheduled, cfg.Streams[i].Rate.Count(cfg.Duration))
			}
			if got := l.dropped + l.ok() + l.httpError() + l.timeout + l.interrupted; got != l.scheduled {
				t.Fatalf("%s: %d outcomes of %d scheduled: %+v", name, got, l.scheduled, l)
			}
			if got := l.ok() + l.httpError() + l.timeout; got != len(l.responses) {
				t.Fatalf("%s: %d responses of %d answered or timed out", name, len(l.responses), got)
			}
			if s.sources[i].free != cfg.Streams[i].Workers {
				t.Fatalf("%s: %d of %d generator workers came back", name, s.sources[i].free, cfg.Streams[i].Workers)
			}
			if slices.Max(append(l.responses, 0)) > cfg.Streams[i].Timeout+2*s.cond.wake {
				t.Fatalf("%s: a response of %v is beyond the client timeout", name, slices.Max(l.responses))
			}
		}
		if hangs := cfg.Fault == adminapi.FaultHang && cfg.Profile.Timeout == 0; !hangs && s.busy != 0 {
			t.Fatalf("%d workers are held for ever, though every call ends", s.busy)
		}
	})
}

// The victim does not notice that a client has left (unless the profile says so),
// so a more patient client cannot get fewer answers.
func TestPatienceCostsNoAnswers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := anyConfig().Draw(t, "config")
		cfg.Profile.SkipAbandoned = false
		cfg.GracefulStop = WaitForAll
		cfg.Streams[1].Workers = 1000 // none dropped, so the victim sees the same load
		patient := cfg
		patient.Streams = slices.Clone(cfg.Streams)
		for i := range patient.Streams {
			patient.Streams[i].Timeout *= 2
			patient.Streams[i].Workers = 1000
		}
		short, long := simulate(&cfg, nominal(&cfg)), simulate(&patient, nominal(&patient))
		for i := range cfg.Streams {
			if short.ledgers[i].ok() > long.ledgers[i].ok() || short.ledgers[i].timeout < long.ledgers[i].timeout {
				t.Fatalf("%s: waiting longer turned %+v into %+v", cfg.Streams[i].Name, short.ledgers[i], long.ledgers[i])
			}
		}
		if short.idleSince != long.idleSince {
			t.Fatalf("the victim was idle at %v and at %v, though it saw the same load", short.idleSince, long.idleSince)
		}
	})
}

// Whatever is predicted, the nominal case lies in its range, and the statuses of
// an endpoint add up.
func TestPredictionIsConsistent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := anyConfig().Draw(t, "config")
		p, err := Predict(cfg)
		if err != nil {
			t.Fatal(err)
		}
		figures := flat(p)
		for _, name := range slices.Sorted(maps.Keys(figures)) {
			f := figures[name]
			if !(f.Low <= f.Nominal && f.Nominal <= f.High) || f.Low < 0 || math.IsInf(f.High, 0) {
				t.Fatalf("%s = %+v", name, f)
			}
		}
		for name, e := range p.Endpoints {
			sum := 0.0
			for _, f := range e.Status {
				sum += f.Nominal
			}
			if sum != e.OK.Nominal+e.HTTPError.Nominal {
				t.Fatalf("%s: statuses add up to %v, ok and http_error to %v", name, sum, e.OK.Nominal+e.HTTPError.Nominal)
			}
		}
	})
}

func TestCalendarKeepsOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var c calendar
		times := rapid.SliceOf(rapid.IntRange(0, 20)).Draw(t, "times")
		for _, at := range times {
			c.push(event{at: time.Duration(at), due: time.Duration(at), rank: int16(at % 3)})
		}
		var last event
		for i := range times {
			e := c.pop()
			if i > 0 && !last.before(&e) {
				t.Fatalf("%+v came after %+v", e, last)
			}
			last = e
		}
	})
}

// Of what happens at one instant, that which a pause has put off longest comes
// first; then the arrivals, by stream.
func TestOrderWithinAnInstant(t *testing.T) {
	var c calendar
	want := []event{
		{at: 9, due: 1, kind: callEnded}, {at: 9, due: 2, kind: permitExpired},
		{at: 9, due: 9, rank: -2, kind: arrival}, {at: 9, due: 9, rank: -1, kind: arrival},
		{at: 9, due: 9, kind: received, id: 1}, {at: 9, due: 9, kind: received, id: 2},
	}
	for _, i := range []int{4, 3, 1, 5, 2, 0} {
		c.push(want[i])
	}
	for i := range want {
		got := c.pop()
		got.seq = 0
		if got != want[i] {
			t.Errorf("event %d is %+v, want %+v", i, got, want[i])
		}
	}
}

func TestReversedTies(t *testing.T) {
	cfg := Config{
		Streams: []Stream{{Name: "a", Rate: 10, Timeout: time.Second}, {Name: "b", Rate: 10, Timeout: time.Second}},
		PoolMax: 1, Duration: time.Second, GracefulStop: WaitForAll, Delay: Constant(0),
	}.withDefaults()
	for reversed, want := range map[bool][]int32{false: {0, 1, 0, 1}, true: {1, 0, 1, 0}} {
		cond := nominal(&cfg)
		cond.reverseTies = reversed
		s := newSimulation(&cfg, cond)
		for s.step() {
		}
		var got []int32
		for _, r := range s.requests[:4] {
			got = append(got, r.stream)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("reversed %v: streams in the order of arrival (-want +got):\n%s", reversed, diff)
		}
	}
}

func TestNearestRank(t *testing.T) {
	tests := []struct {
		n    int
		q    float64
		want time.Duration // the values are 1, 2, ... n
	}{
		{0, 0.5, 0}, {1, 0, 1}, {1, 0.5, 1}, {1, 1, 1},
		{4, 0.5, 2}, {5, 0.5, 3}, {4, 0.51, 3}, {4, 1, 4},
		{600, 0.5, 300}, {1200, 0.95, 1140}, {100, 0.07, 7},
	}
	for _, tt := range tests {
		var l ledger
		for i := tt.n; i > 0; i-- {
			l.responses = append(l.responses, time.Duration(i))
		}
		l.close()
		if got := l.percentile(tt.q); got != tt.want {
			t.Errorf("percentile %v of %d values is number %d, want %d", tt.q, tt.n, got, tt.want)
		}
	}
}

func TestPausesPutOffWhatFallsIntoThem(t *testing.T) {
	c := conditions{pauses: merge([]pause{{30, 40}, {10, 20}, {15, 25}, {25, 27}})}
	if diff := cmp.Diff([]pause{{10, 27}, {30, 40}}, c.pauses, cmp.AllowUnexported(pause{})); diff != "" {
		t.Fatalf("merged pauses:\n%s", diff)
	}
	for at, want := range map[time.Duration]time.Duration{0: 0, 9: 9, 10: 27, 26: 27, 27: 27, 29: 29, 30: 40, 39: 40, 40: 40, 99: 99} {
		if got := c.resumed(at); got != want {
			t.Errorf("what falls due at %d happens at %d, want %d", at, got, want)
		}
	}
}
