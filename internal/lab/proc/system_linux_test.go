package proc

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The parent-death signal follows the thread that forked: the Launcher's, which
// lives as long as it does, and no other.
func TestDeathSignalFollowsTheLauncher(t *testing.T) {
	l := launcher(t)
	killed := shell(t, l, "echo ready; sleep 300")
	quit := begin(t, l, Spec{Name: "quitter", Path: "/bin/sh", DeathSignal: syscall.SIGQUIT, Args: []string{"-c",
		`trap 'echo quit; exit 5' QUIT; echo ready; while :; do sleep 0.01; done`}})
	says(t, killed, "ready")
	says(t, quit, "ready")
	// Threads come and go, none of them the launcher's.
	for range 20 {
		done := make(chan struct{})
		go func() {
			runtime.LockOSThread() // ends the thread with the goroutine
			close(done)
		}()
		<-done
	}
	if killed.Status() != "running" || quit.Status() != "running" {
		t.Fatalf("%q and %q while the launcher lives", killed.Status(), quit.Status())
	}
	l.Close()
	<-killed.Done()
	<-quit.Done()
	if killed.Status() != "signal: killed" || quit.Status() != "exit status 5" {
		t.Errorf("they ended by %q and %q", killed.Status(), quit.Status())
	}
}

func TestWhatAChildLeavesBehindIsEnded(t *testing.T) {
	c := begin(t, launcher(t), Spec{Name: "script", Path: "/bin/sh", Announces: true, Args: []string{"-c", "sleep 300 & echo $!"}})
	<-c.Done()
	if c.Err() != nil {
		t.Errorf("error %v", c.Err())
	}
	eventually(t, "the grandchild is gone", gone(pidIn(t, c)))
}

func TestUsage(t *testing.T) {
	c := shell(t, launcher(t), "while :; do :; done")
	var last Usage
	eventually(t, "CPU time", func() bool {
		u, err := c.Usage()
		if err != nil {
			t.Fatal(err)
		}
		if u.CPUSeconds < last.CPUSeconds || u.RunQueueWait < last.RunQueueWait {
			t.Fatalf("usage fell from %+v to %+v", last, u)
		}
		last = u
		return u.CPUSeconds >= 0.05
	})
	if err := c.Stop(t.Context(), deadline); err != nil {
		t.Fatal(err)
	}
	end, err := c.Usage()
	// Ticks are rounded, the exit status is exact.
	if err != nil || end.CPUSeconds < last.CPUSeconds-0.02 || end.RunQueueWait < last.RunQueueWait {
		t.Errorf("%+v, %v at the end, %+v before", end, err, last)
	}
	if _, err := readUsage(c.PID()); err == nil {
		t.Error("an ended process has a usage")
	}
}

// The name in /proc/<pid>/stat is whatever its owner likes.
func TestProcessNameCannotForgeItsState(t *testing.T) {
	dir := t.TempDir()
	server := fakeServer(t, dir)
	path := filepath.Join(dir, "a) Z 1 (b")
	if err := os.Rename(server, path); err != nil {
		t.Fatal(err)
	}
	stat, err := readStat(serve(t, path, dir))
	if err != nil {
		t.Fatal(err)
	}
	if stat.name != "a) Z 1 (b" || stat.state == "Z" || strings.Trim(stat.start, "0123456789") != "" {
		t.Errorf("%+v", stat)
	}
}

func TestZombiesAreGone(t *testing.T) {
	cmd := exec.Command("true")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the zombie counts as gone", gone(cmd.Process.Pid))
	if stat, err := readStat(cmd.Process.Pid); err != nil || stat.state != "Z" {
		t.Errorf("%+v, %v; want a zombie", stat, err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
}

// A server is found by its working folder and, where that cannot be read, by its
// arguments.
func TestProcessesIn(t *testing.T) {
	parent, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	server := fakeServer(t, parent)
	inside, beside := filepath.Join(parent, "lab"), filepath.Join(parent, "lab-2")
	for _, dir := range []string{filepath.Join(inside, "data"), beside} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	byFolder := serve(t, server, filepath.Join(inside, "data"))
	serve(t, server, beside)
	serve(t, "sleep", inside)
	// sleep takes its first argument for a time; what it is called is free.
	named := exec.Command(server, "300")
	named.Args[0] = filepath.Join(inside, "bin", "postgres")
	if err := named.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = named.Process.Kill()
		_ = named.Wait()
	})

	got := map[int]string{}
	for _, p := range processesIn(inside) {
		got[p.PID] = p.name
	}
	want := map[int]string{byFolder: "postgres", named.Process.Pid: "postgres"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("processes (-want +got):\n%s", diff)
	}
	// The kernel marks the working folder of a process when it is removed.
	if err := os.RemoveAll(inside); err != nil {
		t.Fatal(err)
	}
	if got := processesIn(inside); len(got) != 2 {
		t.Errorf("after the folder's removal: %+v, want the same two", got)
	}
}

// Go cannot end the main thread, so that children which were started from it
// would outlive their launcher.
func TestALauncherLeavesTheMainThread(t *testing.T) {
	for range 50 {
		l := NewLauncher(nil)
		if err := l.Do(func() error {
			if onMainThread() {
				t.Error("the launcher has the main thread")
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		l.Close()
		if err := l.Do(func() error { return nil }); err == nil {
			t.Fatal("a closed launcher runs something")
		}
	}
}
