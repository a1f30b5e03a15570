//go:build e2e

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"chokepoint/internal/lab/installed"
	"chokepoint/internal/result"
)

// rolling prepares a run of one step of a rolling deploy, which needs nginx.
func rolling(t *testing.T, args ...string) *bench {
	t.Helper()
	if _, err := installed.Nginx.Path(); err != nil {
		t.Skip(err)
	}
	return newBench(t, append([]string{"run", "rolling"}, args...)...)
}

// TestRolling: a process that ends while its address stays. The counts are by joined ids.
func TestRolling(t *testing.T) {
	b := rolling(t, "-only=P1,P3")
	b.unprivileged()
	code := b.run()
	b.needsSandbox(code)
	if code != 0 {
		t.Errorf("exit %d, want 0; stderr:\n%s", code, b.stderr.text())
	}
	s, dir := b.summary()
	type cell struct{ id, method, defence string }
	want := map[cell]struct {
		counts   result.CaseCounts
		inFlight string // at the server that is killed
	}{
		{"P1", "GET", "none"}:            {result.CaseCounts{OK: 10}, ""},
		{"P1", "POST", "none"}:           {result.CaseCounts{OK: 10}, ""},
		{"P1", "GET", "drain_first"}:     {result.CaseCounts{OK: 10}, ""},
		{"P1", "POST", "drain_first"}:    {result.CaseCounts{OK: 10}, ""},
		{"P3", "GET", "none"}:            {result.CaseCounts{OK: 12, ExecutedTwice: 1}, "200, nginx 200: was1 502 then was2 200"},
		{"P3", "POST", "none"}:           {result.CaseCounts{OK: 11, FailedButExecuted: 1}, "502, nginx 502: was1 502"},
		{"P3", "POST", "non_idempotent"}: {result.CaseCounts{OK: 12, ExecutedTwice: 1}, "200, nginx 200: was1 502 then was2 200"},
		{"P3", "GET", "drain_first"}:     {result.CaseCounts{OK: 12, ExecutedTwice: 1}, "200, nginx 200: was1 502 then was2 200"},
		{"P3", "POST", "drain_first"}:    {result.CaseCounts{OK: 11, FailedButExecuted: 1}, "502, nginx 502: was1 502"},
	}
	if ended := checkCases(t, s, dir); ended != len(want) || len(s.Cases) != len(want) {
		t.Fatalf("%d of %d cases were carried out, want %d", ended, len(s.Cases), len(want))
	}
	for _, c := range s.Cases {
		w := want[cell{c.ID, c.Method, c.Defence}]
		if c.Counts != w.counts {
			t.Errorf("%s: counts %+v, want %+v", c.Evidence, c.Counts, w.counts)
		}
		if first := c.Requests[0]; w.inFlight != "" && (first.ID != "in-flight-1" || first.Got != w.inFlight) {
			t.Errorf("%s: the first request is %s, %s; want in-flight-1, %s", c.Evidence, first.ID, first.Got, w.inFlight)
		}
		for _, file := range []string{"packets.txt", "moments.txt", "lb.conf", "lb-access.log", "lb.log"} {
			if info, err := os.Stat(filepath.Join(dir, c.Evidence, file)); err != nil || info.Size() == 0 {
				t.Errorf("%s%s: %v; want a file that is not empty", c.Evidence, file, err)
			}
		}
	}
	b.checkNothingLeft()
}

// nginxMasters are the pids of the bench's nginx. It puts its title over its arguments
// and its environment, so that it is known by its working folder.
func (b *bench) nginxMasters() (pids []int) {
	for pid, arguments := range b.processes() {
		if strings.HasPrefix(arguments[0], "nginx: master") {
			pids = append(pids, pid)
		}
	}
	return pids
}

// awaitNginx waits until so many run.
func (b *bench) awaitNginx(n int) []int {
	b.t.Helper()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if pids := b.nginxMasters(); len(pids) >= n {
			return pids
		}
		if strings.Contains(b.stderr.text(), "lab: ") {
			b.needsSandbox(b.wait())
		}
	}
	b.t.Fatalf("no %d nginx; stderr:\n%s", n, b.stderr.text())
	return nil
}

// TestRollingBalancerDies: a balancer that ends by itself costs its case, which says so.
func TestRollingBalancerDies(t *testing.T) {
	b := rolling(t, "-only=P1")
	b.start()
	syscall.Kill(b.awaitNginx(4)[0], syscall.SIGKILL)
	if code := b.wait(); code != 3 {
		t.Errorf("exit %d, want 3; stderr:\n%s", code, b.stderr.text())
	}
	s, dir := b.summary()
	if ended := checkCases(t, s, dir); ended != 3 {
		t.Errorf("%d cases were carried out, want 3", ended)
	}
	if len(s.Validity.Reasons) != 1 || !strings.Contains(s.Validity.Reasons[0], ") ended by itself: signal: killed") {
		t.Errorf("reasons %q, want that nginx ended by itself", s.Validity.Reasons)
	}
	b.checkNothingLeft()
}

// TestRollingInterrupted: what has ended is kept, and the rest says that it has not.
func TestRollingInterrupted(t *testing.T) {
	t.Parallel()
	b := rolling(t, "-only=P1,G1")
	b.start()
	b.awaitNginx(1)
	b.stderr.await(t, "(1 of ")
	b.interrupt()
	if code := b.wait(); code != 130 {
		t.Errorf("exit %d, want 130", code)
	}
	s, dir := b.summary()
	ended := checkCases(t, s, dir)
	if s.Validity.Valid || s.Verdict.Outcome != result.Invalid || !strings.Contains(s.Run.EndedEarly, "interrupt") {
		t.Errorf("valid %v, outcome %s, ended early %q; want an invalid run that says why", s.Validity.Valid, s.Verdict.Outcome, s.Run.EndedEarly)
	}
	if ended == 0 || ended == len(s.Cases) {
		t.Errorf("%d of %d cases have ended, want some and not all", ended, len(s.Cases))
	}
	b.checkNothingLeft()
}

// TestRollingKilled is a SIGKILL of the lab alone, while balancers run.
func TestRollingKilled(t *testing.T) {
	t.Parallel()
	b := rolling(t, "-only=P1")
	b.unprivileged()
	b.start()
	b.awaitNginx(2)
	b.cmd.Process.Kill()
	b.wait()
	b.noResult()
	b.checkNothingLeft()
}

// TestRollingRefused is what is wrong with the reader's file, or missing from the
// machine: one line, and nothing else.
func TestRollingRefused(t *testing.T) {
	t.Parallel()
	const upstream = "upstream app { server @WAS1@; server @WAS2@; }\n"
	for _, tc := range []struct {
		name, config, want string
		code               int
	}{
		{"rejected", upstream + "server { listen @LISTEN@; location / { proxy_passs http://app; } }", `nginx rejects the configuration: unknown directive "proxy_passs" in ./nginx.conf:2`, 2},
		{"no placeholder", "server { listen 8080; }", "it has no @LISTEN@", 2},
		{"unknown placeholder", upstream + "server { listen @LISTEN@; root @ROOT@; }", "no placeholder @ROOT@", 2},
		{"own log", upstream + "server { listen @LISTEN@;\n access_log off; }", "access_log", 2},
		{"no nginx", "", "nginx is not installed; on Debian: apt-get install nginx", 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := rolling(t, "-only=P1")
			if tc.config != "" {
				file := filepath.Join(filepath.Dir(b.tmp), "my.conf")
				if err := os.WriteFile(file, []byte(tc.config+"\n"), 0o644); err != nil {
					t.Fatal(err)
				}
				b.cmd.Args = append(b.cmd.Args, "-nginx-config="+file)
			} else {
				path, err := installed.Nginx.Path()
				if err != nil {
					t.Fatal(err)
				}
				b.inNamespace("mount --bind /dev/null "+path, "")
				b.cmd.Env = append(b.cmd.Env, "PATH=/usr/bin:/bin")
			}
			if code := b.run(); code != tc.code {
				t.Errorf("exit %d, want %d", code, tc.code)
			}
			b.oneLine(tc.want)
			b.noResult()
			b.checkNothingLeft()
		})
	}
}
