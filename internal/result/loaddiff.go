package result

// LoadDiffSchema leads what loadgen diff -json writes.
const LoadDiffSchema = "chokepoint/load-diff/v1"

// LoadDiff compares the results of two sets of load runs.
type LoadDiff struct {
	Schema  string       `json:"schema"`
	Base    []string     `json:"base"` // files, invalid ones included
	New     []string     `json:"new"`
	Metrics []LoadMetric `json:"metrics"`
	// Regressed says that one metric at least is worse.
	Regressed bool     `json:"regressed"`
	Warnings  []string `json:"warnings,omitempty"`
}

// LoadMetric is one figure of one endpoint over the valid runs of both sets.
type LoadMetric struct {
	Name string `json:"name"` // e.g. "fast.response_ms.p99"
	Unit string `json:"unit"` // "ms", "ratio" or "rate" (per second)
	Base Spread `json:"base"`
	New  Spread `json:"new"`
	// Change is that of the medians: a share of the base, or the difference of two
	// ratios. Nil where the base is 0.
	Change *float64 `json:"change"`
	// Differs is "higher", "lower", "~" (noise) or "?" (too few runs).
	Differs string `json:"differs"`
	// Regression says that the difference is for the worse.
	Regression bool   `json:"regression"`
	Warning    string `json:"warning,omitempty"`
}
