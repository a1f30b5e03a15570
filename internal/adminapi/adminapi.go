// Package adminapi is the contract of the admin listeners: the JSON that the
// victim and the stub speak and that the lab reads, the headers that carry a
// request's identity, and the line with which a program says that it listens.
// It holds types, names and the spelling of a header only.
package adminapi

import "time"

// Headers of the requests and answers of a run.
const (
	// HeaderPhase says which part of a run a request belongs to; see the Phase constants.
	HeaderPhase = "X-Chokepoint-Phase"
	// HeaderID is a request's identity, unique per phase and endpoint.
	HeaderID = "X-Chokepoint-Id"
	// HeaderDelay on a request is how long the stub, or the victim's /work, is at it: a
	// duration such as "2s", instead of the delay that it was told.
	HeaderDelay = "X-Chokepoint-Delay"
	// HeaderFault on a request of the stub is what befalls it, instead of the fault that
	// the stub was told: the name of a fault, then what ParseRequestFault knows.
	HeaderFault = "X-Chokepoint-Fault"
	// HeaderConnection on an answer of the stub, of the victim's /work or of lab gateway is
	// the connection that carried it: the server's name, a dash, and the number of the connection in the
	// order in which they were accepted, from 1, such as "was1-17". An answer that came
	// through a gateway has a value for each, the nearest to the client last.
	HeaderConnection = "X-Chokepoint-Connection"
	// HeaderIdempotencyKey says that requests with one value are one request.
	HeaderIdempotencyKey = "Idempotency-Key"
	// HeaderReplayed is "true" on an answer of /work that was first given to an earlier
	// request with the same HeaderIdempotencyKey.
	HeaderReplayed = "Idempotent-Replayed"
	// HeaderPauseNS is how long a full dump stopped the world, in nanoseconds.
	HeaderPauseNS = "X-Chokepoint-Pause-Ns"
)

// Phases of a run. A request without one counts as PhaseOther.
const (
	PhaseReadiness = "readiness"
	PhaseBaseline  = "baseline"
	PhaseWarmup    = "warmup"
	PhaseLoad      = "load"
	PhaseRecovery  = "recovery"
	PhaseDose      = "dose"
	PhaseOther     = "other"
)

// Paths of the admin listeners. /healthz, /metrics and /debug/pprof/* are
// theirs too, under the usual names.
const (
	PathReady      = "/readyz"
	PathStats      = "/stats"      // of the victim: ?answers_after=N
	PathSeen       = "/seen"       // ?phase=load: victim only
	PathVisits     = "/visits"     // ?phase=load: victim only
	PathReset      = "/reset"      // victim only: POST, the extremes in PathStats begin anew
	PathGoroutines = "/goroutines" // victim only: every goroutine, debug=2 text
	PathBehaviour  = "/behaviour"  // stub only: GET, PUT
	PathRequests   = "/requests"   // stub only: ?id= for those of one id
	// PathConnections lists the live connections of lab gateway.
	PathConnections = "/connections"
)

// ParamAnswersAfter asks PathStats of the victim for the answers after a number.
const ParamAnswersAfter = "answers_after"

// Listening is the one line of JSON that a server prints on stdout when its
// listeners are open. Addresses are host:port.
type Listening struct {
	Program string `json:"program"`
	Public  string `json:"public"`
	Admin   string `json:"admin"`
}

// Error is the body of every error answer of the victim and the stub.
type Error struct {
	Error  string `json:"error"`            // one of the Cause constants
	Detail string `json:"detail,omitempty"` // for people
}

// Causes of the victim's error answers.
const (
	CauseUpstreamTimeout = "upstream_timeout" // 504
	CauseBulkheadFull    = "bulkhead_full"    // 503
	CauseBreakerOpen     = "breaker_open"     // 503
	CauseOverloaded      = "overloaded"       // 503: the queue was full, or the wait too long
	CauseUpstreamConnect = "upstream_connect" // 502: refused, unreachable, TLS
	CauseUpstreamReset   = "upstream_reset"   // 502: closed before or in the middle of the answer
	CauseUpstreamStatus  = "upstream_status"  // 502: answered 5xx
	CauseDatabase        = "database"         // 500; 503 of a victim that has none
	CauseNotFound        = "not_found"        // 404
	CauseMethod          = "method"           // 405
)

// Causes of the stub's error answers.
const (
	CauseInjected   = "injected"    // 500: FaultError
	CauseBadRequest = "bad_request" // 400, 413: a request, or a behaviour, that cannot be read
	CauseConflict   = "conflict"    // 409: the behaviour is good but cannot be had now
)

// VictimStats is the victim's /stats.
type VictimStats struct {
	// Now is the victim's clock when the figures were read.
	Now     time.Time `json:"now"`
	Profile string    `json:"profile"`
	Pool    PoolStats `json:"pool"`
	// PermitsHeld and PermitLimit are 0 without a bulkhead.
	PermitsHeld int    `json:"permits_held"`
	PermitLimit int    `json:"permit_limit"`
	Breaker     string `json:"breaker"` // "none", "closed", "open", "half-open"
	// Outbound are the connections to the upstream.
	Outbound OutboundStats `json:"outbound"`
	// Listener is the public listener's accept queue.
	Listener ListenerStats `json:"listener"`
	Process  ProcessStats  `json:"process"`
	// Endpoints counts finished requests: endpoint -> phase -> counts.
	Endpoints map[string]map[string]EndpointStats `json:"endpoints"`
	// Answers are the newest answers after the number that ParamAnswersAfter names,
	// oldest first; of many only the newest are kept. None without it.
	Answers []Answer `json:"answers,omitempty"`
}

// PoolStats is the state of the shared worker pool.
type PoolStats struct {
	Workers int `json:"workers"` // alive
	Limit   int `json:"limit"`   // 0: unbounded
	Busy    int `json:"busy"`
	Queued  int `json:"queued"`
	// MaxWorkers, MaxBusy and MaxQueued are since the start or the last reset.
	MaxWorkers int `json:"max_workers"`
	MaxBusy    int `json:"max_busy"`
	MaxQueued  int `json:"max_queued"`
	Abandoned  int `json:"abandoned_by_client"`
	Shed       int `json:"shed"`
	// IdleSince is when the pool last became idle (nothing busy, nothing queued);
	// zero while it is not.
	IdleSince time.Time `json:"idle_since"`
	// Where has a letter for each worker, in the order in which they were made: one
	// of the Where constants. Of an unbounded pool it has those that hold a request.
	Where string `json:"where"`
}

// Where a worker stands by its own word, which costs nothing to ask for; a dump is
// the evidence. The words that they stand for are those of a dump.
const (
	WhereIdle         = 'i' // "idle"
	WhereRunning      = 'r' // "running"
	WherePermitWait   = 'p' // "permit_wait"
	WhereUpstreamRead = 'u' // "upstream_read", the connect to it included
	WhereDatabase     = 'd' // "database"
)

// Answer is one request that the victim has answered. It knows nothing of how long
// the client waited before the request was read, or of whether it still did.
type Answer struct {
	Number   int     `json:"n"` // from 1, over all answers since the start
	Endpoint string  `json:"endpoint"`
	Phase    string  `json:"phase"`
	Status   int     `json:"status"`
	MS       float64 `json:"ms"` // from the request read to its answer
	// Gone is whether the client had left when a worker reached the request.
	Gone bool `json:"gone,omitempty"`
}

// ListenerStats is read from the listening socket itself (TCP_INFO and
// SO_MEMINFO); where the system has neither, Known is false.
type ListenerStats struct {
	Known          bool `json:"known"`
	AcceptQueue    int  `json:"accept_queue"`
	MaxAcceptQueue int  `json:"max_accept_queue"` // the highest sample
	Backlog        int  `json:"backlog"`
	Drops          int  `json:"drops"` // connection attempts lost to a full queue
	Connections    int  `json:"connections"`
	MaxConnections int  `json:"max_connections"` // the limit
}

// ProcessStats is the process's own use since it started.
type ProcessStats struct {
	CPUSeconds float64 `json:"cpu_seconds"` // user + system
	RSSBytes   int64   `json:"rss_bytes"`
	Goroutines int     `json:"goroutines"`
}

// EndpointStats counts the requests of one endpoint and phase.
type EndpointStats struct {
	Received int            `json:"received"` // read from the wire
	Status   map[string]int `json:"status"`   // finished, by status code
	// Mean shares of the finished requests' time, in milliseconds.
	QueueMS    float64 `json:"queue_ms"`
	PermitMS   float64 `json:"permit_ms"`
	UpstreamMS float64 `json:"upstream_ms"`
	DatabaseMS float64 `json:"db_ms"`
}

// Seen is the victim's /seen: how often each request id of a phase was read,
// by endpoint.
type Seen map[string]map[string]int

// Visits is the victim's /visits: each request of a phase as the victim saw it, by
// endpoint and request id. It holds the first MaxVisits of each endpoint.
type Visits map[string]map[string]Visit

// MaxVisits bounds the memory of Visits.
const MaxVisits = 200_000

// Visit is one request at the victim, by its clock. An id that was read twice has
// the first.
type Visit struct {
	ReceivedNS int64 `json:"received_ns"` // since the Unix epoch: when it was read
	StartedNS  int64 `json:"started_ns"`  // when a worker had it; 0 if none had
	Finished   bool  `json:"finished"`    // it was answered; only then the waits below are known
	QueueNS    int64 `json:"queue_ns"`    // until a worker had it, or it was turned away
	PermitNS   int64 `json:"permit_ns"`
	UpstreamNS int64 `json:"upstream_ns"`
	DatabaseNS int64 `json:"db_ns"`
}

// Fault is what the stub does to a request instead of, or after, its delay.
type Fault string

// The stub's faults.
const (
	FaultNone     Fault = ""
	FaultError    Fault = "error"     // answer 500
	FaultHang     Fault = "hang"      // read the request, never answer
	FaultClose    Fault = "close"     // FIN before the answer
	FaultCloseMid Fault = "close_mid" // FIN in the middle of the answer
	FaultStatus   Fault = "status"    // answer with Behaviour.FaultStatus
	FaultReset    Fault = "reset"     // RST before the answer
	FaultResetMid Fault = "reset_mid" // RST in the middle of the answer
	FaultRefuse   Fault = "refuse"    // the listener is closed: connections are refused
	FaultTLSHang  Fault = "tls_hang"  // accept, never speak: a TLS handshake that does not end
)

// Behaviour is what the stub does with a request; PUT to its admin listener
// changes it while it runs.
type Behaviour struct {
	// Delay is a distribution: "30s", "uniform:10ms..50ms",
	// "lognormal:p50=80ms,p99=400ms" or "file:PATH" (one duration a line, drawn
	// at random).
	Delay string `json:"delay"`
	// Fault befalls FaultRate of the requests (0..1; connection faults befall
	// every connection).
	Fault     Fault   `json:"fault"`
	FaultRate float64 `json:"fault_rate"`
	// BodyBytes is the size of a good answer's body.
	BodyBytes int `json:"body_bytes"`
	// FaultFirst bounds how many requests the fault befalls, from the moment at which
	// the behaviour was set; 0 does not.
	FaultFirst int `json:"fault_first,omitempty"`
	// FaultStatus is the status of FaultStatus, 400 to 599.
	FaultStatus int `json:"fault_status,omitempty"`
	// CloseAnswers sends "Connection: close" with every answer, and closes.
	CloseAnswers bool `json:"close_answers,omitempty"`
	// IdleTimeout is how long a connection may rest after an answer, a duration; empty
	// or 0s: for ever. It holds for connections that rest when it is set, too.
	IdleTimeout string `json:"idle_timeout,omitempty"`
	// IdleEnd is how a connection that has rested for too long ends; empty is IdleEndFIN.
	IdleEnd IdleEnd `json:"idle_end,omitempty"`
}

// IdleEnd is how the stub ends an idle connection.
type IdleEnd string

// How an idle connection ends.
const (
	// IdleEndFIN closes it. The server's socket is in FIN_WAIT2 until the client closes
	// too, and answers a request with a RST.
	IdleEndFIN IdleEnd = "fin"
	// IdleEndHalf sends a FIN and goes on reading, as Java's NIO servers do for a while:
	// a request is acknowledged and dropped, and no RST comes.
	IdleEndHalf IdleEnd = "half"
	// IdleEndRST sends a RST: no FIN, and neither end has a TIME_WAIT.
	IdleEndRST IdleEnd = "rst"
)

// StubStats is the stub's /stats.
type StubStats struct {
	Now         time.Time      `json:"now"`
	Name        string         `json:"name"`
	Connections int            `json:"connections"` // accepted since the start
	Open        int            `json:"open"`        // of them, those not yet closed by the stub
	Idle        int            `json:"idle"`        // of those, the ones between two requests
	Received    map[string]int `json:"received"`    // requests read, by phase
	Answered    int            `json:"answered"`    // answered in full
	ClientGone  int            `json:"client_gone"` // the caller left before the answer
	Faults      map[string]int `json:"faults"`      // by Fault
	InFlight    int            `json:"in_flight"`
	MaxInFlight int            `json:"max_in_flight"`
	Behaviour   Behaviour      `json:"behaviour"`
}
