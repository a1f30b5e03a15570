package pgserver

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"chokepoint/internal/lab/proc"
)

func TestServesAndLeavesNothing(t *testing.T) {
	parent := tempParent(t)
	s := open(t, Config{Launcher: launcher(t), TempParent: parent})
	selectOne(t, s.URL())

	if !strings.HasPrefix(s.Source(), "local /") {
		t.Errorf("source %q, want a local one", s.Source())
	}
	if !regexp.MustCompile(`^[0-9]+(\.[0-9]+|[a-z]+[0-9]+)$`).MatchString(s.Version()) {
		t.Errorf("version %q", s.Version())
	}
	if !strings.Contains(s.URL(), "host=%2F") {
		t.Errorf("URL %s is not on a socket", s.URL())
	}
	if got, want := group(t, s.child.PID()), s.child.PID(); got != want {
		t.Errorf("process group %d, want its own, %d: Ctrl-C would reach it", got, want)
	}
	if log := strings.Join(s.LastLog(10), "\n"); !strings.Contains(log, "ready to accept connections") {
		t.Errorf("log:\n%s", log)
	}
	select {
	case <-s.Died():
		t.Error("died while it runs")
	default:
	}

	for range 2 { // the second has nothing to do
		if err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	<-s.Died()
	if s.Status() != "exit status 0" {
		t.Errorf("status %q", s.Status())
	}
	nothingLeft(t, parent)
}

func group(t *testing.T, pid int) int {
	t.Helper()
	pgid, err := syscall.Getpgid(pid)
	if err != nil {
		t.Fatal(err)
	}
	return pgid
}

func TestTwoAtOnce(t *testing.T) {
	parent := tempParent(t)
	a := open(t, Config{Launcher: launcher(t), TempParent: parent})
	b := open(t, Config{Launcher: launcher(t), TempParent: parent})
	if swept, err := proc.Sweep(t.Context(), parent, FolderPrefix); err != nil || len(swept) != 0 {
		t.Fatalf("swept %v, %v: both are alive", swept, err)
	}
	selectOne(t, a.URL())
	selectOne(t, b.URL())
	if err := a.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	selectOne(t, b.URL())
}

// A path that is too long for a socket, or that cannot be written in a
// connection string, means loopback and a password.
func TestLoopbackWhereTheSocketCannotBe(t *testing.T) {
	for _, name := range []string{strings.Repeat("long-", 20), "a,b"} {
		parent := filepath.Join(tempParent(t), name)
		if err := os.Mkdir(parent, 0o755); err != nil {
			t.Fatal(err)
		}
		s := open(t, Config{Launcher: launcher(t), TempParent: parent})
		selectOne(t, s.URL())
		if !strings.Contains(s.URL(), "@127.0.0.1:") {
			t.Fatalf("URL %s is not on loopback", s.URL())
		}
		password := regexp.MustCompile(`:[A-Z0-9]+@`)
		wrong := password.ReplaceAllString(s.URL(), ":wrong-secret@")
		_, err := Open(t.Context(), Config{Launcher: launcher(t), DatabaseURL: wrong})
		wantOneLine(t, err, "127.0.0.1:", "password authentication failed", "28P01")
		if strings.Contains(err.Error(), "wrong-secret") {
			t.Errorf("the error has the password: %v", err)
		}

		given := open(t, Config{Launcher: launcher(t), DatabaseURL: s.URL()})
		if given.Source() != "DATABASE_URL" || given.Version() != s.Version() || given.URL() != s.URL() {
			t.Errorf("source %q, version %q", given.Source(), given.Version())
		}
		if err := given.Close(t.Context()); err != nil {
			t.Error(err)
		}
		selectOne(t, s.URL()) // still there: it was not ours to end
		if err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
		nothingLeft(t, parent)
	}
}

func TestPortTakenMeanwhile(t *testing.T) {
	parent := filepath.Join(tempParent(t), strings.Repeat("long-", 20))
	if err := os.Mkdir(parent, 0o755); err != nil {
		t.Fatal(err)
	}
	// The first start fails as PostgreSQL does when it cannot bind.
	tried := filepath.Join(tempParent(t), "tried")
	if err := os.Mkdir(tried, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(tried, 0o777); err != nil {
		t.Fatal(err)
	}
	bin := scripts(t, "", `if mkdir `+tried+`/once 2>/dev/null; then
  echo 'LOG:  could not bind IPv4 address "127.0.0.1": Address already in use' >&2
  exit 1
fi`)
	s := open(t, Config{Launcher: launcher(t), TempParent: parent, BinDirs: []string{bin}})
	selectOne(t, s.URL())
	if _, err := os.Stat(filepath.Join(tried, "once")); err != nil {
		t.Errorf("there was no first start: %v", err)
	}
}

// scripts makes a folder with an initdb and a postgres that first run the given
// shell commands and then the real program.
func scripts(t *testing.T, initdb, postgres string) string {
	t.Helper()
	dir := tempParent(t)
	for name, first := range map[string]string{"initdb": initdb, "postgres": postgres} {
		text := "#!/bin/sh\n" + first + "\nexec \"$(pg_config --bindir)/" + name + "\" \"$@\"\n"
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestServerThatDies(t *testing.T) {
	parent := tempParent(t)
	log := filepath.Join(t.TempDir(), "postgres.log")
	s := open(t, Config{Launcher: launcher(t), TempParent: parent, LogPath: log})
	if err := s.child.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-s.Died()
	if s.Status() != "signal: killed" {
		t.Errorf("status %q", s.Status())
	}
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
	nothingLeft(t, parent)
	if _, err := os.Stat(log); err != nil {
		t.Errorf("the log is gone: %v", err)
	}
	if len(s.LastLog(3)) != 3 {
		t.Errorf("last log lines: %q", s.LastLog(3))
	}
}

func TestCancelledOpenLeavesNothing(t *testing.T) {
	cause := errors.New("the user pressed Ctrl-C")
	for _, moment := range []struct{ name, file string }{
		{"before", ""},
		{"folder made", ""},
		{"in initdb", "initdb.log"},
		{"in initdb's own server", "data/postmaster.pid"},
		{"in the server's start", "postgres.log"},
	} {
		t.Run(moment.name, func(t *testing.T) {
			parent := tempParent(t)
			ctx, cancel := context.WithCancelCause(t.Context())
			watching := make(chan struct{})
			if moment.name == "before" {
				cancel(cause)
				close(watching)
			} else {
				go func() {
					defer close(watching)
					for ctx.Err() == nil {
						if found, _ := filepath.Glob(filepath.Join(parent, FolderPrefix+"*", moment.file)); len(found) > 0 {
							cancel(cause)
						}
					}
				}()
			}
			// The server never gets ready, so that it is always in its start.
			s, err := Open(ctx, Config{Launcher: launcher(t), TempParent: parent, BinDirs: []string{scripts(t, "", "sleep 300")}, NoDownload: true})
			cancel(nil)
			<-watching
			if s != nil || !errors.Is(err, cause) {
				t.Fatalf("%v, %v; want the cause of the cancellation", s, err)
			}
			nothingLeft(t, parent)
		})
	}
}

func TestKilledLabLeavesNothing(t *testing.T) {
	t.Run("while it holds the server", func(t *testing.T) {
		parent := tempParent(t)
		kill, url := holder(t, parent)
		selectOne(t, url())
		kill()
		nothingLeft(t, parent)
	})
	for _, name := range []string{"initdb.log", "data/postmaster.pid", "postgres.log"} {
		t.Run("once there is "+name, func(t *testing.T) {
			parent := tempParent(t)
			kill, _ := holder(t, parent)
			eventually(t, name, func() bool {
				found, _ := filepath.Glob(filepath.Join(parent, FolderPrefix+"*", name))
				return len(found) > 0
			})
			kill()
			nothingLeft(t, parent)
		})
	}
}

func TestNoPostgreSQL(t *testing.T) {
	parent := tempParent(t)
	broken := scripts(t, "echo 'initdb: error: the disk is on fire' >&2; exit 1", "")
	early := scripts(t, "", "echo 'FATAL:  no memory today' >&2; exit 2")
	_, err := Open(t.Context(), Config{Launcher: launcher(t), TempParent: parent,
		BinDirs: []string{broken, early}, CacheDir: tempParent(t), RepositoryURL: "http://" + closedPort(t)})
	wantOneLine(t, err,
		"set DATABASE_URL", "apt-get install postgresql", "allow the download",
		"local "+broken, "the disk is on fire",
		"local "+early, "no memory today", "exit status 2",
		"embedded "+downloadVersion, "connection refused")
	nothingLeft(t, parent)

	_, err = Open(t.Context(), Config{Launcher: launcher(t), TempParent: parent, BinDirs: []string{}, NoDownload: true})
	wantOneLine(t, err, "no postgres and initdb found", "the download is not allowed",
		"set DATABASE_URL", "apt-get install postgresql", "allow the download")
}

func TestDatabaseURLIsUsedOrRefused(t *testing.T) {
	refused := closedPort(t)
	for _, c := range []struct {
		name, url string
		want      []string
	}{
		{"refused", "postgres://ann:s3cr3t-word@" + refused + "/shop", []string{refused, `"ann"`, `"shop"`, "connection refused", "unset it"}},
		{"refused, key=value", "host=127.0.0.1 port=" + refused[len("127.0.0.1:"):] + " user=ann password=s3cr3t-word dbname=shop", []string{refused, "connection refused"}},
		{"no such socket", "postgres://ann:s3cr3t-word@/shop?host=/nowhere", []string{"/nowhere", "no such file"}},
		{"password cuts the URL", "postgres://ann:s3cr3t-word/x@127.0.0.1/shop", []string{"percent-encode", "postgres://user:password@host"}},
		{"bad setting", "postgres://ann:s3cr3t-word@127.0.0.1/shop?sslmode=maybe", []string{"host 127.0.0.1", "sslmode"}},
		{"cause with the password in it", "postgres://ann:s3cr3t@127.0.0.1/shop?connect_timeout=s3cr3t", []string{"not a connection string"}},
		{"no connection string", "s3cr3t-word", []string{"not a connection string", "key=value"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Open(t.Context(), Config{Launcher: launcher(t), DatabaseURL: c.url})
			wantOneLine(t, err, append(c.want, "DATABASE_URL")...)
			if strings.Contains(err.Error(), "s3cr3t") {
				t.Errorf("the error has the password: %v", err)
			}
		})
	}
	// A Ctrl-C is not the server's fault.
	cause := errors.New("the user pressed Ctrl-C")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	if _, err := Open(ctx, Config{Launcher: launcher(t), DatabaseURL: "postgres://ann@" + refused}); !errors.Is(err, cause) {
		t.Errorf("%v, want the cause of the cancellation", err)
	}
}

// closedPort is an address that refuses connections.
func closedPort(t *testing.T) string {
	t.Helper()
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	return address("127.0.0.1", uint16(port))
}

// wantOneLine fails the test unless the error is one line with all the texts in
// it.
func wantOneLine(t *testing.T, err error, texts ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("no error")
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("more than one line: %q", err)
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("%q is not in: %v", text, err)
		}
	}
}

func TestLauncherIsRequired(t *testing.T) {
	_, err := Open(t.Context(), Config{})
	wantOneLine(t, err, "no launcher")
}
