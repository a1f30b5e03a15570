package drain

import (
	"strings"
	"testing"
	"time"

	"chokepoint/internal/result"
)

// TestClassesAreJoined: what the client got alone does not say what became of a request.
func TestClassesAreJoined(t *testing.T) {
	var all []joined
	for _, tc := range []struct {
		ok   bool
		rows int
		want string
	}{
		{true, 1, classOK}, {true, 2, classOK}, {false, 0, classNeverReached}, {false, 1, classButExecuted}, {false, 3, classButExecuted},
	} {
		r := joined{Class: classOf(tc.ok, tc.rows)}
		r.Runs = tc.rows
		if r.Class != tc.want {
			t.Errorf("ok %v, %d rows: %s, want %s", tc.ok, tc.rows, r.Class, tc.want)
		}
		all = append(all, r)
	}
	want := result.CaseCounts{OK: 2, NeverReached: 1, FailedButExecuted: 2, ExecutedTwice: 2}
	if got := count(all); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func counts(ok, never, executed, twice int) result.CaseCounts {
	return result.CaseCounts{OK: ok, NeverReached: never, FailedButExecuted: executed, ExecutedTwice: twice}
}

func request(got string, at, seconds float64) result.CaseRequest {
	return result.CaseRequest{Got: got, AtS: at, Seconds: seconds}
}

func TestJudge(t *testing.T) {
	ended := []Ended{{Name: "gw1", At: 5 * time.Second}}
	kept := Connection{Client: "10.84.0.2:4000", Balancer: "10.84.0.4:5000", ID: "gw1-1", Requests: []string{"k1-0", "k1-1"}}
	killed := func(left ...Connection) []Ended {
		return []Ended{{Name: "gw1", At: time.Minute, Killed: true, Left: left}}
	}
	inTable := want{outcome: "EOF", executed: exactly(2), failsFrom: 2 * time.Second, failsUntil: 3 * time.Second}
	for name, tc := range map[string]struct {
		want want
		out  Outcome
		got  string
		ok   bool
	}{
		"lost though executed": {want{outcome: executedFail, executed: about(10), never: upTo(1)},
			Outcome{Counts: counts(5, 1, 12, 0), Ended: ended}, executedFail + ", never reached 1, failed but executed 12, executed twice 0", true},
		"more than the band": {want{outcome: executedFail, executed: about(10)},
			Outcome{Counts: counts(5, 0, 21, 0), Ended: ended}, executedFail + ", never reached 0, failed but executed 21, executed twice 0", false},
		"none was lost": {want{outcome: executedFail, executed: about(10)},
			Outcome{Counts: counts(5, 0, 0, 0), Ended: ended}, executedSafe + ", never reached 0, failed but executed 0, executed twice 0", false},
		"safe, with close races": {want{outcome: executedSafe, never: upTo(6)},
			Outcome{Counts: counts(5, 6, 0, 0), Ended: ended}, executedSafe + ", never reached 6, failed but executed 0, executed twice 0", true},
		"nothing fails": {want{outcome: nothingFails, ok: atLeast(1000)},
			Outcome{Counts: counts(1000, 0, 0, 0), Ended: ended}, nothingFails + ", ok 1000, never reached 0, failed but executed 0, executed twice 0", true},
		"too few to say so": {want{outcome: nothingFails, ok: atLeast(1000)},
			Outcome{Counts: counts(999, 0, 0, 0), Ended: ended}, nothingFails + ", ok 999, never reached 0, failed but executed 0, executed twice 0", false},
		"one is done twice": {want{outcome: nothingFails},
			Outcome{Counts: counts(9, 0, 0, 1), Ended: ended}, somethingHas + ", never reached 0, failed but executed 0, executed twice 1", false},
		"no gateway has ended": {want{outcome: nothingFails},
			Outcome{Counts: counts(9, 0, 0, 0)}, nothingFails + ", never reached 0, failed but executed 0, executed twice 0", false},
		"done twice": {want{outcome: workedTwice, twice: atLeast(1)},
			Outcome{Counts: counts(9, 0, 0, 1), Ended: ended}, workedTwice + ", never reached 0, failed but executed 0, executed twice 1", true},
		"sent again": {want{outcome: nothingFails, repeats: true},
			Outcome{Counts: counts(9, 0, 0, 0), Ended: ended, Repeated: 4}, nothingFails + ", never reached 0, failed but executed 0, executed twice 0, sent again 4", true},
		"enough sent again": {want{outcome: sentAgain, repeats: true, again: atLeast(4), never: upTo(1)},
			Outcome{Counts: counts(9, 1, 0, 0), Ended: ended, Repeated: 4}, sentAgain + ", never reached 1, failed but executed 0, executed twice 0, sent again 4", true},
		"too few sent again": {want{outcome: sentAgain, repeats: true, again: atLeast(4)},
			Outcome{Counts: counts(9, 0, 0, 0), Ended: ended, Repeated: 3}, sentAgain + ", never reached 0, failed but executed 0, executed twice 0, sent again 3", false},
		"too many sent again": {want{outcome: nothingFails, repeats: true, again: upTo(6)},
			Outcome{Counts: counts(9, 0, 0, 0), Ended: ended, Repeated: 7}, nothingFails + ", never reached 0, failed but executed 0, executed twice 0, sent again 7", false},
		"none sent again": {want{outcome: sentAgain, repeats: true, again: atLeast(4)},
			Outcome{Counts: counts(9, 0, 0, 0), Ended: ended}, noneAgain + ", never reached 0, failed but executed 0, executed twice 0, sent again 0", false},
		"the table": {inTable,
			Outcome{Counts: counts(0, 0, 2, 0), Ended: ended, Requests: []result.CaseRequest{request("EOF", -1, 3.01), request("EOF", 0, 2.5)}},
			"EOF, never reached 0, failed but executed 2, executed twice 0, fails at 2.01 to 2.50 s", true},
		"the table, too early": {inTable,
			Outcome{Counts: counts(0, 0, 2, 0), Ended: ended, Requests: []result.CaseRequest{request("EOF", -1, 2), request("EOF", 0, 2.5)}},
			"EOF, never reached 0, failed but executed 2, executed twice 0, fails at 1.00 to 2.50 s", false},
		"the table, other words": {inTable,
			Outcome{Counts: counts(0, 0, 2, 0), Ended: ended, Requests: []result.CaseRequest{request("EOF", -1, 3.01), request("502", 0, 2.5)}},
			"502 or EOF, never reached 0, failed but executed 2, executed twice 0, fails at 2.01 to 2.50 s", false},
		"does not converge": {want{outcome: staysOpen, left: 1},
			Outcome{Counts: counts(9, 0, 0, 0), Ended: killed(kept)},
			staysOpen + ", never reached 0, failed but executed 0, executed twice 0, connections left 1, gw1-1 of 10.84.0.2:4000 with k1-0 k1-1", true},
		"what is left is no keeper's": {want{outcome: staysOpen, left: 1},
			Outcome{Counts: counts(9, 0, 0, 0), Ended: killed(Connection{Client: "c", ID: "gw1-1", Requests: []string{"r1"}})},
			staysOpen + ", never reached 0, failed but executed 0, executed twice 0, connections left 1, gw1-1 of c with r1", false},
		"what is left is not traced": {want{outcome: staysOpen, left: 1},
			Outcome{Counts: counts(9, 0, 0, 0), Ended: killed(Connection{ID: "gw1-1", Requests: []string{"k1-0"}})},
			staysOpen + ", never reached 0, failed but executed 0, executed twice 0, connections left 1, gw1-1 of  with k1-0", false},
		"converges": {want{outcome: converges, endsWithin: 10 * time.Second},
			Outcome{Counts: counts(9, 0, 0, 0), Ended: ended}, converges + ", never reached 0, failed but executed 0, executed twice 0, ends within 5.00 s", true},
		"converges too late": {want{outcome: converges, endsWithin: time.Second},
			Outcome{Counts: counts(9, 0, 0, 0), Ended: ended}, converges + ", never reached 0, failed but executed 0, executed twice 0, ends within 5.00 s", false},
		"terminated": {want{outcome: resetAndOpen, never: exactly(1), left: 1},
			Outcome{Counts: counts(9, 1, 0, 0), Ended: killed(kept), Requests: []result.CaseRequest{request(gotReset, 1, 0)}},
			resetAndOpen + ", never reached 1, failed but executed 0, executed twice 0, connections left 1, gw1-1 of 10.84.0.2:4000 with k1-0 k1-1", true},
		"nobody was reset": {want{outcome: resetAndOpen, left: 1},
			Outcome{Counts: counts(9, 0, 0, 0), Ended: killed(kept)},
			noReset + ", never reached 0, failed but executed 0, executed twice 0, connections left 1, gw1-1 of 10.84.0.2:4000 with k1-0 k1-1", false},
	} {
		got, ok := tc.want.judge(tc.out)
		if got != tc.got || ok != tc.ok {
			t.Errorf("%s:\ngot  %s, %v\nwant %s, %v", name, got, ok, tc.got, tc.ok)
		}
	}
}

func TestLastAliveIsTracedToItsRequests(t *testing.T) {
	all := []joined{
		{CaseRequest: result.CaseRequest{ID: "k1-0", AtS: -0.5, Got: "200"}},
		{CaseRequest: result.CaseRequest{ID: "k1-1", AtS: 6.5, Got: "200"}},
		{CaseRequest: result.CaseRequest{ID: "r1", AtS: 1, Got: "200"}},
	}
	left := []Connection{{Client: "10.84.0.2:4000", Balancer: "10.84.0.4:5000", ID: "gw1-1", Requests: []string{"k1-place0", "k1-0", "k1-1"}}}
	got := lastAlive([]Ended{{Name: "gw1", At: time.Minute, Killed: true, Left: left}}, all)
	want := `gw1 was killed 60.00 s after it was told to end; connections open: 1

gw1-1: the balancer's 10.84.0.4:5000, which is the client's 10.84.0.2:4000; requests on it: 3
  before the load  k1-place0
    -0.500 s  k1-0          200
     6.500 s  k1-1          200
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := lastAlive([]Ended{{Name: "gw1"}}, all); got != "" {
		t.Errorf("nothing was left, and there is %q", got)
	}
	many := Connection{ID: "gw1-2", Client: "c", Requests: strings.Fields("a b c d e f g")}
	if got, want := many.inWords(), "gw1-2 of c with c d e f g and 2 before"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
