package pgserver

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFindBinDirs(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	program := func(text string, path ...string) {
		t.Helper()
		file := filepath.Join(append([]string{root}, path...)...)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, version := range []string{"9.6", "10", "17"} {
		program("", "lib", version, "bin", "postgres")
		program("", "lib", version, "bin", "initdb")
	}
	program("", "lib", "18", "bin", "postgres") // no initdb: the client package
	program("", "brew", "postgresql@14", "bin", "postgres")
	program("", "brew", "postgresql@14", "bin", "initdb")
	program("", "configured", "postgres")
	program("", "configured", "initdb")
	program("#!/bin/sh\necho "+filepath.Join(root, "configured"), "path", "pg_config")
	// In PATH there is only a link to one of them, as Debian's postgresql-common
	// users make it.
	if err := os.Symlink(filepath.Join(root, "lib/10/bin/postgres"), filepath.Join(root, "path/postgres")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", filepath.Join(root, "path"))

	got := findBinDirs(t.Context(), []string{filepath.Join(root, "lib/*/bin"), filepath.Join(root, "brew/postgresql*/bin")})
	var want []string
	for _, dir := range []string{"lib/10/bin", "configured", "lib/17/bin", "lib/9.6/bin", "brew/postgresql@14/bin"} {
		want = append(want, filepath.Join(root, dir))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("folders (-want +got):\n%s", diff)
	}

	t.Setenv("PATH", t.TempDir())
	if got := findBinDirs(t.Context(), nil); len(got) != 0 {
		t.Errorf("found %v where nothing is", got)
	}
}

func TestCanEnter(t *testing.T) {
	private := filepath.Join(tempParent(t), "private")
	inner := filepath.Join(private, "inner")
	if err := os.MkdirAll(inner, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(private, 0o700); err != nil {
		t.Fatal(err)
	}
	me := uint32(os.Getuid())
	for _, c := range []struct {
		name    string
		account account
		denied  bool
	}{
		{"the caller", account{}, false},
		{"the owner", account{"owner", &syscall.Credential{Uid: me, Gid: 12345}}, false},
		{"the group", account{"member", &syscall.Credential{Uid: me + 12345, Gid: uint32(os.Getgid())}}, true},
		{"another", account{"stranger", &syscall.Credential{Uid: me + 12345, Gid: 12345}}, true},
	} {
		err := c.account.canEnter(inner, "use /tmp")
		if c.denied {
			wantOneLine(t, err, c.account.name, private+" (mode 0700)", "use /tmp")
		} else if err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	_, err := Open(t.Context(), Config{Launcher: launcher(t), TempParent: filepath.Join(private, "missing"), BinDirs: []string{scripts(t, "", "")}, NoDownload: true})
	wantOneLine(t, err, "missing", "no such file or directory")
}
