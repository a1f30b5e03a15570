package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"chokepoint/internal/evidence/dumps"
)

const javaDumps = "../../internal/evidence/threads/testdata/"

// anti are the dumps of a committed run in which the pool died.
func anti(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("../../results/reference/*-exhaustion-anti-1/dumps/*.txt.gz")
	if err != nil || len(files) != 4 {
		t.Fatalf("%d dumps, error %v", len(files), err)
	}
	return files
}

// channelSemaphore is a dump of a service that lets one call to its upstream by at a
// time, by a channel.
func channelSemaphore(t *testing.T) string {
	t.Helper()
	text := "goroutine 1 [sleep]:\ntime.Sleep(0x1)\n\t/go/time.go:1 +0x1\nmain.main()\n\t/a.go:1 +0x1\n\n" +
		"goroutine 2 [select]:\nnet/http.(*persistConn).roundTrip(0x1)\n\t/go/transport.go:1 +0x1\nmain.(*shop).call(0x1)\n\t/a.go:9 +0x1\nnet/http.(*conn).serve(0x1)\n\t/go/server.go:1 +0x1\n\n"
	for id := range 3 {
		text += fmt.Sprintf("goroutine %d [chan send]:\nmain.(*shop).call(0x1)\n\t/a.go:8 +0x1\nnet/http.(*conn).serve(0x1)\n\t/go/server.go:1 +0x1\n\n", 3+id)
	}
	file := filepath.Join(t.TempDir(), "channel.txt")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

func runLab(ctx context.Context, args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = run(ctx, args, &out, &errs)
	return code, out.String(), errs.String()
}

func TestDump(t *testing.T) {
	for _, test := range []struct {
		name   string
		args   []string
		code   int
		stdout []string // each in it, with any blanks
	}{
		{"one", []string{anti(t)[2]}, 0, []string{"(go-text, gzip), 200 of them workers, 803 queued", "upstream_read 200", "http_client 200",
			"200 2 upstream_read http_client IO wait github.com/valyala/fasthttp.(*ResponseHeader).tryRead -"}},
		{"whom the tables count", []string{anti(t)[2]}, 0, []string{"the workers of the pool, and the connections that wait for one, by place: where count", "all goroutines, by what they wait for: waits for count"}},
		{"whom they count in Java", []string{javaDumps + "jcmd-bulkhead.txt.gz"}, 0, []string{"the workers of the pool, by place: where count", "all threads, by what they wait for: waits for count"}},
		{"a pool that no rule knows", []string{channelSemaphore(t)}, 0, []string{"all goroutines, by place (no pool that the rules know): where count upstream_read 1 other 4 other is 4 of 5; the largest: 3 in main.(*shop).call (chan send), 1 in main.main (sleep) all"}},
		{"one of them with a pool", []string{channelSemaphore(t), anti(t)[2]}, 0, []string{"by place (in #1 all goroutines: no pool that the rules know): where #1 #2", " #1: other is 4 of 5; the largest: 3 in main.(*shop).call"}},
		{"a timeline", anti(t), 0, []string{"where #1 #2 #3 #4", "idle 10 0 0 0", "upstream_read 0 200 200 200", "queued 0 200 803 1401",
			"0 200 200 200 upstream_read http_client IO wait", "difference from #1 to #4", "+200 0 200 upstream_read", "-10 10 0 idle"}},
		{"a run", []string{filepath.Dir(filepath.Dir(anti(t)[0])), "-assert", "queued@load_40s == 803"}, 0, []string{"where #1 #2 #3 #4", "queued 0 200 803 1401", "ok queued@load_40s == 803"}},
		{"by state, the first group alone, flags last", []string{anti(t)[2], "-by", "state", "-top", "1"}, 0, []string{"1003 2 - channel chan receive - github.com/valyala/fasthttp.(*workerPool).getCh", "more groups"}},
		{"with stacks", []string{"-stacks", "-top=1", javaDumps + "jcmd-bulkhead.txt.gz"}, 0, []string{"group 1, 180 alike:", "at java.util.concurrent.Semaphore.acquire(java.base@17.0.15/Semaphore.java:"}},
		{"by name", []string{"-by", "name", javaDumps + "actuator-hikari.json.gz"}, 0, []string{"(actuator-json, gzip), 200 of them workers", "database 200", "connection_pool 190", "200 2 database - - - http-nio-127.0.0.1-auto-1-exec-*"}},
		{"a deadlock", []string{javaDumps + "jstack-jdk.txt.gz"}, 0, []string{"note: the JVM found a deadlock: one Java-level deadlock"}},
		{"met", []string{"-assert", "upstream_read@03-load_40s == 200", "-assert", "wait:lock < 5", anti(t)[2]}, 0, []string{"ok upstream_read@03-load_40s == 200: got 200 in"}},
		{"the same twice", []string{anti(t)[2], anti(t)[2]}, 0, []string{"no difference from #1 to #2"}},
		{"not met", []string{anti(t)[2], "-assert", "upstream_read == 20"}, 99, []string{"FAIL upstream_read == 20: got 200 in"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			code, stdout, stderr := runLab(t.Context(), append([]string{"dump"}, test.args...)...)
			if code != test.code || stderr != "" {
				t.Errorf("exit %d, want %d; stderr %q", code, test.code, stderr)
			}
			blanks := strings.Join(strings.Fields(stdout), " ")
			for _, want := range test.stdout {
				if !strings.Contains(blanks, want) {
					t.Errorf("no %q in\n%s", want, stdout)
				}
			}
		})
	}
}

func TestDumpJSON(t *testing.T) {
	code, stdout, _ := runLab(t.Context(), append([]string{"dump", "-json", "-assert", "idle@first == 11"}, anti(t)...)...)
	var report dumpReport
	if err := json.Unmarshal([]byte(stdout), &report); err != nil || code != 99 {
		t.Fatalf("exit %d, error %v", code, err)
	}
	if report.Schema != "chokepoint/dump/v1" || report.By != "where" || len(report.Dumps) != 4 || report.Dumps[3].Queued != 1401 || report.Dumps[3].Where["upstream_read"] != 200 {
		t.Errorf("%s by %s, %d dumps", report.Schema, report.By, len(report.Dumps))
	}
	if len(report.Timeline) == 0 || !slices.Equal(report.Timeline[0].Counts, []int{0, 200, 803, 1401}) || report.Changes[0].Where != "queued" {
		t.Errorf("timeline %+v", report.Timeline)
	}
	if want := (dumps.Held{Text: "idle@first == 11", Dump: anti(t)[0], Got: 10}); len(report.Asserted) != 1 || report.Asserted[0] != want {
		t.Errorf("assertions %+v", report.Asserted)
	}
}

// What is wrong is one line that names it, and nothing is printed beside it.
func TestDumpRefuses(t *testing.T) {
	dir := t.TempDir()
	page := filepath.Join(dir, "page.html")
	if err := os.WriteFile(page, []byte("<html>404</html>"), 0o644); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	for _, test := range []struct {
		name   string
		args   []string
		code   int
		stderr string
	}{
		{"no dump", nil, 2, "lab: name a dump: lab dump FILE, the folder of a run, a URL, or - for stdin\n"},
		{"malformed", []string{anti(t)[0], page}, 2, "lab: " + page + `: no dump in 16 bytes that begin with "<html>404</html>"; want a goroutine dump of Go (debug=1, debug=2, a crash) or a thread dump of Java (jstack, jcmd, Actuator)` + "\n"},
		{"a binary profile", []string{strings.Replace(anti(t)[0], ".txt.gz", ".pb.gz", 1)}, 2, ": it is binary; a pprof profile is read by go tool pprof, and as text it comes with ?debug=1 or ?debug=2\n"},
		{"missing", []string{filepath.Join(dir, "missing")}, 1, "missing: no such file or directory\n"},
		{"a folder", []string{dir}, 1, dir + " is a folder; name the dumps in it, such as " + dir + "/*.txt\n"},
		{"a URL without one", []string{server.URL}, 1, "404 Not Found; a dump is at /debug/pprof/goroutine?debug=2 in Go and at /actuator/threaddump in Spring Boot\n"},
		{"a URL that is none", []string{"http://[::1"}, 2, "lab: a URL that cannot be read; want one such as http://127.0.0.1:6060/debug/pprof/goroutine?debug=2\n"},
		{"a URL of another scheme", []string{"ftp://host/dump"}, 2, `lab: a URL of scheme "ftp"; want http:// or https://` + "\n"},
		{"a URL whose host cannot be found", []string{"http://127.0.0.1:0/dump"}, 1, "lab: http://127.0.0.1:0/dump: "},
		{"an axis", []string{"-by", "size", page}, 2, `lab: invalid value "size" for flag -by: want one of [where wait state frame stack creator name] (lab dump -h lists the flags)` + "\n"},
		{"an assertion", []string{page, "-assert", "idle"}, 2, `assertion "idle": not METRIC OPERATOR NUMBER; write it as`},
		{"an assertion of no dump", []string{"-assert", "idle@x == 1", anti(t)[0]}, 2, `no dump is called "x"; name first, last, a number from 1 to 1 or a file` + "\n"},
		{"a flag", []string{page, "-nope"}, 2, "lab: flag provided but not defined: -nope (lab dump -h lists the flags)\n"},
		{"-top", []string{"-top", "-1", page}, 2, "lab: -top -1: want 0 or more\n"},
		{"stdin twice", []string{"-", "-"}, 2, "lab: - is named twice; stdin can be read once\n"},
		{"two languages", []string{anti(t)[0], javaDumps + "jstack-jdk.txt.gz"}, 2, "lab: goroutines and threads make no timeline: "},
	} {
		t.Run(test.name, func(t *testing.T) {
			code, stdout, stderr := runLab(t.Context(), append([]string{"dump"}, test.args...)...)
			if code != test.code || stdout != "" || !strings.Contains(stderr, test.stderr) || strings.Count(stderr, "\n") != 1 {
				t.Errorf("exit %d, want %d; stdout %q; stderr %q, want %q", code, test.code, stdout, stderr, test.stderr)
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if code, _, stderr := runLab(ctx, "dump", server.URL); code != 130 || strings.Count(stderr, "\n") != 1 {
		t.Errorf("interrupted: exit %d, stderr %q", code, stderr)
	}
}

// A dump is another's text: nothing in it reaches the terminal as a command.
func TestDumpCannotSteerTheTerminal(t *testing.T) {
	file := filepath.Join(t.TempDir(), "evil.txt")
	text := "goroutine 1 [run\x1b[31mning]:\nmain.\x1b]0;title\a\u202eevil()\n\t/a\x1b[2J.go:1\n\n"
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		connection, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		connection.Write([]byte("HTTP/1.1 500 \x1b[2Jgone\r\nContent-Length: 0\r\n\r\n"))
		connection.Close()
	}))
	defer server.Close()
	for _, test := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{file, "-stacks"}, 0, "run\ufffd[31mning"},
		{[]string{file, file, "-by", "frame", "-stacks"}, 0, "main.\ufffd]0;title\ufffd\ufffdevil"},
		{[]string{server.URL}, 1, "500 \ufffd[2Jgone"},
	} {
		code, stdout, stderr := runLab(t.Context(), append([]string{"dump"}, test.args...)...)
		all := stdout + stderr
		if code != test.code || !strings.Contains(all, test.want) || strings.ContainsAny(all, "\x1b\a\u202e") {
			t.Errorf("lab dump %q: exit %d, want %d with %q in\n%q", test.args, code, test.code, test.want, all)
		}
	}
}

// A table is padded to its longest cell: a name of 1 MB would be in every row.
func TestDumpCutsLongNamesOff(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	file := filepath.Join(t.TempDir(), "long.json")
	text := `{"threads":[{"threadName":"` + long + `","threadState":"RUNNABLE","stackTrace":[{"className":"` + long + `","methodName":"m"}]},{"threadName":"b","threadState":"WAITING"}]}`
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{file}, {file, "-by=name"}, {file, file}} {
		code, stdout, stderr := runLab(t.Context(), append([]string{"dump"}, args...)...)
		if code != 0 || stderr != "" || len(stdout) > 50_000 || !strings.Contains(stdout, strings.Repeat("x", maxCell)+"…") {
			t.Errorf("lab dump %q: exit %d, %d bytes, stderr %q; want the name cut off", args[1:], code, len(stdout), stderr)
		}
	}
}
