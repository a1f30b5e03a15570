//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"chokepoint/internal/adminapi"
	"chokepoint/internal/lab/installed"
	"chokepoint/internal/result"
)

// drain prepares a run of gateways that are ended, which needs both balancers.
func drain(t *testing.T, args ...string) *bench {
	t.Helper()
	for _, program := range []installed.Program{installed.HAProxy, installed.Nginx} {
		if _, err := program.Path(); err != nil {
			t.Skip(err)
		}
	}
	return newBench(t, append([]string{"run", "drain"}, args...)...)
}

// TestDrain: what fails and was executed is counted by the rows, and is gone with the
// final settings; what is repeated is done twice, unless the application knows it.
func TestDrain(t *testing.T) {
	b := drain(t, "-only=short-drain,short-drain-idempotent,final-settings", "-scale=0.08")
	b.unprivileged()
	code := b.run()
	b.needsSandbox(code)
	if code != 0 {
		t.Errorf("exit %d, want 0; stderr:\n%s", code, b.stderr.text())
	}
	s, dir := b.summary()
	if len(s.Cases) != 9 {
		t.Fatalf("%d cases, want 9", len(s.Cases))
	}
	for _, c := range s.Cases {
		if c.Failure != "" || !c.OK {
			t.Errorf("%s: got %q, failure %q; want %s", c.Evidence, c.Got, c.Failure, c.Want)
			continue
		}
		executed, twice := c.Counts.FailedButExecuted, c.Counts.ExecutedTwice
		if (executed > 0) != (c.ID == "short-drain") {
			t.Errorf("%s: %d failed but executed; want some in short-drain alone", c.Evidence, executed)
		}
		if (twice > 0) != (c.ID == "short-drain-idempotent" && c.Defence == "retry") {
			t.Errorf("%s: %d executed twice; want some with a retry alone", c.Evidence, twice)
		}
		checkJoined(t, c, filepath.Join(dir, c.Evidence))
	}
	b.checkNothingLeft()
}

// checkJoined counts the classes anew from the files: the clients' outcomes in one, the
// application's rows in the other.
func checkJoined(t *testing.T, c result.Case, folder string) {
	t.Helper()
	runs := map[string]int{}
	for _, row := range jsonLines[adminapi.WorkResult](t, filepath.Join(folder, "rows.jsonl")) {
		runs[row.RequestID]++
	}
	var counts result.CaseCounts
	for _, r := range jsonLines[struct {
		ID string
		OK bool
	}](t, filepath.Join(folder, "requests.jsonl")) {
		switch {
		case r.OK:
			counts.OK++
		case runs[r.ID] > 0:
			counts.FailedButExecuted++
		default:
			counts.NeverReached++
		}
		if runs[r.ID] > 1 {
			counts.ExecutedTwice++
		}
	}
	if counts != c.Counts || counts.OK == 0 {
		t.Errorf("%s: the files have %+v, the summary %+v", c.Evidence, counts, c.Counts)
	}
	for _, f := range c.Files {
		if _, err := os.Stat(filepath.Join(folder, f.Name)); err != nil {
			t.Errorf("%s: %v", c.Evidence, err)
		}
	}
}

func jsonLines[T any](t *testing.T, path string) []T {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var all []T
	for line := range bytes.Lines(text) {
		var one T
		if err := json.Unmarshal(line, &one); err != nil {
			t.Fatalf("%s: %q: %v", path, line, err)
		}
		all = append(all, one)
	}
	return all
}

// TestDrainGatewayDies: a gateway that ends by itself costs its case, which says so, and
// a Ctrl-C ends the rest.
func TestDrainGatewayDies(t *testing.T) {
	t.Parallel()
	b := drain(t, "-only=zero-direct,zero-edge")
	b.start()
	syscall.Kill(b.awaitGateway(), syscall.SIGKILL)
	b.stderr.await(t, "(1 of 2)")
	b.interrupt()
	if code := b.wait(); code != 130 {
		t.Errorf("exit %d, want 130; stderr:\n%s", code, b.stderr.text())
	}
	s, _ := b.summary()
	died, unfinished := 0, 0
	for _, c := range s.Cases {
		// By itself, or at its start: it may not have said yet that it is there.
		if strings.Contains(c.Failure, ": signal: killed") {
			died++
		}
		if strings.HasPrefix(c.Failure, "not run to its end: ") {
			unfinished++
		}
	}
	if died != 1 || unfinished != 1 || s.Validity.Valid {
		t.Errorf("%d died, %d unfinished, valid %v; want one of each, and an invalid run: %q", died, unfinished, s.Validity.Valid, s.Validity.Reasons)
	}
	b.checkNothingLeft()
}

// awaitGateway waits until a lab gateway runs that listens: the next one of its case has
// been started.
func (b *bench) awaitGateway() int {
	b.t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		first := map[string]int{} // by the case's folder
		second := ""
		for pid, arguments := range b.processes() {
			if len(arguments) < 2 || arguments[1] != "gateway" {
				continue
			}
			for _, argument := range arguments {
				log, isLog := strings.CutPrefix(argument, "-access-log=")
				switch {
				case isLog && filepath.Base(log) == "gw1-access.jsonl":
					first[filepath.Dir(log)] = pid
				case isLog:
					second = filepath.Dir(log)
				}
			}
		}
		if pid, ok := first[second]; ok {
			return pid
		}
		if strings.Contains(b.stderr.text(), "lab: ") {
			b.needsSandbox(b.wait())
		}
	}
	b.t.Fatalf("no two gateways of a case; stderr:\n%s", b.stderr.text())
	return 0
}

// TestDrainWithoutHAProxy is one line that says how to install it.
func TestDrainWithoutHAProxy(t *testing.T) {
	t.Parallel()
	b := drain(t)
	path, err := installed.HAProxy.Path()
	if err != nil {
		t.Skip(err)
	}
	b.inNamespace("mount --bind /dev/null "+path, "")
	if code := b.run(); code != 1 {
		t.Errorf("exit %d, want 1", code)
	}
	b.oneLine("HAProxy is not installed; on Debian: apt-get install haproxy")
	b.noResult()
	b.checkNothingLeft()
}
