// Package loadgen holds the built load generator against servers that do what is hard
// to measure: they stall, freeze, die, reset, or answer slowly. What the tool says is
// compared with what the server counted and with what arithmetic says; docs/
// terminology.md has the identities.
//
// Counts are asserted exactly, on both engines. A time is asserted only where it
// follows from the plan, and then of a run that the tool itself calls valid.
package loadgen

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"chokepoint/internal/adminapi"
	"chokepoint/internal/load/ledger"
	"chokepoint/internal/result"
)

// binary is the program under test.
var binary string

func TestMain(m *testing.M) { os.Exit(buildAndRun(m)) }

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "chokepoint-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "loadgen")
	build := exec.Command("go", "build", "-o", binary, "chokepoint/cmd/loadgen")
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	if err := build.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "build loadgen:", err)
		return 1
	}
	return m.Run()
}

// onBothEngines runs a test once for each.
func onBothEngines(t *testing.T, test func(t *testing.T, engine string)) {
	for _, engine := range []string{"loop", "goroutines"} {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			test(t, engine)
		})
	}
}

// outcome is what one run of the program left.
type outcome struct {
	code     int
	stdout   string
	load     result.Load
	requests []result.Request
}

// play runs the program against url.
func play(t *testing.T, engine, url string, args ...string) outcome {
	t.Helper()
	return start(t, engine, url, args...)()
}

// start begins a run of the program against url; what it returns waits for its end.
func start(t *testing.T, engine, url string, args ...string) (wait func() outcome) {
	t.Helper()
	dir := t.TempDir()
	load, rows := filepath.Join(dir, "load.json"), filepath.Join(dir, "requests.csv")
	cmd := exec.CommandContext(t.Context(), binary, append(args, "-quiet", "-engine", engine, "-json", load, "-requests", rows, url)...)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(s string) bool { return strings.HasPrefix(s, "CHOKEPOINT_") })
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return func() outcome {
		t.Helper()
		err := cmd.Wait()
		if !cmd.ProcessState.Exited() || stderr.Len() > 0 {
			t.Fatalf("loadgen %q: %v, stderr\n%s", args, err, &stderr)
		}
		o := outcome{code: cmd.ProcessState.ExitCode(), stdout: stdout.String()}
		if o.load, err = result.ReadLoad(load); err != nil {
			t.Fatal(err)
		}
		if o.requests, err = result.ReadRequests(rows); err != nil {
			t.Fatal(err)
		}
		return o
	}
}

// anyLag lifts the bound on lag, so that a busy machine decides no count.
const anyLag = "-max-lag=1h"

func (o outcome) endpoint() result.Endpoint { return o.load.Endpoints["url"] }

// with is how many requests had an outcome.
func (o outcome) with(outcome ledger.Outcome) int {
	n := 0
	for _, r := range o.requests {
		if r.Outcome == outcome.String() {
			n++
		}
	}
	return n
}

// checkIdentities holds the three accounts of a run against each other: the ledger, the
// rows of the requests, and what the server read.
func (o outcome) checkIdentities(t *testing.T, planned int, seen *ids) {
	t.Helper()
	e := o.endpoint()
	account, err := ledger.Of(e, o.load.Model)
	if err == nil {
		err = account.Check()
	}
	if err != nil {
		t.Error(err)
	}
	// A closed model plans nothing; what it has sent is its schedule.
	scheduled := planned
	if o.load.Model == result.ModelClosed {
		scheduled = e.Started
	}
	if e.Planned != planned || e.Scheduled != scheduled || len(o.requests) != scheduled {
		t.Errorf("planned %d, scheduled %d, %d rows; want %d, %d and %d", e.Planned, e.Scheduled, len(o.requests), planned, scheduled, scheduled)
	}
	for outcome, want := range map[ledger.Outcome]int{
		ledger.OK: e.OK, ledger.HTTPError: e.HTTPError, ledger.Timeout: e.Timeout, ledger.ConnectError: e.ConnectError,
		ledger.TransportError: e.TransportError, ledger.Interrupted: e.Interrupted, ledger.Dropped: e.Dropped,
	} {
		if got := o.with(outcome); got != want {
			t.Errorf("%d rows are %s, and the ledger has %d", got, outcome, want)
		}
	}
	if n := e.Response.Count; int(n) != e.Started-e.Interrupted {
		t.Errorf("%d response times, want those of %d completed requests", n, e.Started-e.Interrupted)
	}
	reads := seen.reads()
	for _, r := range o.requests {
		n := reads[r.ID]
		delete(reads, r.ID)
		answered := r.Outcome == ledger.OK.String() || r.Outcome == ledger.HTTPError.String()
		switch {
		case n > 1:
			t.Errorf("%s was read %d times by the server: the tool sent it again", r.ID, n)
		case n == 0 && answered:
			t.Errorf("%s is %s, and the server never read it", r.ID, r.Outcome)
		case n == 1 && (r.Outcome == ledger.Dropped.String() || r.Outcome == ledger.ConnectError.String()):
			t.Errorf("%s is %s, and the server read it", r.ID, r.Outcome)
		}
	}
	if len(reads) > 0 {
		t.Errorf("the server read %d requests that the tool does not know", len(reads))
	}
}

// ids counts how often the server read each request.
type ids struct {
	mu    sync.Mutex
	count map[string]int
}

func (s *ids) read(h http.Header) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.count == nil {
		s.count = map[string]int{}
	}
	s.count[h.Get(adminapi.HeaderID)]++
}

// reads is a copy of the counts.
func (s *ids) reads() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make(map[string]int, len(s.count))
	for id, n := range s.count {
		all[id] = n
	}
	return all
}

// serve runs a handler that counts what it reads.
func serve(t *testing.T, handle http.HandlerFunc) (url string, seen *ids) {
	t.Helper()
	seen = &ids{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen.read(r.Header)
		handle(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL, seen
}

// listen runs serve for every connection in a goroutine, each with its number from 1.
func listen(t *testing.T, serve func(conn *net.TCPConn, number int)) *net.TCPListener {
	t.Helper()
	listener, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for number := 1; ; number++ {
			conn, err := listener.AcceptTCP()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer conn.Close()
				conn.SetDeadline(time.Now().Add(20 * time.Second))
				serve(conn, number)
			})
		}
	})
	t.Cleanup(func() { listener.Close(); wg.Wait() })
	return listener
}
