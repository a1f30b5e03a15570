package closerace

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chokepoint/internal/profile"
	"chokepoint/internal/result"
)

const idle = 100 * time.Millisecond

// rested is a call whose connection had rested for so many milliseconds.
func rested(ms float64, status int, connection string, runs int) call {
	return call{Rested: true, Rest: time.Duration(ms * float64(time.Millisecond)), Status: status, Connection: connection, Runs: runs}
}

func TestCallsAreCountedWhereTheirOwnRestWas(t *testing.T) {
	l := line{client: "fasthttp", method: "POST", defence: "none"}
	calls := []call{
		{Status: 200, Runs: 1}, // nothing had rested
		rested(99.6, 502, connectionReused, 0),
		rested(100.4, 200, connectionReused, 1),
		rested(102.4, 200, connectionNew, 1),
		rested(101.6, 502, connectionReused, 1), // failed, and was executed
		rested(102.0, 200, connectionNew, 2),    // executed twice
		{Rest: 102 * time.Millisecond, Status: 200, Runs: 1},
		rested(140, 502, connectionReused, 0), // beyond the sweep
	}
	want := []result.CloseRacePoint{
		{Client: "fasthttp", Method: "POST", Defence: "none", OffsetMS: 0, WidthMS: 1, Requests: 2, Failed: 1},
		{Client: "fasthttp", Method: "POST", Defence: "none", OffsetMS: 2, WidthMS: 1, Requests: 3, Failed: 1, FailedButExecuted: 1, ExecutedTwice: 1, Renewed: 2},
	}
	if diff := cmp.Diff(want, l.series(calls, 100)); diff != "" {
		t.Errorf("series (-want +got):\n%s", diff)
	}
}

func TestACellIsJudgedByItsBandAndByWhatWasExecuted(t *testing.T) {
	l := line{client: "net/http", method: "POST", defence: "none", band: func(float64) band { return band{5, 50} }}
	for _, tc := range []struct {
		name    string
		point   result.CloseRacePoint
		ok      bool
		got     string
		counts  result.CaseCounts
		failure string
	}{
		{"within", result.CloseRacePoint{Requests: 100, Failed: 50}, true, "50.0 % of 100 fail, none of them executed, none twice", result.CaseCounts{OK: 50, NeverReached: 50}, ""},
		{"below", result.CloseRacePoint{Requests: 100, Failed: 4}, false, "4.0 % of 100 fail, none of them executed, none twice", result.CaseCounts{OK: 96, NeverReached: 4}, ""},
		{"above", result.CloseRacePoint{Requests: 100, Failed: 51}, false, "51.0 % of 100 fail, none of them executed, none twice", result.CaseCounts{OK: 49, NeverReached: 51}, ""},
		{"executed", result.CloseRacePoint{Requests: 100, Failed: 20, FailedButExecuted: 1}, false, "20.0 % of 100 fail, 1 of them executed, none twice",
			result.CaseCounts{OK: 80, NeverReached: 19, FailedButExecuted: 1}, ""},
		{"twice", result.CloseRacePoint{Requests: 100, Failed: 20, ExecutedTwice: 2}, false, "20.0 % of 100 fail, none of them executed, 2 twice",
			result.CaseCounts{OK: 80, NeverReached: 20, ExecutedTwice: 2}, ""},
		{"too few", result.CloseRacePoint{Requests: minRequests - 1, Failed: 3}, false, "", result.CaseCounts{}, "9 requests rested so long"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := l.cell(0)
			tc.point.OffsetMS = 0
			l.judge(&c, []result.CloseRacePoint{{OffsetMS: -2, Requests: 1000}, tc.point}, 0)
			if c.OK != tc.ok || c.Got != tc.got || c.Counts != tc.counts {
				t.Errorf("got %v, %q, %+v; want %v, %q, %+v", c.OK, c.Got, c.Counts, tc.ok, tc.got, tc.counts)
			}
			if (c.Failure == "") != (tc.failure == "") || !strings.HasPrefix(c.Failure, tc.failure) {
				t.Errorf("failure %q, want one that begins with %q", c.Failure, tc.failure)
			}
		})
	}
}

// Every cell says what it wants before a run, and is told from every other.
func TestTheCells(t *testing.T) {
	keys := map[string]bool{}
	for _, l := range lines(idle) {
		if !slices.Contains(profile.DefenceNames(), l.defence) {
			t.Errorf("%s: the victim has no defence %q", l.name(), l.defence)
		}
		for _, offset := range cells {
			c := l.cell(offset)
			key := strings.Join([]string{c.ID, c.Client, c.Method, c.Defence}, " ")
			if keys[key] {
				t.Errorf("two cells %s", key)
			}
			keys[key] = true
			if b := l.band(offset); b.low < 0 || b.high > 100 || b.low > b.high || c.Why == "" || c.Group == "" {
				t.Errorf("%s: band %v, why %q, group %q", key, b, c.Why, c.Group)
			}
			if !slices.ContainsFunc(sweep, func(s struct{ offsetMS, weight int }) bool { return float64(s.offsetMS) == offset }) {
				t.Errorf("%s: the sweep has no such offset", key)
			}
		}
	}
	if want := 2 * 9 * len(cells); len(keys) != want {
		t.Errorf("%d cells, want %d", len(keys), want)
	}
	safe := lines(200 * time.Millisecond)[4]
	if safe.defence != "evict" || !slices.Equal(safe.arguments, []string{"-evict-idle=160ms"}) {
		t.Errorf("the eviction of a server that closes after 200ms is %s %v, want evict at 80 %%", safe.defence, safe.arguments)
	}
}

func TestTheIDOfACellHasASign(t *testing.T) {
	var ids []string
	for _, offset := range []float64{-20, 0, 5} {
		ids = append(ids, cellID(offset))
	}
	if want := []string{"K-20", "K+0", "K+5"}; !slices.Equal(ids, want) {
		t.Errorf("ids %v, want %v", ids, want)
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
	for _, l := range lines(idle) {
		if want := l.defence == "retry_idempotency_key"; l.key != want {
			t.Errorf("%s: key %v, want %v", l.name(), l.key, want)
		}
		if l.method != http.MethodGet && l.method != http.MethodPost {
			t.Errorf("%s: method %s", l.name(), l.method)
		}
	}
}
