package netlab_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"chokepoint/internal/cli"
	"chokepoint/internal/lab/netlab"
	"chokepoint/internal/lab/netlab/netlabtest"
)

// deadline bounds every wait of these tests.
const deadline = 20 * time.Second

// ordinaryUser is what tests that root runs become; no account is needed.
const ordinaryUser = 54321

func TestASandboxIsToldWhatTheSpecSays(t *testing.T) {
	netlabtest.Need(t)
	extra := filepath.Join(t.TempDir(), "extra")
	if err := os.WriteFile(extra, []byte("from a file"), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(extra)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var out bytes.Buffer
	code, err := netlab.RunIn(t.Context(), netlab.Spec{
		Args:       []string{actArg, "echo", "an argument"},
		Env:        append(os.Environ(), "NETLAB_ECHO=a variable"),
		Stdin:      strings.NewReader("its stdin"),
		Stdout:     &out,
		Stderr:     os.Stderr,
		ExtraFiles: []*os.File{file},
	})
	if code != 0 || err != nil || out.String() != "an argument a variable its stdin from a file" {
		t.Errorf("code %d, %v, output %q", code, err, out.String())
	}
}

func TestWhatASandboxEndsWith(t *testing.T) {
	netlabtest.Need(t)
	for _, tc := range []struct {
		args []string
		want int
	}{
		{[]string{"exit", "0"}, 0},
		{[]string{"exit", "99"}, 99},
		{[]string{"die"}, 128 + int(syscall.SIGKILL)},
		{[]string{"orphans"}, 0},
		{[]string{"main"}, 0},
	} {
		code, err := netlab.RunIn(t.Context(), netlab.Spec{Args: append([]string{actArg}, tc.args...), Stderr: os.Stderr})
		if code != tc.want || err != nil {
			t.Errorf("%v: code %d, %v; want %d", tc.args, code, err, tc.want)
		}
	}
}

func TestTheEndOfTheContext(t *testing.T) {
	netlabtest.Need(t)
	for _, tc := range []struct {
		act   string
		grace time.Duration
		want  int
	}{
		{"lab", deadline, cli.ExitInterrupted},
		{"deaf", 20 * time.Millisecond, 128 + int(syscall.SIGKILL)},
	} {
		t.Run(tc.act, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			said, says := io.Pipe()
			go func() {
				_, _ = bufio.NewReader(said).ReadString('\n')
				cancel()
				_, _ = io.Copy(io.Discard, said)
			}()
			code, err := netlab.RunIn(ctx, netlab.Spec{Args: []string{actArg, tc.act}, Stdout: says, Stderr: os.Stderr, Grace: tc.grace})
			if code != tc.want || err != nil {
				t.Errorf("code %d, %v; want %d", code, err, tc.want)
			}
		})
	}
	t.Run("before the start", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := netlab.RunIn(ctx, netlab.Spec{Args: []string{actArg, "exit", "0"}}); err == nil || !strings.Contains(err.Error(), context.Canceled.Error()) {
			t.Errorf("error %v", err)
		}
	})
}

// Whoever starts a sandbox stays who they are in it, and so do the children, with
// the capabilities that networks take.
func TestWhoRunsInASandbox(t *testing.T) {
	netlabtest.Need(t)
	users := []int{os.Geteuid()}
	if os.Geteuid() == 0 {
		users = append(users, ordinaryUser)
	}
	for _, uid := range users {
		out, err := outside(t, uid, "identity").Output()
		if err != nil {
			t.Fatalf("uid %d: %v", uid, err)
		}
		var got identity
		if err := json.Unmarshal(out, &got); err != nil {
			t.Fatal(err)
		}
		const needed = 1<<unix.CAP_NET_ADMIN | 1<<unix.CAP_NET_RAW | 1<<unix.CAP_SYS_ADMIN
		if got.Capabilities&needed != needed {
			t.Errorf("uid %d: capabilities %x, want at least %x", uid, got.Capabilities, needed)
		}
		got.Capabilities = 0
		// The two of the sandbox, and the shell.
		want := identity{UID: uid, ChildUID: uid, Named: true, Processes: 3, LoopbackIsUp: true, HostIsOwn: true, ChildInTheHost: true}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("uid %d (-want +got):\n%s", uid, diff)
		}
	}
}

// outside is a lab in a process of its own, which runs an act in a sandbox.
func outside(t *testing.T, uid int, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", append([]string{outerArg}, args...)...)
	cmd.Stderr = os.Stderr
	cmd.Dir = "/"
	if uid != os.Geteuid() {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	}
	return cmd
}

// running is such a lab, whose act has said that it is ready.
type running struct {
	*exec.Cmd
	mark string // a variable of everything that it starts
}

func start(t *testing.T, uid int, act string) running {
	t.Helper()
	r := running{outside(t, uid, act), "NETLAB_MARK=" + rand.Text()}
	r.Env = append(os.Environ(), r.mark)
	out, err := r.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = r.Process.Kill()
		_ = r.Wait()
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf("the lab said %q, %v", line, err)
	}
	return r
}

// processes are the folders in /proc of what the lab has started.
func (r running) processes(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, file := range files {
		if env, err := os.ReadFile(file); err == nil && bytes.Contains(env, []byte(r.mark)) {
			found = append(found, filepath.Dir(file))
		}
	}
	return found
}

// firstProcess is the first of the sandbox.
func (r running) firstProcess(t *testing.T) int {
	t.Helper()
	for _, dir := range r.processes(t) {
		args, err := os.ReadFile(dir + "/cmdline")
		if err == nil && bytes.Contains(args, []byte("\x00"+netlab.SandboxArg+"\x00first\x00")) {
			pid, err := strconv.Atoi(filepath.Base(dir))
			if err != nil {
				t.Fatal(err)
			}
			return pid
		}
	}
	t.Fatal("no first process")
	return 0
}

// namespaces are those that the threads of the processes are in and that are
// not this process's own.
func namespaces(t *testing.T, processes []string) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	for _, dir := range processes {
		for _, name := range linksOf(t, dir+"/task/*/ns/*") {
			found[name] = true
		}
	}
	for _, name := range linksOf(t, "/proc/self/ns/*") {
		delete(found, name)
	}
	return found
}

func linksOf(t *testing.T, pattern string) []string {
	t.Helper()
	links, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	var targets []string
	for _, link := range links {
		if target, err := os.Readlink(link); err == nil { // else it has ended meanwhile
			targets = append(targets, target)
		}
	}
	return targets
}

// held says whether any thread is in one of the namespaces, or any process has
// one open.
func held(t *testing.T, namespaces map[string]bool) bool {
	t.Helper()
	for _, pattern := range []string{"/proc/[0-9]*/task/*/ns/*", "/proc/[0-9]*/fd/*"} {
		for _, name := range linksOf(t, pattern) {
			if namespaces[name] {
				return true
			}
		}
	}
	return false
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(deadline); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("after %s still not: %s", deadline, what)
		}
	}
}

// Two labs run at once. The caller of one is killed; of that one nothing is
// left, and the other is as it was. That one is killed while its sandbox hangs.
func TestNothingSurvivesTheCaller(t *testing.T) {
	netlabtest.Need(t)
	uid := os.Geteuid()
	if uid == 0 {
		uid = ordinaryUser
	}
	killed, other := start(t, os.Geteuid(), "lab"), start(t, uid, "lab")
	// The caller, the two of its sandbox, and a child with a grandchild in each of
	// three hosts: the shell, and both sleeps.
	const want = 1 + 2 + 3*3
	for _, r := range []running{killed, other} {
		eventually(t, "everything has started", func() bool { return len(r.processes(t)) == want })
	}
	inKilled, inOther := namespaces(t, killed.processes(t)), namespaces(t, other.processes(t))
	count := func(all map[string]bool, kind string) (n int) {
		for name := range all {
			if strings.HasPrefix(name, kind+":") {
				n++
			}
		}
		return n
	}
	for kind, want := range map[string]int{"net": 4, "pid": 1, "mnt": 1, "ipc": 1} {
		if got := count(inKilled, kind); got != want {
			t.Errorf("%d %s namespaces, want %d", got, kind, want)
		}
	}
	if uid != os.Geteuid() && (count(inKilled, "user") != 0 || count(inOther, "user") != 1) {
		t.Error("a user namespace is for who is not root, and for nobody else")
	}

	if err := killed.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "no process is left", func() bool { return len(killed.processes(t)) == 0 })
	eventually(t, "no namespace is left", func() bool { return !held(t, inKilled) })
	if got := len(other.processes(t)); got != want || !held(t, inOther) {
		t.Errorf("of the other lab %d processes are left, want %d", got, want)
	}
	if err := syscall.Kill(other.firstProcess(t), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if err := other.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "nothing is left of the other", func() bool { return len(other.processes(t)) == 0 && !held(t, inOther) })
}

// A caller can be killed at any moment, also before its sandbox is set up.
func TestACallerKilledAtItsStart(t *testing.T) {
	netlabtest.Need(t)
	var labs []running
	for i := range 12 {
		r := running{outside(t, os.Geteuid(), "lab"), "NETLAB_MARK=" + rand.Text()}
		r.Env = append(os.Environ(), r.mark)
		if err := r.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(i) * 3 * time.Millisecond)
		_ = r.Process.Kill()
		_ = r.Wait()
		labs = append(labs, r)
	}
	for _, r := range labs {
		eventually(t, "no process is left", func() bool { return len(r.processes(t)) == 0 })
	}
}
