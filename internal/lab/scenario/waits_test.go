package scenario

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"chokepoint/internal/adminapi"
	"chokepoint/internal/result"
)

// TestFollow: a request that falls due at 1 s with a lag of 1 ms and whose client
// waits 100 ms.
func TestFollow(t *testing.T) {
	const ms = time.Millisecond
	start := time.Unix(1_700_000_000, 0)
	at := func(d time.Duration) int64 { return start.Add(time.Second + d).UnixNano() }
	for _, test := range []struct {
		name     string
		endpoint string
		visit    adminapi.Visit
		unseen   bool
		want     split
	}{
		{"answered", "fast", adminapi.Visit{ReceivedNS: at(3 * ms), Finished: true, QueueNS: int64(90 * ms), DatabaseNS: int64(5 * ms)}, false,
			split{lag: ms, accept: 2 * ms, queue: 90 * ms, database: 5 * ms, other: 2 * ms}},
		{"every place", "upstream", adminapi.Visit{ReceivedNS: at(11 * ms), Finished: true, QueueNS: int64(20 * ms), PermitNS: int64(30 * ms), UpstreamNS: int64(39 * ms)}, false,
			split{lag: ms, accept: 10 * ms, queue: 20 * ms, permit: 30 * ms, upstream: 39 * ms}},
		{"the victim goes on when the client has gone", "upstream", adminapi.Visit{ReceivedNS: at(ms), Finished: true, QueueNS: int64(60 * ms), UpstreamNS: int64(time.Hour)}, false,
			split{lag: ms, queue: 60 * ms, upstream: 39 * ms}},
		{"never read", "fast", adminapi.Visit{}, true, split{lag: ms, accept: 99 * ms}},
		{"read when the client had gone", "fast", adminapi.Visit{ReceivedNS: at(time.Second), Finished: true, QueueNS: int64(ms)}, false,
			split{lag: ms, accept: 99 * ms}},
		{"still queued", "fast", adminapi.Visit{ReceivedNS: at(ms)}, false, split{lag: ms, queue: 99 * ms}},
		{"still in the upstream", "upstream", adminapi.Visit{ReceivedNS: at(ms), StartedNS: at(41 * ms)}, false,
			split{lag: ms, queue: 40 * ms, upstream: 59 * ms}},
		{"still in the database", "fast", adminapi.Visit{ReceivedNS: at(ms), StartedNS: at(41 * ms)}, false,
			split{lag: ms, queue: 40 * ms, database: 59 * ms}},
		{"a clock that was set back", "fast", adminapi.Visit{ReceivedNS: at(-time.Hour), Finished: true, QueueNS: int64(9 * ms)}, false,
			split{lag: ms, queue: 9 * ms, other: 90 * ms}},
	} {
		r := result.Request{Endpoint: test.endpoint, Due: time.Second, Lag: ms, Response: 100 * ms}
		got := follow(r, start, test.visit, !test.unseen)
		if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(split{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}

func TestWaitsAreMeansOfWhatEnded(t *testing.T) {
	const ms = time.Millisecond
	start := time.Unix(1_700_000_000, 0)
	e := &evidence{
		load: &result.Load{StartedAt: start},
		seen: adminapi.Seen{"fast": {"a": 1}},
		visits: adminapi.Visits{"fast": {
			"a": {ReceivedNS: start.UnixNano(), Finished: true, QueueNS: int64(10 * ms)},
		}},
		requests: []result.Request{
			{ID: "a", Endpoint: "fast", Outcome: outcomeOK, Response: 20 * ms},
			{ID: "b", Endpoint: "fast", Outcome: outcomeTimeout, Response: 40 * ms},
			{ID: "c", Endpoint: "fast", Outcome: outcomeInterrupted, Response: time.Hour},
			{ID: "d", Endpoint: "fast", Outcome: outcomeDropped},
			{ID: "e", Endpoint: "upstream", Outcome: outcomeOK, Response: time.Hour},
		},
	}
	want := &result.Waits{Requests: 2, Accept: 20, Queue: 5, Other: 5}
	if diff := cmp.Diff(want, e.waits("fast"), cmpopts.EquateApprox(0, 1e-9)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	e.seen["fast"]["b"] = 1 // read, and not followed
	if got := e.waits("fast"); got != nil {
		t.Errorf("not every request was followed, and yet: %+v", got)
	}
	e.visits = nil
	if got := e.waits("fast"); got != nil {
		t.Errorf("the victim could not be asked, and yet: %+v", got)
	}
}
