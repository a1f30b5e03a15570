package result

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
