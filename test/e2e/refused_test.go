//go:build e2e

package e2e

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// TestUsage: what cannot run is refused in one line that names the value, before
// anything is started or made.
func TestUsage(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		args string
		env  string
		want string // all of it, comma separated, in the one line
	}{
		{args: "run exhaustion -profile=nope", want: `nope,anti,fixed`},
		{args: "run", want: "exhaustion"},
		{args: "run exhaust", want: `"exhaust",lab help`},
		{args: "walk", want: `"walk",help`},
		{args: "run exhaustion extra", want: `"extra"`},
		{args: "run exhaustion -nope=1", want: "-nope"},
		{args: "run exhaustion -timeout=soon", want: "soon,timeout"},
		{args: "run exhaustion -permits=-1", want: "-1"},
		{args: "run exhaustion -scale=0.01", want: "0.01,0.05"},
		{args: "run exhaustion -scale=NaN", want: "NaN"},
		{args: "run exhaustion -rate=0", want: `"0"`},
		{args: "run exhaustion -rate=-5/s", want: "-5/s"},
		{args: "run exhaustion -rate=1e9", want: "1e+09/s,6e+10 requests,-fast-rate"},
		{args: "run exhaustion -rate=1e308", want: "1e+308"},
		{args: "run exhaustion -rate=20/fortnight", want: "fortnight"},
		{args: "run exhaustion -duration=1ns", want: "-dump-at,1ns"},
		{args: "run exhaustion -duration=1ns -dump-at=+5s", want: "1ns,not one request"},
		{args: "run exhaustion -duration=-1s", want: "-1s"},
		{args: "run exhaustion -duration=30s", want: "30s,40s,-dump-at"},
		{args: "run exhaustion -dump-at=15s,1h", want: "1h"},
		{args: "run exhaustion -dump-at=15s,later", want: "later"},
		{args: "run exhaustion -dump-at=40s,15s", want: "15s,load_40s"},
		{args: "run exhaustion -workers=1000000000000", want: "1000000000000"},
		{args: "run exhaustion -max-workers=1000000000000", want: "1000000000000"},
		{args: "run exhaustion -database-conns=1000", want: "1000"},
		{args: "run exhaustion -fault=boredom", want: "boredom,hang"},
		{args: "run exhaustion -fault=hang -fault-rate=7", want: "7"},
		{args: "run exhaustion -delay=slow", want: "slow"},
		{args: "run exhaustion -delay=file:/nowhere/delays", want: "/nowhere/delays"},
		{args: "run exhaustion -gomemlimit=lots", want: "lots,2GiB"},
		{args: "run exhaustion -victim-listen=nowhere", want: `"nowhere",host:port`},
		{args: "run exhaustion -stub-admin=127.0.0.1:99999", want: "127.0.0.1:99999"},
		{args: "run exhaustion -toxiproxy=ftp://x", want: "ftp://x"},
		{args: "run exhaustion -graceful-stop=-3s", want: "-3s"},
		{args: "run exhaustion -config=/nowhere/config", want: "/nowhere/config"},
		{args: "run exhaustion -config=CONFIG", want: "soon"},
		{args: "run exhaustion", env: "CHOKEPOINT_SCALE=x", want: `"x",CHOKEPOINT_SCALE`},
		{args: "run exhaustion -fault=loss -loss=1.5", want: "1.5"},
		{args: "run exhaustion -fault=loss -live", want: "-live,network namespaces"},
		{args: "compare exhaustion -faults=slow,loss", env: "DATABASE_URL=postgres://me@127.0.0.1:1/db", want: "DATABASE_URL,network namespaces"},
		{args: "compare exhaustion -faults=slow,gremlins", want: `"gremlins",tls_hang`},
		{args: "compare exhaustion -profiles=anti", want: "anti"},
		{args: "compare exhaustion -profiles=anti,fixed,anti", want: "anti,twice"},
		{args: "compare exhaustion -profiles=anti,nope", want: "nope"},
		{args: "compare exhaustion -profiles=", want: "-profiles"},
		{args: "compare exhaustion -runs=0", want: "-runs 0"},
		{args: "compare exhaustion -runs=1000000", want: "1000000"},
		{args: "report", want: "results/<run>"},
		{args: "profiles extra", want: `"extra"`},
	} {
		t.Run(strings.TrimSpace(test.env+" "+test.args), func(t *testing.T) {
			config := filepath.Join(t.TempDir(), "config")
			if err := os.WriteFile(config, []byte("profile anti\nduration soon\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			b := newBench(t, strings.Fields(strings.ReplaceAll(test.args, "CONFIG", config))...)
			if test.env != "" {
				b.cmd.Env = append(b.cmd.Env, test.env)
			}
			if code := b.run(); code != 2 {
				t.Errorf("exit %d, want 2", code)
			}
			for want := range strings.SplitSeq(test.want, ",") {
				b.oneLine(want)
			}
			if _, err := os.Stat(b.results); err == nil {
				t.Error("a results folder was made")
			}
			if b.stdout.Len() != 0 {
				t.Errorf("stdout: %q", b.stdout.String())
			}
			b.checkNothingLeft()
		})
	}
}

// TestCannotStart: what turns out to be missing while the world is built ends
// the run with one line, and takes down what stood already.
func TestCannotStart(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	taken := l.Addr().String()
	notToxiproxy := httptest.NewServer(http.NotFoundHandler())
	defer notToxiproxy.Close()
	for _, test := range []struct {
		name string
		args []string
		env  string
		want string
	}{
		{"the victim's port is taken", []string{"-victim-listen=" + taken}, "", taken},
		{"the victim's admin port is taken", []string{"-victim-admin=" + taken}, "", taken},
		{"the stub's port is taken", []string{"-stub-listen=" + taken}, "", taken},
		{"no such address here", []string{"-stub-admin=192.0.2.1:80"}, "", "192.0.2.1:80"},
		{"no programs", []string{"-bin-dir=/nowhere"}, "", "/nowhere"},
		{"no database there", nil, "DATABASE_URL=postgres://me:sesame@127.0.0.1:1/db", "127.0.0.1:1"},
		{"no database URL", nil, "DATABASE_URL=postgres://me:sesame@[::1/db", "DATABASE_URL"},
		{"no Toxiproxy there", []string{"-toxiproxy=http://127.0.0.1:1"}, "", "http://127.0.0.1:1"},
		{"not a Toxiproxy", []string{"-toxiproxy=" + notToxiproxy.URL}, "", notToxiproxy.URL},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := exhaustion(t, test.args...)
			b.cmd.Env = append(b.cmd.Env, test.env)
			if code := b.run(); code != 1 {
				t.Errorf("exit %d, want 1", code)
			}
			b.oneLine(test.want)
			if strings.Contains(b.stderr.text(), "sesame") {
				t.Errorf("the password is shown:\n%s", b.stderr.text())
			}
			b.noResult()
			b.checkNothingLeft()
		})
	}
}

// TestTooFewFiles: the hard limit is what counts, and the soft one is raised to
// it, for PostgreSQL too.
func TestTooFewFiles(t *testing.T) {
	t.Parallel()
	under := func(b *bench, limits string) {
		shell := exec.Command("sh", append([]string{"-c", "ulimit " + limits + ` && exec "$0" "$@"`, b.cmd.Path}, b.cmd.Args[1:]...)...)
		shell.Env, shell.Stdout, shell.Stderr, shell.SysProcAttr = b.cmd.Env, b.cmd.Stdout, b.cmd.Stderr, b.cmd.SysProcAttr
		b.cmd = shell
	}
	t.Run("hard", func(t *testing.T) {
		b := exhaustion(t)
		under(b, "-n 256")
		if code := b.run(); code != 1 {
			t.Errorf("exit %d, want 1", code)
		}
		b.oneLine("the hard limit is 256:")
		_, missing, _ := strings.Cut(b.stderr.text(), "limit is 256: ")
		if n, err := strconv.Atoi(strings.Fields(missing + " none")[0]); err != nil || n < 1 {
			t.Errorf("how many are missing is not said: %q", b.stderr.text())
		}
		b.noResult()
		b.checkNothingLeft()
	})
	t.Run("soft", func(t *testing.T) {
		b := exhaustion(t)
		under(b, "-Sn 24")
		b.start()
		b.stderr.await(t, "baseline: ")
		for _, name := range []string{"postgres", "victim", "loadgen"} {
			limits, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(b.child(name)), "limits"))
			if err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(string(limits)) {
				if fields := strings.Fields(line); strings.HasPrefix(line, "Max open files") && fields[3] != fields[4] {
					t.Errorf("%s: soft limit %s, hard limit %s; want the soft one raised", name, fields[3], fields[4])
				}
			}
		}
		b.interrupt()
		b.wait()
		b.checkNothingLeft()
	})
}

// TestResultsFolder: a place where no result could be put is refused before the
// run, not after it.
func TestResultsFolder(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ name, results, want string }{
		{"is a file", file, "not a directory"},
		{"below a file", filepath.Join(file, "results"), "not a directory"},
		// Not even root can make a file there.
		{"not writable", "/proc/self", "/proc/self"},
		{"no such place", "/proc/none/results", "/proc/none"},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, command := range []string{"run", "compare"} {
				b := newBench(t, command, "exhaustion", "-results="+test.results)
				if code := b.run(); code != 1 {
					t.Errorf("%s: exit %d, want 1", command, code)
				}
				b.oneLine(test.want)
				b.oneLine("-results")
				if text := b.stderr.text(); strings.Contains(text, "PostgreSQL") {
					t.Errorf("%s: it began:\n%s", command, text)
				}
				b.checkNothingLeft()
			}
		})
	}
}

// TestReportOfNothing: lab report says what the folder lacks, and leaves it as
// it was.
func TestReportOfNothing(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, file, content, want string }{
		{"empty", "", "", "summary.json"},
		{"no folder", "-", "", "nowhere"},
		{"half a summary", "summary.json", `{"schema": "chokepoint/sum`, "summary.json"},
		{"another schema", "summary.json", `{"schema": "chokepoint/summary/v99"}`, "chokepoint/summary/v99"},
		{"half a comparison", "comparison.json", `{`, "comparison.json"},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			switch test.file {
			case "":
			case "-":
				dir = filepath.Join(dir, "nowhere")
			default:
				if err := os.WriteFile(filepath.Join(dir, test.file), []byte(test.content), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			before, _ := os.ReadDir(dir)
			b := newBench(t, "report", dir)
			if code := b.run(); code != 1 {
				t.Errorf("exit %d, want 1", code)
			}
			b.oneLine(test.want)
			if after, _ := os.ReadDir(dir); len(after) != len(before) {
				t.Errorf("%v was %v", after, before)
			}
		})
	}
}

// inNamespace runs the bench's command in a mount namespace of its own, which
// the first shell commands prepare, followed by those after the run, if any. An
// ordinary user is root in there only for the preparation.
func (b *bench) inNamespace(prepare, after string) {
	b.t.Helper()
	script, attr := "mount --make-rprivate /\n"+prepare+"\ncode=0\n", &syscall.SysProcAttr{Setpgid: true, Cloneflags: syscall.CLONE_NEWNS}
	if uid, gid := os.Geteuid(), os.Getegid(); uid != 0 {
		attr.Cloneflags |= syscall.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: uid, Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: gid, Size: 1}}
		script += fmt.Sprintf("unshare --user --map-user=%d --map-group=%d ", uid, gid)
	}
	script += `"$0" "$@" || code=$?` + "\n" + after + "\nexit $code"
	inside := exec.Command("sh", append([]string{"-ec", script, b.cmd.Path}, b.cmd.Args[1:]...)...)
	inside.Env, inside.Stdout, inside.Stderr, inside.SysProcAttr = b.cmd.Env, b.cmd.Stdout, b.cmd.Stderr, attr
	b.cmd = inside
}

// TestNoPostgreSQL: no programs on this machine and no network to get them by.
// The error names all three ways.
func TestNoPostgreSQL(t *testing.T) {
	t.Parallel()
	b := exhaustion(t)
	b.inNamespace(`
for dir in /usr/lib/postgresql /var/cache; do [ ! -d "$dir" ] || mount -t tmpfs tmpfs "$dir"; done`, "")
	b.cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWNET
	b.cmd.Env = append(b.cmd.Env, "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME="+b.tmp, "XDG_CACHE_HOME="+filepath.Join(b.tmp, "cache"))
	if code := b.run(); code != 1 {
		t.Errorf("exit %d, want 1", code)
	}
	for _, want := range []string{"no PostgreSQL to use", "DATABASE_URL", "install", "download"} {
		b.oneLine(want)
	}
	b.noResult()
	os.RemoveAll(filepath.Join(b.tmp, "cache")) // downloads are meant to stay
	b.checkNothingLeft()
}

// TestDiskFull: a full disk under the results or under TMPDIR is one line, and
// leaves nothing on it.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, prepare string }{
		// Room for the programs' logs and a baseline, not for a dump.
		{"results", `mkdir -p "$CHOKEPOINT_RESULTS"; mount -t tmpfs -o size=256k tmpfs "$CHOKEPOINT_RESULTS"`},
		{"TMPDIR", `mount -t tmpfs -o size=4m,mode=755 tmpfs "$TMPDIR"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := exhaustion(t, "-profile=anti", "-duration=20s", "-dump-at=15s", "-recovery-wait=1s")
			// The full disk is seen only from inside.
			b.inNamespace(test.prepare, `find "$TMPDIR" "$CHOKEPOINT_RESULTS" -mindepth 1 -maxdepth 1 -name '.*' -o -name 'chokepoint-*' | sed 's/^/left: /' >&2`)
			b.cmd.Env = append(b.cmd.Env, "https_proxy=http://127.0.0.1:1") // no download
			code := b.run()
			if code != 1 && code != 3 {
				t.Errorf("exit %d, want 1, or 3 with an invalid result", code)
			}
			if code == 1 {
				b.oneLine("space")
			} else if !strings.Contains(b.stdout.String(), "space") {
				t.Errorf("nothing is said of space:\n%s", b.stdout.String())
			}
			if strings.Contains(b.stderr.text(), "left: ") {
				t.Errorf("left on the full disk:\n%s", b.stderr.text())
			}
			b.checkNothingLeft()
		})
	}
}
