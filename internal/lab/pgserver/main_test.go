package pgserver

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"chokepoint/internal/lab/proc"
)

// holdArg makes the test binary a lab that opens a server in the folder of its
// second argument and holds it until it is killed.
const holdArg = "hold"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case proc.ReaperArg:
			os.Exit(proc.RunReaper(os.Stdin, os.Stdout, os.Stderr))
		case DownloadArg:
			os.Exit(RunDownload(os.Args[2:], os.Stderr))
		case holdArg:
			os.Exit(hold(os.Args[2]))
		}
	}
	goleak.VerifyTestMain(m)
}

// hold is the lab that is going to be killed.
func hold(parent string) int {
	reaper, err := proc.StartReaper()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	s, err := Open(context.Background(), Config{Launcher: proc.NewLauncher(reaper), TempParent: parent})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if err := json.NewEncoder(os.Stdout).Encode(s.URL()); err != nil {
		return 1
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	return 0
}

// deadline bounds every wait of these tests.
const deadline = 30 * time.Second

// eventually polls until the condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(deadline); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("after %s still not: %s", deadline, what)
		}
	}
}

// tempParent is a folder that every user may enter, as /tmp is; t.TempDir is in
// one that only its owner may.
func tempParent(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "pgtest-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// launcher starts the processes of one test.
func launcher(t *testing.T) *proc.Launcher {
	t.Helper()
	l := proc.NewLauncher(nil)
	t.Cleanup(l.Close)
	return l
}

// open opens a server that the test expects to get.
func open(t *testing.T, cfg Config) *Server {
	t.Helper()
	s, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return s
}

// selectOne fails the test unless the server answers.
func selectOne(t *testing.T, url string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	var one int
	if err := conn.QueryRow(t.Context(), "select 1").Scan(&one); err != nil || one != 1 {
		t.Fatalf("select 1: %d, %v", one, err)
	}
}

// running lists the live processes that have their working folder under dir or
// name it in their arguments, other than the test's own helpers.
func running(t *testing.T, dir string) (found []string) {
	t.Helper()
	out, err := exec.Command("ps", "-eo", "pid=,stat=,args=").Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		if len(fields) < 3 || strings.HasPrefix(fields[1], "Z") || fields[0] == strconv.Itoa(os.Getpid()) {
			continue
		}
		cwd, _ := os.Readlink(filepath.Join("/proc", fields[0], "cwd"))
		if strings.HasPrefix(cwd, dir) || strings.Contains(line, dir) {
			found = append(found, strings.TrimSpace(line))
		}
	}
	return found
}

// nothingLeft fails the test unless all processes and folders under the parent
// go away.
func nothingLeft(t *testing.T, parent string) {
	t.Helper()
	eventually(t, "no process and no folder in "+parent, func() bool {
		entries, err := os.ReadDir(parent)
		return err == nil && len(entries) == 0 && len(running(t, parent)) == 0
	})
}

// holder starts a lab that opens a server under the parent.
func holder(t *testing.T, parent string) (kill func(), url func() string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, holdArg, parent)
	cmd.Stderr = os.Stderr
	// The write end stays open as long as the test lives.
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill = func() {
		_ = cmd.Process.Signal(syscall.SIGKILL)
		_ = cmd.Wait()
		stdin.Close()
	}
	t.Cleanup(kill)
	return kill, func() string {
		t.Helper()
		var u string
		if err := json.NewDecoder(stdout).Decode(&u); err != nil {
			t.Fatal(err)
		}
		return u
	}
}
