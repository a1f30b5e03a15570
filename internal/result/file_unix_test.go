//go:build unix

package result

import (
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func TestAPipeIsWrittenAndNotReplaced(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	// Nobody reads it yet, and a probe neither waits nor ends a reader's file.
	if err := Probe(pipe); err != nil {
		t.Error(err)
	}
	read := make(chan string)
	go func() {
		text, _ := os.ReadFile(pipe)
		read <- string(text)
	}()
	if err := WriteFile(pipe, []byte("through")); err != nil {
		t.Error(err)
	}
	if got := <-read; got != "through" {
		t.Errorf("read %q", got)
	}
	if info, err := os.Lstat(pipe); err != nil || info.Mode()&fs.ModeNamedPipe == 0 {
		t.Errorf("mode %v, %v; want the pipe", info.Mode(), err)
	}
	wantFolder(t, dir, "pipe")
}

func TestASocketIsRefused(t *testing.T) {
	dir := t.TempDir()
	socket := filepath.Join(dir, "s")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	wantError(t, WriteFile(socket, []byte("lost")), socket, "it is a socket")
	wantError(t, Probe(socket), socket, "it is a socket")
	wantFolder(t, dir, "s")
}

// Each reader, given what has no end or never begins, says so at once.
func TestOnlyRegularFilesAreRead(t *testing.T) {
	readers := []struct {
		name string
		read func(dir string) (any, error)
	}{
		{RequestsFile, func(dir string) (any, error) { return ReadRequests(filepath.Join(dir, RequestsFile)) }},
		{TimelineFile, func(dir string) (any, error) { return ReadTimeline(filepath.Join(dir, TimelineFile)) }},
		{EventsFile, func(dir string) (any, error) { return ReadEvents(filepath.Join(dir, EventsFile)) }},
	}
	for _, d := range documents {
		readers = append(readers, struct {
			name string
			read func(dir string) (any, error)
		}{d.name, d.read})
	}
	for _, r := range readers {
		for _, test := range []struct {
			name, want string
			make       func(path string) error
		}{
			{"a pipe", "is not a regular file", func(path string) error { return syscall.Mkfifo(path, 0o600) }},
			{"a device without an end", "is not a regular file", func(path string) error { return os.Symlink("/dev/zero", path) }},
			{"a folder", "is a folder", func(path string) error { return os.Mkdir(path, 0o755) }},
			{"too large", "bytes, and at most", func(path string) error {
				if err := os.WriteFile(path, nil, 0o600); err != nil {
					return err
				}
				return os.Truncate(path, maxRequestsBytes+1) // a hole, which takes no room
			}},
		} {
			t.Run(r.name+" is "+test.name, func(t *testing.T) {
				dir := t.TempDir()
				path := filepath.Join(dir, r.name)
				if err := test.make(path); err != nil {
					t.Fatal(err)
				}
				_, err := r.read(dir)
				wantError(t, err, path, test.want)
			})
		}
	}
}
