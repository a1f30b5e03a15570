package proc

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// labArg makes the test binary a lab that starts a child and a folder and then
// waits to be killed.
const labArg = "lab"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case ReaperArg:
			os.Exit(RunReaper(os.Stdin, os.Stdout, os.Stderr))
		case labArg:
			os.Exit(lab(os.Args[2]))
		}
	}
	goleak.VerifyTestMain(m)
}

// labState is what the lab says about itself.
type labState struct {
	Reaper, Child, Server int
	Folder                string
}

// lab holds a folder, a child outside it, and a "server" that runs from it,
// until it is killed or its standard input ends.
func lab(parent string) int {
	state, stop, err := startLab(parent)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if err := json.NewEncoder(os.Stdout).Encode(state); err != nil {
		return 1
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	if err := stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// startLab leaves the folder and what runs from it to the reaper.
func startLab(parent string) (labState, func() error, error) {
	reaper, err := StartReaper()
	if err != nil {
		return labState{}, nil, err
	}
	l := NewLauncher(reaper)
	folder, err := l.CreateFolder(parent, "lab-")
	if err != nil {
		return labState{}, nil, err
	}
	log := filepath.Join(folder.Path(), "log")
	child, err := l.Start(context.Background(), Spec{Name: "child", Path: "sleep", Args: []string{"300"}, LogPath: log})
	if err != nil {
		return labState{}, nil, err
	}
	// Started behind the launcher's back: neither a parent-death signal nor a
	// registration ends it, only the folder it runs from.
	server := exec.Command(filepath.Join(parent, "bin", "postgres"), "300")
	server.Dir = folder.Path()
	if err := server.Start(); err != nil {
		return labState{}, nil, err
	}
	state := labState{Reaper: reaper.cmd.Process.Pid, Child: child.PID(), Server: server.Process.Pid, Folder: folder.Path()}
	stop := func() error {
		if err := child.Stop(context.Background(), time.Second); err != nil {
			return err
		}
		l.Close()
		return reaper.Close()
	}
	return state, stop, nil
}

// deadline bounds every wait of these tests.
const deadline = 20 * time.Second

// eventually polls until the condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(deadline); !holds(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("after %s still not: %s", deadline, what)
		}
	}
}

func gone(pid int) func() bool { return func() bool { return startTime(pid) == "" } }

func missing(path string) bool {
	_, err := os.Lstat(path)
	return os.IsNotExist(err)
}

// launcher starts the processes of one test.
func launcher(t *testing.T) *Launcher {
	t.Helper()
	l := NewLauncher(nil)
	t.Cleanup(l.Close)
	return l
}

// begin starts a child that the test expects to start.
func begin(t *testing.T, l *Launcher, spec Spec) *Child {
	t.Helper()
	if spec.LogPath == "" {
		spec.LogPath = filepath.Join(t.TempDir(), "log")
	}
	c, err := l.Start(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(context.Background(), 0); err != nil {
			t.Error(err)
		}
	})
	return c
}

// shell starts a child that runs a shell script.
func shell(t *testing.T, l *Launcher, script string) *Child {
	t.Helper()
	return begin(t, l, Spec{Name: "script", Path: "/bin/sh", Args: []string{"-c", script}})
}

// says waits until the child has logged the line.
func says(t *testing.T, c *Child, line string) {
	t.Helper()
	eventually(t, c.Name()+" logs "+line, func() bool {
		for _, l := range c.LastLog(100) {
			if l == line {
				return true
			}
		}
		return false
	})
}

// fakeServer puts a program called postgres, which only sleeps, into
// parent/bin.
func fakeServer(t *testing.T, parent string) (path string) {
	t.Helper()
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(sleep)
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(parent, "bin", "postgres")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	// A file that is being written cannot be executed, and any fork of this
	// process may hold it open for a moment: copy it in another process.
	cp := exec.Command("/bin/sh", "-c", `cat > "$0" && chmod 755 "$0"`, path)
	cp.Stdin = strings.NewReader(string(program))
	if out, err := cp.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return path
}

// runLab starts a lab in a process of its own.
func runLab(t *testing.T, parent string) (state labState, cmd *exec.Cmd, stdin io.Closer) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	fakeServer(t, parent)
	cmd = exec.Command(self, labArg, parent)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGKILL)
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(line, &state); err != nil {
		t.Fatal(err)
	}
	return state, cmd, in
}
