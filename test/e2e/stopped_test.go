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

// short is a run whose load takes 2.25 s and whose recovery is watched for half
// a second.
func short(t *testing.T, args ...string) *bench {
	t.Helper()
	return exhaustion(t, append([]string{"-profile=anti", "-duration=45s", "-dump-at=15s,40s", "-recovery-wait=10s"}, args...)...)
}

// phases are the moments of a run, each with the line that says it has come.
var phases = []struct {
	name, line string
	measured   bool // part of the load is over
}{
	{"PostgreSQL starts", "finding a PostgreSQL", false},
	{"baseline", "baseline: /fast at", false},
	{"load is about to begin", "load begins in", false},
	{"after a dump", "dump load_15s", true},
	{"recovery", "load off", true},
}

// TestInterrupted is a Ctrl-C in each phase: a whole, balanced and invalid
// result if there is anything to tell, and nothing else left.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	for _, phase := range phases {
		t.Run(phase.name, func(t *testing.T) {
			t.Parallel()
			b := short(t)
			b.start()
			b.stderr.await(t, phase.line)
			b.interrupt()
			if code := b.wait(); code != 130 {
				t.Errorf("exit %d, want 130", code)
			}
			b.checkNothingLeft()
			if !phase.measured {
				b.noResult()
				b.oneLine("nothing was measured")
				return
			}
			checkStopped(t, b, "interrupted (interrupt")
		})
	}
}

// TestTerminated: SIGTERM, to the lab alone, is a Ctrl-C.
func TestTerminated(t *testing.T) {
	t.Parallel()
	b := short(t)
	b.start()
	b.stderr.await(t, "dump load_15s")
	b.cmd.Process.Signal(syscall.SIGTERM)
	if code := b.wait(); code != 130 {
		t.Errorf("exit %d, want 130", code)
	}
	checkStopped(t, b, "interrupted (terminated")
	b.checkNothingLeft()
}

// checkStopped holds the result of a run that was stopped after the dump
// load_15s to its promise: whole, balanced, invalid, with the dumps that it took.
func checkStopped(t *testing.T, b *bench, why string) {
	t.Helper()
	s, dir := b.summary()
	if s.Validity.Valid || s.Verdict.Outcome != result.Invalid || !strings.Contains(strings.Join(s.Validity.Reasons, "; "), why) {
		t.Errorf("valid %v, outcome %s, reasons %q; want an invalid run and %q among its reasons", s.Validity.Valid, s.Verdict.Outcome, s.Validity.Reasons, why)
	}
	if len(s.Endpoints) != 2 {
		t.Fatalf("%d endpoints, want 2; reasons %q", len(s.Endpoints), s.Validity.Reasons)
	}
	for name, e := range s.Endpoints {
		checkLedger(t, name, e)
		if e.Scheduled == 0 {
			t.Errorf("%s: nothing was scheduled", name)
		}
	}
	if len(s.Dumps) < 2 || s.Dumps[0].Point != "before" || s.Dumps[1].Point != "load_15s" {
		t.Errorf("dumps %+v; want before and load_15s at least", s.Dumps)
	}
	checkFiles(t, dir, 0)
}

// TestInterruptedTwice: the second Ctrl-C kills the lab, and its reaper clears up.
func TestInterruptedTwice(t *testing.T) {
	t.Parallel()
	b := short(t)
	b.start()
	b.stderr.await(t, "dump load_15s")
	// A stub that does not answer its signal keeps the lab busy with its end.
	stub := b.child("upstream")
	syscall.Kill(stub, syscall.SIGSTOP)
	b.interrupt()
	b.stderr.await(t, "once more kills")
	// The lab says so a moment before it gives the signal back to the system.
	for range 20 {
		b.interrupt()
		time.Sleep(20 * time.Millisecond)
	}
	if code := b.wait(); code != -1 || b.cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGINT {
		t.Errorf("the lab ended by itself (%v); want it killed by SIGINT", b.cmd.ProcessState)
	}
	b.noResult()
	b.checkNothingLeft()
}

// TestInterruptedWhileWriting: whether the signal or the last file was faster,
// the result is whole.
func TestInterruptedWhileWriting(t *testing.T) {
	t.Parallel()
	b := short(t)
	b.start()
	b.stderr.await(t, "writing")
	b.interrupt()
	if code := b.wait(); code != 130 && code != 0 && code != 3 && code != 4 {
		t.Errorf("exit %d, want 130, or that of a whole run if it was done by then", code)
	}
	s, dir := b.summary()
	for name, e := range s.Endpoints {
		checkLedger(t, name, e)
	}
	if len(s.Dumps) != 3 {
		t.Errorf("%d dumps, want the 3 of a whole run", len(s.Dumps))
	}
	checkBelieved(t, s.Validity.Reasons)
	checkFiles(t, dir, 0)
	b.checkNothingLeft()
}

// TestKilled is a SIGKILL of the lab, and of nothing else, in each phase.
func TestKilled(t *testing.T) {
	t.Parallel()
	for _, phase := range append(phases[:len(phases):len(phases)], struct {
		name, line string
		measured   bool
	}{"writing", "writing", true}) {
		t.Run(phase.name, func(t *testing.T) {
			t.Parallel()
			b := short(t)
			b.start()
			b.stderr.await(t, phase.line)
			b.cmd.Process.Kill()
			b.wait()
			b.checkNothingLeft()
			if phase.line == "writing" {
				// Published before the signal came, or not at all.
				if dirs, _ := filepath.Glob(filepath.Join(b.results, "2*")); len(dirs) > 0 {
					checkFiles(t, dirs[0], 0)
				}
				return
			}
			b.noResult()
		})
	}
}

// TestChildDies kills each program in the middle of the load: the run ends at
// once, and says which one it was and what it said last.
func TestChildDies(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"victim", "upstream", "postgres", "loadgen"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := exhaustion(t, "-profile=fixed")
			b.start()
			b.stderr.await(t, "dump load_15s")
			syscall.Kill(b.child(name), syscall.SIGKILL)
			if code := b.wait(); code != 3 {
				t.Errorf("exit %d, want 3", code)
			}
			if text := b.stderr.text(); strings.Contains(text, "load off") || strings.Contains(text, "goroutine ") {
				t.Errorf("the run went on, or crashed:\n%s", text)
			}
			s, dir := b.summary()
			if s.Validity.Valid || s.Verdict.Outcome != result.Invalid || len(s.Validity.Reasons) == 0 {
				t.Fatalf("valid %v, outcome %s, reasons %q; want an invalid run with its reason", s.Validity.Valid, s.Verdict.Outcome, s.Validity.Reasons)
			}
			want := name + " ended by itself (signal: killed)"
			if name == "loadgen" {
				want = "loadgen ended by itself (killed by a signal)"
			}
			if reason := s.Validity.Reasons[0]; !strings.Contains(reason, want) || !strings.Contains(reason, "last lines") && !strings.Contains(reason, "logged nothing") {
				t.Errorf("the first reason is %q; want %q with its last lines", reason, want)
			}
			if !strings.Contains(b.stdout.String(), want) {
				t.Errorf("the verdict does not say %q:\n%s", want, b.stdout.String())
			}
			if len(s.Dumps) < 2 || s.Dumps[1].Point != "load_15s" || s.Dumps[1].Workers == 0 {
				t.Errorf("dumps %+v; want before and load_15s at least", s.Dumps)
			}
			if name != "loadgen" {
				for endpoint, e := range s.Endpoints {
					if e.Scheduled == 0 || e.Scheduled != e.Started+e.Dropped {
						t.Errorf("%s: scheduled %d, started %d, dropped %d", endpoint, e.Scheduled, e.Started, e.Dropped)
					}
				}
			}
			for _, file := range []string{result.ManifestFile, result.TimelineFile, result.ReportFile, s.Dumps[1].File} {
				checkFile(t, filepath.Join(dir, filepath.FromSlash(file)))
			}
			b.checkNothingLeft()
		})
	}
}
