//go:build e2e

// Package e2e runs the whole lab as its user does: real programs, a real
// PostgreSQL, real sockets, at a small scale. It is built with the tag e2e and
// expects the programs in bin/ (make test-e2e).
//
// What is asserted are counts and structure. The bound on the generator's lag is
// lifted, so that a busy machine does not decide whether a test passes. A test whose run
// is refused, stopped or killed holds no figure to a bound and is parallel.
package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"chokepoint/internal/result"
)

// scale is the smallest that the lab accepts.
const scale = "0.05"

var binDir string

func TestMain(m *testing.M) {
	dir, err := filepath.Abs(filepath.Join("..", "..", "bin"))
	if err == nil {
		for _, name := range []string{"lab", "loadgen", "victim", "upstream"} {
			if _, statErr := os.Stat(filepath.Join(dir, name)); statErr != nil {
				err = fmt.Errorf("%w; run make test-e2e, which builds it", statErr)
			}
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	binDir = dir
	os.Exit(m.Run())
}

// bench is one invocation of the lab in folders of its own, so that whatever it
// leaves behind is found.
type bench struct {
	t       *testing.T
	tmp     string // its TMPDIR
	results string
	cmd     *exec.Cmd
	stdout  bytes.Buffer
	stderr  *lineWatch
}

// newBench prepares a run of the lab. The folders are for everyone to enter:
// PostgreSQL may run as another user.
func newBench(t *testing.T, args ...string) *bench {
	t.Helper()
	root, err := os.MkdirTemp("", "e2e-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(root) })
	b := &bench{t: t, tmp: filepath.Join(root, "tmp"), results: filepath.Join(root, "results"), stderr: newLineWatch()}
	for _, dir := range []string{root, b.tmp} {
		os.MkdirAll(dir, 0o755)
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	b.cmd = exec.Command(filepath.Join(binDir, "lab"), args...)
	b.cmd.Env = append(os.Environ(), "TMPDIR="+b.tmp, "CHOKEPOINT_RESULTS="+b.results)
	b.cmd.Stdout, b.cmd.Stderr = &b.stdout, b.stderr
	// A group of its own, as a shell gives it: a Ctrl-C there reaches all of it.
	b.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return b
}

// exhaustion prepares a run of the scenario at the smallest scale.
func exhaustion(t *testing.T, args ...string) *bench {
	t.Helper()
	return newBench(t, append([]string{"run", "exhaustion", "-scale=" + scale, "-max-lag=10s"}, args...)...)
}

func (b *bench) start() {
	b.t.Helper()
	if err := b.cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() {
		if b.cmd.ProcessState == nil {
			b.cmd.Process.Kill()
			b.cmd.Wait()
		}
	})
}

// wait waits for the end and returns the exit code; a run that takes over two
// minutes has hung.
func (b *bench) wait() int {
	b.t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- b.cmd.Wait() }()
	select {
	case err := <-ended:
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			return exit.ExitCode()
		}
		if err != nil {
			b.t.Fatal(err)
		}
		return 0
	case <-time.After(2 * time.Minute):
		b.cmd.Process.Kill()
		b.t.Fatalf("the lab has not ended after two minutes; stderr:\n%s", b.stderr.text())
		return -1
	}
}

func (b *bench) run() int {
	b.t.Helper()
	b.start()
	return b.wait()
}

// interrupt is a Ctrl-C at a terminal: SIGINT to the lab's whole group.
func (b *bench) interrupt() { syscall.Kill(-b.cmd.Process.Pid, syscall.SIGINT) }

// summary reads the one run that the bench has published.
func (b *bench) summary() (result.Summary, string) {
	b.t.Helper()
	dirs, _ := filepath.Glob(filepath.Join(b.results, "2*"))
	if len(dirs) != 1 {
		b.t.Fatalf("%d results, want 1: %v; stderr:\n%s", len(dirs), dirs, b.stderr.text())
	}
	s, err := result.ReadSummary(dirs[0])
	if err != nil {
		b.t.Fatal(err)
	}
	return s, dirs[0]
}

// measured reads the one run of the bench, which must be whole. The verdict of a
// run at this scale is the machine's as well, and a crowded one overflows accept
// queues: that alone may make it invalid.
func (b *bench) measured(code int) (result.Summary, string) {
	b.t.Helper()
	if code != 0 && code != 3 && code != 4 {
		b.t.Errorf("exit %d, want a measured run; stderr:\n%s\n%s", code, b.stderr.text(), b.stdout.String())
	}
	s, dir := b.summary()
	checkBelieved(b.t, s.Validity.Reasons)
	return s, dir
}

// checkBelieved fails at any reason against a run but a crowded machine.
func checkBelieved(t *testing.T, reasons []string) {
	t.Helper()
	for _, reason := range reasons {
		if !strings.Contains(reason, "accept queue overflowed") {
			t.Errorf("an invalid run: %s", reason)
		}
	}
}

// checkNothingLeft fails if a process or a temporary folder of the bench is
// still there. What a killed lab leaves, its reaper removes within 20 s.
func (b *bench) checkNothingLeft() {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for {
		left := b.left()
		if len(left) == 0 {
			return
		}
		select {
		case <-ctx.Done():
			b.t.Fatalf("left behind: %v", left)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// left lists temporary folders and processes of the bench.
func (b *bench) left() []string {
	var left []string
	for _, pattern := range []string{filepath.Join(b.tmp, "*"), filepath.Join(b.results, ".*")} {
		found, _ := filepath.Glob(pattern)
		left = append(left, found...)
	}
	for pid, arguments := range b.processes() {
		left = append(left, fmt.Sprint(pid, " ", arguments))
	}
	return left
}

// processes are the arguments of every process of the bench, by pid. One is
// known by its environment (TMPDIR is the bench's own) or, since a server gets
// another environment and rewrites its arguments, by these or its working folder.
func (b *bench) processes() map[int][]string {
	found := map[int][]string{}
	procs, _ := filepath.Glob("/proc/[0-9]*")
	for _, proc := range procs {
		pid, _ := strconv.Atoi(filepath.Base(proc))
		if pid == os.Getpid() {
			continue
		}
		environ, _ := os.ReadFile(filepath.Join(proc, "environ"))
		cmdline, _ := os.ReadFile(filepath.Join(proc, "cmdline"))
		cwd, _ := os.Readlink(filepath.Join(proc, "cwd"))
		if bytes.Contains(environ, []byte("TMPDIR="+b.tmp)) || bytes.Contains(cmdline, []byte(b.tmp)) || strings.HasPrefix(cwd, b.tmp) || strings.HasPrefix(cwd, b.results) {
			found[pid] = strings.Split(strings.TrimRight(string(cmdline), "\x00"), "\x00")
		}
	}
	return found
}

// child is the pid of one of the lab's programs: the server itself in the case
// of postgres, whose own children show a title and no path. The lab says what it
// begins before it starts the program for it, so a moment is waited for that.
func (b *bench) child(name string) int {
	b.t.Helper()
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		for pid, arguments := range b.processes() {
			if filepath.Base(arguments[0]) == name && len(arguments) > 1 {
				return pid
			}
		}
	}
	b.t.Fatalf("no process %s; there are %v", name, b.processes())
	return 0
}

// oneLine fails unless stderr ends in one line of the lab that contains want.
func (b *bench) oneLine(want string) {
	b.t.Helper()
	var own []string
	for line := range strings.Lines(b.stderr.text()) {
		if strings.HasPrefix(line, "lab: ") {
			own = append(own, strings.TrimSpace(line))
		}
	}
	if len(own) != 1 || !strings.Contains(own[0], want) {
		b.t.Errorf("want one line with %q, got %q; stderr:\n%s", want, own, b.stderr.text())
	}
	if strings.Contains(b.stderr.text(), "goroutine ") {
		b.t.Errorf("a stack trace:\n%s", b.stderr.text())
	}
}

// noResult fails if a result was published.
func (b *bench) noResult() {
	b.t.Helper()
	if dirs, _ := filepath.Glob(filepath.Join(b.results, "2*")); len(dirs) != 0 {
		b.t.Errorf("a result was left: %v", dirs)
	}
}
