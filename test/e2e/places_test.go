//go:build e2e

package e2e

import (
	"context"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"chokepoint/internal/lab/pgserver"
	"chokepoint/internal/lab/proc"
	"chokepoint/internal/result"
)

// brief is the shortest whole run: a load of a second.
func brief(t *testing.T, args ...string) *bench {
	t.Helper()
	return exhaustion(t, append([]string{"-duration=20s", "-dump-at=15s", "-recovery-wait=5s"}, args...)...)
}

// asNobody gives the bench to an account without a home, and copies of the
// programs with it, since it may not enter the checkout.
func (b *bench) asNobody() {
	b.t.Helper()
	if os.Geteuid() != 0 {
		return // every run is one of an ordinary user then
	}
	nobody, err := user.Lookup("nobody")
	if err != nil {
		b.t.Fatal(err)
	}
	uid, _ := strconv.Atoi(nobody.Uid)
	gid, _ := strconv.Atoi(nobody.Gid)
	bin := filepath.Join(filepath.Dir(b.tmp), "bin")
	if err := os.CopyFS(bin, os.DirFS(binDir)); err != nil {
		b.t.Fatal(err)
	}
	for _, dir := range []string{b.tmp, filepath.Dir(b.tmp)} {
		if err := os.Chown(dir, uid, gid); err != nil {
			b.t.Fatal(err)
		}
	}
	b.cmd.Path = filepath.Join(bin, "lab")
	b.cmd.Dir = "/"
	b.cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}

// TestOrdinaryUser: no root, no home.
func TestOrdinaryUser(t *testing.T) {
	t.Parallel()
	b := brief(t)
	b.asNobody()
	env := b.cmd.Env
	b.cmd.Env = nil
	for _, kv := range env {
		if !strings.HasPrefix(kv, "HOME=") && !strings.HasPrefix(kv, "XDG_") && !strings.HasPrefix(kv, "USER=") {
			b.cmd.Env = append(b.cmd.Env, kv)
		}
	}
	_, dir := b.measured(b.run())
	checkFiles(t, dir, 800)
	b.checkNothingLeft()
}

// TestTwoAtOnce: two runs in the same second and the same folder are two results,
// both whole.
func TestTwoAtOnce(t *testing.T) {
	t.Parallel()
	a, b := brief(t, "-profile=fixed"), brief(t, "-profile=fixed")
	b.cmd.Env = append(b.cmd.Env, "CHOKEPOINT_RESULTS="+a.results)
	a.start()
	b.start()
	a.wait()
	b.wait()
	dirs, _ := filepath.Glob(filepath.Join(a.results, "2*"))
	if len(dirs) != 2 {
		t.Fatalf("%d results, want 2: %v", len(dirs), dirs)
	}
	for _, dir := range dirs {
		checkFiles(t, dir, 800)
		s, err := result.ReadSummary(dir)
		if err != nil || s.Run.ID != filepath.Base(dir) {
			t.Errorf("%s: id %s, %v", dir, s.Run.ID, err)
		}
		checkBelieved(t, s.Validity.Reasons)
		for name, e := range s.Endpoints {
			checkLedger(t, name, e)
			if e.Scheduled != 400 {
				t.Errorf("%s: %d scheduled, want 400", name, e.Scheduled)
			}
		}
	}
	a.checkNothingLeft()
	b.checkNothingLeft()
}

// passwordServer is a PostgreSQL that asks for a password: where the socket's
// path has a comma, the lab's own makes do with loopback and a password.
func passwordServer(t *testing.T) *url.URL {
	t.Helper()
	root, err := os.MkdirTemp("", "e2e,")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(root, 0o755); err != nil {
		t.Fatal(err)
	}
	launcher := proc.NewLauncher(nil)
	server, err := pgserver.Open(t.Context(), pgserver.Config{Launcher: launcher, TempParent: root})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(context.Background()); err != nil {
			t.Error(err)
		}
		launcher.Close()
		os.RemoveAll(root)
	})
	u, err := url.Parse(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	if password, _ := u.User.Password(); password == "" {
		t.Fatalf("the server at %s wants no password", u.Host)
	}
	return u
}

// objects are the names of everything that anybody made in a database. The
// schemas of temporary tables are PostgreSQL's own, and stay when those are gone.
func objects(t *testing.T, databaseURL string) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	var names string
	err = conn.QueryRow(t.Context(), `select coalesce(string_agg(name, ' ' order by name), '') from (
		select nspname || '.' || relname as name from pg_class join pg_namespace n on n.oid = relnamespace
			where nspname not in ('pg_catalog', 'information_schema', 'pg_toast')
		union all select nspname from pg_namespace where nspname !~ '^pg_(toast_)?temp_'
		union all select rolname from pg_roles
		union all select datname from pg_database) all_names`).Scan(&names)
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// TestDatabaseURL: a server that is given is used, left as it was, and its
// password is nowhere to be read.
func TestDatabaseURL(t *testing.T) {
	t.Parallel()
	u := passwordServer(t)
	password, _ := u.User.Password()

	t.Run("right", func(t *testing.T) {
		before := objects(t, u.String())
		b := brief(t, "-profile=fixed")
		b.cmd.Env = append(b.cmd.Env, "DATABASE_URL="+u.String())
		b.start()
		b.stderr.await(t, "load begins in")
		for pid, arguments := range b.processes() {
			if strings.Contains(strings.Join(arguments, " "), password) {
				t.Errorf("the password is in the arguments of process %d: %q", pid, arguments)
			}
		}
		_, dir := b.measured(b.wait())
		checkFiles(t, dir, 800)
		m, err := result.ReadManifest(dir)
		if err != nil || !strings.Contains(m.Postgres, "DATABASE_URL") {
			t.Errorf("the manifest says PostgreSQL %q, %v; want DATABASE_URL", m.Postgres, err)
		}
		hides(t, b, password)
		if after := objects(t, u.String()); after != before {
			t.Errorf("the database was changed: it has %s, and had %s", after, before)
		}
		b.checkNothingLeft()
	})
	t.Run("wrong password", func(t *testing.T) {
		wrong := *u
		wrong.User = url.UserPassword(u.User.Username(), "open-sesame")
		b := brief(t)
		b.cmd.Env = append(b.cmd.Env, "DATABASE_URL="+wrong.String())
		if code := b.run(); code != 1 {
			t.Errorf("exit %d, want 1", code)
		}
		b.oneLine("password authentication failed")
		hides(t, b, "open-sesame")
		b.noResult()
		b.checkNothingLeft()
	})
	t.Run("killed", func(t *testing.T) {
		before := objects(t, u.String())
		b := brief(t)
		b.cmd.Env = append(b.cmd.Env, "DATABASE_URL="+u.String())
		b.start()
		b.stderr.await(t, "baseline: /fast at")
		b.cmd.Process.Kill()
		b.wait()
		b.checkNothingLeft()
		// A victim that was killed could not drop its table: PostgreSQL must.
		deadline := time.Now().Add(20 * time.Second)
		for after := objects(t, u.String()); after != before; after = objects(t, u.String()) {
			if time.Now().After(deadline) {
				t.Fatalf("the database was changed: it has %s, and had %s", after, before)
			}
			time.Sleep(50 * time.Millisecond)
		}
	})
}

// hides fails if a secret is in anything that the bench has said or written.
func hides(t *testing.T, b *bench, secret string) {
	t.Helper()
	if strings.Contains(b.stderr.text()+b.stdout.String(), secret) {
		t.Errorf("the password is shown:\n%s%s", b.stderr.text(), b.stdout.String())
	}
	out, err := exec.Command("grep", "-rlF", "-e", secret, b.results).CombinedOutput()
	if exit, _ := err.(*exec.ExitError); exit == nil || exit.ExitCode() != 1 {
		t.Errorf("the password is in %s (%v)", out, err)
	}
}
