package adminapi

// UpstreamAnswer is the body of every answer of the victim's /upstream that has made
// a call. Of a failure Error and Detail are as in Error.
type UpstreamAnswer struct {
	Upstream string `json:"upstream,omitempty"` // "ok"
	Error    string `json:"error,omitempty"`
	Detail   string `json:"detail,omitempty"`
	Call     *Call  `json:"call,omitempty"` // nil where no call was made
}

// Call is one call of the victim to its upstream.
type Call struct {
	Client string `json:"client"`           // "fasthttp" or "net/http"
	Status int    `json:"status,omitempty"` // of the answer; 0 if there was none
	// Reused says whether the last attempt was on a kept connection; LocalPort is its
	// port at this end, 0 if no connection was made.
	Reused    bool `json:"reused"`
	LocalPort int  `json:"local_port"`
	// Connection is what the server calls the connection (HeaderConnection).
	Connection string  `json:"connection,omitempty"`
	MS         float64 `json:"ms"`
	// Sent is how many attempts put anything of the request on the wire.
	Sent int `json:"sent"`
	// Attempts are all that took a connection, or failed to get one, in order.
	Attempts []Attempt `json:"attempts"`
}

// Attempt is one connection that a call took.
type Attempt struct {
	LocalPort int  `json:"local_port"` // 0: no connection was made
	Reused    bool `json:"reused"`
	Sent      bool `json:"sent"` // something of the request was written
	// Discarded is why a defence closed the connection before anything was sent.
	Discarded string `json:"discarded,omitempty"`
	// Error is the client's exact text and ErrorType the Go type behind it; empty for
	// an attempt that was answered.
	Error     string `json:"error,omitempty"`
	ErrorType string `json:"error_type,omitempty"`
	// Socket is the socket's own error, which a client may hide: EOF, ECONNRESET,
	// ETIMEDOUT, ...
	Socket string  `json:"socket,omitempty"`
	MS     float64 `json:"ms"`
}

// OutboundStats are the victim's connections to its upstream.
type OutboundStats struct {
	Client    string `json:"client"`
	Open      int    `json:"open"`
	Idle      int    `json:"idle"` // of them
	Dialled   int    `json:"dialled"`
	Discarded int    `json:"discarded"` // closed by a check before a request was put on them
}
