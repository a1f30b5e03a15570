package proc

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// folder makes a folder that the test expects to get.
func folder(t *testing.T, l *Launcher, parent string) *Folder {
	t.Helper()
	f, err := l.CreateFolder(parent, "lab-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.lock.Close() })
	return f
}

// die makes the folder one of a dead lab.
func die(f *Folder) { f.lock.Close() }

// serve starts something that passes for a server of the folder.
func serve(t *testing.T, program, dir string) (pid int) {
	t.Helper()
	cmd := exec.Command(program, "300")
	cmd.Dir = dir
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd.Process.Pid
}

func TestSweepRemovesOnlyWhatIsDead(t *testing.T) {
	parent, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	server := fakeServer(t, parent)
	l := launcher(t)
	living, dead := folder(t, l, parent), folder(t, l, parent)
	for _, f := range []*Folder{living, dead} {
		if err := os.MkdirAll(filepath.Join(f.Path(), "data", "base"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	servesLiving := serve(t, server, filepath.Join(living.Path(), "data"))
	servesDead := serve(t, server, filepath.Join(dead.Path(), "data"))
	bystander := serve(t, "sleep", dead.Path()) // somebody's shell
	die(dead)

	foreign := []string{"lab-notes", "lab-1-zzzzzzzz", "lab-1-0123456789", "other-1-01234567"}
	for _, name := range foreign {
		if err := os.Mkdir(filepath.Join(parent, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(parent, "lab-1-01234567"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(living.Path(), filepath.Join(parent, "lab-2-01234567")); err != nil {
		t.Fatal(err)
	}

	removed, err := Sweep(t.Context(), parent, "lab-")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{dead.Path()}, removed); diff != "" {
		t.Errorf("removed (-want +got):\n%s", diff)
	}
	if !missing(dead.Path()) {
		t.Error("the dead folder is still there")
	}
	for _, name := range append(foreign, "lab-1-01234567", "lab-2-01234567", filepath.Base(living.Path())+"/data/base") {
		if missing(filepath.Join(parent, name)) {
			t.Errorf("%s is gone", name)
		}
	}
	if !gone(servesDead)() {
		t.Error("the dead lab's server still runs")
	}
	if gone(servesLiving)() || gone(bystander)() {
		t.Error("a process was ended that was nobody's to end")
	}

	if err := living.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !missing(living.Path()) || !gone(servesLiving)() {
		t.Error("Remove left the folder or its server")
	}
	if err := living.Remove(t.Context()); err != nil {
		t.Errorf("again: %v", err)
	}
}

// A child does not inherit the lock: it may outlive the lab.
func TestLockIsNotInherited(t *testing.T) {
	l := launcher(t)
	f := folder(t, l, t.TempDir())
	c := begin(t, l, Spec{Name: "sleeper", Path: "sleep", Args: []string{"300"}})
	die(f)
	lock, err := lockFolder(f.Path())
	if err != nil {
		t.Fatalf("with pid %d running: %v", c.PID(), err)
	}
	lock.Close()
}

// Labs that start while others sweep lose nothing.
func TestSweepRacesWithCreateFolder(t *testing.T) {
	const labs, each = 4, 50
	parent, l := t.TempDir(), launcher(t)
	ctx, stop := context.WithCancel(t.Context())
	var sweeper sync.WaitGroup
	sweeper.Go(func() {
		for ctx.Err() == nil {
			if _, err := Sweep(t.Context(), parent, "lab-"); err != nil {
				t.Error(err)
				return
			}
		}
	})
	var makers sync.WaitGroup
	for range labs {
		makers.Go(func() {
			for range each {
				f, err := l.CreateFolder(parent, "lab-")
				if err != nil {
					t.Error(err)
					return
				}
				if err := os.WriteFile(filepath.Join(f.Path(), "data"), nil, 0o600); err != nil {
					t.Errorf("a living folder was swept: %v", err)
				}
				if err := f.Remove(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	makers.Wait()
	stop()
	sweeper.Wait()
	if entries, err := os.ReadDir(parent); err != nil || len(entries) != 0 {
		t.Errorf("%d folders left, %v", len(entries), err)
	}
}

func TestCreateFolderErrors(t *testing.T) {
	_, err := launcher(t).CreateFolder("/nowhere", "lab-")
	if err == nil || !strings.Contains(err.Error(), "/nowhere") {
		t.Errorf("%v, want the folder's name in it", err)
	}
	if _, err := Sweep(t.Context(), "/nowhere", "lab-"); err == nil {
		t.Error("swept a missing folder")
	}
}

func TestRemoveSaysWhatIsLeft(t *testing.T) {
	parent := t.TempDir()
	f := folder(t, launcher(t), parent)
	pid := serve(t, fakeServer(t, parent), f.Path())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := f.Remove(ctx); err == nil || !strings.Contains(err.Error(), f.Path()) {
		t.Errorf("%v, want the folder's name in it", err)
	}
	if missing(f.Path()) {
		t.Error("the folder was removed under a running server")
	}
	if _, err := lockFolder(f.Path()); !errors.Is(err, errNotMine) {
		t.Errorf("%v: the lock was given up", err)
	}
	eventually(t, "the server is gone", gone(pid))
	if err := f.Remove(t.Context()); err != nil || !missing(f.Path()) {
		t.Errorf("then: %v", err)
	}
}

func TestSharedMemoryOfKilledServers(t *testing.T) {
	parent := t.TempDir()
	segment := func(name string, line func(key, id int) string) (id int) {
		t.Helper()
		// The low bits of the test's pid keep two runs apart.
		key := 0x43500000 + (os.Getpid()&0xffff)<<4 + len(name)
		id, err := unix.SysvShmGet(key, 56, unix.IPC_CREAT|unix.IPC_EXCL|0o600)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _, _ = unix.SysvShmCtl(id, unix.IPC_RMID, nil) })
		if err := os.Mkdir(filepath.Join(parent, name), 0o700); err != nil {
			t.Fatal(err)
		}
		pid := strings.Repeat("x\n", sharedMemoryLine) + line(key, id) + "\nready\n"
		if err := os.WriteFile(filepath.Join(parent, name, "postmaster.pid"), []byte(pid), 0o600); err != nil {
			t.Fatal(err)
		}
		return id
	}
	right := func(key, id int) string { return "  " + strconv.Itoa(key) + "     " + strconv.Itoa(id) }
	left := segment("a", right)
	attached := segment("bb", right)
	memory, err := unix.SysvShmAttach(attached, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.SysvShmDetach(memory) }()
	otherKey := segment("ccc", func(key, id int) string { return right(key+1000, id) })
	noNumbers := segment("dddd", func(int, int) string { return "starting" })

	removeSharedMemory(parent)
	exists := func(id int) bool {
		var d unix.SysvShmDesc
		_, err := unix.SysvShmCtl(id, unix.IPC_STAT, &d)
		return err == nil
	}
	if exists(left) {
		t.Error("the segment of a killed server is still there")
	}
	for name, id := range map[string]int{"attached": attached, "of another key": otherKey, "unnamed": noNumbers} {
		if !exists(id) {
			t.Errorf("the segment that is %s was removed", name)
		}
	}
}
