package sizing

import (
	"slices"

	"chokepoint/internal/adminapi"
	"chokepoint/internal/result"
)

// Loads of a validation.
const (
	LoadHealthy = "healthy" // the upstream answers as in the question
	LoadOutage  = "outage"  // it reads every request and never answers
)

// Validation is what real runs showed of a pair and its neighbours.
type Validation struct {
	Runs []ValidatedRun `json:"runs"`
	// Valid says whether every run may be believed; if not, the others mean nothing.
	Valid bool `json:"valid"`
	// ModelRight says whether every measured figure lies where the model had it.
	ModelRight bool `json:"model_right"`
	// GoalsMet says whether the runs of the recommended pair met the goals that a run
	// of this length can show: refused calls and workers held.
	GoalsMet bool `json:"goals_met"`
}

// ValidatedRun is one run of a pair, predicted beside measured.
type ValidatedRun struct {
	TimeoutMS   float64           `json:"timeout_ms"`
	Permits     int               `json:"permits"`
	Recommended bool              `json:"recommended"`
	Load        string            `json:"load"`
	Folder      string            `json:"folder"`
	Valid       bool              `json:"valid"`
	Reasons     []string          `json:"reasons,omitempty"`
	Figures     []ValidatedFigure `json:"figures"`
}

// ValidatedFigure is one figure of a run. Predicted is the model of that very run,
// before it ran.
type ValidatedFigure struct {
	Name      string  `json:"name"`
	Unit      string  `json:"unit"` // "ratio" or "count"
	Predicted Range   `json:"predicted"`
	Measured  float64 `json:"measured"`
	OK        bool    `json:"ok"` // within the predicted range and its tolerance
	// Goal is the most that the goals allow; nil where they say nothing.
	Goal *float64 `json:"goal,omitempty"`
}

// Names of the figures.
const (
	FigureRejected   = "rejected"     // share of the calls that got no permit
	FigureCut        = "cut"          // share of the calls that timed out
	FigureHeld       = "held"         // workers busy at most
	FigureFastFailed = "other_failed" // share of the requests that call nobody
)

// Neighbours are the pairs to run: the recommended one between one with fewer and
// one with more permits, which are candidates where there are any.
func (a *Advice) Neighbours() []Pair {
	best := a.Recommended.Pair()
	fewer, more := Pair{best.Timeout, max(1, best.Permits*3/4)}, Pair{best.Timeout, best.Permits*5/4 + 1}
	i := slices.IndexFunc(a.Permits, func(c Candidate) bool { return c.Permits == best.Permits })
	if i > 0 {
		fewer = a.Permits[i-1].Pair()
	}
	if i+1 < len(a.Permits) {
		more = a.Permits[i+1].Pair()
	}
	if fewer == best { // there is none with fewer than one
		return []Pair{best, more}
	}
	return []Pair{fewer, best, more}
}

// Validate puts together what runs showed, in the order in which they ran.
func (a *Advice) Validate(runs []ValidatedRun) {
	v := Validation{Runs: runs, Valid: len(runs) > 0, ModelRight: true, GoalsMet: true}
	for _, r := range runs {
		v.Valid = v.Valid && r.Valid
		for _, f := range r.Figures {
			v.ModelRight = v.ModelRight && f.OK
			if r.Recommended && f.Goal != nil {
				v.GoalsMet = v.GoalsMet && f.Measured <= *f.Goal
			}
		}
	}
	a.Validation = &v
}

// RunOf reads the figures of a validation off the summary of a run of pair.
func (a *Advice) RunOf(pair Pair, load, folder string, s result.Summary) ValidatedRun {
	r := ValidatedRun{
		TimeoutMS: milliseconds(pair.Timeout), Permits: pair.Permits, Recommended: pair == a.Recommended.Pair(),
		Load: load, Folder: folder, Valid: s.Validity.Valid, Reasons: s.Validity.Reasons,
	}
	calls := float64(max(s.Endpoints[callStream].Scheduled, 1))
	rejected, held, none := a.Asked.Goals.MaxRejected, a.Asked.Goals.MaxHeld*float64(a.Asked.Workers), 0.0
	if load == LoadHealthy {
		r.Figures = []ValidatedFigure{
			figure(s, FigureRejected, "ratio", callStream+"."+adminapi.CauseBulkheadFull, calls, &rejected),
			figure(s, FigureCut, "ratio", callStream+"."+adminapi.CauseUpstreamTimeout, calls, nil),
		}
	} else {
		r.Figures = []ValidatedFigure{figure(s, FigureHeld, "count", "pool.max_busy", 1, &held)}
	}
	r.Figures = append(r.Figures, figure(s, FigureFastFailed, "ratio", otherStream+".failed_ratio", 1, &none))
	return r
}

// figure takes a row of the run's own prediction, in parts of whole. A row that
// there is not was neither predicted nor measured: both are 0.
func figure(s result.Summary, name, unit, row string, whole float64, goal *float64) ValidatedFigure {
	f := ValidatedFigure{Name: name, Unit: unit, OK: true, Goal: goal}
	for _, r := range s.Prediction.Rows {
		if r.Name == row {
			f.Predicted = Range{r.Predicted, r.Low, r.High}.over(whole)
			f.Measured, f.OK = r.Measured/whole, r.OK
		}
	}
	return f
}
