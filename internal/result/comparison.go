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
	Runs     []ComparedRun    `json:"runs"`
	Metrics  []ComparedMetric `json:"metrics"`
	Warnings []string         `json:"warnings,omitempty"`
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

// Spread is a median with the range it came from.
type Spread struct {
	N      int     `json:"n"`
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}
