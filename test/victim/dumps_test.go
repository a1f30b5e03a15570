package victim

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"chokepoint/internal/adminapi"
	"chokepoint/internal/evidence/goroutines"
	"chokepoint/internal/evidence/stacks"
	"chokepoint/internal/profile"
	"chokepoint/internal/service/pool"
	"chokepoint/internal/service/victim"
)

// labelled has dumps print pprof labels, as the lab sets it for its victim.
func labelled(t *testing.T) { t.Setenv("GODEBUG", "tracebacklabels=1") }

func parse(t *testing.T, text []byte) []goroutines.Goroutine {
	t.Helper()
	d, err := goroutines.Parse(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return d.Goroutines
}

// The whole path of a request, in one dump after the other: idle, then held in
// the upstream, before the bulkhead, at the database, and the queue behind.
func TestDumpTellsWhereEachWorkerStands(t *testing.T) {
	labelled(t)
	gate := newGate(t)
	w := newWorld(t, hang, func(c *victim.Config) {
		c.MinWorkers, c.MaxWorkers = 4, 12
		c.DatabaseURL = gate.url
		c.Profile = profile.Profile{Permits: 3, PermitWait: time.Hour}
	})
	w.dumpWhen(map[string]int{stacks.Idle: 4})

	upstream := w.hold(3, "/upstream")
	w.dumpWhen(map[string]int{stacks.Idle: 1, stacks.UpstreamRead: 3})

	w.hold(2, "/upstream")
	w.dumpWhen(map[string]int{stacks.UpstreamRead: 3, stacks.PermitWait: 2})

	// Two of the five read an answer that does not come; three wait for a
	// connection, in the semaphore that a bulkhead waits in too.
	gate.setShut(true)
	fast := w.hold(5, "/fast")
	w.dumpWhen(map[string]int{stacks.UpstreamRead: 3, stacks.PermitWait: 2, stacks.Database: 5})

	w.hold(2, "/upstream")
	w.pooled(12, 0) // else a request to /fast could overtake one of them
	queued := w.hold(6, "/fast")
	d, text := w.dumpWhen(map[string]int{
		stacks.UpstreamRead: 3, stacks.PermitWait: 4, stacks.Database: 5, stacks.Queued: 6,
	})
	if d.Workers != 12 {
		t.Errorf("%d workers, want 12", d.Workers)
	}

	// Every worker carries its number and the endpoint that it serves.
	numbers, endpoints := map[string]int{}, map[string]int{}
	for _, g := range parse(t, text) {
		if goroutines.Locate(g).Worker {
			numbers[g.Labels["pool_worker"]]++
			endpoints[g.Labels["endpoint"]]++
		}
	}
	if len(numbers) != 12 || numbers[""] != 0 {
		t.Errorf("worker labels %v, want 12 different ones", numbers)
	}
	wantEqual(t, "endpoint labels", map[string]int{"upstream": 7, "fast": 5}, endpoints)

	gate.setShut(false)
	for _, a := range receiveAll(append(fast, queued...)) {
		if a.status != 200 {
			t.Errorf("%d %s", a.status, a.body)
		}
	}
	w.dumpWhen(map[string]int{stacks.Idle: 5, stacks.UpstreamRead: 3, stacks.PermitWait: 4})
	for _, c := range upstream {
		c.conn.Close() // frees nobody: the victim does not look before its worker is done
	}
	w.dumpWhen(map[string]int{stacks.Idle: 5, stacks.UpstreamRead: 3, stacks.PermitWait: 4})
	w.stub.Close()
	w.dumpWhen(map[string]int{stacks.Idle: 12})
}

// A worker whose connection is not made yet has sent nothing that the upstream
// could answer: it is not in the upstream read.
func TestDumpTellsAConnectFromARead(t *testing.T) {
	labelled(t)
	w := newWorld(t, fails(adminapi.FaultTLSHang), func(c *victim.Config) {
		c.UpstreamURL = "https" + strings.TrimPrefix(c.UpstreamURL, "http")
	})
	w.hold(3, "/upstream")
	_, text := w.dumpWhen(map[string]int{stacks.UpstreamConnect: 3})
	shaking := 0
	for _, g := range parse(t, text) {
		if goroutines.Locate(g).Worker && slices.ContainsFunc(g.Frames, func(f goroutines.Frame) bool {
			return strings.HasSuffix(f.Func, "outbound.(*dialer).dialTLS")
		}) {
			shaking++
		}
	}
	if shaking != 3 {
		t.Errorf("%d workers in the handshake, want 3", shaking)
	}
}

// Goroutines that a library starts from a worker inherit its labels, and are no
// workers. fasthttp's client and pgx both start some.
func TestGoroutinesThatInheritLabelsAreNoWorkers(t *testing.T) {
	labelled(t)
	w := newWorld(t, hang, func(c *victim.Config) { c.Profile = profile.Profile{Timeout: time.Hour} })
	w.hold(4, "/upstream")
	_, text := w.dumpWhen(map[string]int{stacks.UpstreamRead: 4})
	workers, heirs := 0, 0
	for _, g := range parse(t, text) {
		switch {
		case g.Labels["pool_worker"] == "":
		case goroutines.Locate(g).Worker:
			workers++
		default:
			heirs++
		}
	}
	if workers != 4 || heirs == 0 {
		t.Errorf("%d workers and %d other goroutines with a worker's labels; want 4, and some", workers, heirs)
	}
}

// Without a pool the connections' own goroutines do the work, for as many
// requests as there are.
func TestDumpOfAVictimWithoutAPool(t *testing.T) {
	labelled(t)
	gate := newGate(t)
	w := newWorld(t, hang, func(c *victim.Config) {
		c.DatabaseURL = gate.url
		c.Profile = profile.Profile{Unbounded: true}
	})
	w.dumpWhen(nil)
	w.hold(300, "/upstream")
	w.dumpWhen(map[string]int{stacks.UpstreamRead: 300})
	gate.setShut(true)
	fast := w.hold(4, "/fast")
	_, text := w.dumpWhen(map[string]int{stacks.UpstreamRead: 300, stacks.Database: 4})
	endpoints := map[string]int{}
	for _, g := range parse(t, text) {
		if goroutines.Locate(g).Worker {
			endpoints[g.Labels["endpoint"]]++
		}
	}
	wantEqual(t, "endpoint labels", map[string]int{"upstream": 300, "fast": 4}, endpoints)
	gate.setShut(false)
	receiveAll(fast)
	// A connection that is served no longer has lost the label of its last request.
	_, text = w.dumpWhen(map[string]int{stacks.UpstreamRead: 300})
	for _, g := range parse(t, text) {
		if g.Labels["endpoint"] == "fast" {
			t.Errorf("goroutine %d still has the label of a request that was answered", g.ID)
		}
	}
}

// busy is a request that stands in none of the places that have a name.
type busy chan struct{}

func (b busy) Run(time.Duration, *pool.Spot) { <-b }
func (b busy) Gone() bool                    { return false }

// The victim has no place in which a test could hold a worker that is merely
// running, so its pool is asked alone.
func TestDumpTellsRunningWorkers(t *testing.T) {
	p, err := pool.New(pool.Config{Min: 2, Max: 3, Labels: []string{"fast"}})
	if err != nil {
		t.Fatal(err)
	}
	work := make(busy)
	done := make(chan error)
	for range 5 {
		go func() { done <- p.Do(0, work) }()
	}
	var capturer goroutines.Capturer
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		text, _ := capturer.Capture()
		d, err := goroutines.Summarize(bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if d.Workers == 3 && d.Where[stacks.Running] == 3 && d.Queued == 2 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%d workers, where %v; want 3 running and 2 queued", d.Workers, d.Where)
		}
	}
	close(work)
	for range 5 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if err := p.Close(context.Background()); err != nil {
		t.Error(err)
	}
}
