package outbound

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"time"

	"chokepoint/internal/profile"
)

// throughNetHTTP is net/http's client: its Transport, without the redirects and
// cookies of http.Client.
type throughNetHTTP struct {
	url           *url.URL
	pooled, fresh *http.Transport
	library       bool // its own rules decide about retries
	tally         *tally
}

func newNetHTTP(u *url.URL, d *dialer, kept profile.Connections) *throughNetHTTP {
	// Transport dials on a context without the call's deadline, for the sake of a later
	// call. A handshake that never ends would keep its socket and its goroutine for ever.
	dial := func(ctx context.Context, _, addr string) (net.Conn, error) {
		if deadline, ok := ctx.Value(deadlineKey{}).(time.Time); ok {
			var cancel context.CancelFunc
			ctx, cancel = context.WithDeadline(ctx, deadline)
			defer cancel()
		}
		return d.dial(ctx, addr)
	}
	transport := func() *http.Transport {
		t := &http.Transport{
			DialContext:           dial,
			DialTLSContext:        dial,
			MaxIdleConnsPerHost:   math.MaxInt32,
			ResponseHeaderTimeout: kept.ResponseTimeout,
			DisableCompression:    true,
		}
		if !kept.EvictNotRunning {
			t.IdleConnTimeout = kept.EvictIdle
		}
		return t
	}
	t := &throughNetHTTP{url: u, pooled: transport(), fresh: transport(), library: kept.Retry == profile.RetryLibrary, tally: d.tally}
	t.fresh.DisableKeepAlives = true
	return t
}

// deadlineKey finds a call's deadline in the context of a dial.
type deadlineKey struct{}

func (t *throughNetHTTP) attempt(deadline time.Time, call Call, fresh bool, attempts *[]Attempt) (status int, kept string, err error) {
	ctx := context.Background()
	if !deadline.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(context.WithValue(ctx, deadlineKey{}, deadline), deadline)
		defer cancel()
	}
	w := &watcher{attempts: attempts}
	req := t.request(httptrace.WithClientTrace(ctx, w.trace()), call)
	client := t.pooled
	if fresh {
		client = t.fresh
	}
	resp, err := client.RoundTrip(req)
	if err == nil {
		_, err = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	if a := w.end(); a != nil {
		a.Err = err
		a.Sent = a.Sent || err == nil // another call may have the connection by now
	}
	if err != nil {
		return 0, "", err
	}
	return resp.StatusCode, strings.Join(resp.Header.Values(call.Keep), ", "), nil
}

// request is the call as net/http sends it. Transport repeats a request only if it
// has no body, or one that GetBody can give again. So one that must not be repeated
// has a body, even if it is empty, and no GetBody.
func (t *throughNetHTTP) request(ctx context.Context, call Call) *http.Request {
	req := &http.Request{
		Method: call.Method, URL: t.url, Host: t.url.Host, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"User-Agent": nil}, ContentLength: int64(len(call.Body)),
	}
	for name, value := range call.Header {
		req.Header.Set(name, value)
	}
	body := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(call.Body)), nil }
	switch {
	case !t.library:
		req.Body, _ = body()
		if len(call.Body) == 0 {
			// Of an empty body whose length it does not know net/http would make a chunked one.
			req.TransferEncoding = []string{"identity"}
		}
	case len(call.Body) > 0:
		req.Body, _ = body()
		req.GetBody = body
	}
	return req.WithContext(ctx)
}

func (t *throughNetHTTP) idle() int { return int(t.tally.idle.Load()) }

func (t *throughNetHTTP) close() { t.pooled.CloseIdleConnections() }

// watcher follows one RoundTrip through the connections that it takes.
type watcher struct {
	attempts *[]Attempt
	began    time.Time // the attempt that runs; zero before the first
	conn     *conn     // nil until it has one
	use      int
}

func (w *watcher) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		GetConn: func(string) {
			if a := w.end(); a != nil {
				// The library repeats it, and keeps its error to itself.
				a.Err = cmp.Or(a.Discarded, a.Socket, errRepeated)
			}
			w.began, w.conn = time.Now(), nil
			*w.attempts = append(*w.attempts, Attempt{})
		},
		GotConn: func(info httptrace.GotConnInfo) {
			w.conn = connOf(info.Conn)
			w.use = w.conn.take()
		},
		// It runs on the connection's own goroutine, which has the request from here.
		PutIdleConn: func(err error) {
			if err == nil {
				w.conn.rest(w.use)
			}
		},
	}
}

// errRepeated stands for an error that nobody tells.
var errRepeated = errors.New("repeated by net/http")

// end is the attempt that ends, nil if none has begun.
func (w *watcher) end() *Attempt {
	if w.began.IsZero() {
		return nil
	}
	a := &(*w.attempts)[len(*w.attempts)-1]
	a.Took = time.Since(w.began)
	if w.conn != nil {
		a.record(w.conn, w.use)
	}
	return a
}
