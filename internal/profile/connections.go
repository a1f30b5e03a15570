package profile

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Client names the HTTP client that calls the upstream; none is ClientFastHTTP.
type Client string

// The clients.
const (
	ClientFastHTTP Client = "fasthttp" // fasthttp's HostClient
	ClientNetHTTP  Client = "net/http" // net/http's Transport
)

// StaleCheck names how a kept connection is looked at before a request is put on
// it; none is no look. What each of them costs and misses is in service/outbound.
type StaleCheck string

// The ways to look at a connection. Each finds a FIN or an RST that has come, and
// none finds a path that has forgotten the connection.
const (
	StaleOff     StaleCheck = "off"
	StalePeek    StaleCheck = "peek"     // one recv with MSG_PEEK
	StaleTCPInfo StaleCheck = "tcp_info" // one getsockopt: the state of the socket
	StaleRead    StaleCheck = "read"     // a read that waits 1 ms, as Apache HttpClient does; fasthttp only
)

// Retry names which calls are sent again after a failure; none is RetryOff.
type Retry string

// The retry policies. None of them sends a request again because of what was
// answered, be it 429 or 503.
const (
	RetryOff Retry = "off"
	// RetryLibrary leaves it to the client library, and to its own rules.
	RetryLibrary Retry = "library"
	// RetryStale sends again what has not been sent: nothing of the request was
	// written, whatever its method.
	RetryStale Retry = "stale"
	// RetryIdempotent sends GET, HEAD, OPTIONS, TRACE, PUT and DELETE (RFC 9110,
	// section 9.2.2) again when the connection failed; not after a timeout, since a
	// slow server is not helped by a second request.
	RetryIdempotent Retry = "idempotent"
	// RetryIdempotencyKey is RetryIdempotent, and any request that has an
	// Idempotency-Key, which the server has to honour.
	RetryIdempotencyKey Retry = "idempotency-key"
	// RetryAll sends anything again after any failure, timeouts too. It makes double
	// writes, and is there to show them.
	RetryAll Retry = "all"
)

// DefaultRetryAttempts is how often a call is sent at most where a policy of ours
// retries and RetryAttempts is 0.
const DefaultRetryAttempts = 2

// KeepAlive is TCP's keepalive of one socket. The zero value is off. The kernel
// counts in whole seconds; fractions are rounded up.
type KeepAlive struct {
	Idle     time.Duration `json:"idle_ns"`     // rest before the first probe
	Interval time.Duration `json:"interval_ns"` // between probes
	Count    int           `json:"count"`       // unanswered probes that end the connection
}

// goKeepAlive is what Go's own dialer sets (net.KeepAliveConfig).
var goKeepAlive = KeepAlive{15 * time.Second, 15 * time.Second, 9}

// String is IDLE/INTERVAL/COUNT, or "off": what ParseKeepAlive reads.
func (k KeepAlive) String() string {
	if k == (KeepAlive{}) {
		return "off"
	}
	return k.Idle.String() + "/" + k.Interval.String() + "/" + strconv.Itoa(k.Count)
}

// ParseKeepAlive reads IDLE/INTERVAL/COUNT, such as 15s/15s/9, or "off".
func ParseKeepAlive(text string) (KeepAlive, error) {
	if text == "off" {
		return KeepAlive{}, nil
	}
	fail := fmt.Errorf("keepalive %q: want IDLE/INTERVAL/COUNT, such as 15s/15s/9, or off", text)
	parts := strings.Split(text, "/")
	if len(parts) != 3 {
		return KeepAlive{}, fail
	}
	idle, err1 := time.ParseDuration(parts[0])
	interval, err2 := time.ParseDuration(parts[1])
	count, err3 := strconv.Atoi(parts[2])
	if err1 != nil || err2 != nil || err3 != nil || idle <= 0 || interval <= 0 || count <= 0 {
		return KeepAlive{}, fail
	}
	return KeepAlive{idle, interval, count}, nil
}

// Connections is the client that calls the upstream and how it defends itself
// against kept connections that died while they rested. The zero value is
// fasthttp without a defence: one call is one attempt, on whatever connection the
// pool has. Both clients take the connection that was used last.
type Connections struct {
	Client Client `json:"client"`
	// ResponseTimeout bounds the wait of one attempt for its answer; 0 leaves it to
	// Timeout, which bounds the whole call. It is net/http's ResponseHeaderTimeout
	// and fasthttp's ReadTimeout.
	ResponseTimeout time.Duration `json:"response_timeout_ns"`
	// StaleCheck looks at a kept connection before a request is put on it. One that
	// is found dead is closed and another is taken: nothing was sent, so that is no
	// retry.
	StaleCheck StaleCheck `json:"stale_check"`
	// StaleCheckAfter spares connections that rested for less; 0 looks at all. It is
	// Apache HttpClient's validateAfterInactivity, which is 2 s there.
	StaleCheckAfter time.Duration `json:"stale_check_after_ns"`
	// MaxIdleAge closes a connection that has rested for longer when a request would
	// be put on it, and another is taken; 0 is no bound.
	MaxIdleAge time.Duration `json:"max_idle_age_ns"`
	// EvictIdle closes connections in the background that have rested for so long; 0
	// keeps them.
	EvictIdle time.Duration `json:"evict_idle_ns"`
	// EvictNotRunning has EvictIdle set and nobody who acts on it: a configuration
	// whose eviction thread was never started.
	EvictNotRunning bool      `json:"evict_not_running"`
	KeepAlive       KeepAlive `json:"keepalive"`
	// UserTimeout is TCP_USER_TIMEOUT (RFC 5482): how long written data may stay
	// unacknowledged before the kernel ends the connection; 0 is the kernel's own.
	UserTimeout time.Duration `json:"user_timeout_ns"`
	Retry       Retry         `json:"retry"`
	// RetryAttempts is how often a call is sent at most, the first time included; 0
	// is DefaultRetryAttempts, or the library's own number under RetryLibrary.
	RetryAttempts int `json:"retry_attempts"`
	// RetryFresh makes the last attempt on a connection of its own.
	RetryFresh bool `json:"retry_fresh"`
}

// Validate refuses what cannot be had.
func (c Connections) Validate() error {
	for _, d := range []struct {
		name  string
		value time.Duration
	}{
		{"response timeout", c.ResponseTimeout}, {"stale check after", c.StaleCheckAfter}, {"max idle age", c.MaxIdleAge},
		{"evict idle", c.EvictIdle}, {"keepalive idle", c.KeepAlive.Idle}, {"keepalive interval", c.KeepAlive.Interval},
		{"user timeout", c.UserTimeout},
	} {
		if d.value < 0 {
			return fmt.Errorf("%s %v is negative; use 0 for none", d.name, d.value)
		}
	}
	retries := c.Retry != "" && c.Retry != RetryOff
	switch k := c.KeepAlive; {
	case !oneOf(c.Client, "", ClientFastHTTP, ClientNetHTTP):
		return fmt.Errorf("unknown client %q; choose one of %s, %s", c.Client, ClientFastHTTP, ClientNetHTTP)
	case !oneOf(c.StaleCheck, "", StaleOff, StalePeek, StaleTCPInfo, StaleRead):
		return fmt.Errorf("unknown stale check %q; choose one of %s, %s, %s, %s", c.StaleCheck, StaleOff, StalePeek, StaleTCPInfo, StaleRead)
	case c.StaleCheck == StaleRead && c.Client == ClientNetHTTP:
		return fmt.Errorf("stale check %s cannot be had with %s, which reads its connections itself while they rest; use %s", StaleRead, ClientNetHTTP, StalePeek)
	case c.StaleCheckAfter > 0 && (c.StaleCheck == "" || c.StaleCheck == StaleOff):
		return fmt.Errorf("stale check after %v without a stale check; add -stale-check", c.StaleCheckAfter)
	case c.EvictNotRunning && c.EvictIdle == 0:
		return fmt.Errorf("an eviction that does not run needs an idle time that it would evict at; set -evict-idle")
	case k != (KeepAlive{}) && (k.Idle == 0 || k.Interval == 0 || k.Count <= 0):
		return fmt.Errorf("keepalive %v: all three parts must be above zero", k)
	case !oneOf(c.Retry, "", RetryOff, RetryLibrary, RetryStale, RetryIdempotent, RetryIdempotencyKey, RetryAll):
		return fmt.Errorf("unknown retry policy %q; choose one of %s, %s, %s, %s, %s, %s", c.Retry,
			RetryOff, RetryLibrary, RetryStale, RetryIdempotent, RetryIdempotencyKey, RetryAll)
	case c.RetryAttempts < 0:
		return fmt.Errorf("retry attempts %d is negative; use 0 for the policy's own number", c.RetryAttempts)
	case c.RetryAttempts > 0 && !retries:
		return fmt.Errorf("retry attempts %d without a retry policy; choose one with -retry", c.RetryAttempts)
	case c.RetryAttempts > 0 && c.Retry == RetryLibrary && c.Client == ClientNetHTTP:
		return fmt.Errorf("retry attempts %d: %s has no such number, it tries as long as it meets dead connections; leave it 0", c.RetryAttempts, ClientNetHTTP)
	case c.RetryFresh && (!retries || c.Retry == RetryLibrary):
		return fmt.Errorf("a fresh connection for the last attempt needs a retry policy of ours; choose one with -retry")
	}
	return nil
}

func oneOf[T comparable](v T, choices ...T) bool { return slices.Contains(choices, v) }

// scaled multiplies every duration by scale. TCP's keepalive does not go below the
// kernel's second.
func (c Connections) scaled(scale float64) Connections {
	for _, d := range []*time.Duration{&c.ResponseTimeout, &c.StaleCheckAfter, &c.MaxIdleAge, &c.EvictIdle,
		&c.KeepAlive.Idle, &c.KeepAlive.Interval, &c.UserTimeout} {
		*d = time.Duration(math.Round(float64(*d) * scale))
	}
	return c
}

// Settings is each setting by the name of its flag, for a manifest.
func (c Connections) Settings() map[string]string {
	name := func(value, zero string) string {
		if value == "" {
			return zero
		}
		return value
	}
	return map[string]string{
		"client":            name(string(c.Client), string(ClientFastHTTP)),
		"response-timeout":  c.ResponseTimeout.String(),
		"stale-check":       name(string(c.StaleCheck), string(StaleOff)),
		"stale-check-after": c.StaleCheckAfter.String(),
		"max-idle-age":      c.MaxIdleAge.String(),
		"evict-idle":        c.EvictIdle.String(),
		"evict-not-running": strconv.FormatBool(c.EvictNotRunning),
		"keepalive":         c.KeepAlive.String(),
		"user-timeout":      c.UserTimeout.String(),
		"retry":             name(string(c.Retry), string(RetryOff)),
		"retry-attempts":    strconv.Itoa(c.RetryAttempts),
		"retry-fresh":       strconv.FormatBool(c.RetryFresh),
	}
}
