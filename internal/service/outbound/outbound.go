// Package outbound is the victim's HTTP client for its upstream: fasthttp's or
// net/http's, with the defences of a profile against kept connections that have died.
//
// Every default of the two that hides something is off. fasthttp repeats idempotent
// requests up to five times on its own, caps connections per host at 512, gives up
// dialling after three seconds, and closes idle connections after ten; net/http
// repeats what a kept connection did not answer and keeps two idle connections per
// host; Go's dialer sends keepalives. Here one call is one attempt, with no other bound than the
// caller's deadline, unless the profile says more. What each attempt met is told.
//
// The package does not judge an answer: 429 and 503 come back as they are, and are
// never a reason to send a request again.
package outbound

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/valyala/fasthttp"

	"chokepoint/internal/adminapi"
	"chokepoint/internal/profile"
)

// Kind says how a call failed.
type Kind int

// The kinds of failure, as far as a caller can tell them apart.
const (
	Timeout Kind = iota + 1 // the deadline passed, connecting, writing or reading; or the kernel gave up (ETIMEDOUT)
	Connect                 // refused, unreachable, TLS
	Reset                   // closed or reset before, or in the middle of, the answer
	Status                  // answered 5xx
)

// Error is a failed call.
type Error struct {
	Kind Kind
	Err  error
}

func (e *Error) Error() string { return e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

// Call is what is sent. The zero value is a GET.
type Call struct {
	Method string
	Header map[string]string // names in their canonical form
	Body   []byte
	Keep   string // the header of the answer that is kept
}

// Answer is what became of a call, also of one that failed.
type Answer struct {
	Status   int    // 0: none
	Kept     string // the values of the header that was to be kept, joined by commas
	Attempts []Attempt
}

// Attempt is one connection that a call took, or could not get.
type Attempt struct {
	LocalPort int  // 0: no connection was made
	Reused    bool // it had carried a request before
	Sent      bool // something of the request was written
	// Discarded is why a check closed the connection before anything was sent.
	Discarded error
	// Err is the client's own error; of an attempt that the library repeated by itself
	// it is the socket's.
	Err error
	// Socket is the socket's first error, which the client may have hidden.
	Socket error
	Took   time.Duration
}

// SocketError names the socket's error as the system does, such as EOF or
// ECONNRESET; it is empty where the socket had none.
func (a Attempt) SocketError() string { return socketName(a.Socket) }

// record adds what became of a use of a connection.
func (a *Attempt) record(c *conn, number int) {
	u := c.result(number)
	a.LocalPort, a.Reused = c.port(), number > 1
	a.Sent, a.Discarded, a.Socket = u.written, u.discarded, u.socket
}

// transport is one of the two client libraries.
type transport interface {
	// attempt sends call once, or as often as the library's own rules have it, and adds
	// what it met to attempts: on a connection of its own if fresh is set, which is
	// closed after it. A zero deadline waits for ever.
	attempt(deadline time.Time, call Call, fresh bool, attempts *[]Attempt) (status int, kept string, err error)
	idle() int
	close()
}

// Client calls one upstream. It is safe for concurrent use.
type Client struct {
	kept      profile.Connections
	transport transport
	tally     tally
}

// New makes a client for an http or https URL with the defences of kept.
func New(rawURL string, kept profile.Connections) (*Client, error) {
	u, err := url.Parse(rawURL)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return nil, fmt.Errorf("upstream %q is not a URL; write it as http://127.0.0.1:8081/", rawURL)
	}
	var config *tls.Config
	if u.Scheme == "https" {
		config = &tls.Config{ServerName: u.Hostname(), MinVersion: tls.VersionTLS12}
		if kept.StaleCheck == profile.StaleRead {
			return nil, fmt.Errorf("stale check %s cannot be had with %s: it would eat what TLS sends; use %s", profile.StaleRead, rawURL, profile.StalePeek)
		}
	}
	if kept.StaleCheck == profile.StaleTCPInfo && !hasTCPInfo {
		return nil, fmt.Errorf("stale check %s: only Linux has it; use %s", profile.StaleTCPInfo, profile.StalePeek)
	}
	if kept.Client == "" {
		kept.Client = profile.ClientFastHTTP
	}
	c := &Client{kept: kept}
	d, err := newDialer(kept, config, kept.Client == profile.ClientFastHTTP, &c.tally)
	if err != nil {
		return nil, err
	}
	if kept.Client == profile.ClientNetHTTP {
		c.transport = newNetHTTP(u, d, kept)
	} else {
		c.transport = newFastHTTP(u, d, kept)
	}
	return c, nil
}

// Do makes the call and drops the answer's body. A zero deadline waits for ever. Its
// error is nil for an answer below 500, else an *Error; the answer is told either way.
// Its frame is what marks a worker that waits for the upstream in a dump.
//
//go:noinline
func (c *Client) Do(deadline time.Time, call Call) (Answer, error) {
	if call.Method == "" {
		call.Method = "GET"
	}
	var answer Answer
	for sent := 0; ; {
		known := len(answer.Attempts)
		fresh := c.kept.RetryFresh && sent > 0 && sent+1 == c.attempts()
		var err error
		answer.Status, answer.Kept, err = c.transport.attempt(deadline, call, fresh, &answer.Attempts)
		if err == nil {
			if answer.Status >= 500 {
				return answer, &Error{Kind: Status, Err: fmt.Errorf("the upstream answered %d", answer.Status)}
			}
			return answer, nil
		}
		failed := &Error{Kind: classify(err), Err: err}
		if len(answer.Attempts) == known { // the deadline had passed
			return answer, failed
		}
		last := answer.Attempts[len(answer.Attempts)-1]
		if last.Discarded != nil {
			// Each of them empties the pool by one, and a connection that was just made
			// is not looked at, so that this ends.
			continue
		}
		sent++
		if sent >= c.attempts() || !c.again(call, last, failed.Kind) {
			return answer, failed
		}
	}
}

// attempts is how often a call is sent at most by the policy; a library's own rules
// are the library's.
func (c *Client) attempts() int {
	switch {
	case c.kept.Retry == "" || c.kept.Retry == profile.RetryOff || c.kept.Retry == profile.RetryLibrary:
		return 1
	case c.kept.RetryAttempts > 0:
		return c.kept.RetryAttempts
	}
	return profile.DefaultRetryAttempts
}

// again says whether the policy sends a call again whose last attempt failed so.
func (c *Client) again(call Call, last Attempt, kind Kind) bool {
	// Nothing has reached the peer, whatever the method.
	unsent := last.Reused && !last.Sent && kind == Reset
	// ETIMEDOUT is the kernel's word on the connection; a deadline says only that the
	// server is slow.
	died := kind == Reset || kind == Timeout && last.Socket != nil
	switch c.kept.Retry {
	case profile.RetryStale:
		return unsent
	case profile.RetryIdempotent:
		return unsent || died && idempotent(call.Method)
	case profile.RetryIdempotencyKey:
		return unsent || died && (idempotent(call.Method) || call.Header[adminapi.HeaderIdempotencyKey] != "")
	case profile.RetryAll:
		return true
	}
	return false
}

// idempotent is RFC 9110, section 9.2.2.
func idempotent(method string) bool {
	switch method {
	case "GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE":
		return true
	}
	return false
}

func classify(err error) Kind {
	if timeout, ok := errors.AsType[interface {
		error
		Timeout() bool
	}](err); ok && timeout.Timeout() {
		return Timeout
	}
	if errors.Is(err, fasthttp.ErrTimeout) || errors.Is(err, fasthttp.ErrDialTimeout) {
		return Timeout
	}
	if _, ok := errors.AsType[*dialError](err); ok {
		return Connect
	}
	return Reset
}

// Stats are the connections of a client.
type Stats struct {
	Client    profile.Client
	Open      int // the fresh ones of last attempts too
	Idle      int // of them
	Dialled   int // since the start
	Discarded int // closed by a check before a request was put on them
}

// Stats counts the connections as they are now.
func (c *Client) Stats() Stats {
	return Stats{Client: c.kept.Client, Open: int(c.tally.open.Load()), Idle: c.transport.idle(),
		Dialled: int(c.tally.dialled.Load()), Discarded: int(c.tally.discarded.Load())}
}

// Close closes the idle connections.
func (c *Client) Close() { c.transport.close() }
