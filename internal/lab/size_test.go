package lab

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"chokepoint/internal/delay"
	"chokepoint/internal/evidence/sizing"
)

func sizeRuns(latency sizing.Latency) SizeRuns {
	advice := sizing.Advice{
		Permits: []sizing.Candidate{{TimeoutMS: 690, Permits: 28}},
	}
	advice.Recommended = &advice.Permits[0]
	return SizeRuns{
		Question: sizing.Question{Latency: latency, Rate: 200, OtherRate: 20, Workers: 200, PermitWait: 100 * time.Millisecond, Poisson: true, Seed: 7},
		Advice:   &advice, Duration: 30 * time.Second, Args: []string{"-scale=0.5", "-results=elsewhere"},
	}
}

// TestSizeRunsAreTheQuestion: what runs is what was asked, healthy and in an outage,
// and nobody gives up before the victim does.
func TestSizeRunsAreTheQuestion(t *testing.T) {
	latency, err := sizing.ReadLatency("p50=80ms,p99=400ms", "")
	if err != nil {
		t.Fatal(err)
	}
	runs := sizeRuns(latency)
	if _, err := runs.Settings(); err != nil {
		t.Fatal(err)
	}
	for load, want := range map[string]struct {
		fault    string
		duration time.Duration
	}{
		sizing.LoadHealthy: {"", 30 * time.Second},
		sizing.LoadOutage:  {"hang", 10 * time.Second},
	} {
		s, err := runs.settings(sizing.Pair{Timeout: 690 * time.Millisecond, Permits: 21}, load)
		if err != nil {
			t.Fatalf("%s: %v", load, err)
		}
		p, err := s.Profile.Profile()
		if err != nil || p.Timeout != 690*time.Millisecond || p.Permits != 21 || p.PermitWait != 100*time.Millisecond {
			t.Errorf("%s: protections %+v, %v", load, p, err)
		}
		if s.Fault != want.fault || s.Duration != want.duration {
			t.Errorf("%s: fault %q for %v, want %q for %v", load, s.Fault, s.Duration, want.fault, want.duration)
		}
		if s.UpstreamRate != 200 || s.FastRate != 20 || s.MaxWorkers != 200 || s.Arrivals != "poisson" || s.Delay != "lognormal:p50=80ms,p99=400ms" ||
			s.Scale != 0.5 || s.ResultsDir != "elsewhere" || s.Seed != 7 {
			t.Errorf("%s: settings %+v", load, s)
		}
		if s.UpstreamTimeout <= p.Timeout+p.PermitWait {
			t.Errorf("%s: clients give up after %v", load, s.UpstreamTimeout)
		}
	}
}

func TestSizeRunsRefuse(t *testing.T) {
	latency, err := sizing.ReadLatency("80ms", "")
	if err != nil {
		t.Fatal(err)
	}
	runs := sizeRuns(latency)
	if err := runs.Check(); err != nil {
		t.Error(err)
	}
	runs.Args = []string{"-scale=0.01"}
	if _, err := runs.Settings(); err == nil || !strings.Contains(err.Error(), "-scale 0.01: want 0.05 to 1") {
		t.Errorf("%v; want what is wrong with the scale", err)
	}
	runs.Advice = nil
	if err := runs.Check(); err == nil || !strings.Contains(err.Error(), "-scale 0.01: want 0.05 to 1") {
		t.Errorf("before the advice: %v; want what is wrong with the scale", err)
	}
}

// TestKeepLatency: a measured latency becomes a file that the stub draws the same
// from, once however often it is kept; one known by its formula needs none.
func TestKeepLatency(t *testing.T) {
	dir := t.TempDir()
	points := []time.Duration{time.Millisecond, 2 * time.Millisecond, 40 * time.Millisecond}
	for range 2 {
		measured := sizing.Latency{Delay: delay.Of("measured", points), Samples: 3, Points: points}
		if err := KeepLatency(&measured, dir); err != nil {
			t.Fatal(err)
		}
		path, ok := strings.CutPrefix(measured.String(), "file:")
		if !ok || !filepath.IsAbs(path) || measured.Quantile(1) != 40*time.Millisecond || measured.Quantile(0.5) != 2*time.Millisecond {
			t.Errorf("kept as %s with a median of %v", measured.String(), measured.Quantile(0.5))
		}
		runs := sizeRuns(measured)
		if _, err := runs.Settings(); err != nil {
			t.Error(err)
		}
	}
	formula := sizing.Latency{Delay: delay.Of("formula", points)}
	if err := KeepLatency(&formula, dir); err != nil || formula.String() != "formula" {
		t.Errorf("a formula was kept as %s, %v", formula.String(), err)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 1 {
		t.Errorf("%d files, %v; want 1", len(files), err)
	}
}
