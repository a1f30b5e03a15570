package installed

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// program puts a shell script into a folder that is all of the PATH.
func program(t *testing.T, name, script string) string {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
	return path
}

func TestVersion(t *testing.T) {
	for _, tc := range []struct{ name, script, want, err string }{
		{"on stderr", "echo 'nginx version: nginx/1.22.1' >&2", "1.22.1", ""},
		{"with a tail", "echo 'HAProxy version 2.6.12-1+deb12u4 2024/01/02 - https://haproxy.org/'", "2.6.12-1+deb12u4", ""},
		{"after other lines", "echo 'a warning'; echo 'Chromium 156.0.8078.108 built on Debian'", "156.0.8078.108", ""},
		{"none", "echo no figures; echo here", "", `PATH -v said "no figures", which has no version in it`},
		{"a failure", "echo 1.2; exit 3", "", "PATH -v: exit status 3"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := Program{Title: "tool", Names: []string{"missing", "tool"}, Package: "tool", VersionFlag: "-v"}
			want := program(t, "tool", tc.script)
			path, err := p.Path()
			if err != nil || path != want {
				t.Fatalf("path %q, %v; want %q", path, err, want)
			}
			version, err := p.Version(t.Context(), path)
			message := ""
			if err != nil {
				version, message = "", strings.ReplaceAll(err.Error(), path, "PATH")
			}
			if version != tc.want || message != tc.err {
				t.Errorf("version %q, %q; want %q, %q", version, message, tc.want, tc.err)
			}
		})
	}
}

func TestAProgramThatDoesNotAnswer(t *testing.T) {
	path := program(t, "tool", "exec /bin/sleep 300")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := (Program{Names: []string{"tool"}}).Version(ctx, path); err == nil || !strings.Contains(err.Error(), "no answer") {
		t.Errorf("error %v", err)
	}
}

func TestAProgramThatIsNotThere(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	p := Program{Title: "Tool", Names: []string{"no-such-tool", "nor-this"}, Package: "the-tool"}
	if _, err := p.Path(); err == nil || err.Error() != "Tool is not installed; on Debian: apt-get install the-tool" {
		t.Errorf("error %v", err)
	}
}

// Debian keeps servers where only root's PATH leads.
func TestBeyondThePath(t *testing.T) {
	path := program(t, "tool", "true")
	t.Setenv("PATH", t.TempDir())
	before := beyondPath
	beyondPath = append([]string{filepath.Dir(path)}, before...)
	defer func() { beyondPath = before }()
	if got, err := (Program{Names: []string{"tool"}}).Path(); err != nil || got != path {
		t.Errorf("path %q, %v; want %q", got, err, path)
	}
}
