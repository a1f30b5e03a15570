package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"chokepoint/internal/cli"
)

// TestOneSignalEndsWhatNobodyReads: a pipe without a reader holds a run up until a
// signal comes, and not until the second.
func TestOneSignalEndsWhatNobodyReads(t *testing.T) {
	server := slow(t)
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Skip(err)
	}
	for _, tt := range []struct {
		name   string
		args   []string
		stdout *os.File
		after  string // the file that is written before it is held up
		stderr string
	}{
		{"a pipe for the result", []string{"-json", pipe}, nil, "requests.csv",
			"loadgen: -json: cannot write " + pipe + ": nobody has read it 3s after the signal to end; choose another place\n"},
		{"a full stdout", nil, fullPipe(t), "load.json", "loadgen: stdout: nobody has read it 3s after the signal to end\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			cmd := withOutputs(t.Context(), dir, append(tt.args, "-duration", "500ms", "-rate", "40", server.URL)...)
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			if tt.stdout != nil {
				cmd.Stdout = tt.stdout
			}
			start(t, cmd)
			awaitFile(t, filepath.Join(dir, tt.after))
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			cmd.Wait()
			if code := cmd.ProcessState.ExitCode(); code != cli.ExitFailure || stderr.String() != tt.stderr {
				t.Errorf("exit code %d, stderr %q, want %d, %q", code, &stderr, cli.ExitFailure, tt.stderr)
			}
			if hidden, _ := filepath.Glob(filepath.Join(dir, ".*")); len(hidden) > 0 {
				t.Errorf("left behind: %q", hidden)
			}
		})
	}
}

// start begins a process that does not outlive the test.
func start(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	timer := time.AfterFunc(20*time.Second, func() { cmd.Process.Kill() })
	t.Cleanup(func() { timer.Stop(); cmd.Process.Kill(); cmd.Wait() })
}

// awaitFile waits until there is such a file.
func awaitFile(t *testing.T, path string) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if _, err := os.Stat(path); err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s has not come", path)
		}
	}
}

// fullPipe is the writing end of a pipe that takes nothing more.
func fullPipe(t *testing.T) *os.File {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	w.SetWriteDeadline(time.Now().Add(50 * time.Millisecond))
	for err == nil {
		_, err = w.Write(make([]byte, 4096))
	}
	return w
}

// TestAPipeThatNobodyOpens is waited for before the load, until a signal.
func TestAPipeThatNobodyOpens(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Skip(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var stdout, stderr bytes.Buffer
	code := run(ctx, []string{"-rate", "1", "-duration", "1s", "-json", filepath.Join(dir, "load.json"), "-hlog", pipe, "http://127.0.0.1:1/"}, &stdout, &stderr)
	if code != cli.ExitInterrupted || stdout.Len() > 0 || !strings.HasPrefix(stderr.String(), "loadgen: -hlog: cannot write "+pipe+": nobody has read it 3s after") {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, &stdout, &stderr)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("files %v, want the pipe alone", entries)
	}
	// Lets the opening go that was given up.
	f, err := os.OpenFile(pipe, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
}
