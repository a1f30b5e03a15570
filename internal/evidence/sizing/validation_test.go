package sizing

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"chokepoint/internal/result"
)

func adviceOf(permits ...int) Advice {
	a := Advice{Asked: Asked{Workers: 200, Goals: Goals{MaxRejected: 0.005, MaxHeld: 0.5}}}
	for _, n := range permits {
		a.Permits = append(a.Permits, Candidate{TimeoutMS: 690, Permits: n})
	}
	return a
}

func TestNeighbours(t *testing.T) {
	for _, test := range []struct {
		permits []int
		best    int // index
		want    []int
	}{
		{[]int{21, 28, 80}, 1, []int{21, 28, 80}},
		{[]int{28, 80}, 0, []int{21, 28, 80}},
		{[]int{21, 28}, 1, []int{21, 28, 36}},
		{[]int{1}, 0, []int{1, 2}}, // none has fewer
	} {
		a := adviceOf(test.permits...)
		a.Recommended = &a.Permits[test.best]
		var got []int
		for _, p := range a.Neighbours() {
			if p.Timeout != 690*ms {
				t.Errorf("%v: a neighbour with a timeout of %v", test.permits, p.Timeout)
			}
			got = append(got, p.Permits)
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("neighbours in %v (-want +got):\n%s", test.permits, diff)
		}
	}
}

// summaryOf is a run of 1,000 calls of which some were refused, with as many
// workers busy at most.
func summaryOf(refused, busy float64, ok bool) result.Summary {
	return result.Summary{
		Validity:  result.Validity{Valid: true},
		Endpoints: map[string]result.Endpoint{callStream: {Scheduled: 1000}},
		Prediction: result.Prediction{Rows: []result.PredictionRow{
			{Name: "upstream.bulkhead_full", Predicted: 4, Low: 1, High: 9, Measured: refused, OK: ok},
			{Name: "pool.max_busy", Predicted: 60, Low: 55, High: 65, Measured: busy, OK: ok},
		}},
	}
}

func TestRunOf(t *testing.T) {
	a := adviceOf(28)
	a.Recommended = &a.Permits[0]
	goal, none := 0.005, 0.0
	got := a.RunOf(Pair{690 * ms, 28}, LoadHealthy, "results/x", summaryOf(4, 60, true))
	want := ValidatedRun{
		TimeoutMS: 690, Permits: 28, Recommended: true, Load: LoadHealthy, Folder: "results/x", Valid: true,
		Figures: []ValidatedFigure{
			{Name: FigureRejected, Unit: "ratio", Predicted: Range{0.004, 0.001, 0.009}, Measured: 0.004, OK: true, Goal: &goal},
			{Name: FigureCut, Unit: "ratio", OK: true}, // no row: neither predicted nor seen
			{Name: FigureFastFailed, Unit: "ratio", OK: true, Goal: &none},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("healthy (-want +got):\n%s", diff)
	}
	held := 100.0
	figure := a.RunOf(Pair{690 * ms, 80}, LoadOutage, "", summaryOf(0, 61, true)).Figures[0]
	if diff := cmp.Diff(ValidatedFigure{Name: FigureHeld, Unit: "count", Predicted: Range{60, 55, 65}, Measured: 61, OK: true, Goal: &held}, figure); diff != "" {
		t.Errorf("outage (-want +got):\n%s", diff)
	}
}

func TestValidate(t *testing.T) {
	best, neighbour := Pair{690 * ms, 28}, Pair{690 * ms, 80}
	for _, test := range []struct {
		name                        string
		pair                        Pair
		summary                     result.Summary
		valid, modelRight, goalsMet bool
	}{
		{"all well", best, summaryOf(5, 60, true), true, true, true},
		{"the model is wrong", best, summaryOf(5, 60, false), true, false, true},
		{"a goal is missed", best, summaryOf(6, 60, true), true, true, false},
		{"a neighbour may miss it", neighbour, summaryOf(6, 60, true), true, true, true},
		{"not to be believed", best, result.Summary{}, false, true, true},
	} {
		a := adviceOf(28, 80)
		a.Recommended = &a.Permits[0]
		a.Validate([]ValidatedRun{a.RunOf(test.pair, LoadHealthy, "", test.summary)})
		v := a.Validation
		if v.Valid != test.valid || v.ModelRight != test.modelRight || v.GoalsMet != test.goalsMet {
			t.Errorf("%s: valid %v, model right %v, goals met %v", test.name, v.Valid, v.ModelRight, v.GoalsMet)
		}
	}
	a := adviceOf(28)
	if a.Validate(nil); a.Validation.Valid {
		t.Error("no run is a valid validation")
	}
}
