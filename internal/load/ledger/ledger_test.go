package ledger

import (
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"chokepoint/internal/result"
)

// answers has one of each kind that a started request can end with.
var answers = []Answer{
	{Outcome: OK, Status: 200},
	{Outcome: HTTPError, Status: 503, ErrorBody: "bulkhead_full"},
	{Outcome: HTTPError, Status: 404},
	{Outcome: Timeout, Cause: "connect"},
	{Outcome: Timeout, Cause: "response"},
	{Outcome: ConnectError, Cause: "refused"},
	{Outcome: TransportError, Cause: "eof"},
	{Outcome: Interrupted},
}

// drawn plays any run: arrivals are dropped or started, and each started one
// ends somehow.
func drawn(t *rapid.T) *Ledger {
	l := &Ledger{}
	for range rapid.IntRange(0, 200).Draw(t, "scheduled") {
		l.Scheduled++
		if rapid.Bool().Draw(t, "drop") {
			l.Dropped++
			continue
		}
		l.Started++
		l.Finish(rapid.SampledFrom(answers).Draw(t, "answer"))
	}
	l.Planned = l.Scheduled + rapid.IntRange(0, 10).Draw(t, "cut off")
	return l
}

func TestEveryRunBalances(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawn(t)
		if err := l.Check(); err != nil {
			t.Fatal(err)
		}
		var e result.Endpoint
		l.Fill(&e)
		if e.Scheduled != e.Started+e.Dropped ||
			e.Started != e.OK+e.HTTPError+e.Timeout+e.ConnectError+e.TransportError+e.Interrupted {
			t.Fatalf("the filled endpoint does not balance: %+v", e)
		}
		for _, ratio := range []float64{e.FailedRatio, e.CompletedFailedRatio} {
			if !(ratio >= 0 && ratio <= 1) {
				t.Fatalf("ratio %v is not within 0 and 1", ratio)
			}
		}
	})
}

func TestALostRequestIsNoticed(t *testing.T) {
	mistakes := map[string]func(*Ledger){
		"an answer lost":             func(l *Ledger) { l.Started++; l.Scheduled++; l.Planned++ },
		"an answer counted twice":    func(l *Ledger) { l.Finish(answers[0]) },
		"an arrival lost":            func(l *Ledger) { l.Scheduled++; l.Planned++ },
		"a drop counted twice":       func(l *Ledger) { l.Dropped++ },
		"more scheduled than exist":  func(l *Ledger) { l.Planned = l.Scheduled - 1 },
		"an answer without a status": func(l *Ledger) { l.Scheduled++; l.Planned++; l.Started++; l.Finish(Answer{Outcome: OK}) },
		"a failure without a cause":  func(l *Ledger) { l.Scheduled++; l.Planned++; l.Started++; l.Finish(Answer{Outcome: Timeout}) },
		"a started request dropped":  func(l *Ledger) { l.Scheduled++; l.Planned++; l.Started++; l.Finish(Answer{Outcome: Dropped}) },
	}
	for name, mistake := range mistakes {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				l := drawn(t)
				mistake(l)
				if l.Check() == nil {
					t.Fatal("the ledger balances all the same")
				}
			})
		})
	}
}

func TestFill(t *testing.T) {
	l := &Ledger{Planned: 12, Scheduled: 10, Started: 8, Dropped: 2}
	for _, a := range answers {
		l.Finish(a)
	}
	var e result.Endpoint
	l.Fill(&e)
	want := result.Endpoint{
		Planned: 12, Scheduled: 10, Started: 8, Dropped: 2,
		OK: 1, HTTPError: 2, Timeout: 2, ConnectError: 1, TransportError: 1, Interrupted: 1,
		FailedRatio: 0.9, CompletedFailedRatio: 6.0 / 7,
		Causes:      map[string]int{"connect": 1, "response": 1, "refused": 1, "eof": 1},
		Status:      map[string]int{"200": 1, "404": 1, "503": 1},
		ErrorBodies: map[string]int{"bulkhead_full": 1},
	}
	if diff := cmp.Diff(want, e); diff != "" {
		t.Error(diff)
	}
}

func TestErrorBodiesAreBounded(t *testing.T) {
	l := &Ledger{}
	for i := range 3 * maxErrorBodies {
		l.Finish(Answer{Outcome: HTTPError, Status: 500, ErrorBody: "error " + strconv.Itoa(i)})
	}
	var e result.Endpoint
	l.Fill(&e)
	if len(e.ErrorBodies) != maxErrorBodies+1 || e.ErrorBodies[OtherErrorBody] != 2*maxErrorBodies {
		t.Errorf("%d distinct bodies, %d under %s", len(e.ErrorBodies), e.ErrorBodies[OtherErrorBody], OtherErrorBody)
	}
}

func TestOutcomeNamesAreUnique(t *testing.T) {
	seen := map[string]bool{}
	for o := Outcome(0); o < outcomes; o++ {
		if name := o.String(); name == "" || seen[name] || strings.Contains(name, "(") {
			t.Errorf("outcome %d has the name %q", o, name)
		}
		seen[o.String()] = true
	}
}
