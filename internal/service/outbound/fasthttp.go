package outbound

import (
	"bytes"
	"context"
	"io"
	"math"
	"net"
	"net/url"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"chokepoint/internal/profile"
)

// throughFastHTTP is fasthttp's client. It takes part in each attempt as the
// client's RoundTripper, since HostClient.Do says nothing of those that it repeats.
type throughFastHTTP struct {
	url           string
	pooled, fresh *fasthttp.HostClient
	library       bool     // its own rules decide about retries
	calls         sync.Map // *fasthttp.Request -> *[]Attempt of the calls in flight
}

func newFastHTTP(u *url.URL, d *dialer, kept profile.Connections) *throughFastHTTP {
	t := &throughFastHTTP{url: u.String(), library: kept.Retry == profile.RetryLibrary}
	host := func() *fasthttp.HostClient {
		h := &fasthttp.HostClient{
			Addr:                          fasthttp.AddMissingPort(u.Host, u.Scheme == "https"),
			IsTLS:                         u.Scheme == "https",
			MaxConns:                      math.MaxInt32,
			MaxIdleConnDuration:           time.Hour,
			MaxIdemponentCallAttempts:     kept.RetryAttempts, // 0 is five
			ReadTimeout:                   kept.ResponseTimeout,
			ConnPoolStrategy:              fasthttp.LIFO, // as net/http
			NoDefaultUserAgentHeader:      true,
			DisableHeaderNamesNormalizing: true,
			DisablePathNormalizing:        true,
			Transport:                     t,
			DialTimeout: func(addr string, timeout time.Duration) (net.Conn, error) {
				ctx := context.Background()
				if timeout > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, timeout)
					defer cancel()
				}
				return d.dial(ctx, addr)
			},
		}
		if kept.EvictIdle > 0 && !kept.EvictNotRunning {
			h.MaxIdleConnDuration = kept.EvictIdle
		}
		return h
	}
	t.pooled, t.fresh = host(), host()
	return t
}

func (t *throughFastHTTP) attempt(deadline time.Time, call Call, fresh bool, attempts *[]Attempt) (status int, kept string, err error) {
	req, resp := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
	defer fasthttp.ReleaseRequest(req)
	defer fasthttp.ReleaseResponse(resp)
	req.SetRequestURI(t.url)
	req.Header.SetMethod(call.Method)
	for name, value := range call.Header {
		req.Header.Set(name, value)
	}
	if len(call.Body) > 0 {
		req.SetBodyRaw(call.Body)
	}
	t.calls.Store(req, attempts)
	defer t.calls.Delete(req)

	client := t.pooled
	if fresh {
		client = t.fresh
		req.SetConnectionClose()
	}
	if deadline.IsZero() {
		err = client.Do(req, resp)
	} else {
		err = client.DoDeadline(req, resp, deadline)
	}
	if err != nil {
		// Do has its own word for the error of an attempt that met the end.
		if made := *attempts; len(made) > 0 && made[len(made)-1].Err == io.EOF {
			made[len(made)-1].Err = err
		}
		return 0, "", err
	}
	return resp.StatusCode(), string(bytes.Join(resp.Header.PeekAll(call.Keep), []byte(", "))), nil
}

// RoundTrip is one attempt of a call.
func (t *throughFastHTTP) RoundTrip(client *fasthttp.HostClient, req *fasthttp.Request, resp *fasthttp.Response) (retry bool, err error) {
	start := time.Now()
	retry, err = fasthttp.DefaultTransport.RoundTrip(client, req, resp)
	a := Attempt{Err: err, Took: time.Since(start)}
	if at, ok := resp.LocalAddr().(localAddr); ok {
		a.record(at.conn, at.use)
		a.Sent = a.Sent || err == nil // another call may have the connection by now
	}
	call, _ := t.calls.Load(req)
	attempts := call.(*[]Attempt)
	*attempts = append(*attempts, a)
	// A connection that a check has discarded is none of fasthttp's attempts, of which
	// it has so few.
	return retry && t.library && a.Discarded == nil, err
}

func (t *throughFastHTTP) idle() int { return t.pooled.IdleConnsCount() }

func (t *throughFastHTTP) close() { t.pooled.CloseIdleConnections() }
