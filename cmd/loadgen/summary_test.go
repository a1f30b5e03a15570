package main

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chokepoint/internal/load/engine"
	"chokepoint/internal/load/latency"
	"chokepoint/internal/result"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// percentiles are those of n values, evenly from low to high.
func percentiles(n int, low, high time.Duration) result.Percentiles {
	h := latency.New()
	for i := range n {
		h.Record(low + (high-low)*time.Duration(i)/time.Duration(max(1, n-1)))
	}
	return h.Percentiles()
}

// answered is an endpoint with so many good answers and timeouts.
func answered(ok, timeouts int) result.Endpoint {
	e := result.Endpoint{
		Planned: ok + timeouts, Scheduled: ok + timeouts, Started: ok + timeouts, OK: ok, Timeout: timeouts,
		TargetRate: float64(ok+timeouts) / 30, AchievedRate: float64(ok+timeouts) / 30, Workers: 10,
		OKResponse: percentiles(ok, time.Millisecond, 250*time.Millisecond), FailedResponse: percentiles(timeouts, 30*time.Second, 30*time.Second),
		Lag: percentiles(ok+timeouts, 20*time.Microsecond, 400*time.Microsecond),
	}
	switch {
	case timeouts == 0:
		e.Response = e.OKResponse
	case ok == 0:
		e.Response = e.FailedResponse
	default:
		e.Response = percentiles(ok+timeouts, time.Millisecond, 30*time.Second)
	}
	e.Service = e.Response
	if ok > 0 {
		e.Status = map[string]int{"200": ok - 1, "304": 1}
	}
	if timeouts > 0 {
		e.Causes = map[string]int{"response": timeouts}
		e.FailedRatio = float64(timeouts) / float64(ok+timeouts)
	}
	return e
}

func TestSummary(t *testing.T) {
	plan := engine.Config{Duration: 30 * time.Second, Endpoints: []engine.Endpoint{{Name: "fast"}, {Name: "upstream"}}}
	load := func(fast, upstream result.Endpoint) result.Load {
		return result.Load{
			WindowS: 30, OfferedS: 30, ElapsedS: 60.04, Arrivals: "constant", Model: result.ModelOpen, Generator: result.Child{CPUSeconds: 1.234},
			Validity:  result.Validity{Valid: true, Reasons: []string{}},
			Endpoints: map[string]result.Endpoint{"fast": fast, "upstream": upstream},
		}
	}
	for _, test := range []struct {
		name string
		load func() result.Load
	}{
		{"good", func() result.Load {
			l := load(answered(1200, 0), answered(600, 0))
			l.Arrivals = "ramp:10/s..70/s"
			fast := l.Endpoints["fast"]
			fast.Method, fast.URL, fast.Headers = "GET", "http://***@127.0.0.1:8080/fast", []string{"Accept", "Authorization"}
			fast.ReceivedBytes, fast.ReceivedRate = 1_234_567, 20_562.4
			l.Endpoints["fast"] = fast
			upstream := l.Endpoints["upstream"]
			upstream.Method, upstream.ReceivedBytes = "POST", 999 // merged of two URLs
			l.Endpoints["upstream"] = upstream
			return l
		}},
		{"closed", func() result.Load {
			fast := answered(600, 0)
			fast.Planned, fast.Lag = 0, result.Percentiles{}
			l := load(fast, fast)
			l.Model, l.Arrivals = result.ModelClosed, ""
			return l
		}},
		{"failures", func() result.Load {
			l := load(answered(400, 800), answered(0, 600))
			got := 30000.
			l.Thresholds = []result.Threshold{
				{Text: "fast{ok}:p(95)<1s", Unit: "ms", Got: &got}, {Text: "upstream{ok}:p(95)<1s", Unit: "ms"},
			}
			return l
		}},
		{"invalid", func() result.Load {
			fast := answered(1100, 0)
			fast.Planned, fast.Scheduled, fast.Dropped, fast.FailedRatio = 1200, 1200, 100, 1./12
			l := load(fast, answered(600, 0))
			l.Saturation = &result.Saturation{Seconds: 30, PacerPercentMax: 99.4}
			l.Validity = result.Validity{
				Reasons:  []string{"fast: 100 of 1200 arrivals were dropped, since all 10 workers were busy from 12.0 to 14.5 s; give it more workers"},
				Warnings: []string{"upstream: lag p99 is 1.20 ms (from 1ms on it shows in latencies; limit 5ms)"},
			}
			return l
		}},
		{"nothing", func() result.Load {
			// Stopped before anything was answered.
			fast := result.Endpoint{Planned: 1200, Scheduled: 3, Started: 3, Interrupted: 3, FailedRatio: 1, AchievedRate: 40, Lag: percentiles(3, time.Millisecond, time.Millisecond)}
			l := load(fast, result.Endpoint{Planned: 600})
			l.OfferedS = 0.075
			l.Validity = result.Validity{Reasons: []string{"stopped early: 3 of 1800 arrivals had fallen due"}}
			l.Saturation = &result.Saturation{}
			return l
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var text bytes.Buffer
			l := test.load()
			plan := plan
			if l.Model == result.ModelClosed {
				plan.Closed = 10
			}
			printSummary(&text, runHeading(plan, l), endpointNames(plan), l)
			golden := filepath.Join("testdata", "summary", test.name+".txt")
			if *update {
				if err := os.WriteFile(golden, text.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), text.String()); diff != "" {
				t.Errorf("go test -update rewrites it (-want +got)\n%s", diff)
			}
			for _, bad := range []string{"NaN", "Inf"} {
				if strings.Contains(text.String(), bad) {
					t.Errorf("%s in the summary", bad)
				}
			}
		})
	}
}

func TestByteSizes(t *testing.T) {
	for n, want := range map[float64]string{
		0: "0 B", 999: "999 B", 999.6: "1.0 kB", 1000: "1.0 kB", 999_949: "999.9 kB", 999_950: "1.0 MB", 12_345_678: "12.3 MB", 5e12: "5.0 TB", 5e18: "5000.0 PB",
	} {
		if got := byteSize(n); got != want {
			t.Errorf("%v is %q, want %q", n, got, want)
		}
	}
}

func TestTextsOfAServerCannotForgeLines(t *testing.T) {
	for text, want := range map[string]string{
		"bulkhead_full":      "busy: bulkhead_full x 2",
		"zu viele, später":   "busy: zu viele, später x 2",
		"a\nvalid":           `busy: "a\nvalid" x 2`,
		"\x1b[2J\x1b[Hvalid": `busy: "\x1b[2J\x1b[Hvalid" x 2`,
	} {
		if diff := cmp.Diff([]string{want}, appendCounts(nil, "busy", map[string]int{text: 2})); diff != "" {
			t.Errorf("%q (-want +got)\n%s", text, diff)
		}
	}
}
