//go:build e2e

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"chokepoint/internal/result"
)

// needNamespaces skips a test of lost packets where this user can make no network
// namespace.
func needNamespaces(t *testing.T) {
	t.Helper()
	cmd := exec.Command("true")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWPID | syscall.CLONE_NEWNS}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
	}
	if err := cmd.Run(); err != nil {
		t.Skipf("no network namespaces for this user: %v", err)
	}
}

// TestFaults: a refused connection frees its worker at once, and lost packets hold it,
// in the connect or, on a connection that was open, in the read.
func TestFaults(t *testing.T) {
	needNamespaces(t)
	b := comparison(t, "-faults=refused,loss", "-duration=40s", "-dump-at=15s,35s,+5s", "-recovery-wait=10s")
	code := b.run()
	if code != 0 && code != 3 && code != 4 {
		t.Errorf("exit %d; stderr:\n%s\n%s", code, b.stderr.text(), b.stdout.String())
	}
	dirs, _ := filepath.Glob(filepath.Join(b.results, "*-compare-*"))
	if len(dirs) != 1 {
		t.Fatalf("%d comparisons, want 1; stderr:\n%s", len(dirs), b.stderr.text())
	}
	c, err := result.ReadComparison(dirs[0])
	if err != nil || len(c.Runs) != 4 || len(c.Faults) != 4 {
		t.Fatalf("%v, %d runs, %d cells; want 4 of each", err, len(c.Runs), len(c.Faults))
	}
	for i, want := range []struct {
		fault, profile      string
		outcome             result.Outcome
		fastFailed          between
		connecting, reading between // at +35 s
		status              string  // of the answers to /upstream; empty if none is awaited
	}{
		{"refused", "anti", result.Protected, exactly(0), between{0, 3}, between{0, 3}, "502"},
		{"refused", "fixed", result.Protected, exactly(0), between{0, 3}, between{0, 3}, "502"},
		{"loss", "anti", result.Reproduced, between{0.7, 0.8}, between{185, 190}, between{8, 10}, ""},
		{"loss", "fixed", result.Protected, exactly(0), between{17, 20}, exactly(0), "504"},
	} {
		run, cell := c.Runs[i], c.Faults[i]
		checkBelieved(t, run.Reasons)
		s, err := result.ReadSummary(filepath.Join(dirs[0], filepath.FromSlash(run.Path)))
		if err != nil {
			t.Fatal(err)
		}
		name := want.profile + " under " + want.fault
		if cell.Fault != want.fault || cell.Profile != want.profile || cell.Want != want.outcome || s.Verdict.Expected != want.outcome || run.Profile != cell.Label {
			t.Errorf("cell %d: %s with %s, wants %s, of run %s; want %s and %s", i, cell.Fault, cell.Profile, cell.Want, run.Profile, name, want.outcome)
		}
		if run.Valid && (!slices.Equal(cell.Got, []result.Outcome{s.Verdict.Outcome}) || cell.OK != (s.Verdict.Outcome == want.outcome) || len(cell.Figures) < 10) {
			t.Errorf("%s: got %v, ok %v, %d figures; the run has %s", name, cell.Got, cell.OK, len(cell.Figures), s.Verdict.Outcome)
		}
		if got := s.Endpoints["fast"].FailedRatio; !want.fastFailed.has(got) {
			t.Errorf("%s: %.3f of /fast failed, want %v", name, got, want.fastFailed)
		}
		dump := s.Dumps[slices.IndexFunc(s.Dumps, func(d result.Dump) bool { return d.Point == "load_35s" })]
		if !want.connecting.has(float64(dump.Where["upstream_connect"])) || !want.reading.has(float64(dump.Where["upstream_read"])) {
			t.Errorf("%s: %v; want %v connecting and %v reading", name, dump.Where, want.connecting, want.reading)
		}
		if status := s.Endpoints["upstream"].Status; want.status == "" && len(status) != 0 || want.status != "" && status[want.status] < 300 {
			t.Errorf("%s: answers %v, want %s of most", name, status, want.status)
		}
		loss := s.Upstream.Loss
		if (loss != nil) != (want.fault == "loss") || loss != nil && (loss.Lost < 300 || loss.Passed != 0 || loss.Kept != 10 || s.Upstream.Received != 0) {
			t.Errorf("%s: loss %+v, %d received; want none to pass", name, loss, s.Upstream.Received)
		}
	}
	checkFile(t, filepath.Join(dirs[0], result.ReportFile))
	b.checkNothingLeft()
}

// TestLossStopped: what goes on in a sandbox is stopped as anything else is, and
// killed with the lab that is outside of it.
func TestLossStopped(t *testing.T) {
	t.Parallel()
	needNamespaces(t)
	t.Run("interrupted", func(t *testing.T) {
		t.Parallel()
		b := short(t, "-fault=loss")
		b.start()
		b.stderr.await(t, "dump load_15s")
		b.interrupt()
		if code := b.wait(); code != 130 {
			t.Errorf("exit %d, want 130", code)
		}
		checkStopped(t, b, "interrupted (")
		b.checkNothingLeft()
	})
	t.Run("killed", func(t *testing.T) {
		t.Parallel()
		b := short(t, "-fault=loss")
		b.start()
		b.stderr.await(t, "baseline: ")
		b.cmd.Process.Kill()
		b.wait()
		b.noResult()
		b.checkNothingLeft()
	})
}
