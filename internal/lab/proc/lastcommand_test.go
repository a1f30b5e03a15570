package proc

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A reaper runs, when the lab is gone, what was not cancelled: in order, and
// while the lab's folders are still there.
func TestLastCommands(t *testing.T) {
	t.Setenv("CHOKEPOINT_PROFILE", "anti")
	dir := t.TempDir()
	log := filepath.Join(dir, "log")
	reaper, err := StartReaper()
	if err != nil {
		t.Fatal(err)
	}
	l := NewLauncher(reaper)
	t.Cleanup(l.Close)
	folder, err := l.CreateFolder(dir, "lab-")
	if err != nil {
		t.Fatal(err)
	}
	script := func(text string) *LastCommand {
		t.Helper()
		c, err := l.AtLast("/bin/sh", "-c", text+" >> "+log)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	script(`test -d ` + folder.Path() + ` && echo first in $PWD, profile: $CHOKEPOINT_PROFILE`)
	cancelled := script(`echo cancelled`)
	script(`echo last`)
	cancelled.Cancel()
	if !missing(log) {
		t.Error("a command ran while the lab is alive")
	}
	if err := reaper.Close(); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(log)
	if want := "first in /, profile:\nlast\n"; err != nil || string(got) != want {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
	if !missing(folder.Path()) {
		t.Error("the folder is still there")
	}
}

// One that fails is told of in one line and stops nothing.
func TestLastCommandFails(t *testing.T) {
	kept, removed := filepath.Join(t.TempDir(), "made"), t.TempDir()
	var orders bytes.Buffer
	for _, o := range []order{
		{Run: []string{"/bin/sh", "-c", "echo why; echo because; exit 3"}},
		{Run: []string{"/nowhere/docker"}},
		{Run: []string{"/bin/mkdir", kept}},
		{Folder: removed},
	} {
		if err := json.NewEncoder(&orders).Encode(o); err != nil {
			t.Fatal(err)
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, ReaperArg)
	cmd.Stdin = &orders
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Run(); err == nil || err.Error() != "exit status 1" {
		t.Errorf("%v, want exit status 1", err)
	}
	lines := strings.Split(strings.TrimSpace(stderr.String()), "\n")
	if len(lines) != 2 || !strings.HasSuffix(lines[0], "exit status 3: because") || !strings.HasPrefix(lines[1], "/nowhere/docker: ") {
		t.Errorf("%q; want a line for each that failed", lines)
	}
	if missing(kept) || !missing(removed) {
		t.Errorf("the next command ran: %v, the folder was removed: %v; want both", !missing(kept), missing(removed))
	}
}

func TestIdentity(t *testing.T) {
	self, err := Self()
	if err != nil {
		t.Fatal(err)
	}
	change := func(f func(*Identity)) Identity {
		i := self
		f(&i)
		return i
	}
	for _, test := range []struct {
		name string
		id   Identity
		gone bool
	}{
		{"this process", self, false},
		{"another with its pid", change(func(i *Identity) { i.Start = "1" }), true},
		{"no such pid", change(func(i *Identity) { i.PID = 1 << 30 }), true},
		{"of another host", change(func(i *Identity) { i.PID, i.Host = 1<<30, "elsewhere" }), false},
		{"of another namespace", change(func(i *Identity) { i.PID, i.PIDNamespace = 1<<30, "pid:[1]" }), false},
		{"nothing known", Identity{}, false},
		{"start not known", change(func(i *Identity) { i.PID, i.Start = 1<<30, "" }), false},
	} {
		if got := test.id.Gone(); got != test.gone {
			t.Errorf("%s: gone %v, want %v", test.name, got, test.gone)
		}
	}
}
