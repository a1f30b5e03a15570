package victim

import (
	"encoding/json"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"chokepoint/internal/adminapi"
	"chokepoint/internal/profile"
	"chokepoint/internal/service/victim"
)

// outcome is a status and, of an error, its cause.
type outcome struct {
	Status int
	Cause  string
}

// outcomes counts how the answers ended.
func outcomes(t *testing.T, answers ...answer) map[outcome]int {
	t.Helper()
	counts := map[outcome]int{}
	for _, a := range answers {
		o := outcome{Status: a.status}
		if a.status != 200 {
			o.Cause = a.cause(t)
		}
		counts[o]++
	}
	return counts
}

func receiveAll(clients []*client) []answer {
	var all []answer
	for _, c := range clients {
		all = append(all, c.receive())
	}
	return all
}

// counted are the statuses that the victim itself has counted.
func (w *world) counted(endpoint, phase string) map[string]int {
	w.t.Helper()
	return w.stats().Endpoints[endpoint][phase].Status
}

func wantEqual(t *testing.T, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func TestEachWayTheUpstreamFailsHasItsStatusAndCause(t *testing.T) {
	const calls = 5
	for _, tc := range []struct {
		fault   adminapi.Fault
		timeout time.Duration
		scheme  string
		want    outcome
		// seen is how many of the calls reached the stub as a request: one try
		// each, never a second.
		seen int
	}{
		{fault: adminapi.FaultNone, want: outcome{200, ""}, seen: calls},
		{fault: adminapi.FaultHang, timeout: 50 * time.Millisecond, want: outcome{504, adminapi.CauseUpstreamTimeout}, seen: calls},
		{fault: adminapi.FaultTLSHang, timeout: 50 * time.Millisecond, scheme: "https", want: outcome{504, adminapi.CauseUpstreamTimeout}},
		{fault: adminapi.FaultRefuse, want: outcome{502, adminapi.CauseUpstreamConnect}},
		{fault: adminapi.FaultReset, want: outcome{502, adminapi.CauseUpstreamReset}, seen: calls},
		{fault: adminapi.FaultResetMid, want: outcome{502, adminapi.CauseUpstreamReset}, seen: calls},
		{fault: adminapi.FaultClose, want: outcome{502, adminapi.CauseUpstreamReset}, seen: calls},
		{fault: adminapi.FaultCloseMid, want: outcome{502, adminapi.CauseUpstreamReset}, seen: calls},
		{fault: adminapi.FaultError, want: outcome{502, adminapi.CauseUpstreamStatus}, seen: calls},
	} {
		t.Run(fmt.Sprintf("fault=%s", tc.fault), func(t *testing.T) {
			behaviour := answers
			if tc.fault != adminapi.FaultNone {
				behaviour = fails(tc.fault)
			}
			w := newWorld(t, behaviour, func(c *victim.Config) {
				c.Profile.Timeout = tc.timeout
				if tc.scheme != "" {
					c.UpstreamURL = tc.scheme + c.UpstreamURL[len("http"):]
				}
			})
			got := receiveAll(w.hold(calls, "/upstream"))
			wantEqual(t, "outcomes", map[outcome]int{tc.want: calls}, outcomes(t, got...))
			for _, a := range got {
				parts := a.timing(t)
				if parts["upstream"] <= 0 || parts["db"] != 0 || parts["permit"] != 0 {
					t.Errorf("Server-Timing %v: want only time of the upstream", parts)
				}
				if timeout := tc.timeout.Seconds() * 1000; parts["upstream"] < timeout {
					t.Errorf("gave up after %v ms, before the timeout of %v ms", parts["upstream"], timeout)
				}
			}
			wantEqual(t, "counted", map[string]int{strconv.Itoa(tc.want.Status): calls}, w.counted("upstream", adminapi.PhaseOther))
			if n := w.stub.Stats().Received[adminapi.PhaseOther]; n != tc.seen {
				t.Errorf("the stub read %d requests, want %d", n, tc.seen)
			}
		})
	}
}

func TestFullBulkheadAnswers503(t *testing.T) {
	w := newWorld(t, hang, func(c *victim.Config) {
		c.MaxWorkers = 10
		c.Profile = profile.Profile{Permits: 2, PermitWait: 10 * time.Millisecond}
	})
	held := w.hold(2, "/upstream")
	w.statsWhen("both permits held", func(s adminapi.VictimStats) bool { return s.PermitsHeld == 2 && s.PermitLimit == 2 })
	refused := receiveAll(w.hold(5, "/upstream"))
	wantEqual(t, "the five", map[outcome]int{{503, adminapi.CauseBulkheadFull}: 5}, outcomes(t, refused...))
	for _, a := range refused {
		if parts := a.timing(t); parts["permit"] < 10 || parts["upstream"] != 0 {
			t.Errorf("Server-Timing %v: want the wait for a permit and no call", parts)
		}
	}
	if n := w.stub.Stats().Received[adminapi.PhaseOther]; n != 2 {
		t.Errorf("the stub read %d requests, want 2: the bulkhead is before the call", n)
	}
	w.stub.Close()
	wantEqual(t, "the two that held", map[outcome]int{{502, adminapi.CauseUpstreamReset}: 2}, outcomes(t, receiveAll(held)...))
	w.statsWhen("no permit held", func(s adminapi.VictimStats) bool { return s.PermitsHeld == 0 })
	wantEqual(t, "counted", map[string]int{"502": 2, "503": 5}, w.counted("upstream", adminapi.PhaseOther))
}

func TestOpenBreakerAnswers503WithoutACall(t *testing.T) {
	w := newWorld(t, fails(adminapi.FaultError), func(c *victim.Config) {
		c.Profile = profile.Profile{BreakerFailures: 3, BreakerOpenFor: time.Hour}
	})
	var got []answer
	for i := range 7 {
		if want, state := map[bool]string{true: "closed", false: "open"}[i < 3], w.stats().Breaker; state != want {
			t.Errorf("before call %d the breaker is %s, want %s", i, state, want)
		}
		got = append(got, w.get("/upstream"))
	}
	wantEqual(t, "outcomes", map[outcome]int{
		{502, adminapi.CauseUpstreamStatus}: 3, {503, adminapi.CauseBreakerOpen}: 4,
	}, outcomes(t, got...))
	if n := w.stub.Stats().Received[adminapi.PhaseOther]; n != 3 {
		t.Errorf("the stub read %d requests, want 3", n)
	}
	// The breaker guards the upstream and nothing else.
	if a := w.get("/fast"); a.status != 200 {
		t.Errorf("/fast: %d", a.status)
	}
}

func TestFullQueueAnswers503AtOnce(t *testing.T) {
	w := newWorld(t, hang, func(c *victim.Config) {
		c.MaxWorkers = 2
		c.Profile = profile.Profile{MaxQueue: 1}
	})
	held := w.hold(2, "/upstream")
	w.pooled(2, 0)
	queued := w.hold(1, "/fast")
	w.pooled(2, 1)
	// Were they not refused at once, nothing would ever answer them.
	refused := receiveAll(w.hold(4, "/fast"))
	wantEqual(t, "the four", map[outcome]int{{503, adminapi.CauseOverloaded}: 4}, outcomes(t, refused...))
	if s := w.stats().Pool; s.Shed != 4 || s.MaxQueued != 1 || s.MaxBusy != 2 {
		t.Errorf("pool %+v, want 4 shed", s)
	}
	w.stub.Close()
	receiveAll(held)
	wantEqual(t, "the queued one", map[outcome]int{{200, ""}: 1}, outcomes(t, receiveAll(queued)...))
	wantEqual(t, "counted", map[string]int{"200": 1, "503": 4}, w.counted("fast", adminapi.PhaseOther))
}

func TestLongWaitInTheQueueAnswers503(t *testing.T) {
	w := newWorld(t, hang, func(c *victim.Config) {
		c.MaxWorkers = 1
		c.Profile = profile.Profile{MaxQueueWait: 20 * time.Millisecond}
	})
	w.hold(1, "/upstream")
	w.pooled(1, 0)
	got := receiveAll(w.hold(6, "/fast"))
	wantEqual(t, "outcomes", map[outcome]int{{503, adminapi.CauseOverloaded}: 6}, outcomes(t, got...))
	for _, a := range got {
		if parts := a.timing(t); parts["queue"] < 20 || parts["db"] != 0 {
			t.Errorf("Server-Timing %v: want 20 ms or more in the queue and no query", parts)
		}
	}
	if s := w.pooled(1, 0).Pool; s.Shed != 6 {
		t.Errorf("pool %+v, want 6 shed", s)
	}
}

// Each profile by its name, as the outage meets it: 12 requests to a dead
// upstream, 8 workers and 3 permits; then one to the database.
func TestProfilesBeforeADeadUpstream(t *testing.T) {
	reset, refused := outcome{502, adminapi.CauseUpstreamReset}, outcome{502, adminapi.CauseUpstreamConnect}
	timeout := outcome{504, adminapi.CauseUpstreamTimeout}
	bulkheadFull, overloaded := outcome{503, adminapi.CauseBulkheadFull}, outcome{503, adminapi.CauseOverloaded}
	for _, tc := range []struct {
		profile      string
		busy, queued int            // while the upstream is dead, and all is answered that will be
		answered     map[string]int // by then
		fast         *outcome       // what /fast gets by then; nil: it waits in the queue
		// want is how all 12 ended, after the stub's end has reset those that
		// waited for it; the queued ones find its port closed.
		want map[outcome]int
	}{
		{profile: "anti", busy: 8, queued: 4, want: map[outcome]int{reset: 8, refused: 4}},
		{profile: "cancel", busy: 8, queued: 4, want: map[outcome]int{reset: 8, refused: 4}},
		{profile: "shed", busy: 8, answered: map[string]int{"503": 4}, fast: &overloaded,
			want: map[outcome]int{reset: 8, overloaded: 4}},
		{profile: "timeout", answered: map[string]int{"504": 12}, fast: &outcome{Status: 200},
			want: map[outcome]int{timeout: 12}},
		{profile: "bulkhead", busy: 3, answered: map[string]int{"503": 9}, fast: &outcome{Status: 200},
			want: map[outcome]int{reset: 3, bulkheadFull: 9}},
		{profile: "fixed", answered: map[string]int{"503": 9, "504": 3}, fast: &outcome{Status: 200},
			want: map[outcome]int{timeout: 3, bulkheadFull: 9}},
		{profile: "unbounded", busy: 12, fast: &outcome{Status: 200}, want: map[outcome]int{reset: 12}},
	} {
		t.Run(tc.profile, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, hang, func(c *victim.Config) {
				c.MaxWorkers = 8
				c.Profile = named(t, tc.profile, func(p *profile.Profile) { p.Permits = min(p.Permits, 3) })
			})
			clients := w.hold(12, "/upstream")
			w.statsWhen("as expected before the stub's end", func(s adminapi.VictimStats) bool {
				return s.Pool.Busy == tc.busy && s.Pool.Queued == tc.queued &&
					cmp.Equal(s.Endpoints["upstream"][adminapi.PhaseOther].Status, tc.answered, cmpopts.EquateEmpty())
			})
			fast := w.hold(1, "/fast")
			if tc.fast == nil {
				w.pooled(tc.busy, tc.queued+1)
			} else {
				wantEqual(t, "/fast", map[outcome]int{*tc.fast: 1}, outcomes(t, receiveAll(fast)...))
			}
			w.stub.Close()
			wantEqual(t, "/upstream", tc.want, outcomes(t, receiveAll(clients)...))
			if tc.fast == nil {
				wantEqual(t, "/fast, at last", map[outcome]int{{Status: 200}: 1}, outcomes(t, receiveAll(fast)...))
			}
			if s := w.pooled(0, 0); s.Pool.IdleSince.IsZero() || s.Profile != tc.profile {
				t.Errorf("profile %s, idle since %v", s.Profile, s.Pool.IdleSince)
			}
		})
	}
}

func TestFastReadsTheRowAskedFor(t *testing.T) {
	w := newWorld(t, answers, nil)
	for _, tc := range []struct {
		target string
		want   victim.Item
	}{
		{"/fast", victim.Item{ID: 1, Name: "item 1", Price: "1.25"}},
		{"/fast?id=2", victim.Item{ID: 2, Name: "item 2", Price: "2.50"}},
		{"/fast?id=1000", victim.Item{ID: 1000, Name: "item 1000", Price: "1250.00"}},
	} {
		a := w.get(tc.target)
		var got victim.Item
		if err := json.Unmarshal(a.body, &got); err != nil || a.status != 200 {
			t.Errorf("%s: %d %s (%v)", tc.target, a.status, a.body, err)
		}
		wantEqual(t, tc.target, tc.want, got)
		if parts := a.timing(t); parts["db"] <= 0 || parts["upstream"] != 0 || parts["permit"] != 0 {
			t.Errorf("%s: Server-Timing %v: want only time of the database", tc.target, parts)
		}
		if server := a.header.Get("Server"); server != "" {
			t.Errorf("Server header %q", server)
		}
	}
	for _, target := range []string{"/fast?id=0", "/fast?id=1001", "/fast?id=-1", "/fast?id=x", "/fast?id=1.5", "/fast?id=99999999999999999999", "/", "/slow", "/fast/", "/upstream/x"} {
		a := w.get(target)
		wantEqual(t, target, map[outcome]int{{404, adminapi.CauseNotFound}: 1}, outcomes(t, a))
	}
	s := w.stats()
	wantEqual(t, "counted", map[string]int{"200": 3, "404": 6}, s.Endpoints["fast"][adminapi.PhaseOther].Status)
	if len(s.Endpoints["upstream"]) != 0 {
		t.Errorf("upstream %v, want nothing: no request went there", s.Endpoints["upstream"])
	}
}

func TestDatabaseThatIsGoneAnswers500(t *testing.T) {
	gate := newGate(t)
	w := newWorld(t, answers, func(c *victim.Config) { c.DatabaseURL = gate.url })
	if status, _, body := w.adminGet(adminapi.PathReady); status != 200 || string(body) != "ready\n" {
		t.Errorf("ready: %d %s", status, body)
	}
	gate.cut()
	got := receiveAll(w.hold(3, "/fast"))
	wantEqual(t, "outcomes", map[outcome]int{{500, adminapi.CauseDatabase}: 3}, outcomes(t, got...))
	if status, _, body := w.adminGet(adminapi.PathReady); status != 503 {
		t.Errorf("ready without a database: %d %s", status, body)
	}
	if a := w.get("/upstream"); a.status != 200 {
		t.Errorf("/upstream needs no database: %d %s", a.status, a.body)
	}
}
