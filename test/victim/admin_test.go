package victim

import (
	"bufio"
	"bytes"
	"strconv"
	"strings"
	"testing"

	"chokepoint/internal/adminapi"
	"chokepoint/internal/evidence/stacks"
	"chokepoint/internal/profile"
	"chokepoint/internal/service/victim"
)

func TestSeenCountsEachIDByPhaseAndEndpoint(t *testing.T) {
	w := newWorld(t, answers, nil)
	id := func(id string) string { return adminapi.HeaderID + ": " + id }
	phase := func(phase string) string { return adminapi.HeaderPhase + ": " + phase }
	w.get("/fast", id("a"), phase(adminapi.PhaseLoad))
	w.get("/fast", id("a"), phase(adminapi.PhaseLoad))
	w.get("/fast", id("b"), phase(adminapi.PhaseLoad))
	w.get("/upstream", id("a"), phase(adminapi.PhaseLoad))
	w.get("/fast", id("a"), phase(adminapi.PhaseBaseline))
	w.get("/fast?id=0", id("c"), phase(adminapi.PhaseLoad)) // a 404, but read
	w.get("/nowhere", id("d"), phase(adminapi.PhaseLoad))   // no endpoint's
	w.get("/fast", phase(adminapi.PhaseLoad))               // no id
	w.get("/fast", id("e"), phase("made-up"))

	for name, want := range map[string]adminapi.Seen{
		adminapi.PhaseLoad:     {"fast": {"a": 2, "b": 1, "c": 1}, "upstream": {"a": 1}, "work": {}},
		adminapi.PhaseBaseline: {"fast": {"a": 1}, "upstream": {}, "work": {}},
		adminapi.PhaseOther:    {"fast": {"e": 1}, "upstream": {}, "work": {}},
		adminapi.PhaseRecovery: {"fast": {}, "upstream": {}, "work": {}},
	} {
		var got adminapi.Seen
		w.adminJSON(adminapi.PathSeen+"?phase="+name, &got)
		wantEqual(t, name, want, got)
	}

	received := map[string]map[string]int{}
	for endpoint, phases := range w.stats().Endpoints {
		received[endpoint] = map[string]int{}
		for phase, s := range phases {
			received[endpoint][phase] = s.Received
		}
	}
	wantEqual(t, "received", map[string]map[string]int{
		"fast":     {adminapi.PhaseLoad: 5, adminapi.PhaseBaseline: 1, adminapi.PhaseOther: 1},
		"upstream": {adminapi.PhaseLoad: 1},
		"work":     {},
	}, received)
	// The phase travels on to the stub.
	wantEqual(t, "stub", map[string]int{adminapi.PhaseLoad: 1}, w.stub.Stats().Received)
}

// With 200 of 200 workers held and a queue behind them, everything that the lab
// asks of the admin listener is answered, and says so.
func TestAdminAnswersWhileEveryWorkerIsHeld(t *testing.T) {
	const workers, queued = 200, 7
	w := newWorld(t, hang, func(c *victim.Config) {
		c.MinWorkers, c.MaxWorkers = 10, workers
		c.Profile = named(t, "anti", nil)
	})
	idle := w.stats()
	if idle.Pool.Workers != 10 || idle.Pool.IdleSince.IsZero() {
		t.Errorf("at the start: %+v, want 10 idle workers", idle.Pool)
	}
	held := w.hold(workers, "/upstream", adminapi.HeaderPhase+": "+adminapi.PhaseLoad)
	w.pooled(workers, 0)
	waiting := w.hold(queued, "/fast")
	s := w.pooled(workers, queued)
	wantEqual(t, "pool", adminapi.PoolStats{
		Workers: workers, Limit: workers, Busy: workers, Queued: queued,
		MaxWorkers: workers, MaxBusy: workers, MaxQueued: queued,
		Where: strings.Repeat(string(adminapi.WhereUpstreamRead), workers),
	}, s.Pool)
	if s.Process.Goroutines < workers || s.Process.RSSBytes <= 0 || s.Process.CPUSeconds <= 0 || s.Now.IsZero() || s.Breaker != "none" || s.Profile != "anti" {
		t.Errorf("stats %+v", s)
	}
	for _, path := range []string{"/healthz", adminapi.PathReady, adminapi.PathStats, adminapi.PathSeen + "?phase=load", "/metrics",
		"/debug/pprof/", "/debug/pprof/goroutine?debug=0", "/debug/pprof/cmdline", "/debug/pprof/symbol"} {
		if status, _, body := w.adminGet(path); status != 200 || len(body) == 0 {
			t.Errorf("%s: %d, %d bytes", path, status, len(body))
		}
	}
	w.dumpWhen(map[string]int{stacks.UpstreamRead: workers, stacks.Queued: queued})
	metrics := w.metrics()
	for name, want := range map[string]float64{
		"victim_pool_workers": workers, "victim_pool_workers_busy": workers, "victim_pool_queued": queued,
		"victim_connections": workers + queued, `victim_breaker_state{state="none"}`: 1,
	} {
		if got := metrics[name]; got != want {
			t.Errorf("%s %v, want %v", name, got, want)
		}
	}

	w.stub.Close()
	receiveAll(held)
	wantEqual(t, "/fast, at last", map[outcome]int{{Status: 200}: queued}, outcomes(t, receiveAll(waiting)...))
	s = w.pooled(0, 0)
	if s.Pool.Workers != workers || s.Pool.MaxQueued != queued {
		t.Errorf("after it: %+v, want all workers kept", s.Pool)
	}
	if status, _, _ := w.adminDo("POST", adminapi.PathReset); status != 204 {
		t.Errorf("reset: %d", status)
	}
	if p := w.stats().Pool; p.MaxBusy != 0 || p.MaxQueued != 0 || p.MaxWorkers != workers {
		t.Errorf("after a reset: %+v", p)
	}
	if status, _, _ := w.adminGet(adminapi.PathReset); status != 405 {
		t.Errorf("GET %s: %d, want 405: reading must change nothing", adminapi.PathReset, status)
	}
}

// metrics reads /metrics: the value of each sample, by its name and labels.
func (w *world) metrics() map[string]float64 {
	w.t.Helper()
	status, _, body := w.adminGet("/metrics")
	if status != 200 {
		w.t.Fatalf("/metrics: %d", status)
	}
	samples := map[string]float64{}
	for lines := bufio.NewScanner(bytes.NewReader(body)); lines.Scan(); {
		line := lines.Text()
		if strings.HasPrefix(line, "#") {
			continue
		}
		at := strings.LastIndexByte(line, ' ')
		value, err := strconv.ParseFloat(line[at+1:], 64)
		if err != nil {
			w.t.Fatalf("sample %q: %v", line, err)
		}
		samples[line[:at]] = value
	}
	return samples
}

// Every metric that a dashboard of the outage needs, with exact values.
func TestMetricsCountWhatWasAnswered(t *testing.T) {
	w := newWorld(t, fails(adminapi.FaultError), func(c *victim.Config) {
		c.Profile = profile.Profile{Permits: 5, BreakerFailures: 3, BreakerOpenFor: 1 << 60}
	})
	for range 4 {
		w.get("/fast")
	}
	w.get("/fast?id=0")
	for range 5 {
		w.get("/upstream")
	}
	w.pooled(0, 0)
	got := w.metrics()
	for name, want := range map[string]float64{
		"victim_pool_workers": 1, "victim_pool_workers_busy": 0, "victim_pool_queued": 0,
		`victim_queue_wait_seconds_count{endpoint="fast"}`:           5,
		`victim_queue_wait_seconds_count{endpoint="upstream"}`:       5,
		`victim_request_duration_seconds_count{endpoint="fast"}`:     5,
		`victim_request_duration_seconds_count{endpoint="upstream"}`: 5,
		`victim_requests_total{endpoint="fast",status="200"}`:        4,
		`victim_requests_total{endpoint="fast",status="404"}`:        1,
		`victim_requests_total{endpoint="upstream",status="502"}`:    3,
		`victim_requests_total{endpoint="upstream",status="503"}`:    2,
		"victim_permits_held":                     0,
		"victim_permits_limit":                    5,
		`victim_breaker_state{state="none"}`:      0,
		`victim_breaker_state{state="closed"}`:    0,
		`victim_breaker_state{state="half-open"}`: 0,
		`victim_breaker_state{state="open"}`:      1,
		"victim_abandoned_by_client_total":        0,
		"victim_shed_total":                       0,
		"victim_accept_queue":                     0,
	} {
		if value, ok := got[name]; !ok || value != want {
			t.Errorf("%s is %v (there: %v), want %v", name, value, ok, want)
		}
	}
	for _, name := range []string{"go_goroutines", "go_memstats_heap_alloc_bytes", "process_cpu_seconds_total", "process_resident_memory_bytes", "process_open_fds"} {
		if got[name] <= 0 {
			t.Errorf("%s is %v: no runtime or process collector", name, got[name])
		}
	}
}

// A reader who names the last answer that it has seen gets each answer once, and
// of more than are kept the newest.
func TestStatsTellsAnswersAfterANumber(t *testing.T) {
	w := newWorld(t, answers, nil)
	after := func(n int) []adminapi.Answer {
		var s adminapi.VictimStats
		w.adminJSON(adminapi.PathStats+"?"+adminapi.ParamAnswersAfter+"="+strconv.Itoa(n), &s)
		for i, a := range s.Answers {
			if a.MS <= 0 {
				t.Errorf("answer %d took %v ms", a.Number, a.MS)
			}
			s.Answers[i].MS = 0
		}
		return s.Answers
	}
	w.get("/fast", adminapi.HeaderPhase+": "+adminapi.PhaseLoad)
	w.get("/fast?id=0")
	first := adminapi.Answer{Number: 1, Endpoint: "fast", Phase: adminapi.PhaseLoad, Status: 200}
	second := adminapi.Answer{Number: 2, Endpoint: "fast", Phase: adminapi.PhaseOther, Status: 404}
	wantEqual(t, "all", []adminapi.Answer{first, second}, after(0))
	wantEqual(t, "after the first", []adminapi.Answer{second}, after(1))
	wantEqual(t, "after the last", []adminapi.Answer(nil), after(2))
	wantEqual(t, "after one that is to come", []adminapi.Answer(nil), after(1_000_000))
	if got := w.stats().Answers; got != nil {
		t.Errorf("answers that nobody asked for: %+v", got)
	}
	for _, bad := range []string{"-1", "x", "9999999999999999999999"} {
		if status, _, body := w.adminGet(adminapi.PathStats + "?" + adminapi.ParamAnswersAfter + "=" + bad); status != 400 || !strings.Contains(string(body), strconv.Quote(bad)) {
			t.Errorf("after %s: %d %q, want a 400 that names it", bad, status, body)
		}
	}

	c := w.dial()
	const more = 1200
	for range more {
		c.send("/fast")
		c.receive()
	}
	kept := after(2)
	if len(kept) != 1000 || kept[0].Number != 2+more-1000+1 || kept[len(kept)-1].Number != 2+more {
		t.Errorf("of %d answers %d are kept, from %d; want the newest 1000", more, len(kept), kept[0].Number)
	}
}
