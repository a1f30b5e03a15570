package queueing

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chokepoint/internal/adminapi"
	"chokepoint/internal/profile"
)

// exhaustion is the scenario of DESIGN section 4 under one of the named profiles.
func exhaustion(t testing.TB, name string, scale float64) Config {
	t.Helper()
	p, err := profile.Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	return Config{
		Streams: []Stream{
			{Name: "fast", Rate: 20, Timeout: 30 * time.Second},
			{Name: "upstream", Rate: 20, Timeout: 60 * time.Second, CallsUpstream: true},
		},
		Duration:     60 * time.Second,
		GracefulStop: WaitForAll,
		Profile:      p,
		PoolMin:      10,
		PoolMax:      200,
		Delay:        Constant(30 * time.Second),
		Scale:        scale,
		DumpAt: []DumpPoint{
			{"before", -time.Second},
			{"load_15s", 15 * time.Second},
			{"load_40s", 40 * time.Second},
			{"after_5s", 65 * time.Second},
		},
		RecoveryWait: 45 * time.Second,
		Seed:         1,
	}
}

func predict(t testing.TB, cfg Config) Prediction {
	t.Helper()
	p, err := Predict(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// want bounds a figure: its whole range must lie within [low, high].
type want struct{ low, high float64 }

func exactly(v float64) want         { return want{v, v} }
func about(v, give float64) want     { return want{v - give, v + give} }
func among(low, high float64) want   { return want{low, high} }
func ms(scenario time.Duration) want { return about(float64(scenario.Milliseconds()), 100) }

// flat names every figure of a prediction as its row is named.
func flat(p Prediction) map[string]Figure {
	figures := map[string]Figure{
		"pool.max_busy": p.Pool.MaxBusy, "pool.max_queued": p.Pool.MaxQueued,
		"pool.max_workers": p.Pool.MaxWorkers, "pool.max_permits": p.Pool.MaxPermits,
		"recovery.seconds": p.RecoverySeconds,
	}
	for name, e := range p.Endpoints {
		maps.Copy(figures, map[string]Figure{
			name + ".scheduled": e.Scheduled, name + ".dropped": e.Dropped, name + ".started": e.Started,
			name + ".ok": e.OK, name + ".http_error": e.HTTPError, name + ".timeout": e.Timeout,
			name + ".interrupted": e.Interrupted, name + ".failed_ratio": e.FailedRatio,
			name + ".completed_failed_ratio": e.CompletedFailedRatio,
			name + ".p50_ms":                 e.P50MS, name + ".p95_ms": e.P95MS,
		})
		for status, f := range e.Status {
			figures[name+".status_"+status] = f
		}
		for cause, f := range e.Causes {
			figures[name+"."+cause] = f
		}
	}
	for _, d := range p.Dumps {
		for where, f := range d.Where {
			figures["dump."+d.Point+"."+where] = f
		}
	}
	return figures
}

// expect checks figures by the names of their rows. Times in _ms are wanted as at
// scale 1; real overheads do not scale and may add or take 10 ms.
func expect(t *testing.T, p Prediction, wants map[string]want) {
	t.Helper()
	figures := flat(p)
	for _, name := range slices.Sorted(maps.Keys(wants)) {
		w, f := wants[name], figures[name]
		if strings.HasSuffix(name, "_ms") {
			w = want{w.low*p.Scale - 10, w.high*p.Scale + 10}
		}
		if f.Low < w.low || f.High > w.high || f.Nominal < f.Low || f.Nominal > f.High {
			t.Errorf("%s = %v, want within %v", name, f, w)
		}
	}
}

// The figures are those of DESIGN section 4 and issue 2, worked out by hand there.
func TestExhaustion(t *testing.T) {
	harmless := map[string]want{ // what a protected /fast looks like
		"fast.failed_ratio": exactly(0), "fast.status_200": exactly(1200), "fast.p50_ms": among(0, 5),
		"pool.max_queued": exactly(0),
	}
	tests := []struct {
		profile string
		want    map[string]want
		inherit map[string]want
	}{
		{profile: "anti", want: map[string]want{
			"fast.failed_ratio": about(800./1200, 0.001), "fast.timeout": about(800, 1), "fast.p50_ms": ms(30 * time.Second),
			"fast.status_200":       about(400, 1),
			"upstream.failed_ratio": exactly(800. / 1200), "upstream.timeout": exactly(800), "upstream.p50_ms": ms(60 * time.Second),
			"upstream.status_200":         exactly(400),
			"dump.load_15s.upstream_read": exactly(200), "dump.load_15s.queued": among(200, 215),
			"dump.load_40s.upstream_read": among(195, 200), "dump.load_40s.queued": among(799, 825),
			"dump.after_5s.upstream_read": among(195, 200), "dump.after_5s.queued": among(1380, 1412),
			"pool.max_busy": exactly(200), "pool.max_queued": among(1590, 1610), "pool.max_workers": exactly(200),
			"recovery.seconds": about(130, 1.5),
		}},
		{profile: "timeout", inherit: harmless, want: map[string]want{
			"upstream.status_504": exactly(1200), "upstream.upstream_timeout": exactly(1200), "upstream.p50_ms": ms(2 * time.Second),
			"dump.load_15s.upstream_read": about(41, 1), "dump.load_40s.upstream_read": about(41, 1),
			"dump.after_5s.upstream_read": exactly(0),
			"pool.max_busy":               among(41, 65), "recovery.seconds": about(2, 0.5),
		}},
		{profile: "bulkhead", inherit: harmless, want: map[string]want{
			"upstream.status_200": about(41, 1), "upstream.status_503": about(1159, 1), "upstream.bulkhead_full": about(1159, 1),
			"dump.load_15s.upstream_read": exactly(20), "dump.load_40s.upstream_read": exactly(20),
			"pool.max_permits": exactly(20), "recovery.seconds": among(0.9, 31),
		}},
		{profile: "fixed", inherit: harmless, want: map[string]want{
			"upstream.failed_ratio": exactly(1),
			"upstream.status_503":   about(600, 15), "upstream.status_504": about(600, 15),
			"upstream.bulkhead_full": about(600, 15), "upstream.upstream_timeout": about(600, 15),
			"upstream.p50_ms":             among(90, 2100), // half of the answers take 0.1 s and half 2 s
			"dump.load_15s.upstream_read": exactly(20), "dump.load_40s.upstream_read": exactly(20),
			"dump.load_15s.permit_wait": among(0, 4),
			"dump.after_5s.queued":      exactly(0), "dump.after_5s.upstream_read": exactly(0),
			"pool.max_permits": exactly(20), "pool.max_busy": among(23, 65), "recovery.seconds": among(0.9, 2.5),
		}},
		{profile: "breaker", inherit: harmless, want: map[string]want{
			"upstream.status_504": about(31, 2), "upstream.upstream_timeout": about(31, 2),
			"upstream.bulkhead_full": about(19, 2), "upstream.breaker_open": about(1150, 2), "upstream.status_503": about(1169, 2),
			"upstream.p50_ms": among(0, 5), "recovery.seconds": among(0, 1),
		}},
		{profile: "shed", want: map[string]want{
			// A request that has waited a whole second meets the worker that would take
			// it: which of two that arrived together is served is a tie.
			"fast.failed_ratio": among(0.64, 0.84), "fast.overloaded": among(770, 1005), "fast.timeout": exactly(0),
			"fast.p50_ms":           ms(time.Second),
			"upstream.failed_ratio": among(0.64, 0.84),
			"dump.load_15s.queued":  among(38, 50),
			"dump.load_40s.queued":  among(30, 50),
			"pool.max_queued":       among(40, 50),
			"recovery.seconds":      about(31, 0.5),
			"upstream.interrupted":  exactly(0),
		}},
		{profile: "cancel", want: map[string]want{
			"fast.failed_ratio":     about(800./1200, 0.001),
			"upstream.failed_ratio": about(800./1200, 0.001),
			"pool.max_busy":         exactly(200), "recovery.seconds": about(70, 1),
		}},
		{profile: "unbounded", inherit: harmless, want: map[string]want{
			"upstream.status_200": exactly(1200), "upstream.p50_ms": ms(30 * time.Second),
			"dump.load_15s.upstream_read": about(300, 8), "dump.load_40s.upstream_read": about(600, 8),
			"dump.after_5s.upstream_read": about(500, 8),
			"pool.max_busy":               among(600, 625), "recovery.seconds": about(30, 0.5),
		}},
	}
	for _, tt := range tests {
		for _, scale := range []float64{1, 0.05} {
			t.Run(fmt.Sprintf("%s/%v", tt.profile, scale), func(t *testing.T) {
				t.Parallel()
				p := predict(t, exhaustion(t, tt.profile, scale))
				idle := among(10, 20)
				if tt.profile == "unbounded" {
					idle = exactly(0)
				}
				expect(t, p, tt.inherit)
				expect(t, p, tt.want)
				expect(t, p, map[string]want{
					"fast.scheduled": exactly(1200), "upstream.scheduled": exactly(1200),
					"fast.dropped": exactly(0), "upstream.dropped": exactly(0),
					"fast.interrupted": exactly(0), "upstream.interrupted": exactly(0),
					"dump.before.upstream_read": exactly(0), "dump.before.queued": exactly(0),
					"dump.before.idle": idle,
				})
			})
		}
	}
}

// k6's own row: what is in flight 30 s after the window is lost from its counts.
// TestWhenThePoolIsFull: 200 workers at 20 calls a second that nobody gives back
// are all busy after 10 s; where permits bound the calls they never are.
func TestWhenThePoolIsFull(t *testing.T) {
	if p := predict(t, exhaustion(t, "anti", 1)); !p.Exhausted || p.FullSeconds.Low < 9.5 || p.FullSeconds.High > 10.1 {
		t.Errorf("anti: exhausted %v, after %+v s", p.Exhausted, p.FullSeconds)
	}
	if p := predict(t, exhaustion(t, "fixed", 1)); p.Exhausted || p.FullSeconds != (Figure{60, 60, 60}) {
		t.Errorf("fixed: exhausted %v, after %+v s; want the end of the load", p.Exhausted, p.FullSeconds)
	}
	if p := predict(t, exhaustion(t, "unbounded", 1)); p.Exhausted {
		t.Error("no pool is exhausted")
	}
}

func TestGracefulStop(t *testing.T) {
	for _, scale := range []float64{1, 0.05} {
		cfg := exhaustion(t, "anti", scale)
		cfg.GracefulStop = 30 * time.Second
		expect(t, predict(t, cfg), map[string]want{
			"upstream.interrupted":            about(600, 2),
			"upstream.completed_failed_ratio": about(1./3, 0.002),
			"upstream.p50_ms":                 ms(50 * time.Second),
			"fast.interrupted":                among(0, 1), // the last gives up just before
			// The victim does not notice: it works the dead requests off all the same.
			"recovery.seconds": about(130, 1.5),
		})
	}
}

// When the generator stops, at t = 85 s, it closes its connections, and a victim
// that looks then skips all that is queued: it is idle when the calls that began
// at t = 60 to 70 s end.
func TestGracefulStopIsSeenByAVictimThatLooks(t *testing.T) {
	cfg := exhaustion(t, "cancel", 1)
	cfg.GracefulStop = 25 * time.Second
	expect(t, predict(t, cfg), map[string]want{"recovery.seconds": about(40, 0.5)})
}

// With 100 workers of the generator the first 100 calls hold them all until
// they are answered after 30 s; the next 100 until the window ends.
func TestDropsAreExact(t *testing.T) {
	for _, scale := range []float64{1, 0.05} {
		cfg := exhaustion(t, "anti", scale)
		for i := range cfg.Streams {
			cfg.Streams[i].Workers = 100
		}
		expect(t, predict(t, cfg), map[string]want{
			"upstream.dropped": exactly(1000), "upstream.started": exactly(200), "upstream.status_200": exactly(200),
			"upstream.failed_ratio": exactly(1000. / 1200),
			"fast.dropped":          exactly(0), "fast.failed_ratio": exactly(0),
			"pool.max_busy":               among(101, 125),
			"dump.load_15s.upstream_read": exactly(100), "dump.load_40s.upstream_read": exactly(100),
		})
	}
}

func TestFaults(t *testing.T) {
	tests := []struct {
		name  string
		fault adminapi.Fault
		rate  float64
		set   func(*Config)
		want  map[string]want
		never bool
	}{
		{name: "an error comes after the delay", fault: adminapi.FaultError, rate: 1, want: map[string]want{
			"upstream.upstream_status": exactly(1200), "upstream.status_502": exactly(1200), "upstream.p50_ms": ms(time.Second)}},
		{name: "a reset too", fault: adminapi.FaultReset, rate: 1, want: map[string]want{
			"upstream.upstream_reset": exactly(1200), "upstream.p50_ms": ms(time.Second)}},
		{name: "a refused connection fails at once, whatever the rate", fault: adminapi.FaultRefuse, want: map[string]want{
			"upstream.upstream_connect": exactly(1200), "upstream.p50_ms": among(0, 5)}},
		{name: "half of them fail, give or take five standard deviations", fault: adminapi.FaultClose, rate: 0.5, want: map[string]want{
			"upstream.upstream_reset": about(600, 5*math.Sqrt(1200*0.25)), "upstream.status_200": about(600, 5*math.Sqrt(1200*0.25))}},
		{name: "a hang is cut by the timeout", fault: adminapi.FaultHang, rate: 1,
			set:  func(c *Config) { c.Profile.Timeout = 2 * time.Second },
			want: map[string]want{"upstream.upstream_timeout": exactly(1200), "upstream.p50_ms": ms(2 * time.Second)}},
		{name: "a hang without one holds the workers for ever", fault: adminapi.FaultHang, rate: 1, never: true,
			want: map[string]want{"upstream.timeout": exactly(1200), "upstream.p50_ms": ms(60 * time.Second),
				"pool.max_busy": exactly(200), "recovery.seconds": exactly(45), "dump.after_5s.upstream_read": exactly(200)}},
		{name: "a TLS handshake that never ends likewise", fault: adminapi.FaultTLSHang, never: true,
			want: map[string]want{"upstream.timeout": exactly(1200)}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			cfg := exhaustion(t, "anti", 1)
			cfg.Delay = Constant(time.Second)
			cfg.Fault, cfg.FaultRate = tt.fault, tt.rate
			if tt.set != nil {
				tt.set(&cfg)
			}
			p := predict(t, cfg)
			expect(t, p, tt.want)
			if p.NeverRecovers != tt.never {
				t.Errorf("never recovers: %v, want %v", p.NeverRecovers, tt.never)
			}
		})
	}
}

func TestSameConfigSamePrediction(t *testing.T) {
	cfg := exhaustion(t, "breaker", 0.05)
	cfg.Streams[0].Poisson = true
	cfg.Fault, cfg.FaultRate = adminapi.FaultError, 0.3
	first := predict(t, cfg)
	if diff := cmp.Diff(first, predict(t, cfg)); diff != "" {
		t.Errorf("two predictions of one configuration differ:\n%s", diff)
	}
	cfg.Seed++
	if cmp.Equal(first, predict(t, cfg)) {
		t.Error("another seed draws the same arrivals")
	}
}

// A tie must be predicted as a range, not as whatever the nominal case happens
// to be.
func TestTiesAreRanges(t *testing.T) {
	p := predict(t, exhaustion(t, "fixed", 1))
	if f := p.Endpoints["upstream"].P50MS; f.High-f.Low < 1500 {
		t.Errorf("upstream p50 = %v: the median lies between answers of 100 and 2,000 ms, and either is right", f)
	}
	cfg := exhaustion(t, "anti", 1)
	cfg.GracefulStop = 30 * time.Second
	if f := predict(t, cfg).Endpoints["upstream"].Interrupted; f.Low == f.High {
		t.Errorf("interrupted = %v: a request times out at the moment the generator stops, so it is 599 to 601", f)
	}
}

func TestBadConfig(t *testing.T) {
	tests := []struct {
		set  func(*Config)
		want string
	}{
		{func(c *Config) { c.Streams = nil }, "no streams"},
		{func(c *Config) { c.Duration = 0 }, "duration 0s"},
		{func(c *Config) { c.Scale = -1 }, "scale -1"},
		{func(c *Config) { c.Scale = math.NaN() }, "scale NaN"},
		{func(c *Config) { c.PoolMax = 5 }, "pool of 10 to 5 workers"},
		{func(c *Config) { c.Delay = nil }, "no upstream delay"},
		{func(c *Config) { c.FaultRate = math.NaN() }, "fault rate NaN"},
		{func(c *Config) { c.Fault = "gremlins" }, `unknown fault "gremlins"`},
		{func(c *Config) { c.RecoveryWait = -1 }, "recovery wait -1ns"},
		{func(c *Config) { c.Overheads.Wake = -1 }, "overheads"},
		{func(c *Config) { c.Profile.Permits = -1 }, "permits -1"},
		{func(c *Config) { c.Streams[1].Name = "fast" }, `stream name "fast"`},
		{func(c *Config) { c.Streams[1].Rate = 0 }, "stream upstream: rate 0/s"},
		{func(c *Config) { c.Streams[1].Timeout = 0 }, "stream upstream: client timeout 0s"},
		{func(c *Config) { c.Streams[1].Workers = -3 }, "stream upstream: -3 workers"},
		{func(c *Config) { c.DumpAt[1].At = time.Minute }, "dump point load_40s at 40s"},
		{func(c *Config) { c.Streams[0].Rate = 1e9 }, "more than the model holds"},
	}
	for _, tt := range tests {
		t.Run(tt.want, func(t *testing.T) {
			cfg := exhaustion(t, "anti", 1)
			tt.set(&cfg)
			_, err := Predict(cfg)
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("error %q, want one line with %q", err, tt.want)
			}
		})
	}
}

func TestDefaultsLeaveTheCallersConfigAlone(t *testing.T) {
	cfg := exhaustion(t, "fixed", 0.05)
	predict(t, cfg)
	if diff := cmp.Diff(exhaustion(t, "fixed", 0.05).Streams, cfg.Streams); diff != "" {
		t.Errorf("Predict changed its argument:\n%s", diff)
	}
	// ceil(20 x (30 + 0.25/0.05)) + 8 and ceil(20 x (60 + 5)) + 8, by DESIGN section 4.
	with := cfg.withDefaults()
	if got := []int{with.Streams[0].Workers, with.Streams[1].Workers}; !cmp.Equal(got, []int{708, 1308}) {
		t.Errorf("default workers %v, want [708 1308]", got)
	}
}

func BenchmarkPredict(b *testing.B) {
	for _, name := range []string{"anti", "fixed"} {
		b.Run(name, func(b *testing.B) {
			cfg := exhaustion(b, name, 0.05)
			for b.Loop() {
				predict(b, cfg)
			}
		})
	}
}
