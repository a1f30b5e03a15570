package proc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"chokepoint/internal/adminapi"
)

func TestChildHasItsOwnGroup(t *testing.T) {
	c := shell(t, launcher(t), "sleep 300")
	group, err := syscall.Getpgid(c.PID())
	if err != nil {
		t.Fatal(err)
	}
	if group != c.PID() || group == syscall.Getpgrp() {
		t.Errorf("process group %d, want its own, %d: Ctrl-C would reach it", group, c.PID())
	}
	if c.Status() != "running" || c.Err() != nil {
		t.Errorf("status %q, %v", c.Status(), c.Err())
	}
}

func TestLabVariablesDoNotReachTheChild(t *testing.T) {
	t.Setenv("CHOKEPOINT_PROFILE", "anti")
	t.Setenv("OTHER_PROFILE", "kept")
	for name, env := range map[string][]string{
		"inherited": nil,
		"given":     {"CHOKEPOINT_RATE=5", "OTHER_PROFILE=kept"},
	} {
		c := begin(t, launcher(t), Spec{Name: "env", Path: "/usr/bin/env", Env: env})
		<-c.Done()
		got := strings.Join(c.LastLog(1000), "\n")
		if strings.Contains(got, "CHOKEPOINT_") || !strings.Contains(got, "OTHER_PROFILE=kept") {
			t.Errorf("%s: the child's environment:\n%s", name, got)
		}
	}
}

func TestStartErrorsNameTheChild(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	closed := NewLauncher(nil)
	closed.Close()
	cancelled, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("the user pressed Ctrl-C"))
	for _, c := range []struct {
		name string
		l    *Launcher
		ctx  context.Context
		spec Spec
		want string
	}{
		{"no name", launcher(t), t.Context(), Spec{Path: "/bin/true", LogPath: log}, "start a child: it has no name"},
		{"no program", launcher(t), t.Context(), Spec{Name: "victim", LogPath: log}, "start victim: no program given"},
		{"no log", launcher(t), t.Context(), Spec{Name: "victim", Path: "/bin/true"}, "start victim: no log file given"},
		{"missing program", launcher(t), t.Context(), Spec{Name: "victim", Path: "/nowhere/victim", LogPath: log}, "start victim: /nowhere/victim: no such file or directory"},
		{"missing folder", launcher(t), t.Context(), Spec{Name: "victim", Path: "/bin/true", Dir: "/nowhere", LogPath: log}, "start victim: working folder: stat /nowhere: no such file or directory"},
		{"unwritable log", launcher(t), t.Context(), Spec{Name: "victim", Path: "/bin/true", LogPath: "/nowhere/log"}, "start victim: open its log: open /nowhere/log: no such file or directory"},
		{"closed", closed, t.Context(), Spec{Name: "victim", Path: "/bin/true", LogPath: log}, "start victim: the launcher is closed"},
		{"cancelled", launcher(t), cancelled, Spec{Name: "victim", Path: "/bin/true", LogPath: log}, "start victim: the user pressed Ctrl-C"},
	} {
		child, err := c.l.Start(c.ctx, c.spec)
		if child != nil || err == nil || err.Error() != c.want {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

func TestListening(t *testing.T) {
	want := adminapi.Listening{Program: "victim", Public: "127.0.0.1:1", Admin: "127.0.0.1:2"}
	c := begin(t, launcher(t), Spec{Name: "victim", Path: "/bin/sh", Announces: true, Args: []string{"-c",
		`echo warming up; echo '{"level":"info"}'; echo '{"program":"victim","public":"127.0.0.1:1","admin":"127.0.0.1:2"}'; echo on stderr >&2; sleep 300`}})
	for range 2 { // whoever asks later hears it too
		got, err := c.Listening(t.Context())
		if err != nil || got != want {
			t.Fatalf("%+v, %v; want %+v", got, err, want)
		}
	}
	// Both streams are in the log.
	says(t, c, "warming up")
	says(t, c, "on stderr")
}

func TestListeningFails(t *testing.T) {
	t.Run("the child ends", func(t *testing.T) {
		dir := t.TempDir()
		c := begin(t, launcher(t), Spec{Name: "victim", Path: "/bin/sh", Announces: true, LogPath: filepath.Join(dir, "log"),
			Args: []string{"-c", "echo first; echo; echo 'bind: address already in use' >&2; exit 7"}})
		_, err := c.Listening(t.Context())
		want := "victim ended at its start: exit status 7; its last log lines: "
		if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Fatalf("%v, want %q and no second line", err, want)
		}
		// The two streams have no common order.
		for _, line := range []string{"first", "bind: address already in use"} {
			if !strings.Contains(err.Error(), line) {
				t.Errorf("%q is not in: %v", line, err)
			}
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		if got := len(c.LastLog(10)); got != 2 {
			t.Errorf("%d log lines after the log is gone, want 2", got)
		}
		if c.Err() == nil || c.Err().Error() != "exit status 7" {
			t.Errorf("error %v", c.Err())
		}
	})
	t.Run("the child announces itself and ends", func(t *testing.T) {
		c := begin(t, launcher(t), Spec{Name: "victim", Path: "/bin/sh", Announces: true, Args: []string{"-c", `echo '{"program":"victim"}'`}})
		<-c.Done()
		if _, err := c.Listening(t.Context()); err == nil || !strings.Contains(err.Error(), "exit status 0") {
			t.Errorf("%v, want its exit status", err)
		}
	})
	t.Run("the wait ends", func(t *testing.T) {
		c := begin(t, launcher(t), Spec{Name: "victim", Path: "/bin/sh", Announces: true, Args: []string{"-c", "echo waiting for the database; sleep 300"}})
		says(t, c, "waiting for the database")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errors.New("not within 5s"))
		_, err := c.Listening(ctx)
		want := "victim did not say that it listens: not within 5s; its last log lines: waiting for the database"
		if err == nil || err.Error() != want {
			t.Errorf("%v, want %q", err, want)
		}
	})
	t.Run("it does not announce", func(t *testing.T) {
		if _, err := shell(t, launcher(t), "true").Listening(t.Context()); err == nil {
			t.Error("no error")
		}
	})
}

// However the pipe cuts the stream, the announcement is found and the log is
// whole.
func TestAnnouncementInPieces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		line := rapid.SampledFrom([]string{"", "text", `{"program":""}`, `{"a":1}`, strings.Repeat("x", maxAnnouncement+1)})
		before := rapid.SliceOfN(line, 0, 4).Draw(t, "before")
		stream := strings.Join(append(before, `{"program":"p","public":"a:1"}`, `{"program":"second"}`, ""), "\n")
		var log strings.Builder
		a := newAnnouncement(&log)
		for rest := stream; rest != ""; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "piece")
			if wrote, err := a.Write([]byte(rest[:n])); wrote != n || err != nil {
				t.Fatalf("wrote %d of %d, %v", wrote, n, err)
			}
			rest = rest[n:]
		}
		select {
		case <-a.found:
		default:
			t.Fatal("not found")
		}
		if want := (adminapi.Listening{Program: "p", Public: "a:1"}); a.listening != want {
			t.Fatalf("%+v, want %+v", a.listening, want)
		}
		if log.String() != stream {
			t.Fatal("the log is not what was written")
		}
	})
}

func TestStop(t *testing.T) {
	t.Run("politely", func(t *testing.T) {
		c := shell(t, launcher(t), `trap 'echo bye; exit 3' TERM; echo ready; while :; do sleep 0.01; done`)
		says(t, c, "ready")
		if err := c.Stop(t.Context(), deadline); err != nil {
			t.Fatal(err)
		}
		if c.Status() != "exit status 3" || c.LastLog(1)[0] != "bye" {
			t.Errorf("status %q, log %q", c.Status(), c.LastLog(9))
		}
		if err := c.Stop(t.Context(), deadline); err != nil {
			t.Errorf("again: %v", err)
		}
		if err := c.Signal(syscall.SIGTERM); !errors.Is(err, os.ErrProcessDone) {
			t.Errorf("signal to an ended child: %v", err)
		}
	})
	// After the grace the whole group goes, whatever it thinks of SIGTERM.
	const deaf = `trap '' TERM; sleep 300 & echo $!; echo ready; wait`
	t.Run("by force", func(t *testing.T) {
		c := shell(t, launcher(t), deaf)
		says(t, c, "ready")
		grandchild := pidIn(t, c)
		if err := c.Stop(t.Context(), 20*time.Millisecond); err != nil {
			t.Fatal(err)
		}
		if c.Status() != "signal: killed" {
			t.Errorf("status %q", c.Status())
		}
		eventually(t, "the grandchild is gone", gone(grandchild))
	})
	t.Run("in a hurry", func(t *testing.T) {
		c := shell(t, launcher(t), deaf)
		says(t, c, "ready")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := c.Stop(ctx, time.Hour); err != nil {
			t.Fatal(err)
		}
		if c.Status() != "signal: killed" {
			t.Errorf("status %q", c.Status())
		}
	})
	t.Run("with its own signal", func(t *testing.T) {
		c := begin(t, launcher(t), Spec{Name: "sleeper", Path: "sleep", Args: []string{"300"}, StopSignal: syscall.SIGINT})
		if err := c.Stop(t.Context(), deadline); err != nil {
			t.Fatal(err)
		}
		if c.Status() != "signal: interrupt" {
			t.Errorf("status %q", c.Status())
		}
	})
}

// pidIn reads a pid that the child has logged.
func pidIn(t *testing.T, c *Child) (pid int) {
	t.Helper()
	for _, line := range c.LastLog(10) {
		if _, err := fmt.Sscanf(line, "%d", &pid); err == nil {
			return pid
		}
	}
	t.Fatalf("no pid in %q", c.LastLog(10))
	return 0
}

func TestLastLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	var text strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&text, "line %d  \r\n\n", i)
	}
	text.WriteString("unfinished")
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"line 19998", "line 19999", "unfinished"}, tailLines(path, 0, 3)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	all := tailLines(path, 0, 1_000_000)
	if len(all) < 1000 || len(all) > tailBytes/len("line 19999") || !strings.HasPrefix(all[0], "line ") {
		t.Errorf("%d lines, the first is %q", len(all), all[0])
	}
	if got := tailLines(filepath.Join(t.TempDir(), "none"), 0, 3); got != nil {
		t.Errorf("a missing log has %q", got)
	}
	if got := tailLines(path, int64(text.Len()), 3); got != nil {
		t.Errorf("after its end a log has %q", got)
	}
}

// A log that several children write to in turn: each has its own words.
func TestLastLogIsOfTheChild(t *testing.T) {
	l, path := launcher(t), filepath.Join(t.TempDir(), "log")
	for _, test := range []struct {
		script string
		want   []string
	}{{"echo one; echo two", []string{"one", "two"}}, {"echo three", []string{"three"}}, {"true", nil}} {
		c := begin(t, l, Spec{Name: "script", Path: "/bin/sh", Args: []string{"-c", test.script}, LogPath: path})
		<-c.Done()
		if diff := cmp.Diff(test.want, c.LastLog(10)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.script, diff)
		}
	}
}

func TestGroup(t *testing.T) {
	l, g := launcher(t), NewGroup()
	order := filepath.Join(t.TempDir(), "order")
	for _, name := range []string{"database", "stub", "victim"} {
		c := begin(t, l, Spec{Name: name, Path: "/bin/sh", Args: []string{"-c",
			`trap 'echo ` + name + ` >> "$0"; exit 0' TERM; echo ready; while :; do sleep 0.01; done`, order}})
		says(t, c, "ready")
		g.Add(c)
	}
	early := shell(t, l, "exit 4")
	<-early.Done()
	g.Add(early)
	if c := <-g.Died(); c != early {
		t.Errorf("%s died first, want the script", c.Name())
	}
	if err := g.Stop(t.Context(), deadline); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(order)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("victim\nstub\ndatabase\n", string(got)); diff != "" {
		t.Errorf("order of the ends (-want +got):\n%s", diff)
	}
	select {
	case c := <-g.Died():
		t.Errorf("%s counts as died, but was stopped", c.Name())
	default:
	}
	for _, c := range g.Children() {
		select {
		case <-c.Done():
		default:
			t.Errorf("%s still runs", c.Name())
		}
	}
}
