package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"chokepoint/internal/cli"
	"chokepoint/internal/load/latency"
	"chokepoint/internal/result"
)

// outputs of a run, and the flags that ask for them.
var everyOutput = []string{"load.json", "load.hlog", "load.hgrm", "requests.csv", "seconds.csv"}

// withOutputs is a run that leaves every output in dir.
func withOutputs(ctx context.Context, dir string, args ...string) *exec.Cmd {
	in := func(name string) string { return filepath.Join(dir, name) }
	return exec.CommandContext(ctx, "loadgen", append([]string{"-json", in("load.json"), "-hlog", in("load.hlog"), "-hgrm", in("load.hgrm"),
		"-requests", in("requests.csv"), "-per-second", in("seconds.csv"), "-max-lag", "1h", "-quiet"}, args...)...)
}

// slow answers after a while.
func slow(t *testing.T) *httptest.Server {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-time.After(200 * time.Millisecond):
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(server.Close)
	return server
}

// TestASignalAtAnyMoment: whenever SIGINT comes, the outputs are all there, whole
// and in agreement, or there is none at all, and no temporary file either.
func TestASignalAtAnyMoment(t *testing.T) {
	server := slow(t)
	const moments, apart = 28, 40 * time.Millisecond
	type process struct {
		dir, stderr string
		code        int
	}
	processes := make([]process, moments)
	var all sync.WaitGroup
	for i := range processes {
		p := &processes[i]
		p.dir = t.TempDir()
		all.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			// Warm-up, load and drain of 0.2 s, 0.5 s and 0.2 s, after the start of the process.
			cmd := withOutputs(ctx, p.dir, "-warmup", "200ms", "-duration", "500ms", "-rate", "40", server.URL)
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			if err := cmd.Start(); err != nil {
				t.Error(err)
				return
			}
			time.Sleep(time.Duration(i) * apart)
			cmd.Process.Signal(syscall.SIGINT)
			cmd.Wait()
			p.code, p.stderr = cmd.ProcessState.ExitCode(), stderr.String()
		})
	}
	all.Wait()
	interrupted := 0
	for i, p := range processes {
		t.Run(fmt.Sprint(time.Duration(i)*apart), func(t *testing.T) {
			checkOutputsOf(t, p.dir, p.code)
			if p.stderr != "" {
				t.Errorf("stderr %s", p.stderr)
			}
			if p.code == cli.ExitInterrupted {
				interrupted++
			}
		})
	}
	if interrupted == 0 {
		t.Errorf("none of %d signals came during a run", moments)
	}
}

// checkOutputsOf holds the outputs in dir to the exit code.
func checkOutputsOf(t *testing.T, dir string, code int) {
	t.Helper()
	var names []string
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	switch {
	case code == -1 && len(names) == 0:
		return // the signal came before the program was there to take it
	case code != cli.ExitInterrupted && code != cli.ExitOK:
		l, err := result.ReadLoad(filepath.Join(dir, "load.json"))
		t.Fatalf("exit code %d, files %v, validity %+v, %v", code, names, l.Validity, err)
	case !slices.Equal(names, slices.Sorted(slices.Values(everyOutput))):
		t.Fatalf("exit code %d, files %v", code, names)
	}
	l, err := result.ReadLoad(filepath.Join(dir, "load.json"))
	if err != nil {
		t.Fatal(err)
	}
	e := l.Endpoints["url"]
	if e.Planned != 20 || e.Scheduled != e.Started+e.Dropped || e.Scheduled > e.Planned ||
		e.Started != e.OK+e.HTTPError+e.Timeout+e.ConnectError+e.TransportError+e.Interrupted {
		t.Errorf("does not balance: %+v", e)
	}
	stopped := slices.ContainsFunc(l.Validity.Reasons, func(r string) bool { return strings.HasPrefix(r, "stopped early: ") })
	if stopped != (code == cli.ExitInterrupted) || l.Validity.Valid == stopped {
		t.Errorf("exit code %d, validity %+v", code, l.Validity)
	}
	if code == cli.ExitOK && e.OK != e.Planned {
		t.Errorf("not stopped, and %+v", e)
	}
	rows, err := result.ReadRequests(filepath.Join(dir, "requests.csv"))
	if err != nil || len(rows) != e.Scheduled {
		t.Errorf("%d rows of %d scheduled, error %v", len(rows), e.Scheduled, err)
	}
	f, err := os.Open(filepath.Join(dir, "load.hlog"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	log, err := latency.ReadLog(f)
	if err != nil {
		t.Fatal(err)
	}
	logged := 0
	if s, ok := log.Series["url/response"]; ok {
		logged = int(s.Total.Count())
	}
	if int64(logged) != e.Response.Count || logged != e.Started-e.Interrupted {
		t.Errorf("%d responses in the log, %d in the result, %d completed", logged, e.Response.Count, e.Started-e.Interrupted)
	}
	for _, name := range []string{"load.hgrm", "seconds.csv"} {
		if text, err := os.ReadFile(filepath.Join(dir, name)); err != nil || !bytes.HasSuffix(text, []byte("\n")) {
			t.Errorf("%s is not whole: %q, error %v", name, text, err)
		}
	}
}

// TestASignalWhileTheOutputsAreWritten: the result is the last of them, and a pipe
// holds it up until somebody reads.
func TestASignalWhileTheOutputsAreWritten(t *testing.T) {
	server := slow(t)
	dir := t.TempDir()
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Skip(err)
	}
	cmd := withOutputs(t.Context(), dir, "-duration", "500ms", "-rate", "40", "-json", pipe, server.URL)
	start(t, cmd)
	awaitFile(t, filepath.Join(dir, "requests.csv"))
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(pipe)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(f)
	f.Close()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Wait()
	if err := os.WriteFile(filepath.Join(dir, "load.json"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	checkOutputsOf(t, dir, cmd.ProcessState.ExitCode())
}

// TestASignalBeforeTheLoad: while names are resolved, nothing has begun.
func TestASignalBeforeTheLoad(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	dir := t.TempDir()
	var stdout, stderr bytes.Buffer
	code := run(ctx, []string{"-rate", "1", "-json", filepath.Join(dir, "load.json"), "-hlog", filepath.Join(dir, "load.hlog"), "http://name.invalid/"}, &stdout, &stderr)
	if entries, _ := os.ReadDir(dir); code != cli.ExitInterrupted || stdout.Len() > 0 || len(entries) > 0 ||
		stderr.String() != "loadgen: interrupted before the load; nothing was sent\n" {
		t.Errorf("exit code %d, files %v, stdout %q, stderr %q", code, entries, &stdout, &stderr)
	}
}
