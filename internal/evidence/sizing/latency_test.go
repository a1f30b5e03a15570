package sizing

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"chokepoint/internal/load/latency"
	"chokepoint/internal/result"
)

const ms = time.Millisecond

func read(t *testing.T, text, endpoint string) Latency {
	t.Helper()
	l, err := ReadLatency(text, endpoint)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// writeLog writes an interval log in which each endpoint took 1 ms to n ms, once
// each, n by endpoint.
func writeLog(t *testing.T, dir, kind string, endpoints map[string]int) string {
	t.Helper()
	tags := map[string]int{}
	for name, n := range endpoints {
		tags[name+"/"+kind] = n
	}
	return writeSeries(t, dir, tags)
}

// writeSeries is writeLog for several kinds.
func writeSeries(t *testing.T, dir string, tags map[string]int) string {
	t.Helper()
	path := filepath.Join(dir, result.HistogramFile)
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w, err := latency.NewLogWriter(f, time.Unix(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	for tag, n := range tags {
		h := latency.New()
		for i := range n {
			h.Record(time.Duration(i+1) * ms)
		}
		if err := w.Write(tag, 0, time.Second, h); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

func TestReadLatency(t *testing.T) {
	logNormal := read(t, "p50=80ms,p99=400ms", "")
	if got := logNormal.String(); got != "lognormal:p50=80ms,p99=400ms" || logNormal.Samples != 0 {
		t.Errorf("short spelling: %s, %d samples", got, logNormal.Samples)
	}
	if got := read(t, "uniform:10ms..50ms", "").Quantile(0.5); got != 30*ms {
		t.Errorf("a distribution of package delay: median %v", got)
	}
	dir := t.TempDir()
	path := writeLog(t, dir, latency.Service, map[string]int{"fast": 10, "upstream": 2000})
	for _, source := range []string{path, dir} {
		l := read(t, source, "")
		if l.Samples != 2000 || (l.Quantile(0.5)-1000*ms).Abs() > 2*ms {
			t.Errorf("%s: %d samples, median %v; want upstream's 2000 and 1s", source, l.Samples, l.Quantile(0.5))
		}
		if l := read(t, source, "fast"); l.Samples != 10 {
			t.Errorf("%s: endpoint fast has %d samples", source, l.Samples)
		}
	}
	if l := read(t, writeSeries(t, t.TempDir(), map[string]int{"a/" + latency.Service: 1000, "a/" + latency.FailedResponse: 10}), ""); l.Samples != 1000 {
		t.Errorf("one failure in 100: %d samples", l.Samples)
	}
	if l := read(t, writeLog(t, t.TempDir(), latency.Service, map[string]int{"only": 5}), ""); l.Samples != 5 {
		t.Errorf("the only endpoint: %d samples", l.Samples)
	}
}

func TestReadLatencyRefuses(t *testing.T) {
	dir := t.TempDir()
	path := writeLog(t, dir, latency.Service, map[string]int{"a": 1, "b": 1})
	broken := filepath.Join(t.TempDir(), "broken.hlog")
	if err := os.WriteFile(broken, []byte("no log\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ name, text, endpoint, want string }{
		{"neither file nor distribution", "soon", "", "write it with a unit"},
		{"no such log", filepath.Join(dir, "missing.hlog"), "", "write one with loadgen -hlog"},
		{"no such folder", filepath.Join(dir, "missing"), "", "write one with loadgen -hlog"},
		{"a folder without a log", t.TempDir(), "", "write one with loadgen -hlog"},
		{"a device", dir + "/../../../../dev/null.hlog", "", "no such file"},
		{"no log at all", broken, "", broken + ": histogram log, line 1"},
		{"two endpoints, none named upstream", path, "", `no endpoint "upstream"; -endpoint takes one of a, b`},
		{"another endpoint", path, "c", `no endpoint "c"`},
		{"an outage", writeSeries(t, t.TempDir(), map[string]int{"a/" + latency.Service: 1000, "a/" + latency.FailedResponse: 11}), "", "11 of the 1000 requests to a failed, more than 1 %; measure the upstream while it is healthy"},
		{"no service times", writeLog(t, t.TempDir(), latency.Lag, map[string]int{"a": 1}), "", "no service times"},
	} {
		_, err := ReadLatency(test.text, test.endpoint)
		if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v; want one line with %q", test.name, err, test.want)
		}
	}
}

// TestMomentsOfTheLogNormal: the mean of exp(mu + sigma Z) is exp(mu + sigma^2/2).
func TestMomentsOfTheLogNormal(t *testing.T) {
	l := read(t, "p50=80ms,p99=400ms", "")
	sigma := math.Log(5) / 2.3263478740408408
	want := 80 * math.Exp(sigma*sigma/2)
	if got := milliseconds(l.meanWithin(longest)); math.Abs(got-want) > 0.005*want {
		t.Errorf("mean %.3f ms, want %.3f", got, want)
	}
	if got := l.beyond(400 * ms); math.Abs(got-0.01) > 1e-6 {
		t.Errorf("%v beyond the p99", got)
	}
	if got := l.meanWithin(time.Nanosecond); got != 1 {
		t.Errorf("mean %v of what is given up at once", got)
	}
}

func TestBeyondOfSteps(t *testing.T) {
	constant := read(t, "30s", "")
	if got := constant.beyond(30 * time.Second); got != 0 {
		t.Errorf("%v of a constant lie beyond it", got)
	}
	if got := constant.beyond(30*time.Second - 1); got < 0.999 {
		t.Errorf("%v of a constant lie beyond less than it", got)
	}
}

func TestOnlyWhatWasMeasuredIsKnown(t *testing.T) {
	l := Latency{Samples: 100}
	if !l.knows(0.99) || l.knows(0.995) {
		t.Error("100 samples know the slowest hundredth, and no rarer")
	}
	if l.Samples = 0; !l.knows(0.9999) {
		t.Error("a formula knows every quantile")
	}
}
