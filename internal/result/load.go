package result

import "time"

// The models of a load.
const (
	// ModelOpen sends by the clock, whatever has become of the requests before.
	ModelOpen = "open"
	// ModelClosed sends a request when the one before it is over: a control.
	ModelClosed = "closed"
)

// Load is load.json, what loadgen -json writes.
type Load struct {
	Schema    string    `json:"schema"`
	StartedAt time.Time `json:"started_at"` // the moment of due time 0
	WindowS   float64   `json:"window_s"`   // real seconds of the load window
	// OfferedS is how much of the window was offered: all of it, unless the run was
	// stopped early. Files from before it have 0.
	OfferedS float64 `json:"offered_s"`
	ElapsedS float64 `json:"elapsed_s"` // real seconds until the last answer
	Phase    string  `json:"phase"`
	Seed     uint64  `json:"seed"`
	Engine   string  `json:"engine,omitempty"` // which of the generator's engines played the plan
	Loops    int     `json:"loops,omitempty"`  // threads of the engine "loop"
	Model    string  `json:"model,omitempty"`  // ModelOpen or ModelClosed; files without it are open
	// Arrivals is when requests were to be sent, as a plan writes it: "constant",
	// "ramp:10/s..100/s". Empty of a closed model.
	Arrivals  string              `json:"arrivals,omitempty"`
	Validity  Validity            `json:"validity"`
	Endpoints map[string]Endpoint `json:"endpoints"`
	// Drops lists, for each endpoint, how many arrivals were dropped in each real
	// second of the window.
	Drops map[string][]int `json:"drops_per_second"`
	// DropTimes lists, for each endpoint that has any, the seconds in which arrivals
	// were dropped, with the due times of the first and the last of each. The due
	// time of every single one is in requests.csv.
	DropTimes map[string][]DropSecond `json:"drop_times,omitempty"`
	// Warmup is the load before the window; nil if there was none.
	Warmup *Warmup `json:"warmup,omitempty"`
	// Thresholds are the conditions that the run was held to, with what it reached.
	Thresholds []Threshold `json:"thresholds,omitempty"`
	// Generator is what the load generator's own process used.
	Generator Child `json:"generator"`
	// Shard says which part of a plan the load is; nil if it is no part.
	Shard *Shard `json:"shard,omitempty"`
	// Saturation is how near that was to its limits; nil where it is not known, as
	// in merged results.
	Saturation *Saturation `json:"saturation,omitempty"`
	// Merged says what the result was put together from; nil for one run.
	Merged *Merged `json:"merged,omitempty"`
}

// Shard is one part of a plan that several generators share. The figures of its
// Load are those of the part.
type Shard struct {
	Index int `json:"index"` // from 0
	Of    int `json:"of"`
	// Plan is a digest of what the whole plan sends and when: the same for all its
	// shards, and for no other plan's.
	Plan string `json:"plan"`
	// StartAt is the moment of due time 0 that the shards agreed on.
	StartAt time.Time `json:"start_at"`
	// Planned is how many arrivals the whole plan has for each endpoint.
	Planned map[string]int `json:"planned"`
}

// DropSecond is the arrivals of one real second of the window that were dropped.
// Due times are nanoseconds from the start.
type DropSecond struct {
	Second     int   `json:"second"`
	Dropped    int   `json:"dropped"`
	FirstDueNS int64 `json:"first_due_ns"`
	LastDueNS  int64 `json:"last_due_ns"`
}

// Saturation is how near the load generator was to its own limits, second by
// second of the window and of what was sent late after it. Of a CPU, 100 % is one.
type Saturation struct {
	Seconds int `json:"seconds"` // looked at
	CPUs    int `json:"cpus"`    // that the process could use
	// The process: its busiest second, and how many were at 95 % of all its CPUs.
	CPUPercentMax  float64 `json:"cpu_percent_max"`
	CPUBusySeconds int     `json:"cpu_busy_seconds"`
	// The thread that paces, which has one CPU at the most: its busiest second, and
	// how many were at 95 %. On an event loop it reads the answers as well.
	PacerPercentMax  float64 `json:"pacer_percent_max"`
	PacerBusySeconds int     `json:"pacer_busy_seconds"`
	// The same thread runnable without a CPU, less what the generator's own threads
	// are to blame for: a crowded machine. Its worst second, and how many were at
	// 10 %.
	PacerWaitPercentMax float64 `json:"pacer_wait_percent_max"`
	PacerWaitSeconds    int     `json:"pacer_wait_seconds"`
	// The garbage collector over the whole run: its pauses, and its share of the
	// CPU that the process used.
	GCCycles     int     `json:"gc_cycles"`
	GCPauseMS    float64 `json:"gc_pause_ms"`
	GCPauseMaxMS float64 `json:"gc_pause_max_ms"`
	GCCPUPercent float64 `json:"gc_cpu_percent"`
}

// Warmup is the load before due time 0. It is in no other figure of a Load.
type Warmup struct {
	Seconds   float64                   `json:"seconds"`
	Endpoints map[string]WarmupEndpoint `json:"endpoints"`
}

// WarmupEndpoint is what became of an endpoint's warm-up:
//
//	scheduled = started + dropped
//	started   = ok + failed
type WarmupEndpoint struct {
	Scheduled int `json:"scheduled"`
	Started   int `json:"started"`
	Dropped   int `json:"dropped"`
	OK        int `json:"ok"`
	Failed    int `json:"failed"`
	// Overhang is how many of the requests were still in flight at due time 0. They
	// had workers of their own.
	Overhang int `json:"overhang"`
}

// Merged is how several results became one.
type Merged struct {
	Files []string `json:"files"`
	// Arrangement is "parallel", "sequence" or "mixed": whether the rates of the
	// files add up.
	Arrangement string `json:"arrangement"`
	// Shards is into how many the plan was split, and Plan its digest; absent if
	// the files are no shards.
	Shards int    `json:"shards,omitempty"`
	Plan   string `json:"plan,omitempty"`
	// Incomplete says what is missing or does not fit; nothing is scaled up for it.
	Incomplete []string `json:"incomplete,omitempty"`
}

// Threshold is one condition of a load, such as fast:p(95)<200ms.
type Threshold struct {
	Text string `json:"threshold"` // as it was given
	Unit string `json:"unit"`      // "ms", "ratio" or "count"
	// Got is nil where nothing was measured; the condition is then not met.
	Got *float64 `json:"got"`
	OK  bool     `json:"ok"`
}
