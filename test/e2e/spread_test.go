//go:build e2e

package e2e

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"chokepoint/internal/result"
)

// spread prepares a run of the two cells of round robin with one slow upstream, at a small
// scale: anti, then fixed.
func spread(t *testing.T, args ...string) *bench {
	t.Helper()
	return newBench(t, append([]string{"run", "spread", "-only=rr-one", "-scale=0.06", "-max-lag=10s"}, args...)...)
}

// needsNginx skips a test where the machine has no nginx, with the lab's reason.
func (b *bench) needsNginx(code int) {
	b.t.Helper()
	for line := range strings.Lines(b.stderr.text()) {
		if code == 1 && strings.HasPrefix(line, "lab: nginx is not installed") {
			b.t.Skip(strings.TrimSpace(line))
		}
	}
}

// TestSpread: without protection the share of the victim with the slow upstream dies, and
// that of the other does not; with it neither does.
func TestSpread(t *testing.T) {
	b := spread(t)
	code := b.run()
	b.needsNginx(code)
	if code != 0 && code != 4 {
		t.Fatalf("exit %d, want a measured run; stderr:\n%s", code, b.stderr.text())
	}
	s, dir := b.summary()
	if len(s.Cases) != 2 || !s.Validity.Valid || s.Run.Scale != 0.06 {
		t.Fatalf("%d cases, %+v, %+v", len(s.Cases), s.Validity, s.Run)
	}
	for i, profile := range []string{"anti", "fixed"} {
		c := s.Cases[i]
		if c.Defence != profile || len(c.Victims) != 2 || c.Counts.ExecutedTwice != 0 {
			t.Fatalf("case %d is of %s with %d victims, and %d requests were executed twice", i, c.Defence, len(c.Victims), c.Counts.ExecutedTwice)
		}
		one, two := c.Victims[0], c.Victims[1]
		if !one.Slow || two.Slow || one.Retried != 0 || two.Retried != 0 {
			t.Errorf("%s: victims %+v", profile, c.Victims)
		}
		of := func(v result.CaseVictim) int { return v.Fast + v.Upstream }
		requests := c.Counts.OK + c.Counts.NeverReached + c.Counts.FailedButExecuted
		if requests < 4500 || of(one)+of(two) > requests || of(one)+of(two) < requests*9/10 || of(one)-of(two) > requests/20 || of(two)-of(one) > requests/20 {
			t.Errorf("%s: of %d requests the victims were sent %d and %d first", profile, requests, of(one), of(two))
		}
		if two.FastFailed != 0 || two.Where["upstream_read"] > 20 {
			t.Errorf("%s: the victim whose upstream is well failed %d of /fast; %v", profile, two.FastFailed, two.Where)
		}
		if failed := 100 * one.FastFailed / one.Fast; profile == "anti" {
			if failed < 40 || failed > 85 || one.MaxBusy != 200 || one.Where["upstream_read"] < 190 || one.RecoveredS != nil || !strings.HasPrefix(c.Got, "stays, ") {
				t.Errorf("anti: %d %% of the slow one's /fast failed; %+v; got %s", failed, one, c.Got)
			}
		} else if one.FastFailed != 0 || one.UpstreamFailed < one.Upstream*9/10 || one.Where["upstream_read"] > 20 || one.RecoveredS == nil || !strings.HasPrefix(c.Got, "unharmed, ") {
			t.Errorf("fixed: %+v; got %s", one, c.Got)
		}
		for _, f := range c.Files {
			checkFile(t, filepath.Join(dir, c.Evidence, f.Name))
		}
	}
	checkFile(t, filepath.Join(dir, result.ReportFile))
	checkFile(t, filepath.Join(dir, result.PageFile))
	b.checkNothingLeft()
}

// TestSpreadInterrupted is a Ctrl-C in the first cell: nothing was measured.
func TestSpreadInterrupted(t *testing.T) {
	t.Parallel()
	b := spread(t)
	b.start()
	b.nginx()
	b.interrupt()
	if code := b.wait(); code != 130 {
		t.Errorf("exit %d, want 130; stderr:\n%s", code, b.stderr.text())
	}
	b.oneLine("before the first cell had ended: nothing was measured")
	b.noResult()
	b.checkNothingLeft()
}

// TestSpreadKilled is a SIGKILL of the lab while nginx runs.
func TestSpreadKilled(t *testing.T) {
	t.Parallel()
	b := spread(t)
	b.start()
	b.nginx()
	b.cmd.Process.Kill()
	b.wait()
	b.checkNothingLeft()
	b.noResult()
}

// TestSpreadBalancerDies: the cell in which nginx ends by itself could not be carried out,
// and says so in one line; the other cell is.
func TestSpreadBalancerDies(t *testing.T) {
	b := spread(t)
	b.start()
	syscall.Kill(b.nginx(), syscall.SIGKILL)
	if code := b.wait(); code != 3 {
		t.Errorf("exit %d, want 3; stderr:\n%s", code, b.stderr.text())
	}
	s, _ := b.summary()
	if len(s.Cases) != 2 || s.Validity.Valid || len(s.Validity.Reasons) != 1 {
		t.Fatalf("%d cases, %+v", len(s.Cases), s.Validity)
	}
	if reason := s.Validity.Reasons[0]; !strings.HasPrefix(reason, "case rr-one loadgen GET anti: nginx (nginx ") || !strings.Contains(reason, "ended by itself: signal: killed") {
		t.Errorf("the reason is %q", reason)
	}
	if s.Cases[0].Failure == "" || s.Cases[1].Failure != "" {
		t.Errorf("failures %q and %q", s.Cases[0].Failure, s.Cases[1].Failure)
	}
	b.checkNothingLeft()
}

// nginx is the pid of the run's nginx, when it is there: its master, which has the lab as
// its parent and the cell's folder as its own.
func (b *bench) nginx() int {
	b.t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		for pid, arguments := range b.processes() {
			if strings.HasPrefix(arguments[0], "nginx: master") {
				return pid
			}
		}
		if b.cmd.ProcessState != nil || syscall.Kill(b.cmd.Process.Pid, 0) != nil {
			break
		}
		if text := b.stderr.text(); strings.Contains(text, "lab: nginx is not installed") {
			b.wait()
			b.needsNginx(1)
		}
	}
	b.t.Fatalf("no nginx; there are %v; stderr:\n%s", b.processes(), b.stderr.text())
	return 0
}
