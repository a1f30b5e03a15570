package proc

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

func TestKilledLab(t *testing.T) {
	for name, sig := range map[string]syscall.Signal{"SIGKILL": syscall.SIGKILL, "SIGTERM": syscall.SIGTERM} {
		t.Run(name, func(t *testing.T) {
			state, cmd, _ := runLab(t, t.TempDir())
			// What ends a lab is often sent to everything in sight.
			for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT} {
				if err := syscall.Kill(state.Reaper, sig); err != nil {
					t.Fatal(err)
				}
			}
			if gone(state.Child)() || gone(state.Server)() || missing(state.Folder) {
				t.Fatalf("not all there before the kill: %+v", state)
			}
			if err := cmd.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait()
			eventually(t, "child, server, folder and reaper are gone", func() bool {
				return gone(state.Child)() && gone(state.Server)() && missing(state.Folder) && gone(state.Reaper)()
			})
		})
	}
}

func TestReaperHasItsOwnSession(t *testing.T) {
	state, _, _ := runLab(t, t.TempDir())
	group, err := syscall.Getpgid(state.Reaper)
	if err != nil || group != state.Reaper {
		t.Errorf("process group %d, %v; want its own, %d", group, err, state.Reaper)
	}
}

// A lab that ends well waits for its reaper, which removes what was left.
func TestReaperCleansUpAtClose(t *testing.T) {
	state, cmd, stdin := runLab(t, t.TempDir())
	if err := stdin.Close(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if !missing(state.Folder) || !gone(state.Server)() || !gone(state.Child)() || !gone(state.Reaper)() {
		t.Errorf("left behind: %+v", state)
	}
}

// Without a parent-death signal, as on macOS, the reaper ends the children: the
// very ones it was told of, not whoever has their pid now.
func TestReaperEndsChildrenByIdentity(t *testing.T) {
	const script = `trap '' INT; echo ready; while :; do sleep 0.01; done`
	l := launcher(t)
	plain, deaf, foreign := shell(t, l, "echo ready; exec sleep 300"), shell(t, l, script), shell(t, l, script)
	for _, c := range []*Child{plain, deaf, foreign} {
		says(t, c, "ready")
	}
	reaper, err := StartReaper()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []*Child{plain, deaf} {
		if err := reaper.watchChild(c.PID(), syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
	}
	if err := reaper.send(order{Child: &process{PID: foreign.PID(), Start: "1"}, Signal: int(syscall.SIGKILL)}); err != nil {
		t.Fatal(err)
	}
	if err := reaper.Close(); err != nil {
		t.Fatal(err)
	}
	<-plain.Done()
	<-deaf.Done()
	if plain.Status() != "signal: interrupt" || deaf.Status() != "signal: killed" {
		t.Errorf("they ended by %q and %q", plain.Status(), deaf.Status())
	}
	if foreign.Status() != "running" {
		t.Errorf("a process that only had the pid ended: %s", foreign.Status())
	}
	if err := reaper.Close(); err != nil {
		t.Errorf("again: %v", err)
	}
	if err := reaper.watchFolder("/nowhere"); err == nil || !strings.Contains(err.Error(), "the reaper has gone") {
		t.Errorf("an order to a closed reaper: %v", err)
	}
}

func TestForgottenFoldersAreLeftAlone(t *testing.T) {
	reaper, err := StartReaper()
	if err != nil {
		t.Fatal(err)
	}
	kept := t.TempDir()
	if err := reaper.watchFolder(kept); err != nil {
		t.Fatal(err)
	}
	reaper.forgetFolder(kept)
	if err := reaper.Close(); err != nil {
		t.Fatal(err)
	}
	if missing(kept) {
		t.Error("removed")
	}
}

// A lab can die in the middle of an order.
func TestReaperReadsWhatIsWhole(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	removed, kept := t.TempDir(), t.TempDir()
	cmd := exec.Command(self, ReaperArg)
	cmd.Stdin = strings.NewReader(`{"folder":"` + removed + `"}` + "\n" + `{"folder":"` + kept)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil || string(out) != readyLine+"\n" || stderr.Len() > 0 {
		t.Errorf("%v, stdout %q, stderr %q", err, out, stderr.String())
	}
	if !missing(removed) || missing(kept) {
		t.Errorf("removed the first: %v, kept the second: %v; want both", missing(removed), !missing(kept))
	}
}

// A lab can die between an order and the folder that it announces, or right after
// it has made that: the folder goes if it is the lab's, and only then.
func TestExpectedFolders(t *testing.T) {
	reaper, err := StartReaper()
	if err != nil {
		t.Fatal(err)
	}
	parent := t.TempDir()
	made, foreign, forgotten := filepath.Join(parent, "made"), filepath.Join(parent, "foreign"), filepath.Join(parent, "forgotten")
	for _, path := range []string{made, foreign, forgotten} {
		if err := os.Mkdir(path, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	lock, err := lockFolder(foreign)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	for _, path := range []string{made, foreign, forgotten, filepath.Join(parent, "never made")} {
		if err := reaper.expectFolder(path); err != nil {
			t.Fatal(err)
		}
	}
	reaper.forgetFolder(forgotten)
	if err := reaper.Close(); err != nil {
		t.Fatal(err)
	}
	if !missing(made) || missing(foreign) || missing(forgotten) {
		t.Errorf("removed its own: %v, another's: %v, the forgotten: %v; want the first alone", missing(made), missing(foreign), missing(forgotten))
	}
}

// ordersSeen is a reaper's standard input that notes whether the folder of each
// order was there when the order came.
type ordersSeen struct{ orders, there []string }

func (o *ordersSeen) Write(line []byte) (int, error) {
	var got order
	if err := json.Unmarshal(line, &got); err != nil {
		return 0, err
	}
	kind, path := "expect", got.Expect
	if path == "" {
		kind, path = "folder", got.Folder
	}
	o.orders = append(o.orders, kind)
	if !missing(path) {
		o.there = append(o.there, kind)
	}
	return len(line), nil
}

func (o *ordersSeen) Close() error { return nil }

func TestTheReaperKnowsAFolderBeforeItIsThere(t *testing.T) {
	seen := &ordersSeen{}
	l := NewLauncher(&Reaper{stdin: seen})
	t.Cleanup(l.Close)
	folder(t, l, t.TempDir())
	if !slices.Equal(seen.orders, []string{"expect", "folder"}) || !slices.Equal(seen.there, []string{"folder"}) {
		t.Errorf("orders %q, of a folder that was there %q; want expect before it and folder after", seen.orders, seen.there)
	}
}

func TestStartFailsWithoutItsReaper(t *testing.T) {
	reaper, err := StartReaper()
	if err != nil {
		t.Fatal(err)
	}
	l := NewLauncher(reaper)
	t.Cleanup(l.Close)
	if err := reaper.Close(); err != nil {
		t.Fatal(err)
	}
	parent := t.TempDir()
	c, err := l.Start(t.Context(), Spec{Name: "victim", Path: "sleep", Args: []string{"300"}, LogPath: parent + "/log"})
	if c != nil || err == nil || !strings.HasPrefix(err.Error(), "start victim: the reaper has gone") {
		t.Errorf("%v, %v", c, err)
	}
	if _, err := l.CreateFolder(parent, "lab-"); err == nil {
		t.Error("made a folder that nobody would remove")
	}
	if entries, err := os.ReadDir(parent); err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v, %v; want the log alone", entries, err)
	}
}
