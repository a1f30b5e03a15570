package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/csv"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"

	"chokepoint/internal/cli"
	"chokepoint/internal/cli/clitest"
	"chokepoint/internal/load/latency"
	"chokepoint/internal/result"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"loadgen": main})
}

// TestScripts runs the command lines in testdata/script. URL is a server that
// answers, with 503 under /busy; ADDRESS is where it listens; LATER is a moment that no
// test waits for.
func TestScripts(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/busy" {
			w.WriteHeader(http.StatusServiceUnavailable)
			io.WriteString(w, `{"error":"overloaded"}`)
		}
	}))
	// The scripts run in parallel, after this function has returned.
	t.Cleanup(server.Close)
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			env.Setenv("URL", server.URL)
			env.Setenv("ADDRESS", server.Listener.Addr().String())
			env.Setenv("LATER", time.Now().Add(time.Hour).Format(time.RFC3339Nano))
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": clitest.Exits, "empty": empty, "soon": soon},
	})
}

// soon NAME sets a variable to a moment that is still to come when the commands that
// follow have started.
func soon(ts *testscript.TestScript, neg bool, args []string) {
	ts.Setenv(args[0], time.Now().Add(8*time.Second).Format(time.RFC3339Nano))
}

// empty FOLDER checks that nothing is in a folder, hidden files included.
func empty(ts *testscript.TestScript, neg bool, args []string) {
	entries, err := os.ReadDir(ts.MkAbs(args[0]))
	ts.Check(err)
	for _, e := range entries {
		ts.Fatalf("%s was left behind", e.Name())
	}
}

func TestOutputsAgree(t *testing.T) {
	defer goleak.VerifyNone(t)
	var seen atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen.Add(1)
		if r.URL.Path == "/busy" {
			w.WriteHeader(http.StatusServiceUnavailable)
			io.WriteString(w, `{"error":"overloaded"}`)
		}
	}))
	defer server.Close()
	dir := t.TempDir()
	jsonFile, hlog, rows := filepath.Join(dir, "load.json"), filepath.Join(dir, "load.hlog"), filepath.Join(dir, "requests.csv")
	var stdout, stderr bytes.Buffer
	// A limit on lag that a crowded machine cannot exceed.
	code := run(t.Context(), []string{"-duration", "500ms", "-max-lag", "1h", "--phase=baseline",
		"-endpoint", "name=fast,url=" + server.URL + "/fast,rate=100/s",
		"-endpoint", "name=busy,url=" + server.URL + "/busy,rate=3000/m,timeout=30s,workers=20,method=PUT",
		"-json", jsonFile, "-hlog", hlog, "-requests", rows}, &stdout, &stderr)
	needs := regexp.MustCompile(`^loadgen: the plan needs at most 1053 connections, files 1085 of \d+, memory \d+ of \d+ MB, ports to 127\.0\.0\.1:\d+ 1053 of \d+\n$`)
	if code != cli.ExitOK || !needs.MatchString(stderr.String()) || !strings.HasPrefix(stdout.String(), "valid\n") {
		t.Fatalf("exit code %d, stdout\n%s\nstderr\n%s", code, &stdout, &stderr)
	}

	l, err := result.ReadLoad(jsonFile)
	if err != nil {
		t.Fatal(err)
	}
	fast, busy := l.Endpoints["fast"], l.Endpoints["busy"]
	if fast.OK != 50 || busy.HTTPError != 25 || busy.ErrorBodies["overloaded"] != 25 || busy.Status["503"] != 25 {
		t.Errorf("fast %+v, busy %+v", fast, busy)
	}
	if busy.Workers != 20 || busy.ClientTimeoutMS != 30_000 || busy.TargetRate != 50 || busy.AchievedRate != 50 || l.Phase != "baseline" || l.WindowS != 0.5 {
		t.Errorf("settings: phase %s, window %v, busy %+v", l.Phase, l.WindowS, busy)
	}
	if seen.Load() != 75 {
		t.Errorf("the server saw %d requests, want 75", seen.Load())
	}

	f, err := os.Open(hlog)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	log, err := latency.ReadLog(f)
	if err != nil {
		t.Fatal(err)
	}
	if len(log.Series) != 8 || log.Series["busy/failed_response"].Total.Count() != 25 || log.Series["busy/response"].Total.Count() != 25 || log.Series["fast/lag"].Total.Count() != 50 {
		t.Errorf("series %v", log.Series)
	}

	text, err := os.Open(rows)
	if err != nil {
		t.Fatal(err)
	}
	defer text.Close()
	table, err := csv.NewReader(text).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if len(table) != 76 || strings.Join(table[0], ",") != "id,endpoint,due_ns,lag_ns,service_ns,response_ns,outcome,cause,status" {
		t.Fatalf("%d rows under %v", len(table), table[0])
	}
	last := int64(-1)
	for _, row := range table[1:] {
		due, err := strconv.ParseInt(row[2], 10, 64)
		if err != nil || due < last {
			t.Errorf("row %v is out of due order", row)
		}
		last = due
	}
}

func TestInterruptLeavesAWholeResult(t *testing.T) {
	defer goleak.VerifyNone(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		cancel() // with this request in flight
		<-r.Context().Done()
	}))
	defer server.Close()
	jsonFile := filepath.Join(t.TempDir(), "load.json")
	var stdout, stderr bytes.Buffer
	code := run(ctx, []string{"-rate", "20", "-duration", "1h", "-workers", "10", "-graceful-stop", "100ms", "-json", jsonFile, server.URL}, &stdout, &stderr)
	if code != cli.ExitInterrupted {
		t.Errorf("exit code %d, want %d; stderr %s", code, cli.ExitInterrupted, &stderr)
	}
	l, err := result.ReadLoad(jsonFile)
	if err != nil {
		t.Fatal(err)
	}
	e := l.Endpoints["url"]
	if e.Planned != 72_000 || e.Scheduled < 1 || e.Interrupted != e.Started || e.Scheduled != e.Started+e.Dropped {
		t.Errorf("does not balance: %+v", e)
	}
	if l.Validity.Valid || !strings.HasPrefix(l.Validity.Reasons[len(l.Validity.Reasons)-1], "stopped early: ") {
		t.Errorf("validity %+v", l.Validity)
	}
}

// hanging starts loadgen as a process against a server that never answers, and
// returns once a request is in flight.
func hanging(t *testing.T, args ...string) (*exec.Cmd, *bufio.Reader) {
	t.Helper()
	arrived := make(chan struct{}, 100)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		<-r.Context().Done()
	}))
	t.Cleanup(server.Close)
	// Under nohup this process has SIGHUP ignored, and so would its children: a signal
	// that is caught is theirs to be ended by again.
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, syscall.SIGHUP)
	t.Cleanup(func() { signal.Stop(caught) })
	cmd := exec.Command("loadgen", append(args, "-rate", "10", "-duration", "1h", "-workers", "100", server.URL)...)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = new(bytes.Buffer)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	<-arrived
	bound := time.AfterFunc(30*time.Second, func() { cmd.Process.Kill() })
	t.Cleanup(func() { bound.Stop() })
	return cmd, bufio.NewReader(stdout)
}

func TestTheFirstSignalStops(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		t.Run(signal.String(), func(t *testing.T) {
			dir := t.TempDir()
			jsonFile := filepath.Join(dir, "load.json")
			cmd, stdout := hanging(t, "-json", jsonFile, "-hlog", filepath.Join(dir, "load.hlog"),
				"-hgrm", filepath.Join(dir, "load.hgrm"), "-per-second", filepath.Join(dir, "seconds.csv"))
			if err := cmd.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
			first, _ := stdout.ReadString('\n')
			io.Copy(io.Discard, stdout)
			cmd.Wait()
			if cmd.ProcessState.ExitCode() != cli.ExitInterrupted || !strings.HasPrefix(first, "INVALID") {
				t.Errorf("%v, first line %q", cmd.ProcessState, first)
			}
			const note = "loadgen: interrupted: no more is sent, and answers are waited for, 1s at most; a second signal ends it at once, without a result\n"
			if stderr := cmd.Stderr.(*bytes.Buffer).String(); strings.Count(stderr, note) != 1 {
				t.Errorf("stderr %q, want once %q", stderr, note)
			}
			if _, err := result.ReadLoad(jsonFile); err != nil {
				t.Error(err)
			}
			if entries, _ := os.ReadDir(dir); len(entries) != 4 {
				t.Errorf("files %v, want the result, the log, the distribution and the seconds", entries)
			}
		})
	}
}

func TestUnderNohupATerminalMayGo(t *testing.T) {
	arrived := make(chan struct{}, 100)
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { arrived <- struct{}{} }))
	t.Cleanup(server.Close)
	jsonFile := filepath.Join(t.TempDir(), "load.json")
	cmd := exec.Command("sh", "-c", "trap '' HUP; exec loadgen -quiet -rate 20 -duration 500ms -max-lag 1h -json "+jsonFile+" "+server.URL)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	<-arrived
	if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if l, err := result.ReadLoad(jsonFile); err != nil || l.Endpoints["url"].OK != 10 {
		t.Errorf("%+v, error %v; want all 10 ok", l.Endpoints["url"], err)
	}
}

func TestTheSecondSignalKills(t *testing.T) {
	cmd, _ := hanging(t)
	done := make(chan struct{})
	go func() { cmd.Wait(); close(done) }()
	for tick := time.NewTicker(20 * time.Millisecond); ; {
		cmd.Process.Signal(syscall.SIGINT)
		select {
		case <-done:
			tick.Stop()
			if status := cmd.ProcessState.Sys().(syscall.WaitStatus); !status.Signaled() {
				t.Errorf("ended by itself: %v", cmd.ProcessState)
			}
			return
		case <-tick.C:
		}
	}
}
