package scenario

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"chokepoint/internal/adminapi"
	"chokepoint/internal/lab/proc"
	"chokepoint/internal/lab/world"
	"chokepoint/internal/result"
)

// planned is how many requests each endpoint of a test run gets.
const planned = 80

// testSettings are those of a run whose load takes 0.2 s.
func testSettings(t *testing.T, args ...string) Settings {
	t.Helper()
	var s Settings
	fs := flag.NewFlagSet("test", flag.ContinueOnError)
	s.Bind(fs)
	err := fs.Parse(append([]string{
		"-scale=0.05", "-duration=4s", "-dump-at=1s,2s,+1s", "-recovery-wait=2s", "-profile=fixed",
	}, args...))
	if err == nil {
		err = s.Validate()
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// fakeWorld is a world without processes: HTTP servers that answer as the victim
// and the stub do when all is well, and a load generator that writes what one
// writes. A test makes something of it go wrong.
type fakeWorld struct {
	t            *testing.T
	dir          string
	victim, stub *httptest.Server
	died         chan world.Death
	started      chan struct{} // closed when the load's generator starts
	recovered    chan struct{} // closed when the lab has seen recovery

	baseline func(l *fakeLoad)            // what the load generator does in a baseline; nil: write a good result
	load     func(l *fakeLoad)            // what the load generator does at its end; nil: write result
	result   func() result.Load           // of the load
	usage    func() map[string]proc.Usage // of the processes but the load generator
	rows     []result.Request             // of the load

	opens bool // a call to /upstream opens a connection to the stub

	mu     sync.Mutex
	broken map[string]bool // paths that answer 500
	puts   []string        // bodies
	opened int             // connections to the stub
	closed bool
}

func newFakeWorld(t *testing.T) *fakeWorld {
	w := &fakeWorld{
		t: t, dir: t.TempDir(), died: make(chan world.Death, 1), started: make(chan struct{}),
		recovered: make(chan struct{}), broken: map[string]bool{}, result: goodLoad,
		usage: func() map[string]proc.Usage { return nil },
	}
	for _, name := range []string{"fast", "upstream"} {
		for i := range planned {
			w.rows = append(w.rows, result.Request{
				ID: fmt.Sprintf("%s-%d", name, i), Endpoint: name, Outcome: "ok", Status: 200, Response: time.Millisecond,
			})
		}
	}
	seen := adminapi.Seen{}
	for _, r := range w.rows {
		if seen[r.Endpoint] == nil {
			seen[r.Endpoint] = map[string]int{}
		}
		seen[r.Endpoint][r.ID] = 1
	}
	stats := func() any {
		return adminapi.VictimStats{Now: time.Now(), Pool: adminapi.PoolStats{Workers: 10, Limit: 200, IdleSince: time.Now()}}
	}
	w.victim = httptest.NewServer(w.server(map[string]func() any{
		adminapi.PathStats: stats, adminapi.PathSeen: func() any { return seen },
		adminapi.PathVisits: func() any { return adminapi.Visits{} },
		"/upstream": func() any {
			if w.opens {
				w.mu.Lock()
				defer w.mu.Unlock()
				w.opened++
			}
			return nil
		},
	}))
	w.stub = httptest.NewServer(w.server(map[string]func() any{
		adminapi.PathStats: func() any {
			w.mu.Lock()
			defer w.mu.Unlock()
			return adminapi.StubStats{Connections: w.opened}
		},
	}))
	t.Cleanup(w.victim.Close)
	t.Cleanup(w.stub.Close)
	return w
}

// server answers the given paths with JSON, and every other with a goroutine dump.
func (w *fakeWorld) server(answers map[string]func() any) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.mu.Lock()
		if r.Method == http.MethodPut {
			body, _ := io.ReadAll(r.Body)
			w.puts = append(w.puts, string(body))
		}
		broken := w.broken[r.URL.Path]
		w.mu.Unlock()
		if broken {
			http.Error(rw, "it broke", http.StatusInternalServerError)
			return
		}
		if answer, ok := answers[r.URL.Path]; ok {
			json.NewEncoder(rw).Encode(answer())
			return
		}
		rw.Header().Set(adminapi.HeaderPauseNS, "1000")
		fmt.Fprint(rw, "goroutine 1 [running]:\nmain.main()\n\t/main.go:1 +0x1\n")
	})
}

// breakPath has a path of the victim answer 500 from now on.
func (w *fakeWorld) breakPath(path string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.broken[path] = true
}

func goodLoad() result.Load {
	l := result.Load{Schema: result.LoadSchema, Endpoints: map[string]result.Endpoint{}}
	for _, name := range []string{"fast", "upstream"} {
		l.Endpoints[name] = result.Endpoint{Planned: planned, Scheduled: planned, Started: planned, OK: planned}
	}
	l.Validity.Valid = true
	return l
}

func (w *fakeWorld) VictimURL() string            { return w.victim.URL }
func (w *fakeWorld) ProbeURL() string             { return w.victim.URL }
func (w *fakeWorld) VictimAdmin() string          { return w.victim.URL }
func (w *fakeWorld) StubURL() string              { return w.stub.URL }
func (w *fakeWorld) StubAdmin() string            { return w.stub.URL }
func (w *fakeWorld) LoadPath(name string) string  { return w.dir + "/" + name }
func (w *fakeWorld) LoadLead() time.Duration      { return 0 }
func (w *fakeWorld) Died() <-chan world.Death     { return w.died }
func (w *fakeWorld) Usage() map[string]proc.Usage { return w.usage() }
func (w *fakeWorld) Describe() world.Description  { return world.Description{Runtime: "fake"} }
func (w *fakeWorld) Close(ctx context.Context) error {
	w.closed = true
	return nil
}

// StartLoad runs a load generator: at once in a baseline, else until its window
// is over, or it is stopped.
func (w *fakeWorld) StartLoad(ctx context.Context, args []string) (world.Load, error) {
	flags := map[string]string{}
	for _, arg := range args {
		name, value, _ := strings.Cut(strings.TrimPrefix(arg, "-"), "=")
		flags[name] = value
	}
	l := &fakeLoad{world: w, flags: flags, done: make(chan struct{}), stop: make(chan struct{})}
	if flags["phase"] == adminapi.PhaseBaseline {
		if w.baseline != nil {
			w.baseline(l)
		} else {
			l.write(goodLoad())
		}
		close(l.done)
		return l, nil
	}
	close(w.started)
	on, errOn := time.Parse(time.RFC3339Nano, flags["start-at"])
	window, errWindow := time.ParseDuration(flags["duration"])
	if errOn != nil || errWindow != nil {
		return nil, fmt.Errorf("arguments %q", args)
	}
	go func() {
		defer close(l.done)
		select {
		case <-time.After(time.Until(on.Add(window))):
		case <-l.stop:
		}
		if w.load != nil {
			w.load(l)
			return
		}
		l.write(w.result())
	}()
	return l, nil
}

// fakeLoad is a load generator.
type fakeLoad struct {
	world *fakeWorld
	flags map[string]string
	done  chan struct{}
	stop  chan struct{}
	once  sync.Once
	code  int
}

// write writes the result and the rows.
func (l *fakeLoad) write(load result.Load) {
	if path := l.flags["requests"]; path != "" {
		if err := result.WriteRequests(path, l.world.rows); err != nil {
			l.world.t.Error(err)
		}
	}
	if err := result.WriteJSON(l.flags["json"], load); err != nil {
		l.world.t.Error(err)
	}
}

func (l *fakeLoad) writeText(flag, text string) {
	if err := os.WriteFile(l.flags[flag], []byte(text), 0o644); err != nil {
		l.world.t.Error(err)
	}
}

func (l *fakeLoad) Done() <-chan struct{}          { return l.done }
func (l *fakeLoad) ExitCode() int                  { return l.code }
func (l *fakeLoad) LastLog(int) []string           { return []string{"its last words"} }
func (l *fakeLoad) Usage() (proc.Usage, error)     { return proc.Usage{}, nil }
func (l *fakeLoad) Interrupt() error               { l.once.Do(func() { close(l.stop) }); return nil }
func (l *fakeLoad) Stop(ctx context.Context) error { l.Interrupt(); <-l.done; return nil }
