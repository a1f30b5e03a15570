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
