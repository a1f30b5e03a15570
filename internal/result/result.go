// Package result is the contract of results/<run>/: the versioned files and
// their types. It reads and writes them whole (temporary name, then rename) and
// does nothing else: no arithmetic, no rendering, no judgement.
//
// Units are in the names: _ms and rates are real milliseconds and real requests
// per second; at_s and everything in recovery are scenario seconds, which are
// real seconds divided by the scale.
package result

import "time"

// Schemas of the files, by the "schema" field that leads each.
const (
	SummarySchema    = "chokepoint/summary/v1"
	ManifestSchema   = "chokepoint/manifest/v1"
	LoadSchema       = "chokepoint/load/v1"
	ComparisonSchema = "chokepoint/comparison/v1"
)

// Names of the files in a run's folder.
const (
	SummaryFile    = "summary.json"
	ManifestFile   = "manifest.json"
	LoadFile       = "load.json"
	HistogramFile  = "load.hlog"
	RequestsFile   = "requests.csv"
	TimelineFile   = "timeline.csv"
	EventsFile     = "events.json"
	PlanFile       = "plan.json"
	ReportFile     = "report.md"
	PageFile       = "report.html"
	ComparisonFile = "comparison.json"
	DumpsDir       = "dumps"
	MetricsDir     = "metrics"
	LogsDir        = "logs"
)

// Outcome is what became of a run as a whole.
type Outcome string

// The verdicts. "Not reproduced" is a result, never hidden.
const (
	Reproduced    Outcome = "reproduced"
	Protected     Outcome = "protected"
	NotReproduced Outcome = "not_reproduced"
	NotProtected  Outcome = "not_protected"
	Invalid       Outcome = "invalid"
)

// Summary is summary.json.
type Summary struct {
	Schema     string              `json:"schema"`
	Run        Run                 `json:"run"`
	Validity   Validity            `json:"validity"`
	Verdict    Verdict             `json:"verdict"`
	Endpoints  map[string]Endpoint `json:"endpoints"`
	Baselines  []Baseline          `json:"baselines"`
	Dumps      []Dump              `json:"dumps"`
	Pool       Pool                `json:"pool"`
	Victim     Process             `json:"victim"`
	Children   []Child             `json:"children"`
	Upstream   Upstream            `json:"upstream"`
	Recovery   Recovery            `json:"recovery"`
	Prediction Prediction          `json:"prediction"`
	// Cases are those of a scenario that is a matrix; of any other there are none.
	Cases []Case `json:"cases,omitempty"`
	// Attached is what the run had of a service that is not ours; nil of the victim.
	Attached *Attached `json:"attached,omitempty"`
}

// Attached is a service that is not ours. Of its pool and its process a summary
// holds only what Metrics names; no model predicts it.
type Attached struct {
	DumpURL    string `json:"dump_url"` // without secrets
	MetricsURL string `json:"metrics_url,omitempty"`
	// Metrics are the names of the service's own metrics that were found, by what
	// they stand for: one of the Metric words.
	Metrics map[string]string `json:"metrics,omitempty"`
}

// What a metric of an attached service stands for.
const (
	MetricBusy   = "busy"   // workers
	MetricLimit  = "limit"  // of workers
	MetricQueued = "queued" // requests that wait for a worker
	MetricCPU    = "cpu"
	MetricMemory = "memory"
)

// Knows says whether the run has that figure of its service; of the victim it has
// them all.
func (s Summary) Knows(metric string) bool {
	return s.Attached == nil || s.Attached.Metrics[metric] != ""
}

// Run names a run.
type Run struct {
	ID       string `json:"id"`
	Scenario string `json:"scenario"`
	Profile  string `json:"profile"`
	// Variant is what a comparison varied in the run, such as "accept-backlog=10".
	Variant   string    `json:"variant,omitempty"`
	Scale     float64   `json:"scale"`
	StartedAt time.Time `json:"started_at"`
	// Protect is the endpoint that must survive; empty is "fast".
	Protect string `json:"protect,omitempty"`
	// EndedEarly is why the run ended before its time; empty if it did not.
	EndedEarly string `json:"ended_early,omitempty"`
}

// Validity says whether the run may be believed. Reasons name the figure that
// made it invalid; Warnings do not make it invalid.
type Validity struct {
	Valid    bool     `json:"valid"`
	Reasons  []string `json:"reasons"`
	Warnings []string `json:"warnings,omitempty"`
}

// Verdict is the outcome and what it was judged by.
type Verdict struct {
	Outcome  Outcome `json:"outcome"`
	Expected Outcome `json:"expected"`
	Checks   []Check `json:"checks"`
}

// Check is one judgement: what was wanted, what was seen. An informative check
// is shown and has no part in the outcome.
type Check struct {
	Name        string `json:"name"`
	Want        string `json:"want"`
	Got         string `json:"got"`
	OK          bool   `json:"ok"`
	Informative bool   `json:"informative,omitempty"`
}

// Baseline is the endpoint that must survive, measured before the load.
type Baseline struct {
	Name     string      `json:"name"` // "fixed_rate" (100/s) or "load_rate" (the load's own rate)
	Rate     float64     `json:"rate"`
	Seconds  float64     `json:"seconds"`
	Failed   int         `json:"failed"`
	Response Percentiles `json:"response_ms"`
	// Disturbed says that the measurement itself was invalid, such as by the
	// generator's lag: no bound is drawn from it.
	Disturbed bool `json:"disturbed,omitempty"`
}

// Dump is one parsed goroutine dump. The raw text stays in File, unedited.
type Dump struct {
	Point string  `json:"point"`
	AtS   float64 `json:"at_s"`
	// PauseMS is how long the full dump stopped the world.
	PauseMS float64 `json:"pause_ms"`
	// TookMS is how long the whole answer took, where the service does not tell its
	// pause: the pause is no longer.
	TookMS float64 `json:"took_ms,omitempty"`
	File   string  `json:"file"`
	// ProfileFile is the low-pause goroutine profile (pprof, debug=0, with
	// labels) taken right after, and ProfileMS how long that took.
	ProfileFile string  `json:"profile_file,omitempty"`
	ProfileMS   float64 `json:"profile_ms,omitempty"`
	Goroutines  int     `json:"goroutines"` // or threads, of Java
	// Unit is "threads" of a dump of Java, and else empty.
	Unit    string `json:"unit,omitempty"`
	Workers int    `json:"workers"`
	Queued  int    `json:"queued"`
	// Where counts the workers by where they stand, and "queued" the connections
	// that wait for one; in a service without a pool that the rules know, everyone.
	// The words are those of evidence/stacks.
	Where  map[string]int `json:"where"`
	Groups []Group        `json:"groups"`
	// Truncated says that the text stops within a goroutine: the counts are then
	// too low.
	Truncated bool `json:"truncated,omitempty"`
}

// Group is a set of goroutines that stand in the same place.
type Group struct {
	Where string `json:"where"`
	State string `json:"state"`
	Frame string `json:"frame"` // the nearest telling frame
	Count int    `json:"count"`
	// Stacks is how many different stacks the group holds; arguments, ids and wait
	// times do not make a difference.
	Stacks int    `json:"stacks,omitempty"`
	Stack  string `json:"stack,omitempty"` // one goroutine of the group, as printed
}

// Pool holds the extremes of the victim's shared worker pool.
type Pool struct {
	MaxWorkers     int `json:"max_workers"`
	WorkerLimit    int `json:"worker_limit"`
	MaxBusy        int `json:"max_busy"`
	MaxQueued      int `json:"max_queued"`
	MaxPermits     int `json:"max_permits"`
	MaxAcceptQueue int `json:"max_accept_queue"`
	AcceptDrops    int `json:"accept_drops"`
	Abandoned      int `json:"abandoned_by_client"`
}

// Process is what the victim's process used while the load ran. 100 % is one core.
type Process struct {
	CPUPercentMean float64 `json:"cpu_percent_mean"`
	CPUPercentMax  float64 `json:"cpu_percent_max"`
	RSSBytesMax    int64   `json:"rss_bytes_max"`
	GoroutinesMax  int     `json:"goroutines_max"`
}

// Child is what one process of the run used while the load ran; the wait is the
// time it was runnable and had no CPU (schedstat), which tells a crowded machine
// from a bad tool.
type Child struct {
	Name           string  `json:"name"`
	CPUSeconds     float64 `json:"cpu_seconds"`
	RunQueueWaitMS float64 `json:"run_queue_wait_ms"`
}

// Upstream is the dose: what the stub was told and what was seen.
type Upstream struct {
	DelayAskedMS float64  `json:"delay_asked_ms"`
	DelaySeenMS  *float64 `json:"delay_seen_ms"` // nil if the dose could not be measured
	Via          string   `json:"via"`           // "stub" or "toxiproxy"
	Received     int      `json:"received"`      // requests of the load that reached the stub
	// Loss is of a path that loses packets; nil of any other.
	Loss *PathLoss `json:"loss,omitempty"`
}

// PathLoss is what a path to the upstream has lost, from the start of the load on. The
// dose is then measured before it.
type PathLoss struct {
	Share  float64 `json:"share"`  // asked for, of all packets
	Lost   uint64  `json:"lost"`   // packets, both directions together, those sent again too
	Passed uint64  `json:"passed"` // likewise
	Kept   int     `json:"kept"`   // connections that were open and idle when it began
}

// Recovery is in scenario seconds from the end of the load.
type Recovery struct {
	Recovered bool     `json:"recovered"`
	WaitedS   float64  `json:"waited_s"`
	Seconds   *float64 `json:"seconds"` // nil if the wait ended first
	// PredictedSeconds is nil where workers are held for ever.
	PredictedSeconds *float64 `json:"predicted_seconds"`
}

// Prediction puts the model's figures beside the measured ones.
type Prediction struct {
	Agrees bool            `json:"agrees"`
	Rows   []PredictionRow `json:"rows"`
}

// PredictionRow is one figure. Where a tie decides it, Low and High bound the
// prediction and Predicted is the nominal case; else they equal Predicted.
type PredictionRow struct {
	Name      string  `json:"name"`
	Unit      string  `json:"unit"` // "ratio", "count", "ms" or "s"
	Predicted float64 `json:"predicted"`
	Low       float64 `json:"low"`
	High      float64 `json:"high"`
	Measured  float64 `json:"measured"`
	Tolerance float64 `json:"tolerance"` // absolute, in Unit, around [Low, High]
	OK        bool    `json:"ok"`
	// Note says why a row was left out of the agreement, if it was.
	Note string `json:"note,omitempty"`
}

// Event is a moment of the run, for timelines.
type Event struct {
	AtS     float64 `json:"at_s"`
	Name    string  `json:"name"` // "load_on", "pool_full", "first_fast_failed", "dump", "load_off", "last_fast_failed", "recovered"; fast is Run.Protect
	Detail  string  `json:"detail,omitempty"`
	PauseMS float64 `json:"pause_ms,omitempty"`
}

// Manifest is manifest.json: what ran, on what, with which settings.
type Manifest struct {
	Schema      string            `json:"schema"`
	RunID       string            `json:"run_id"`
	Revision    string            `json:"git_revision"`
	Modified    bool              `json:"git_modified"`
	GoVersion   string            `json:"go_version"`
	OS          string            `json:"os"`
	Kernel      string            `json:"kernel"`
	CPUs        int               `json:"cpus"`
	CPUModel    string            `json:"cpu_model"`
	MemoryBytes int64             `json:"memory_bytes"`
	Runtime     string            `json:"runtime"`  // "native", "compose", or "attach" to what runs already
	Postgres    string            `json:"postgres"` // version and where it came from, without secrets
	Limits      map[string]string `json:"limits"`   // of the victim: GOMAXPROCS, GOMEMLIMIT, ...
	Seed        uint64            `json:"seed"`
	// Config is the whole effective configuration, flag by flag.
	Config   map[string]string `json:"config"`
	Programs map[string]string `json:"programs"`         // name -> SHA-256 of the binary that ran
	Images   map[string]string `json:"images,omitempty"` // service -> id of its image, with containers
}
