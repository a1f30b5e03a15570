//go:build e2e

package e2e

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"chokepoint/internal/result"
)

// between is a closed range.
type between struct{ low, high float64 }

func exactly(v float64) between { return between{v, v} }

func (b between) has(v float64) bool { return v >= b.low && v <= b.high }

// TestProfiles runs every profile once and holds it to DESIGN section 4.
func TestProfiles(t *testing.T) {
	third := between{2.0/3 - 0.02, 2.0/3 + 0.02}
	all := between{195, 200}
	permits := between{18, 20}
	for _, tc := range []struct {
		profile      string
		outcome      result.Outcome
		fastFailed   between
		upFailed     between
		bothFailed   between    // of all requests together; zero is not asked
		read         [3]between // workers in the upstream read at +15 s, +40 s, end + 5 s
		maxBusy      between
		status       map[string]between // of upstream
		bodies       map[string]between
		recovered    bool
		inFlightInfo bool
	}{
		{profile: "anti", outcome: result.Reproduced, fastFailed: third, upFailed: third,
			read: [3]between{all, all, all}, maxBusy: exactly(200), status: map[string]between{"200": {392, 408}}},
		{profile: "timeout", outcome: result.Protected, fastFailed: exactly(0), upFailed: exactly(1),
			read: [3]between{{38, 46}, {38, 46}, exactly(0)}, maxBusy: between{40, 60},
			status: map[string]between{"504": exactly(1200)}, recovered: true},
		{profile: "bulkhead", outcome: result.Protected, fastFailed: exactly(0), upFailed: between{0.95, 0.98},
			read: [3]between{permits, permits, {0, 4}}, maxBusy: between{20, 40},
			status: map[string]between{"200": {38, 46}, "503": {1154, 1162}}, recovered: true},
		{profile: "fixed", outcome: result.Protected, fastFailed: exactly(0), upFailed: exactly(1),
			read: [3]between{permits, permits, exactly(0)}, maxBusy: between{20, 40},
			status: map[string]between{"503": {540, 660}, "504": {540, 660}}, recovered: true},
		{profile: "breaker", outcome: result.Protected, fastFailed: exactly(0), upFailed: exactly(1),
			read: [3]between{{0, 1}, {0, 1}, {0, 1}}, maxBusy: between{20, 40},
			status: map[string]between{"503": {1160, 1175}, "504": {25, 40}},
			bodies: map[string]between{"bulkhead_full": {10, 26}, "breaker_open": {1135, 1160}}, recovered: true},
		// Which of the two endpoints gets a worker that comes free, a tie decides.
		{profile: "shed", outcome: result.Reproduced, fastFailed: between{0.55, 0.78}, upFailed: between{0.55, 0.78}, bothFailed: between{0.55, 0.72},
			read: [3]between{all, all, {100, 140}}, maxBusy: exactly(200), recovered: true},
		{profile: "cancel", outcome: result.Reproduced, fastFailed: third, upFailed: third,
			read: [3]between{all, all, all}, maxBusy: exactly(200)},
		{profile: "unbounded", outcome: result.Protected, fastFailed: exactly(0), upFailed: exactly(0),
			read: [3]between{{295, 308}, {592, 604}, {492, 504}}, maxBusy: between{598, 680},
			status: map[string]between{"200": exactly(1200)}, recovered: true, inFlightInfo: true},
	} {
		t.Run(tc.profile, func(t *testing.T) {
			b, code := calmRun(t, "-profile="+tc.profile)
			s, dir := b.summary()
			if code != 0 || !s.Validity.Valid || s.Verdict.Outcome != tc.outcome {
				t.Errorf("exit %d, valid %v %v, outcome %s; want 0, valid, %s", code, s.Validity.Valid, s.Validity.Reasons, s.Verdict.Outcome, tc.outcome)
			}
			fast, up := s.Endpoints["fast"], s.Endpoints["upstream"]
			for name, e := range s.Endpoints {
				checkLedger(t, name, e)
				if e.Planned != 1200 || e.Scheduled != 1200 || e.Dropped != 0 || e.Interrupted != 0 {
					t.Errorf("%s: planned %d, scheduled %d, dropped %d, interrupted %d; want 1200, 1200, 0, 0", name, e.Planned, e.Scheduled, e.Dropped, e.Interrupted)
				}
			}
			if !tc.fastFailed.has(fast.FailedRatio) || !tc.upFailed.has(up.FailedRatio) {
				t.Errorf("failed: fast %.3f, upstream %.3f; want %v and %v", fast.FailedRatio, up.FailedRatio, tc.fastFailed, tc.upFailed)
			}
			if both := (fast.FailedRatio + up.FailedRatio) / 2; tc.bothFailed != (between{}) && !tc.bothFailed.has(both) {
				t.Errorf("failed: %.3f of all, want %v", both, tc.bothFailed)
			}
			for status, want := range tc.status {
				if got := up.Status[status]; !want.has(float64(got)) {
					t.Errorf("upstream answered %s %d times, want %v", status, got, want)
				}
			}
			for body, want := range tc.bodies {
				if got := up.ErrorBodies[body]; !want.has(float64(got)) {
					t.Errorf("upstream said %s %d times, want %v", body, got, want)
				}
			}
			checkDumps(t, dir, s, tc.profile, tc.read)
			if !tc.maxBusy.has(float64(s.Pool.MaxBusy)) {
				t.Errorf("at most %d workers were busy, want %v", s.Pool.MaxBusy, tc.maxBusy)
			}
			if s.Recovery.Recovered != tc.recovered {
				t.Errorf("recovery %+v, want recovered %v", s.Recovery, tc.recovered)
			}
			if !s.Prediction.Agrees {
				for _, row := range s.Prediction.Rows {
					if !row.OK {
						t.Errorf("prediction: %+v", row)
					}
				}
			}
			bounded := false
			for _, check := range s.Verdict.Checks {
				bounded = bounded || check.Name == "in_flight_bounded" && !check.OK
			}
			if bounded != tc.inFlightInfo {
				t.Errorf("check in_flight_bounded: false is shown: %v, want %v", bounded, tc.inFlightInfo)
			}
			if s.Upstream.DelaySeenMS == nil || *s.Upstream.DelaySeenMS < s.Upstream.DelayAskedMS {
				t.Errorf("dose: asked %v ms, seen %v", s.Upstream.DelayAskedMS, s.Upstream.DelaySeenMS)
			}
			checkFiles(t, dir, 2400)
			b.checkNothingLeft()
		})
	}
}

// calmRun runs the scenario, and again, twice at most, if the machine was too
// busy meanwhile to hold a prediction to: then the generator was late, or /fast
// slow already before the load. The last run counts, whatever it met.
func calmRun(t *testing.T, args ...string) (b *bench, code int) {
	t.Helper()
	for attempt := range 3 {
		b = exhaustion(t, args...)
		code = b.run()
		s, _ := b.summary()
		busy := ""
		for name, e := range s.Endpoints {
			if e.Lag.P99 > 5 {
				busy = fmt.Sprintf("lag p99 of %s is %.1f ms", name, e.Lag.P99)
			}
		}
		for _, baseline := range s.Baselines {
			if baseline.Response.P95 > 25 {
				busy = fmt.Sprintf("p95 of the baseline is %.1f ms", baseline.Response.P95)
			}
		}
		if busy == "" {
			break
		}
		t.Logf("run %d: the machine is busy: %s", attempt+1, busy)
	}
	return b, code
}

func checkLedger(t *testing.T, name string, e result.Endpoint) {
	t.Helper()
	if e.Scheduled != e.Started+e.Dropped {
		t.Errorf("%s: scheduled %d is not started %d + dropped %d", name, e.Scheduled, e.Started, e.Dropped)
	}
	if sum := e.OK + e.HTTPError + e.Timeout + e.ConnectError + e.TransportError + e.Interrupted; e.Started != sum {
		t.Errorf("%s: started %d is not the sum of its outcomes, %d", name, e.Started, sum)
	}
	if e.ServerSeen == nil || *e.ServerSeen+*e.Unseen != e.Started {
		t.Errorf("%s: the server saw %v and did not see %v of %d", name, e.ServerSeen, e.Unseen, e.Started)
	}
	if e.Scheduled > 0 && math.Abs(e.FailedRatio-float64(e.Scheduled-e.OK)/float64(e.Scheduled)) > 1e-9 {
		t.Errorf("%s: failed ratio %v of %d ok and %d scheduled", name, e.FailedRatio, e.OK, e.Scheduled)
	}
}

func checkDumps(t *testing.T, dir string, s result.Summary, profile string, read [3]between) {
	t.Helper()
	points := []string{"before", "load_15s", "load_40s", "after_5s"}
	if len(s.Dumps) != len(points) {
		t.Fatalf("%d dumps, want %d", len(s.Dumps), len(points))
	}
	for i, d := range s.Dumps {
		if d.Point != points[i] || d.PauseMS <= 0 || d.ProfileFile == "" {
			t.Errorf("dump %d: point %s, pause %v ms, profile %q", i, d.Point, d.PauseMS, d.ProfileFile)
		}
		if info, err := os.Stat(filepath.Join(dir, filepath.FromSlash(d.File))); err != nil || info.Size() == 0 {
			t.Errorf("dump %s: raw file: %v", d.Point, err)
		}
		if i > 0 && !read[i-1].has(float64(d.Where["upstream_read"])) {
			t.Errorf("dump %s: %d in the upstream read, want %v", d.Point, d.Where["upstream_read"], read[i-1])
		}
	}
	workers := between{10, 20}
	if profile == "unbounded" {
		workers = exactly(0)
	}
	if before := s.Dumps[0]; !workers.has(float64(before.Workers)) || before.Where["idle"] != before.Workers || before.Queued != 0 {
		t.Errorf("before the load: %d workers, %d idle, %d queued; want %v, all idle, none queued", before.Workers, before.Where["idle"], before.Queued, workers)
	}
}

// checkFiles holds a run's folder to DESIGN section 5. arrivals is how many rows
// requests.csv has; 0 does not say.
func checkFiles(t *testing.T, dir string, arrivals int) {
	t.Helper()
	for _, name := range []string{
		result.ManifestFile, result.SummaryFile, result.LoadFile, result.HistogramFile, result.TimelineFile, result.EventsFile, result.ReportFile, result.PageFile,
		"metrics/victim-end.prom", "metrics/upstream-end.prom", "logs/victim.log", "logs/upstream.log", "logs/loadgen.log",
	} {
		checkFile(t, filepath.Join(dir, filepath.FromSlash(name)))
	}
	rows, err := result.ReadTimeline(filepath.Join(dir, result.TimelineFile))
	// A row a scenario second, in which 40 requests fall due.
	if want := max(1, arrivals/40); err != nil || len(rows) < want {
		t.Errorf("timeline of %d rows, %v; want %d at least", len(rows), err, want)
	}
	requests, err := result.ReadRequests(filepath.Join(dir, result.RequestsFile))
	if err != nil || len(requests) == 0 || arrivals > 0 && len(requests) != arrivals {
		t.Errorf("%d request rows, %v; want %d (0: any)", len(requests), err, arrivals)
	}
}

func checkFile(t *testing.T, path string) {
	t.Helper()
	if info, err := os.Stat(path); err != nil || info.IsDir() {
		t.Errorf("no file %s: %v", path, err)
	}
}

// TestGracefulStopHidesRequests reproduces the published run's own wrong row:
// a generator that stops waiting 30 s after the load has lost 600 requests, and
// this one says so.
func TestGracefulStopHidesRequests(t *testing.T) {
	b, _ := calmRun(t, "-profile=anti", "-graceful-stop=30s")
	s, _ := b.summary()
	up := s.Endpoints["upstream"]
	checkLedger(t, "upstream", up)
	if up.Scheduled != 1200 || up.Interrupted < 598 || up.Interrupted > 602 {
		t.Errorf("upstream: scheduled %d, interrupted %d; want 1200 and 600 +- 2", up.Scheduled, up.Interrupted)
	}
	if math.Abs(up.CompletedFailedRatio-1.0/3) > 0.01 {
		t.Errorf("failed of the completed: %.3f, want 1/3", up.CompletedFailedRatio)
	}
	if p50 := up.Response.P50; p50 < 50_000*0.05*0.98 || p50 > 50_000*0.05*1.02 {
		t.Errorf("p50 over the rest: %.0f ms, want 50 s at this scale +- 2 %%", p50)
	}
	if len(s.Validity.Warnings) == 0 {
		t.Error("interrupted requests are not warned of")
	}
	if !s.Prediction.Agrees {
		t.Errorf("prediction does not agree: %+v", s.Prediction.Rows)
	}
	b.checkNothingLeft()
}

// TestTooFewWorkersDropExactly: a hundred workers in flight cannot keep the rate
// up. The drops are the model's, the run is invalid, its dumps are valid.
func TestTooFewWorkersDropExactly(t *testing.T) {
	b := exhaustion(t, "-profile=anti", "-workers=100")
	if code := b.run(); code != 3 {
		t.Errorf("exit %d, want 3", code)
	}
	s, _ := b.summary()
	up := s.Endpoints["upstream"]
	checkLedger(t, "upstream", up)
	if up.Dropped != 1000 || up.OK != 200 {
		t.Errorf("upstream: dropped %d, ok %d; want 1000 and 200", up.Dropped, up.OK)
	}
	for _, row := range s.Prediction.Rows {
		if row.Name == "upstream.dropped" && (row.Predicted != 1000 || row.Measured != 1000) {
			t.Errorf("drops: predicted %v, measured %v, want 1000 each", row.Predicted, row.Measured)
		}
	}
	if s.Validity.Valid || s.Verdict.Outcome != result.Invalid {
		t.Errorf("valid %v, outcome %s; want an invalid run", s.Validity.Valid, s.Verdict.Outcome)
	}
	if got := s.Dumps[1].Where["upstream_read"]; got < 98 || got > 100 {
		t.Errorf("%d workers in the upstream read at +15 s, want 100", got)
	}
	b.checkNothingLeft()
}
