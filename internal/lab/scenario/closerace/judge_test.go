package closerace

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chokepoint/internal/profile"
	"chokepoint/internal/result"
)

const idle = 100 * time.Millisecond

// rested is a call whose connection had rested for so many milliseconds, as planned.
func rested(ms float64, status int, connection string, runs int) call {
	rest := time.Duration(ms * float64(time.Millisecond))
	return call{Rested: true, Planned: rest, Rest: rest, Status: status, Connection: connection, Runs: runs}
}

func TestCallsAreCountedWhereTheirOwnRestWas(t *testing.T) {
	l := line{client: "fasthttp", method: "POST", defence: "none"}
	late := rested(102, 502, connectionReused, 0)
	late.Planned = 99 * time.Millisecond
	calls := []call{
		{First: true, Status: 200, Runs: 1},
		rested(99.6, 502, connectionReused, 0),
		rested(100.4, 200, connectionReused, 1),
		rested(102.4, 200, connectionNew, 1),
		rested(101.6, 502, connectionReused, 1),                                               // failed, and was executed
		rested(102.0, 200, connectionNew, 2),                                                  // executed twice
		{Planned: 102 * time.Millisecond, Rest: 102 * time.Millisecond, Status: 200, Runs: 1}, // after a failure
		late,
		rested(140, 502, connectionReused, 0), // beyond the series
	}
	want := []result.CloseRacePoint{
		{Client: "fasthttp", Method: "POST", Defence: "none", OffsetMS: 0, WidthMS: 1, Requests: 2, Failed: 1},
		{Client: "fasthttp", Method: "POST", Defence: "none", OffsetMS: 2, WidthMS: 1, Requests: 3, Failed: 1, FailedButExecuted: 1, ExecutedTwice: 1, Renewed: 2},
	}
	if diff := cmp.Diff(want, l.series(calls, idle)); diff != "" {
		t.Errorf("series (-want +got):\n%s", diff)
	}
}

func TestACellIsJudgedByItsBandAndByWhatWasExecuted(t *testing.T) {
	l := line{client: "net/http", method: "POST", defence: "none", band: func(cell) band { return band{5, 50} }}
	about := cell{"K+0", 0, 1}
	for _, tc := range []struct {
		name    string
		point   result.CloseRacePoint // beside one of 50 requests that were answered
		ok      bool
		got     string
		counts  result.CaseCounts
		failure string
	}{
		{"within", result.CloseRacePoint{Requests: 50, Failed: 50}, true, "50.0 % of 100 fail, none of them executed, none twice", result.CaseCounts{OK: 50, NeverReached: 50}, ""},
		{"below", result.CloseRacePoint{Requests: 50, Failed: 4}, false, "4.0 % of 100 fail, none of them executed, none twice", result.CaseCounts{OK: 96, NeverReached: 4}, ""},
		{"above", result.CloseRacePoint{Requests: 52, Failed: 52}, false, "51.0 % of 102 fail, none of them executed, none twice", result.CaseCounts{OK: 50, NeverReached: 52}, ""},
		{"executed", result.CloseRacePoint{Requests: 50, Failed: 20, FailedButExecuted: 1}, false, "20.0 % of 100 fail, 1 of them executed, none twice",
			result.CaseCounts{OK: 80, NeverReached: 19, FailedButExecuted: 1}, ""},
		{"twice", result.CloseRacePoint{Requests: 50, Failed: 20, ExecutedTwice: 2}, false, "20.0 % of 100 fail, none of them executed, 2 twice",
			result.CaseCounts{OK: 80, NeverReached: 20, ExecutedTwice: 2}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := l.wanted(about)
			if c.Want != "5 to 50 % fail, none of them executed, none twice" {
				t.Errorf("want is %q", c.Want)
			}
			tc.point.OffsetMS = 1
			l.judge(about, []result.CloseRacePoint{{OffsetMS: -1, Requests: 1000}, {Requests: 50}, tc.point, {OffsetMS: 2, Failed: 1000}}, &c)
			if c.OK != tc.ok || c.Got != tc.got || c.Counts != tc.counts || c.Failure != "" {
				t.Errorf("got %v, %q, %+v, %q; want %v, %q, %+v", c.OK, c.Got, c.Counts, c.Failure, tc.ok, tc.got, tc.counts)
			}
		})
	}
	c := l.wanted(about)
	l.judge(about, []result.CloseRacePoint{{Requests: minRequests - 1, Failed: 3}}, &c)
	if c.OK || c.Got != "" || c.Counts != (result.CaseCounts{}) || !strings.HasPrefix(c.Failure, "19 requests rested so long, and at least 20") {
		t.Errorf("of too few: %v, %q, %+v, %q", c.OK, c.Got, c.Counts, c.Failure)
	}
}

// Every cell says what it wants before a run, and is told from every other.
func TestTheCells(t *testing.T) {
	keys := map[string]bool{}
	for _, l := range lines(idle, 0) {
		if !slices.Contains(profile.DefenceNames(), l.defence) {
			t.Errorf("%s: the victim has no defence %q", l.name(), l.defence)
		}
		for _, of := range cells {
			c := l.wanted(of)
			key := strings.Join([]string{c.ID, c.Client, c.Method, c.Defence}, " ")
			if keys[key] {
				t.Errorf("two cells %s", key)
			}
			keys[key] = true
			if b := l.band(of); b.low < 0 || b.high > 100 || b.low > b.high || c.Why == "" || c.Group == "" {
				t.Errorf("%s: band %v, why %q, group %q", key, b, c.Why, c.Group)
			}
		}
	}
	if want := 2 * 9 * len(cells); len(keys) != want {
		t.Errorf("%d cells, want %d", len(keys), want)
	}
	safe := lines(200*time.Millisecond, 0)[4]
	if safe.defence != "evict" || !slices.Equal(safe.arguments, []string{"-evict-idle=160ms"}) {
		t.Errorf("the eviction of a server that closes after 200ms is %s %v, want evict at 80 %%", safe.defence, safe.arguments)
	}
}

// On a long way the close meets what was sent within a round trip before it, whatever
// the client looks at.
func TestTheBandsOfALongWay(t *testing.T) {
	bands := func(roundTrip time.Duration, client, defence string) map[string]band {
		for _, l := range lines(idle, roundTrip) {
			if l.client == client && l.defence == defence && l.method == http.MethodPost {
				of := map[string]band{}
				for _, c := range cells {
					of[c.id] = l.band(c)
				}
				return of
			}
		}
		t.Fatalf("no line %s %s", client, defence)
		return nil
	}
	for _, tc := range []struct {
		roundTrip       time.Duration
		client, defence string
		want            map[string]band
	}{
		{0, "net/http", "stale_check", map[string]band{"K-20": {0, 5}, "K-5": {0, 5}, "K-2": {0, 10}, "K+5": {0, 5}}},
		{10 * time.Millisecond, "net/http", "stale_check", map[string]band{"K-20": {0, 20}, "K-5": {75, 100}, "K-2": {75, 100}, "K+0": {0, 100}, "K+5": {0, 20}, "K+20": {0, 20}}},
		{5 * time.Millisecond, "net/http", "none", map[string]band{"K-20": {0, 20}, "K-5": {0, 100}, "K-2": {75, 100}, "K+0": {1, 100}}},
		{10 * time.Millisecond, "fasthttp", "none", map[string]band{"K-5": {75, 100}, "K+0": {20, 100}, "K+2": {75, 100}, "K+20": {85, 100}}},
		{10 * time.Millisecond, "fasthttp", "age_check", map[string]band{"K-5": {0, 5}, "K+0": {0, 5}}},
		{10 * time.Millisecond, "fasthttp", "retry_idempotency_key", map[string]band{"K-5": {0, 0}, "K+20": {0, 0}}},
	} {
		got := bands(tc.roundTrip, tc.client, tc.defence)
		for id, want := range tc.want {
			if got[id] != want {
				t.Errorf("%s of %s with %s over %s: %v, want %v", id, tc.client, tc.defence, tc.roundTrip, got[id], want)
			}
		}
	}
}

// The sweep goes to every cell, about as often as to the others of its side at the
// least, and the cells do not overlap.
func TestTheSweepReachesEveryCell(t *testing.T) {
	last := -reach - 1
	for _, c := range cells {
		if c.first <= last || c.last < c.first || c.last > reach {
			t.Errorf("%s is of %d to %d ms, after one that ends at %d", c.id, c.first, c.last, last)
		}
		last = c.last
		weight := 0
		for _, s := range sweep {
			if s.offsetMS >= c.first && s.offsetMS <= c.last {
				weight += s.weight
			}
		}
		if weight < 4 {
			t.Errorf("%s has a weight of %d, want at least 4", c.id, weight)
		}
	}
}

func TestThinkTimesThatWereNotKept(t *testing.T) {
	off := func(ms float64) call {
		return call{Rested: true, Planned: idle, Rest: idle + time.Duration(ms*float64(time.Millisecond))}
	}
	check, reason := thinkTimes([]call{off(0.5), off(-1), off(3), off(-4), {First: true, Rest: time.Hour}})
	if !check.OK || reason != "" || check.Got != "50.0 % of 4; the median is 3.00 ms off" {
		t.Errorf("half of them disturbed: %+v, %q", check, reason)
	}
	check, reason = thinkTimes([]call{off(0.5), off(3), off(4)})
	if check.OK || !strings.HasPrefix(reason, "the machine was too busy: 66.7 % of the think times were more than 2ms off") {
		t.Errorf("two of three disturbed: %+v, %q", check, reason)
	}
	if check, reason = thinkTimes(nil); reason != "" || check.Got != "there were none" {
		t.Errorf("of no calls: %+v, %q", check, reason)
	}
}

func TestAWayThatIsLongerThanAsked(t *testing.T) {
	took := func(d time.Duration) call {
		return call{Status: 200, Connection: connectionReused, Attempts: 1, Took: d}
	}
	calls := []call{took(300 * time.Microsecond), took(11 * time.Millisecond), took(13 * time.Millisecond), {Status: 502, Connection: connectionReused, Attempts: 1, Took: time.Hour}}
	if check, reason := exchanges(calls, 10*time.Millisecond); !check.OK || reason != "" || check.Got != "11ms at the median, 13ms at the 95th percentile, on kept connections" {
		t.Errorf("a millisecond over: %+v, %q", check, reason)
	}
	if check, reason := exchanges(calls, 0); check.OK || !strings.HasPrefix(reason, "the machine was too busy: an exchange took 11ms at the median") {
		t.Errorf("11 ms on the loopback: %+v, %q", check, reason)
	}
	calls = append(calls, took(26*time.Millisecond), took(26*time.Millisecond), took(11*time.Millisecond), took(11*time.Millisecond))
	if check, reason := exchanges(calls, 10*time.Millisecond); check.OK || !strings.Contains(reason, "26ms at the 95th percentile") {
		t.Errorf("26 ms now and then: %+v, %q", check, reason)
	}
}

func TestNothingThatDidNotRestFails(t *testing.T) {
	if c := nothingRested([]call{{Status: 200}, {Rested: true, Status: 502}}); !c.OK || c.Got != "0 of 1" {
		t.Errorf("%+v", c)
	}
	if c := nothingRested([]call{{Status: 200}, {Status: 502}}); c.OK || c.Got != "1 of 2" {
		t.Errorf("%+v", c)
	}
}

func TestCallsAreReadAsTheyWereWritten(t *testing.T) {
	calls := []call{
		{ID: "c-1", First: true, Status: 200, Connection: connectionNew, Attempts: 1, Runs: 1},
		{ID: "c-2", Rested: true, Planned: 98 * time.Millisecond, Rest: 98123 * time.Microsecond, Took: 431 * time.Microsecond, Status: 502,
			Connection: connectionReused, Attempts: 2, Error: `a "quoted", error`, Socket: "ECONNRESET"},
	}
	path := filepath.Join(t.TempDir(), callsFile)
	if err := writeCalls(path, calls); err != nil {
		t.Fatal(err)
	}
	got, err := readCalls(path)
	if err != nil {
		t.Fatal(err)
	}
	calls[0].First = false // which is not in the file: it did not rest
	if diff := cmp.Diff(calls, got); diff != "" {
		t.Errorf("read back (-written +read):\n%s", diff)
	}
	if err := os.WriteFile(path, []byte(strings.Join(callColumns, ",")+"\na,true,x,1,1,new,1,200,,,1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := readCalls(path); err == nil || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("a malformed row: %v", err)
	}
}

func TestSettingsThatNoRunCanHave(t *testing.T) {
	good := Settings{IdleTimeout: idle, Duration: 10 * time.Second, Callers: 1}
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		change func(*Settings)
		want   string
	}{
		{func(s *Settings) { s.IdleTimeout = time.Millisecond }, "-idle-timeout 1ms"},
		{func(s *Settings) { s.IdleTimeout = time.Minute }, "-idle-timeout 1m0s"},
		{func(s *Settings) { s.RoundTrip = 11 * time.Millisecond }, "-round-trip 11ms: want 0 to 10ms"},
		{func(s *Settings) { s.RoundTrip = -1 }, "-round-trip -1ns"},
		{func(s *Settings) { s.Callers = 0 }, "-callers 0"},
		{func(s *Settings) { s.Callers = 21 }, "-callers 21"},
		{func(s *Settings) { s.Duration = 4 * time.Second }, "-duration 4s: want 5s or more"},
		{func(s *Settings) { s.Duration = 2 * time.Hour }, "-duration 2h0m0s"},
	} {
		s := good
		tc.change(&s)
		if err := s.Validate(); err == nil || !strings.HasPrefix(err.Error(), tc.want) {
			t.Errorf("error %v, want one that begins with %q", err, tc.want)
		}
	}
}

func TestOnlyRequestsWithAKeyHaveOne(t *testing.T) {
	for _, l := range lines(idle, 0) {
		if want := l.defence == "retry_idempotency_key"; l.key != want {
			t.Errorf("%s: key %v, want %v", l.name(), l.key, want)
		}
		if l.method != http.MethodGet && l.method != http.MethodPost {
			t.Errorf("%s: method %s", l.name(), l.method)
		}
	}
}
