package scenario

import (
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chokepoint/internal/lab/scrape"
	"chokepoint/internal/result"
)

// attachSettings are those of a run whose flags are args.
func attachSettings(t *testing.T, args ...string) AttachSettings {
	t.Helper()
	var s AttachSettings
	fs := flag.NewFlagSet("test", flag.ContinueOnError)
	s.Bind(fs)
	err := fs.Parse(append([]string{"-plan=shop.yaml", "-dump-url=http://127.0.0.1:6060/debug/pprof/goroutine?debug=2"}, args...))
	if err == nil {
		err = s.Validate()
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// readingsOf are one a second from the start of the load on; of a negative value
// there is none.
func readingsOf(metric string, from time.Time, values ...float64) []reading {
	var all []reading
	for i, v := range values {
		r := reading{at: from.Add(time.Duration(i) * time.Second), values: map[string]float64{}, cpuCount: 4}
		if v >= 0 {
			r.values[metric] = v
		}
		all = append(all, r)
	}
	return all
}

// TestCPUOfAttachedServices: 100 % is one core, in whatever way the service tells.
func TestCPUOfAttachedServices(t *testing.T) {
	for _, test := range []struct {
		name, metric string
		values       []float64
		mean, most   float64
	}{
		{"seconds used", "process_cpu_seconds_total", []float64{10, 10.5, 12.5}, 125, 200},
		{"nanoseconds used", "process_cpu_time_ns_total", []float64{0, 5e8, 1e9}, 50, 50},
		{"a share of four CPUs", "process_cpu_usage", []float64{0.9, 0.25, 0.5}, 150, 200},
		{"a service that was restarted", "process_cpu_seconds_total", []float64{10, 1, 1.5}, 50, 50},
		{"a reading without it", "process_cpu_seconds_total", []float64{10, -1, 11, 11.5}, 50, 50},
		{"one reading", "process_cpu_seconds_total", []float64{10}, 0, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := attachSettings(t, "-metrics-url=http://127.0.0.1:1/", "-cpu-metric="+test.metric)
			e := &attachEvidence{settings: &s, loadOn: time.Unix(100, 0), plan: loadPlan{DurationS: 60}}
			e.readings.all = readingsOf(result.MetricCPU, e.loadOn, test.values...)
			if got := e.process(); got.CPUPercentMean != test.mean || got.CPUPercentMax != test.most {
				t.Errorf("%+v, want mean %v and at most %v", got, test.mean, test.most)
			}
		})
	}
}

// TestBusyAboveBaseline: a service whose workers are never idle recovers all the
// same, and one that does not tell is judged by its answers alone.
func TestBusyAboveBaseline(t *testing.T) {
	on := time.Unix(100, 0)
	for _, test := range []struct {
		name         string
		before, load []float64
		want         bool
	}{
		{"not known", nil, nil, false},
		{"not known before the load", []float64{-1}, []float64{9}, false},
		{"as before", []float64{1, 3}, []float64{200, 3}, false},
		{"above it", []float64{1, 3}, []float64{200, 4}, true},
		{"the last that was told", []float64{1}, []float64{4, -1}, true},
	} {
		m := &meter{loadOn: on}
		m.readings.all = append(readingsOf(result.MetricBusy, on.Add(-time.Minute), test.before...), readingsOf(result.MetricBusy, on, test.load...)...)
		if got := m.busyAboveBaseline(); got != test.want {
			t.Errorf("%s: %v", test.name, got)
		}
	}
}

// TestALimitThatIsNotKnown: Spring Boot 3.3.0 says -1.
func TestALimitThatIsNotKnown(t *testing.T) {
	s := attachSettings(t, "-metrics-url=http://127.0.0.1:1/", "-limit-metric=tomcat_threads_config_max_threads", "-busy-metric=b")
	e := &attachEvidence{settings: &s, loadOn: time.Unix(100, 0)}
	for _, v := range []float64{-1, 200} {
		e.readings.all = []reading{{at: e.loadOn, values: map[string]float64{result.MetricLimit: v, result.MetricBusy: 9}}}
		known := e.found()[result.MetricLimit] != ""
		if p := e.pool(); known != (v > 0) || p.WorkerLimit != max(0, int(v)) || p.MaxBusy != 9 {
			t.Errorf("%v: known %v, %+v", v, known, p)
		}
		if warned := len(e.missingMetrics()) == 1; warned == known {
			t.Errorf("%v: warnings %q", v, e.missingMetrics())
		}
	}
}

// TestTargets: only what is on this machine, or was named by host or by host and
// port, is loaded.
func TestTargets(t *testing.T) {
	for _, test := range []struct {
		address string
		allow   []string
		want    bool
	}{
		{"127.0.0.1:80", nil, true},
		{"127.9.9.9:80", nil, true},
		{"[::1]:80", nil, true},
		{"[::ffff:127.0.0.1]:80", nil, true},
		{"localhost:80", nil, true},
		{"10.0.0.7:80", nil, false},
		{"[2001:db8::1]:80", nil, false},
		{"0.0.0.0:80", nil, false},
		{"10.0.0.7:80", []string{"10.0.0.7"}, true},
		{"10.0.0.7:80", []string{"10.0.0.8", "10.0.0.7:80"}, true},
		{"10.0.0.7:80", []string{"10.0.0.7:8080"}, false},
		{"[2001:db8::1]:80", []string{"2001:db8::1"}, true},
		{"shop.invalid:80", []string{"Shop.invalid"}, true}, // it is not resolved
	} {
		s := AttachSettings{AllowTargets: test.allow}
		if err := s.allowed(t.Context(), test.address); (err == nil) != test.want {
			t.Errorf("%s with %q: %v", test.address, test.allow, err)
		}
	}
}

func TestMomentsOfDumps(t *testing.T) {
	for load, want := range map[time.Duration]string{
		time.Minute: "15s,40s,+5s", 5 * time.Minute: "1m15s,3m20s,+5s", 10 * time.Second: "3s,7s,+5s", time.Second: "250ms,670ms,+5s",
	} {
		got := defaultDumpAt(load)
		if got != want {
			t.Errorf("of a load of %v: %s, want %s", load, got, want)
		}
		if _, err := dumpPoints(got, load); err != nil {
			t.Error(err)
		}
	}
}

// TestAttachVerdict: the stated conditions, and nothing else.
func TestAttachVerdict(t *testing.T) {
	number := func(v float64) *float64 { return &v }
	good := result.Endpoint{Scheduled: 100, OK: 100, Response: result.Percentiles{P95: 24, Count: 100}}
	someFailed, slow, interrupted := good, good, good
	someFailed.OK, slow.Response.P95, interrupted.OK, interrupted.Interrupted = 99, 26, 99, 1
	for _, test := range []struct {
		name       string
		args       []string
		endpoint   result.Endpoint
		thresholds []result.Threshold
		want       result.Outcome
	}{
		{"unharmed", nil, good, nil, result.Protected},
		{"one failed", nil, someFailed, nil, result.NotProtected},
		{"one may fail", []string{"-max-failed=1%"}, someFailed, nil, result.Protected},
		{"fewer may fail", []string{"-max-failed=0.009"}, someFailed, nil, result.NotProtected},
		{"one that the generator interrupted", nil, interrupted, nil, result.Protected},
		{"slower than 25 ms and twice its baseline", nil, slow, nil, result.NotProtected},
		{"slower, as stated", []string{"-max-p95=26ms"}, slow, nil, result.Protected},
		{"a threshold that holds", nil, good, []result.Threshold{{Text: "failed<1%", Unit: "ratio", Got: number(0.5), OK: true}}, result.Protected},
		{"a threshold that does not", nil, good, []result.Threshold{{Text: "max<1s", Unit: "ms"}}, result.NotProtected},
		{"no answer", nil, result.Endpoint{}, nil, result.NotProtected},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := attachSettings(t, test.args...)
			e := &attachEvidence{settings: &s, protect: planEndpoint{Name: "fast"}, baselines: []result.Baseline{{Response: result.Percentiles{P95: 3}}}}
			e.load = &result.Load{Thresholds: test.thresholds}
			sum := result.Summary{Validity: result.Validity{Valid: true}, Endpoints: map[string]result.Endpoint{"fast": test.endpoint}}
			if v := e.judge(sum); v.Outcome != test.want {
				t.Errorf("%+v", v)
			}
			sum.Validity.Valid = false
			if v := e.judge(sum); v.Outcome != result.Invalid {
				t.Errorf("of an invalid run: %+v", v)
			}
		})
	}
}

func TestEffectiveSettingsHaveNoSecrets(t *testing.T) {
	s := attachSettings(t, "-dump-url=http://me:secret@127.0.0.1:6060/dump?token=secret&debug=2", "-metrics-url=http://127.0.0.1:1/m?key=secret",
		"-busy-metric=x", "-admin-header=Authorization: Bearer secret", "-header=Cookie: secret", "-baseline-rate=60/m")
	got := s.Effective()
	want := map[string]string{
		"admin-header": "Authorization", "allow-target": "", "baseline-duration": "10s", "baseline-rate": "1/s", "bin-dir": "",
		"busy-metric": "x", "cpu-metric": "", "dump-at": "", "dump-timeout": "10s", "dump-url": "http://127.0.0.1:6060/dump?debug=2", "header": "Cookie",
		"limit-metric": "", "max-failed": "0", "max-p95": "", "memory-metric": "", "metrics-url": "http://127.0.0.1:1/m", "name": "shop",
		"plan": "shop.yaml", "protect": "", "queued-metric": "", "recovery-wait": "45s", "results": "results", "threshold": "",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	dir := t.TempDir()
	forget, err := s.writeHeaders(dir)
	if err != nil {
		t.Fatal(err)
	}
	if args := strings.Join(s.loadArgs(dir), " "); strings.Contains(args, "secret") {
		t.Errorf("arguments %s", args)
	}
	forget()
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if (scrape.Selector{}).String() != "" {
		t.Error("no selector is a text")
	}
}
