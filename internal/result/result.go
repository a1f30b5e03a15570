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

// Endpoint is the ledger of one endpoint and the latencies that belong to it.
// The counts obey, always:
//
//	scheduled = started + dropped
//	started   = ok + http_error + timeout + connect_error + transport_error + interrupted
type Endpoint struct {
	// Planned is 0 of a closed model, which plans nothing.
	Planned        int `json:"planned"`
	Scheduled      int `json:"scheduled"`
	Dropped        int `json:"dropped"`
	Started        int `json:"started"`
	OK             int `json:"ok"`
	HTTPError      int `json:"http_error"`
	Timeout        int `json:"timeout"`
	ConnectError   int `json:"connect_error"`
	TransportError int `json:"transport_error"`
	Interrupted    int `json:"interrupted"`
	// ServerSeen is how many distinct load requests the server read; nil where
	// the server is not ours.
	ServerSeen *int `json:"server_seen"`
	// Unseen is how many started requests the server never read; nil like ServerSeen.
	Unseen *int           `json:"unseen"`
	Causes map[string]int `json:"causes"`
	// ErrorBodies counts the "error" field of JSON error bodies, by its value.
	ErrorBodies          map[string]int `json:"error_bodies,omitempty"`
	FailedRatio          float64        `json:"failed_ratio"`
	CompletedFailedRatio float64        `json:"completed_failed_ratio"`
	Status               map[string]int `json:"status"`
	TargetRate           float64        `json:"target_rate"`
	// AchievedRate is started / Load.OfferedS, per second.
	AchievedRate float64 `json:"achieved_rate"`
	// ReceivedBytes is the HTTP of all answers, head and body, also of those that were
	// cut off; without what TLS and TCP add. ReceivedRate is that by the second, until
	// the last answer.
	ReceivedBytes   int64   `json:"received_bytes"`
	ReceivedRate    float64 `json:"received_bytes_per_s"`
	Workers         int     `json:"workers"`
	ClientTimeoutMS float64 `json:"client_timeout_ms"`
	// Method, URL (without credentials) and Headers (the names of the header fields
	// that were asked for) say what was sent; empty where several results were merged
	// that differ in it.
	Method  string   `json:"method,omitempty"`
	URL     string   `json:"url,omitempty"`
	Headers []string `json:"headers,omitempty"`
	// Address is the IP address and port that the requests went to; empty where
	// several results were merged whose requests went to different ones.
	Address        string      `json:"address,omitempty"`
	Response       Percentiles `json:"response_ms"`
	OKResponse     Percentiles `json:"ok_response_ms"`
	FailedResponse Percentiles `json:"failed_response_ms"`
	Service        Percentiles `json:"service_ms"`
	Lag            Percentiles `json:"lag_ms"`
	// QuietResponse is OKResponse without the requests that were in flight while
	// a dump stopped the world; count 0 where no dump was taken.
	QuietResponse Percentiles `json:"quiet_response_ms"`
	// ServerTiming is the victim's own account of where the time went; nil where
	// the server is not ours.
	ServerTiming *ServerTiming `json:"server_timing_ms,omitempty"`
	// Waits is where the clients' own waits went; nil where the server is not ours,
	// or had too many requests to follow each.
	Waits *Waits `json:"waits_ms,omitempty"`
}

// Waits are the mean shares of the response time of every request that ended at its
// client, in milliseconds: each request is followed from its due time until its
// client had the answer or gave up, and not beyond. They add up to the mean response
// time.
type Waits struct {
	Requests int     `json:"requests"` // that ended: neither dropped nor interrupted
	Lag      float64 `json:"lag"`      // the generator's, before the first connect or write call
	Accept   float64 `json:"accept"`   // connecting, and in the kernel until the victim read the request
	Queue    float64 `json:"queue"`    // for a pool worker
	Permit   float64 `json:"permit"`   // before the bulkhead
	Upstream float64 `json:"upstream"` // in the call
	Database float64 `json:"db"`
	Other    float64 `json:"other"` // the rest: the handler, and the answer on its way
}

// ServerTiming holds the mean share of each wait in the time of the requests
// that the victim finished, in milliseconds, as its Server-Timing headers put it.
type ServerTiming struct {
	Queue    float64 `json:"queue"`    // until a pool worker had the request
	Permit   float64 `json:"permit"`   // before the bulkhead
	Upstream float64 `json:"upstream"` // in the call
	Database float64 `json:"db"`
}

// Percentiles are in milliseconds. P999 is nil under 1,000 samples; every
// figure but Count is 0 where Count is 0.
type Percentiles struct {
	Min   float64  `json:"min"`
	P50   float64  `json:"p50"`
	P90   float64  `json:"p90"`
	P95   float64  `json:"p95"`
	P99   float64  `json:"p99"`
	P999  *float64 `json:"p99_9,omitempty"`
	Max   float64  `json:"max"`
	Count int64    `json:"count"`
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
