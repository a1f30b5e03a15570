package draining

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"chokepoint/internal/result"
)

func TestReadResponse(t *testing.T) {
	for _, tt := range []struct {
		text    string
		slowest time.Duration
		beyond  float64
		bounded bool
	}{
		{"1500ms", 1500 * time.Millisecond, 0, false},
		{"uniform:1s..2s", 2 * time.Second, 0, false},
		{"p50=80ms,p99=4s,max=30s", 30 * time.Second, 0, true},
		{"lognormal:p50=80ms,p99=4s,max=30s", 30 * time.Second, 0, true},
	} {
		r, err := ReadResponse(tt.text, 0.0001)
		if err != nil || r.Slowest != tt.slowest || r.Beyond != tt.beyond || r.Bounded != tt.bounded || r.Text != tt.text {
			t.Errorf("%s: %v, slowest %v, beyond %v, bounded %v", tt.text, err, r.Slowest, r.Beyond, r.Bounded)
		}
	}
	r, err := ReadResponse("p50=80ms,p99=4s", 0.01)
	if err != nil || (r.Slowest-4*time.Second).Abs() > time.Millisecond || r.Beyond != 0.01 {
		t.Errorf("cut at 1 %%: %v, slowest %v, beyond %v, want the p99", err, r.Slowest, r.Beyond)
	}
	if p50, p99 := r.Quantile(0.5), r.Quantile(0.99); (p50-80*time.Millisecond).Abs() > time.Millisecond || math.Abs(p99.Seconds()-4) > 0.1 {
		t.Errorf("p50 %v, p99 %v", p50, p99)
	}
}

func TestReadResponseRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"soon":                     `delay "soon"`,
		"p50=80ms":                 "needs both quantiles",
		"p50=80ms,p99=4s,max=soon": "max=soon: want a duration",
		"p50=80ms,p99=4s,max=0s":   "max=0s: want a duration",
		"p50=80ms,p99=4s,max=25h":  "max=25h: want a duration",
		"p50=80ms,p99=4s,max=70ms": "max=70ms is below the median",
	} {
		if _, err := ReadResponse(text, 0.0001); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	for _, cut := range []float64{0, 1, -1, math.NaN()} {
		if _, err := ReadResponse("1s", cut); err == nil || !strings.Contains(err.Error(), "max-cut") {
			t.Errorf("cut %v: %v", cut, err)
		}
	}
}

// TestReadMeasured reads a committed run: the slowest of all counts, not a quantile.
func TestReadMeasured(t *testing.T) {
	runs, err := filepath.Glob("../../../results/reference/*-exhaustion-fixed-1")
	if err != nil || len(runs) != 1 {
		t.Fatalf("%v, %v: want one run", runs, err)
	}
	text, err := os.ReadFile(filepath.Join(runs[0], result.SummaryFile))
	if err != nil {
		t.Fatal(err)
	}
	var summary result.Summary
	if err := json.Unmarshal(text, &summary); err != nil {
		t.Fatal(err)
	}
	fast := summary.Endpoints["fast"].Service
	r, err := ReadMeasured(runs[0], "fast")
	if err != nil || r.Samples != fast.Count || r.Bounded || math.Abs(r.Slowest.Seconds()*1000-fast.Max) > 0.01*fast.Max || r.Quantile(0.99) >= r.Slowest {
		t.Errorf("%v, %d samples, p99 %v, slowest %v; want %d and %v ms", err, r.Samples, r.Quantile(0.99), r.Slowest, fast.Count, fast.Max)
	}
	for from, want := range map[string]string{"1s": "not a .hlog of loadgen", "nowhere.hlog": "write one with loadgen -hlog"} {
		if _, err := ReadMeasured(from, ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", from, err, want)
		}
	}
}
