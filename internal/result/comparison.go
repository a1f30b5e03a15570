package result

import "time"

// Comparison is comparison.json: alternated runs of several profiles.
type Comparison struct {
	Schema    string    `json:"schema"`
	ID        string    `json:"id"`
	Scenario  string    `json:"scenario"`
	Scale     float64   `json:"scale"`
	StartedAt time.Time `json:"started_at"`
	Profiles  []string  `json:"profiles"`
	Planned   int       `json:"runs_planned"` // per profile
	// Runs lists the runs in the order in which they ran, as paths relative to
	// the comparison's folder.
	Runs    []ComparedRun    `json:"runs"`
	Metrics []ComparedMetric `json:"metrics"`
	// Faults are the cells of a comparison by fault, fault by fault; empty in others.
	Faults   []FaultCell `json:"faults,omitempty"`
	Warnings []string    `json:"warnings,omitempty"`
}

// ComparedRun points to one run.
type ComparedRun struct {
	Profile string  `json:"profile"`
	Path    string  `json:"path"`
	Valid   bool    `json:"valid"`
	Outcome Outcome `json:"outcome"`
	// Reasons says why the run is not valid.
	Reasons []string `json:"reasons,omitempty"`
}

// ComparedMetric is one figure over the valid runs of each profile.
type ComparedMetric struct {
	Name   string            `json:"name"` // as in PredictionRow, e.g. "fast.p50_ms"
	Unit   string            `json:"unit"`
	Values map[string]Spread `json:"values"` // by profile
	// Differs holds, for every profile but the first, whether it differs from the
	// first: "higher", "lower", "~" (noise) or "?" (too few runs).
	Differs map[string]string `json:"differs"`
	// Warnings says, by profile, why its word in Differs should be doubted.
	Warnings map[string]string `json:"warnings,omitempty"`
}

// FaultCell is one fault on the path to the upstream with one profile: what was
// expected of it, what became of it, and the model's figures beside those measured.
type FaultCell struct {
	Fault   string `json:"fault"`   // as -faults spells it
	Does    string `json:"does"`    // what befalls a call
	Profile string `json:"profile"` // without what is varied
	Label   string `json:"label"`   // as in Profiles, and in the values of Metrics
	// Want is committed before the run: "reproduced" if /fast is to die, "protected" if
	// it is to survive, of a profile that promises nothing too. Why is the rule that it
	// follows from.
	Want Outcome `json:"want"`
	Why  string  `json:"why"`
	// Got is the outcome of each valid run, in their order; OK says that there is one at
	// the least and that all are as wanted.
	Got []Outcome `json:"got"`
	OK  bool      `json:"ok"`
	// Figures say where the workers stood, how calls ended and when the pool was free.
	Figures []FaultFigure `json:"figures"`
}

// FaultFigure is one figure of a cell: the model's range, which is the same for all of
// its runs, and what the valid runs measured.
type FaultFigure struct {
	Name      string  `json:"name"` // as in PredictionRow
	Unit      string  `json:"unit"`
	Predicted float64 `json:"predicted"`
	Low       float64 `json:"low"`
	High      float64 `json:"high"`
	Measured  Spread  `json:"measured"`
	OK        bool    `json:"ok"` // every valid run agrees with the model
	// Never says, of the recovery, that the model has workers held for ever; the range is
	// then that of the wait.
	Never bool `json:"never,omitempty"`
	// Note says why a figure is not one, such as "not recovered within the wait".
	Note string `json:"note,omitempty"`
}

// Spread is a median with the range it came from.
type Spread struct {
	N      int     `json:"n"`
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}
