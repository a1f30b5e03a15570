//go:build e2e

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"chokepoint/internal/result"
)

// TestCloseRace is the whole scenario for some seconds. On a crowded machine few think
// times are kept, and the shares of a few requests are a coin: what is held is what a
// close cannot do to a request, and that one on a connection which fasthttp has not
// looked at fails.
func TestCloseRace(t *testing.T) {
	b := newBench(t, "run", "closerace", "-duration=12s", "-callers=2")
	code := b.run()
	if code != 0 && code != 3 && code != 4 {
		t.Fatalf("exit %d, want a measured run; stderr:\n%s", code, b.stderr.text())
	}
	s, dir := b.summary()
	for _, reason := range s.Validity.Reasons {
		if !strings.Contains(reason, "requests rested so long") && !strings.Contains(reason, "more cases that could not be carried out") && !strings.Contains(reason, "the machine was too busy") {
			t.Errorf("an invalid run: %s", reason)
		}
	}
	if len(s.Cases) != 126 || s.Run.Scenario != result.ScenarioCloseRace {
		t.Errorf("%d cases of %s, want 126 of the close race", len(s.Cases), s.Run.Scenario)
	}
	for _, c := range s.Cases {
		if c.Want == "" || c.Got == "" && c.Failure == "" || c.Counts.FailedButExecuted != 0 || c.Counts.ExecutedTwice != 0 {
			t.Errorf("%s %s %s %s wants %q and got %q, %+v, %q", c.ID, c.Client, c.Method, c.Defence, c.Want, c.Got, c.Counts, c.Failure)
		}
		if _, err := os.Stat(filepath.Join(dir, c.Evidence, "calls.csv")); err != nil {
			t.Errorf("%s: %v", c.ID, err)
		}
	}
	sums := closeRaceSums(t, dir)
	if len(sums) != 18 {
		t.Errorf("the series has %d lines, want 18", len(sums))
	}
	for key, sum := range sums {
		switch {
		case sum.Requests == 0:
			t.Errorf("%s: no requests", key)
		case strings.HasSuffix(key, "POST retry_idempotency_key") || strings.HasSuffix(key, "GET library_retry"):
			if sum.Failed != 0 {
				t.Errorf("%s: %d of %d failed, want none: it is sent again", key, sum.Failed, sum.Requests)
			}
		case strings.HasPrefix(key, "fasthttp") && (strings.HasSuffix(key, "none") || strings.HasSuffix(key, "POST library_retry") || strings.HasSuffix(key, "POST retry_stale")):
			if sum.Failed == 0 {
				t.Errorf("%s: none of %d failed", key, sum.Requests)
			}
		}
	}
	checkFile(t, filepath.Join(dir, result.ReportFile))
	checkFile(t, filepath.Join(dir, result.PageFile))
	b.checkNothingLeft()
}

// closeRaceSums are the points of the series, put together by line.
func closeRaceSums(t *testing.T, dir string) map[string]result.CloseRacePoint {
	t.Helper()
	points, err := result.ReadCloseRace(filepath.Join(dir, result.CloseRaceFile))
	if err != nil {
		t.Fatal(err)
	}
	sums := map[string]result.CloseRacePoint{}
	for _, p := range points {
		key := p.Client + " " + p.Method + " " + p.Defence
		sum := sums[key]
		sum.Requests += p.Requests
		sum.Failed += p.Failed
		sums[key] = sum
	}
	return sums
}

// TestCloseRaceOverARoundTrip is the race as a user without privileges sees it over a
// way of 10 ms: a look at the socket does not help any more, and being sent again does.
func TestCloseRaceOverARoundTrip(t *testing.T) {
	b := newBench(t, "run", "closerace", "-round-trip=10ms", "-duration=6s", "-callers=1")
	b.unprivileged()
	code := b.run()
	b.needsSandbox(code)
	if code != 0 && code != 3 && code != 4 {
		t.Fatalf("exit %d, want a measured run; stderr:\n%s", code, b.stderr.text())
	}
	s, dir := b.summary()
	if len(s.Cases) != 126 {
		t.Errorf("%d cases, want 126", len(s.Cases))
	}
	sums := closeRaceSums(t, dir)
	for _, key := range []string{"net/http POST stale_check", "fasthttp POST stale_check"} {
		if sums[key].Failed == 0 {
			t.Errorf("%s: none of %d failed", key, sums[key].Requests)
		}
	}
	for _, key := range []string{"net/http POST retry_idempotency_key", "fasthttp POST retry_idempotency_key", "net/http GET library_retry", "fasthttp GET library_retry"} {
		if sum := sums[key]; sum.Failed != 0 || sum.Requests == 0 {
			t.Errorf("%s: %d of %d failed, want none of some", key, sum.Failed, sum.Requests)
		}
	}
	for _, c := range s.Cases {
		if c.Counts.FailedButExecuted != 0 || c.Counts.ExecutedTwice != 0 {
			t.Errorf("%s %s %s %s: %+v", c.ID, c.Client, c.Method, c.Defence, c.Counts)
		}
	}
	b.checkNothingLeft()
}

// TestCloseRaceInterrupted is a Ctrl-C while programs start, and while they are called.
func TestCloseRaceInterrupted(t *testing.T) {
	t.Parallel()
	for _, phase := range []struct {
		name, line string
		measured   bool
	}{
		{"programs start", "18 lines with 2 callers", false},
		{"callers call", "every program runs", true},
	} {
		t.Run(phase.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, "run", "closerace", "-duration=30s", "-callers=2")
			b.start()
			b.stderr.await(t, phase.line)
			if phase.measured {
				time.Sleep(time.Second) // ten think times of each caller
			}
			b.interrupt()
			if code := b.wait(); code != 130 {
				t.Errorf("exit %d, want 130; stderr:\n%s", code, b.stderr.text())
			}
			b.checkNothingLeft()
			if !phase.measured {
				b.noResult()
				b.oneLine("nothing was measured")
				return
			}
			s, dir := b.summary()
			if s.Validity.Valid || !strings.Contains(s.Run.EndedEarly, "interrupted") || len(s.Cases) != 126 {
				t.Errorf("valid %v, ended early %q, %d cases", s.Validity.Valid, s.Run.EndedEarly, len(s.Cases))
			}
			checkFile(t, filepath.Join(dir, result.CloseRaceFile))
		})
	}
}
