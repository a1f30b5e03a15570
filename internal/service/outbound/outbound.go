// Package outbound is the victim's HTTP client for its upstream.
//
// Every default of fasthttp that hides something is off: it retries idempotent
// requests up to five times on its own, caps connections per host at 512, gives
// up dialling after three seconds, and closes idle connections after ten. One
// call is one attempt here, with no other bound than the caller's deadline.
package outbound

import (
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"net"
	"net/url"
	"time"

	"github.com/valyala/fasthttp"
)

// Kind says how a call failed.
type Kind int

// The kinds of failure, as far as a caller can tell them apart.
const (
	Timeout Kind = iota + 1 // the deadline passed: connecting, writing or reading
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

// Client calls one upstream. It is safe for concurrent use.
type Client struct {
	url    string
	client *fasthttp.HostClient
}

// New makes a client for an http or https URL.
func New(rawURL string) (*Client, error) {
	u, err := url.Parse(rawURL)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return nil, fmt.Errorf("upstream %q is not a URL; write it as http://127.0.0.1:8081/", rawURL)
	}
	c := &Client{url: rawURL}
	c.client = &fasthttp.HostClient{
		Addr:                          fasthttp.AddMissingPort(u.Host, u.Scheme == "https"),
		IsTLS:                         u.Scheme == "https",
		MaxConns:                      math.MaxInt32,
		MaxIdleConnDuration:           time.Hour,
		MaxIdemponentCallAttempts:     1,
		RetryIfErr:                    func(*fasthttp.Request, int, error) (bool, bool) { return false, false },
		NoDefaultUserAgentHeader:      true,
		DisableHeaderNamesNormalizing: true,
		DisablePathNormalizing:        true,
		DialTimeout:                   dialTCP,
	}
	if c.client.IsTLS {
		config := &tls.Config{ServerName: u.Hostname(), MinVersion: tls.VersionTLS12}
		c.client.DialTimeout = func(addr string, timeout time.Duration) (net.Conn, error) {
			return dialTLS(addr, timeout, config)
		}
	}
	return c, nil
}

// dialTCP connects within timeout, or whenever it will if timeout is 0.
func dialTCP(addr string, timeout time.Duration) (net.Conn, error) {
	d := net.Dialer{Timeout: timeout}
	conn, err := d.Dial("tcp", addr)
	if err != nil {
		return nil, &dialError{err}
	}
	return conn, nil
}

// dialTLS connects and shakes hands within timeout. It is done here because
// fasthttp puts no bound on a handshake unless WriteTimeout is set: it leaves the
// handshake to the first write, under a write deadline alone, and a server that
// accepts and never speaks then holds the caller for ever.
func dialTLS(addr string, timeout time.Duration, config *tls.Config) (net.Conn, error) {
	start := time.Now()
	raw, err := dialTCP(addr, timeout)
	if err != nil {
		return nil, err
	}
	if timeout > 0 {
		raw.SetDeadline(start.Add(timeout))
	}
	conn := tls.Client(raw, config)
	if err := conn.Handshake(); err != nil {
		raw.Close()
		return nil, &dialError{err}
	}
	raw.SetDeadline(time.Time{})
	return conn, nil
}

// dialError marks an error as one of connecting.
type dialError struct{ error }

func (e *dialError) Unwrap() error { return e.error }

// Do makes one GET with the given headers and drops the answer's body. A zero
// deadline waits for ever. It returns nil for an answer below 500, else an
// *Error. Its frame is what marks a worker that waits for the upstream in a dump.
//
//go:noinline
func (c *Client) Do(deadline time.Time, headers map[string]string) error {
	req, resp := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
	defer fasthttp.ReleaseRequest(req)
	defer fasthttp.ReleaseResponse(resp)
	req.SetRequestURI(c.url)
	for name, value := range headers {
		req.Header.Set(name, value)
	}

	var err error
	if deadline.IsZero() {
		err = c.client.Do(req, resp)
	} else {
		err = c.client.DoDeadline(req, resp, deadline)
	}
	if err != nil {
		return &Error{Kind: classify(err), Err: err}
	}
	if status := resp.StatusCode(); status >= 500 {
		return &Error{Kind: Status, Err: fmt.Errorf("the upstream answered %d", status)}
	}
	return nil
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

// Close closes the idle connections.
func (c *Client) Close() { c.client.CloseIdleConnections() }
