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
	Name string     `json:"name"` // e.g. "fast.response_ms.p99"
	Unit string     `json:"unit"` // "ms", "ratio" or "rate" (per second)
	Base LoadSpread `json:"base"`
	New  LoadSpread `json:"new"`
	// Change is that of the medians: a share of the base, or the difference of two
	// ratios. Nil where the base is 0.
	Change *float64 `json:"change"`
	// Shift is by how much the new values lie above those of the base, as ranks have
	// it. Nil where no rank test decided.
	Shift *Shift `json:"shift"`
	// Differs is "higher", "lower", "~" (noise) or "?" (too few runs).
	Differs string `json:"differs"`
	// Regression says that the difference is for the worse.
	Regression bool   `json:"regression"`
	Warning    string `json:"warning,omitempty"`
}

// LoadSpread is a spread with the interval of its median; nil under 6 runs.
type LoadSpread struct {
	Spread
	Interval *Interval `json:"interval"`
}

// Interval is a confidence interval in the unit of its figure, its ends included.
type Interval struct {
	Low        float64 `json:"low"`
	High       float64 `json:"high"`
	Confidence float64 `json:"confidence"` // 0 to 1: at least this
}

// Shift is an estimate with its interval, which is at the level at which the figure
// was judged. It lies on one side of 0, at most touching it, where a difference is
// claimed, and holds 0 where none is.
type Shift struct {
	Estimate float64 `json:"estimate"`
	Interval
}
