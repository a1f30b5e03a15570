package spread

import (
	"strings"
	"testing"
	"time"

	"chokepoint/internal/adminapi"
	"chokepoint/internal/lab/balancer"
	"chokepoint/internal/result"
)

const (
	addressOne = "127.0.0.1:1"
	addressTwo = "127.0.0.1:2"
)

// line is nginx's line of a request that it sent to those addresses.
func line(endpoint, id string, addresses ...string) balancer.Access {
	a := balancer.Access{ID: id, Request: "GET /" + endpoint + " HTTP/1.1"}
	for _, addr := range addresses {
		a.Tries = append(a.Tries, balancer.Try{Addr: addr})
	}
	return a
}

// small is a cell of a few requests, each another case.
func small() evidence {
	ms := time.Millisecond
	had := adminapi.Visit{ReceivedNS: 1, StartedNS: 2}
	queued := adminapi.Visit{ReceivedNS: 1}
	return evidence{
		addresses: [2]string{addressOne, addressTwo}, late: 500 * ms,
		requests: []result.Request{
			{ID: "fast-0", Endpoint: "fast", Outcome: "ok", Status: 200, Response: 3 * ms},
			{ID: "fast-1", Endpoint: "fast", Outcome: "timeout", Response: 3000 * ms},
			{ID: "fast-2", Endpoint: "fast", Outcome: "ok", Status: 200, Response: 503 * ms},       // sent again
			{ID: "fast-3", Endpoint: "fast", Outcome: "http_error", Status: 502, Response: 1 * ms}, // refused by nginx
			{ID: "fast-4", Endpoint: "fast", Outcome: "timeout", Cause: result.CauseUnsent},
			{ID: "fast-5", Endpoint: "fast", Outcome: "dropped"},
			{ID: "upstream-0", Endpoint: "upstream", Outcome: "http_error", Status: 504}, // by both
			{ID: "upstream-1", Endpoint: "upstream", Outcome: "ok", Status: 200},
		},
		access: []balancer.Access{
			line("fast", "fast-0", addressTwo), line("fast", "fast-1", addressOne), line("fast", "fast-2", addressOne, addressTwo),
			line("fast", "fast-3", "victims"), line("upstream", "upstream-0", addressTwo, addressOne), line("upstream", "upstream-1", addressTwo),
		},
		visits: [2]adminapi.Visits{
			{"fast": {"fast-1": queued, "fast-2": queued}, "upstream": {"upstream-0": had}},
			{"fast": {"fast-0": had, "fast-2": had}, "upstream": {"upstream-0": had, "upstream-1": had}},
		},
	}
}

func TestRequestsAreJoinedByTheirIDs(t *testing.T) {
	j, err := join(small())
	if err != nil {
		t.Fatal(err)
	}
	want := joined{
		shares: [2]share{
			{fast: 2, fastFailed: 1, retried: 1},
			{fast: 1, upstream: 2, upstreamFailed: 1, retried: 1},
		},
		fast: 6, fastFailed: 4, upstream: 2, upFailed: 1, fastLate: 1, unasked: 1, sentTwice: 2,
		counts: result.CaseCounts{OK: 3, NeverReached: 4, FailedButExecuted: 1, ExecutedTwice: 1},
		runs:   5, asked: 5, askedOneFirst: 2,
	}
	if j != want {
		t.Errorf("joined\n%+v, want\n%+v", j, want)
	}
	figures := j.figures()
	if figures[fastFailedOne] != 50 || figures[fastFailedTwo] != 0 || figures[shareOne] != 40 || figures[upstreamFailed] != 50 {
		t.Errorf("figures %v", figures)
	}
}

// TestWhatDoesNotAgreeIsAnError: client, nginx and victims hold the same requests.
func TestWhatDoesNotAgreeIsAnError(t *testing.T) {
	for want, change := range map[string]func(*evidence){
		"nginx's log has nothing of 1 requests, the first is fast-0":                     func(e *evidence) { e.access = e.access[1:] },
		"nginx's log has request fast-0 2 times":                                         func(e *evidence) { e.access = append(e.access, e.access[0]) },
		"victim one read request fast-0, and nginx says that it never sent it there":     func(e *evidence) { e.visits[0]["fast"]["fast-0"] = adminapi.Visit{ReceivedNS: 1} },
		"victim two read request fast-9 to /fast, which was never sent":                  func(e *evidence) { e.visits[1]["fast"]["fast-9"] = adminapi.Visit{ReceivedNS: 1} },
		"request upstream-1 was answered, and no victim's worker had it":                 func(e *evidence) { delete(e.visits[1]["upstream"], "upstream-1") },
		"victim two read request upstream-1, and nginx says that it never sent it there": func(e *evidence) { e.access[5].Tries[0].Addr = addressOne },
	} {
		e := small()
		change(&e)
		if _, err := join(e); err == nil || err.Error() != want {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}

func TestOutcomes(t *testing.T) {
	of := func(oneFailed, twoFailed, unasked int) joined {
		return joined{shares: [2]share{{fast: 100, fastFailed: oneFailed}, {fast: 100, fastFailed: twoFailed}}, fast: 200 + unasked, unasked: unasked}
	}
	for _, tc := range []struct {
		name string
		both bool
		of   joined
		want outcome
	}{
		{"nothing fails", false, of(0, 0, 0), unharmed},
		{"under a tenth", false, of(9, 9, 0), unharmed},
		{"a tenth of the slow one's", false, of(10, 0, 0), stays},
		{"of the other's too", false, of(66, 10, 0), spreads},
		{"of the other's alone", false, of(0, 10, 0), spreads},
		{"both, of which both are slow", true, of(66, 66, 0), everywhere},
		{"one, though both are slow", true, of(0, 66, 0), stays},
		{"refused by nginx", true, of(0, 0, 40), atBalancer},
		{"and by victims", true, of(66, 66, 40), atBalancer},
		{"nobody was asked for anything", false, joined{fast: 10, unasked: 10}, atBalancer},
	} {
		if got := (cell{bothSlow: tc.both}).outcome(tc.of); got != tc.want {
			t.Errorf("%s: %s, want %s", tc.name, got, tc.want)
		}
	}
}

// TestThePoolAfterTheLoad: the victim says itself since when its pool is idle.
func TestThePoolAfterTheLoad(t *testing.T) {
	on := time.Unix(1000, 0)
	off := on.Add(6 * time.Second)
	at := func(s float64, busy int, idleSince time.Time) poolSample {
		return poolSample{time.Duration(s * float64(time.Second)), adminapi.VictimStats{Pool: adminapi.PoolStats{Busy: busy, IdleSince: idleSince, MaxBusy: 200, MaxQueued: int(s)}}}
	}
	for name, tc := range map[string]struct {
		samples []poolSample
		want    recovery
	}{
		"nobody asked":     {nil, recovery{}},
		"under load":       {[]poolSample{at(5, 0, on)}, recovery{}},
		"busy":             {[]poolSample{at(5, 9, on), at(7, 1, time.Time{})}, recovery{watched: time.Second}},
		"idle since":       {[]poolSample{at(8, 0, off.Add(500*time.Millisecond))}, recovery{true, 500 * time.Millisecond, 2 * time.Second}},
		"idle before":      {[]poolSample{at(8, 0, on)}, recovery{true, 0, 2 * time.Second}},
		"idle, then busy":  {[]poolSample{at(7, 0, off), at(8, 1, time.Time{})}, recovery{watched: 2 * time.Second}},
		"the last decides": {[]poolSample{at(7, 1, time.Time{}), at(8, 0, off)}, recovery{true, 0, 2 * time.Second}},
	} {
		p := poolWatch{loadOn: on, samples: tc.samples}
		if got := p.watched(off); got != tc.want {
			t.Errorf("%s: %+v, want %+v", name, got, tc.want)
		}
	}
	p := poolWatch{loadOn: on, samples: []poolSample{at(3, 0, on), at(5, 0, on)}}
	if busy, queued := p.most(); busy != 200 || queued != 5 {
		t.Errorf("at most %d busy, %d queued", busy, queued)
	}
}

func TestLoggedReadsTheEndpoint(t *testing.T) {
	lines := logged([]balancer.Access{line("fast", "1", addressOne), {ID: "", Request: strings.Repeat("x", 5)}})
	if len(lines[key{"fast", "1"}]) != 1 || len(lines) != 2 {
		t.Errorf("lines %v", lines)
	}
}
