//go:build e2e

package e2e

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"chokepoint/internal/result"
)

// nobody is a user without any privilege, where the tests run as root.
const nobody = 65534

// deadconn prepares a run of the matrix of dead connections.
func deadconn(t *testing.T, args ...string) *bench {
	t.Helper()
	return newBench(t, append([]string{"run", "deadconn"}, args...)...)
}

// needsSandbox skips a test where a run could have no namespaces, with the lab's reason.
func (b *bench) needsSandbox(code int) {
	b.t.Helper()
	if code != 1 {
		return
	}
	for line := range strings.Lines(b.stderr.text()) {
		if strings.HasPrefix(line, "lab: this machine has no ") {
			b.t.Skip(strings.TrimSpace(line))
		}
	}
}

// unprivileged makes the bench's user an ordinary one; it is one already unless the tests
// run as root. The programs are copied to where everyone may run them.
func (b *bench) unprivileged() {
	b.t.Helper()
	if os.Geteuid() != 0 {
		return
	}
	root := filepath.Dir(b.tmp)
	if err := os.MkdirAll(b.results, 0o755); err != nil {
		b.t.Fatal(err)
	}
	for _, dir := range []string{b.tmp, b.results} {
		if err := os.Chown(dir, nobody, nobody); err != nil {
			b.t.Fatal(err)
		}
	}
	for _, name := range []string{"lab", "victim", "upstream"} {
		copyProgram(b.t, filepath.Join(binDir, name), filepath.Join(root, name))
	}
	b.cmd.Path = filepath.Join(root, "lab")
	b.cmd.SysProcAttr.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
}

func copyProgram(t *testing.T, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
}

// checkCases holds each case that was carried out to its promise: it is as wanted, and
// its evidence is there.
func checkCases(t *testing.T, s result.Summary, dir string) (ended int) {
	t.Helper()
	for _, c := range s.Cases {
		if c.Failure != "" {
			if c.OK || c.Got != "" {
				t.Errorf("%s %s %s %s: could not be carried out (%s), and ok %v, got %q", c.ID, c.Client, c.Method, c.Defence, c.Failure, c.OK, c.Got)
			}
			continue
		}
		ended++
		if !c.OK {
			t.Errorf("%s %s %s %s: got %s; want %s", c.ID, c.Client, c.Method, c.Defence, c.Got, c.Want)
		}
		if c.Before == nil || c.After == nil || len(c.Files) < 4 {
			t.Errorf("%s: before %v, after %v, files %v", c.Evidence, c.Before, c.After, c.Files)
		}
		for _, f := range c.Files {
			if info, err := os.Stat(filepath.Join(dir, c.Evidence, f.Name)); err != nil || info.Size() == 0 {
				t.Errorf("%s%s: %v; want a file that is not empty", c.Evidence, f.Name, err)
			}
		}
	}
	return ended
}

// TestDeadConnections is the whole matrix: every case as wanted, in the time that is
// promised for it.
func TestDeadConnections(t *testing.T) {
	b := deadconn(t)
	began := time.Now()
	code := b.run()
	b.needsSandbox(code)
	if took := time.Since(began); code != 0 || took > 90*time.Second {
		t.Errorf("exit %d after %v, want 0 within 90s; stderr:\n%s", code, took, b.stderr.text())
	}
	s, dir := b.summary()
	if !s.Validity.Valid || s.Verdict.Outcome != result.Reproduced {
		t.Errorf("valid %v (%q), outcome %s", s.Validity.Valid, s.Validity.Reasons, s.Verdict.Outcome)
	}
	if ended := checkCases(t, s, dir); ended != 311 || len(s.Cases) != 311 {
		t.Errorf("%d of %d cases were carried out, want 311", ended, len(s.Cases))
	}
	ids := map[string]bool{}
	for _, c := range s.Cases {
		ids[c.ID] = true
	}
	for _, id := range strings.Fields("A1 A1r A2 A3 B1 B1a B2 B2n B3 B4 B5 C1 C2 C3 C3b C4 C6 C8 H1 H1w H2 H3 H4 U L Lr R429 R503 R503c X1 X2 X3 X4 X5 PG-drop PG-reset PG-drop-young PG-reset-young") {
		if !ids[id] {
			t.Errorf("no case %s", id)
		}
	}
	checkDoubleWrites(t, s)
	for _, name := range []string{result.ReportFile, result.PageFile, result.ManifestFile} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v; want a file that is not empty", name, err)
		}
	}
	b.checkNothingLeft()
}

// checkDoubleWrites: what was executed twice is counted, and only where something was sent
// again that had been executed.
func checkDoubleWrites(t *testing.T, s result.Summary) {
	t.Helper()
	twice := map[string]int{}
	for _, c := range s.Cases {
		if c.HandlerRuns > 1 {
			twice[c.ID]++
		}
		if (c.HandlerRuns > 1) != (c.Counts.ExecutedTwice == 1) {
			t.Errorf("%s: %d runs, and counts %+v", c.Evidence, c.HandlerRuns, c.Counts)
		}
	}
	want := map[string]int{"C8": 1, "L": 2, "X1": 8, "X2": 2, "X3": 1, "X4": 1}
	for _, id := range strings.Fields("A1 A1r A2 A3 B1 C8 H1 H4 U L Lr X1 X2 X3 X4 X5") {
		if twice[id] != want[id] {
			t.Errorf("%s: %d cells in which a handler ran more than once, want %d", id, twice[id], want[id])
		}
	}
}

// TestDeadConnectionsTwiceAtOnce: two labs, one of them of an ordinary user, do not see
// each other.
func TestDeadConnectionsTwiceAtOnce(t *testing.T) {
	benches := []*bench{deadconn(t, "-only=A3,H2"), deadconn(t, "-only=A3,H2")}
	benches[1].unprivileged()
	codes := make([]int, len(benches))
	var wg sync.WaitGroup
	for i, b := range benches {
		b.start()
		wg.Go(func() { codes[i] = b.wait() })
	}
	wg.Wait()
	for i, b := range benches {
		b.needsSandbox(codes[i])
		if codes[i] != 0 {
			t.Errorf("lab %d: exit %d, want 0; stderr:\n%s", i, codes[i], b.stderr.text())
		}
		s, dir := b.summary()
		if ended := checkCases(t, s, dir); ended != 48 || len(s.Cases) != 48 {
			t.Errorf("lab %d: %d of %d cases, want 48", i, ended, len(s.Cases))
		}
		b.checkNothingLeft()
	}
}

// TestDeadConnectionsKilled is a SIGKILL of the lab alone, while programs run in hosts.
func TestDeadConnectionsKilled(t *testing.T) {
	t.Parallel()
	b := deadconn(t, "-only=A2")
	b.unprivileged()
	b.start()
	b.awaitHosts()
	b.cmd.Process.Kill()
	b.wait()
	b.noResult()
	b.checkNothingLeft()
}

// awaitHosts waits until programs run in hosts of the lab.
func (b *bench) awaitHosts() {
	b.t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		stubs := 0
		for _, arguments := range b.processes() {
			if filepath.Base(arguments[0]) == "upstream" && len(arguments) > 1 {
				stubs++
			}
		}
		if stubs >= 4 {
			return
		}
		if strings.Contains(b.stderr.text(), "lab: ") {
			b.needsSandbox(b.wait())
		}
	}
	b.t.Fatalf("no programs in hosts; stderr:\n%s", b.stderr.text())
}

// TestDeadConnectionsInterrupted: what has ended is kept, and the rest says that it has
// not.
func TestDeadConnectionsInterrupted(t *testing.T) {
	t.Parallel()
	b := deadconn(t, "-only=A2,X3")
	b.start()
	b.awaitHosts()
	b.stderr.await(t, "X3 ")
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

// TestDeadConnectionsForbidden: where namespaces are forbidden there is one line that
// names the setting, and nothing else.
func TestDeadConnectionsForbidden(t *testing.T) {
	t.Parallel()
	b := deadconn(t, "-only=A1")
	// Within a user namespace of its own the test may forbid further ones; without
	// capabilities the lab needs one.
	const forbid = `echo 0 > /proc/sys/user/max_user_namespaces && exec setpriv --bounding-set=-all --inh-caps=-all "$@"`
	lab := b.cmd
	b.cmd = exec.Command("unshare", append([]string{"--user", "--map-root-user", "sh", "-c", forbid, "sh", lab.Path}, lab.Args[1:]...)...)
	b.cmd.Env, b.cmd.Stdout, b.cmd.Stderr, b.cmd.SysProcAttr = lab.Env, lab.Stdout, lab.Stderr, lab.SysProcAttr
	if code := b.run(); code != 1 {
		t.Errorf("exit %d, want 1; stderr:\n%s", code, b.stderr.text())
	}
	b.oneLine("user.max_user_namespaces")
	b.noResult()
	b.checkNothingLeft()
}

// TestDeadConnectionsOfNoCase: an id that there is not is a mistake in the command.
func TestDeadConnectionsOfNoCase(t *testing.T) {
	t.Parallel()
	b := deadconn(t, "-only=A1,Z9")
	if code := b.run(); code != 2 {
		t.Errorf("exit %d, want 2", code)
	}
	b.oneLine(`no case "Z9"`)
	b.noResult()
	b.checkNothingLeft()
}
