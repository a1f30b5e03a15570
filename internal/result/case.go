package result

// CasesDir is the folder of a run that holds the evidence of its cases.
const CasesDir = "cases"

// Clients of a case, as summary.json names them.
const (
	ClientNetHTTP  = "net/http"
	ClientFastHTTP = "fasthttp"
	ClientPgx      = "pgx"
	ClientNginx    = "nginx"
)

// DefenceNone is the defence of a case that has none.
const DefenceNone = "none"

// Case is one cell of a scenario that is a matrix of cases. Want is committed before
// the run; Got is written in the same words, so that the two can be compared by eye.
// Both begin with the outcome, which ends at the first comma.
type Case struct {
	ID      string `json:"id"`
	Group   string `json:"group,omitempty"` // heading under which a report lists it
	Title   string `json:"title,omitempty"` // what the case is, in a few words
	Client  string `json:"client"`
	Method  string `json:"method"`
	Defence string `json:"defence"`
	// Settings are the flags of the victim that the defence stands for.
	Settings string `json:"settings,omitempty"`
	// Fault is what befalls the connection or the server, in a few words. Cases of the
	// same fault differ in client, method and defence alone, so that what a defence does
	// about it can be told by comparing them.
	Fault string `json:"fault,omitempty"`
	Want  string `json:"want"`
	Got   string `json:"got"`
	OK    bool   `json:"ok"`
	// Why is the rule that the expectation follows from; Predicted is what follows
	// from it in figures, where that is more than Want says.
	Why       string `json:"why,omitempty"`
	Predicted string `json:"predicted,omitempty"`
	// Seconds is how long the judged request took, in real seconds.
	Seconds float64 `json:"seconds"`
	// HandlerRuns is how often the server's handler ran for the judged request.
	HandlerRuns int        `json:"handler_runs"`
	Counts      CaseCounts `json:"counts"`
	// Error is the client's exact error, empty where there was none.
	Error string `json:"error,omitempty"`
	// Connection is "reused" or "new": what carried the answer, or the last attempt.
	Connection string `json:"connection,omitempty"`
	// Attempts is how often the request was sent, as far as the client tells.
	Attempts int `json:"attempts,omitempty"`
	// Observed is what the kernels on the path held, before and after the judged
	// request.
	Before *Observed `json:"before,omitempty"`
	After  *Observed `json:"after,omitempty"`
	// Retransmits is how many segments of the judged exchange were sent again.
	Retransmits int `json:"retransmits"`
	// Ending is how the gateway of a case is ended, of a scenario that is a map of that.
	Ending *CaseEnding `json:"ending,omitempty"`
	// Requests are the single requests of a case that sends several.
	Requests []CaseRequest `json:"requests,omitempty"`
	// Events are what happened on the path and to the servers meanwhile, in the order
	// of their times.
	Events []CaseEvent `json:"events,omitempty"`
	// Victims are the services behind the balancer of a case that has several.
	Victims []CaseVictim `json:"victims,omitempty"`
	// Failure is why the case could not be carried out; it is then not OK.
	Failure string `json:"failure,omitempty"`
	// Evidence is the case's folder, relative to the run's, with a closing slash.
	Evidence string `json:"evidence"`
	// Files are the files of that folder, each with what it holds.
	Files []EvidenceFile `json:"files,omitempty"`
}

// CaseCounts are what became of the requests of a case, by joined ids.
type CaseCounts struct {
	OK                int `json:"ok"`
	NeverReached      int `json:"never_reached"`       // failed, and no handler ran
	FailedButExecuted int `json:"failed_but_executed"` // failed, and the work was done
	ExecutedTwice     int `json:"executed_twice"`      // done more than once, whatever the client saw
}

// CaseEnding is how the gateway of a case is ended, in real seconds, and what the model
// says that becomes of the requests.
type CaseEnding struct {
	PreStopS  float64         `json:"pre_stop_s"` // how long it serves as before
	DrainS    float64         `json:"drain_s"`    // how long it may then drain
	Predicted PredictedCounts `json:"predicted"`
}

// PredictedCounts are CaseCounts before the run, as ranges: a run is not so exact that
// none of its requests comes to lie on either side of a limit.
type PredictedCounts struct {
	OK                CountRange `json:"ok"`
	NeverReached      CountRange `json:"never_reached"`
	FailedButExecuted CountRange `json:"failed_but_executed"`
}

// CountRange is a range of counts, both ends included.
type CountRange struct {
	Low  int `json:"low"`
	High int `json:"high"`
}

// Observed is the state of both ends' sockets and of the device between them.
type Observed struct {
	Client    []string `json:"client"`              // such as "ESTABLISHED 10.81.0.10:40112 -> 10.82.0.10:8080 timer keepalive 0.9s"
	Server    []string `json:"server"`              // the same, as the server's kernel has it
	Conntrack []string `json:"conntrack,omitempty"` // such as "ESTABLISHED 2s 10.81.0.10:40112 -> 10.82.0.10:8080 as 10.82.0.2:40112"
}

// CaseRequest is one request of a case, in the order of their starts.
type CaseRequest struct {
	ID      string  `json:"id"`
	AtS     float64 `json:"at_s"` // from the moment that the case is about, real seconds
	Got     string  `json:"got"`
	Seconds float64 `json:"seconds"`
	Server  string  `json:"server,omitempty"`     // which server answered or worked
	Runs    int     `json:"runs"`                 // how often a handler ran for it
	Conn    string  `json:"connection,omitempty"` // id of the connection that carried it
}

// CaseEvent is a moment of a case, on the same axis as its requests.
type CaseEvent struct {
	AtS    float64 `json:"at_s"`
	Where  string  `json:"where"` // such as "client", "router" or the name of a server
	What   string  `json:"what"`  // such as "SYN", "FIN", "RST", "retransmission" or "SIGTERM"
	Detail string  `json:"detail,omitempty"`
}

// CaseVictim is one of several services behind a balancer. Its share are the requests
// that the balancer sent to it first.
type CaseVictim struct {
	Name string `json:"name"`
	// Slow says whether its upstream was slow.
	Slow           bool `json:"slow"`
	Fast           int  `json:"fast"` // requests to /fast of its share
	FastFailed     int  `json:"fast_failed"`
	Upstream       int  `json:"upstream"`
	UpstreamFailed int  `json:"upstream_failed"`
	// Retried is how many requests it got that the other had been sent first.
	Retried   int `json:"retried"`
	MaxBusy   int `json:"max_busy"` // workers
	MaxQueued int `json:"max_queued"`
	// Where counts its workers by where they stood in the dump under load.
	Where map[string]int `json:"where"`
	// RecoveredS is when its pool was idle, in scenario seconds after the end of the
	// load; nil if it was not while it was watched, which was for WatchedS.
	RecoveredS *float64 `json:"recovered_s"`
	WatchedS   float64  `json:"watched_s"`
}

// EvidenceFile is a file of a case's folder.
type EvidenceFile struct {
	Name string `json:"name"`
	What string `json:"what"`
}
