package drain

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"chokepoint/internal/adminapi"
	"chokepoint/internal/lab/netlab"
)

// answerWait is how much longer than its work an answer may take.
const answerWait = 20 * time.Second

// caller is a client with a pool of connections of its own.
type caller struct {
	kept  *http.Transport
	fresh *http.Transport // a connection for each request
	to    string
}

// newCaller is one that dials from within a host.
func newCaller(h *netlab.Host, p Protocol, to string) *caller {
	dial := func(ctx context.Context, _, addr string) (net.Conn, error) { return h.Dial(ctx, addr) }
	transport := func() *http.Transport {
		t := &http.Transport{DialContext: dial, MaxIdleConnsPerHost: 4096, DisableCompression: true, Protocols: new(http.Protocols)}
		t.Protocols.SetHTTP1(p == HTTP1)
		t.Protocols.SetUnencryptedHTTP2(p == HTTP2)
		return t
	}
	c := &caller{kept: transport(), fresh: transport(), to: "http://" + to + "/work"}
	c.fresh.DisableKeepAlives = true
	return c
}

func (c *caller) close() {
	c.kept.CloseIdleConnections()
	c.fresh.CloseIdleConnections()
}

// sending is one request as its client saw it.
type sending struct {
	id      string
	began   time.Time
	late    time.Duration // how long after it was due it began; of the load alone
	took    time.Duration
	got     string // "200", another status, or what the client's kernel or library said
	ok      bool
	err     string // the exact error of the last attempt that had one
	local   string // the client's end of the last connection
	reused  bool
	sent    int // how often it was put on a connection
	work    time.Duration
	keeping bool
}

// order is a request to be made.
type order struct {
	id       string
	work     time.Duration
	attempts int
	fresh    bool
}

// send makes a request, and again while it fails and may be made again.
func (c *caller) send(ctx context.Context, o order) sending {
	s := sending{id: o.id, began: time.Now(), work: o.work}
	for attempt := range max(o.attempts, 1) {
		transport := c.kept
		if o.fresh || attempt > 0 {
			transport = c.fresh // what has failed is not asked again
		}
		status, err := s.try(ctx, transport, c.to, o)
		s.took = time.Since(s.began)
		s.got, s.ok = outcomeOf(status, err), err == nil && status == http.StatusOK
		if err != nil {
			s.err = err.Error()
		} else if !s.ok {
			s.err = fmt.Sprintf("status %d", status)
		}
		if s.ok || ctx.Err() != nil {
			break
		}
	}
	return s
}

// try is one attempt.
func (s *sending) try(ctx context.Context, transport *http.Transport, to string, o order) (status int, err error) {
	ctx, cancel := context.WithTimeout(ctx, o.work+answerWait)
	defer cancel()
	var mu sync.Mutex // the transport may try again by itself, on a goroutine of its own
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		mu.Lock()
		defer mu.Unlock()
		s.local, s.reused = info.Conn.LocalAddr().String(), info.Reused
		s.sent++
	}})
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, strings.NewReader("work"))
	if err != nil {
		return 0, err
	}
	req.Header.Set(adminapi.HeaderID, o.id)
	req.Header.Set(adminapi.HeaderDelay, o.work.String())
	if o.attempts > 1 {
		req.Header.Set(adminapi.HeaderIdempotencyKey, o.id)
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return 0, err
	}
	return resp.StatusCode, nil
}

// outcomeOf is what a client got, in a word.
func outcomeOf(status int, err error) string {
	switch {
	case err == nil:
		return fmt.Sprint(status)
	case errors.Is(err, syscall.ECONNRESET):
		return gotReset
	case errors.Is(err, syscall.EPIPE):
		return gotPipe
	case errors.Is(err, syscall.ECONNREFUSED):
		return "ECONNREFUSED"
	case errors.Is(err, context.DeadlineExceeded):
		return "no answer"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), strings.Contains(err.Error(), "server closed idle connection"):
		return gotEOF
	}
	return err.Error()
}

// http2Callers is how many clients of HTTP/2 share the load: each has one connection for
// all of its requests, and the balancer gives every gateway some of them.
const http2Callers = 2

// maxRequests bounds a load that goes on while gateways are ended.
const maxRequests = 50_000

// load sends the requests of the setup at their times until done, at least as many as it
// says, and waits for all of them.
type load struct {
	callers  []*caller
	ended    atomic.Bool  // what is done to the gateways has been done
	answered atomic.Int64 // requests that have come to their end, whatever it was
}

func (w *world) newLoad() *load {
	l := &load{}
	callers := 1
	if w.setup.Protocol == HTTP2 {
		callers = http2Callers * w.setup.Gateways
	}
	for range callers {
		c := newCaller(w.hosts.client, w.setup.Protocol, w.entrance())
		c.kept.IdleConnTimeout = w.setup.Load.IdleTimeout
		l.callers = append(l.callers, c)
	}
	return l
}

// run returns what became of the load.
func (l *load) run(ctx context.Context, s Load, begin time.Time, rolling bool) ([]sending, error) {
	var mu sync.Mutex
	var all []sending
	var wg sync.WaitGroup
	for i := 0; i < s.Requests || rolling && !l.ended.Load(); i++ {
		if i == maxRequests {
			return nil, fmt.Errorf("the load has reached %d requests, and the gateways have not all ended", i)
		}
		due := begin.Add(time.Duration(i) * s.Every)
		if err := sleepUntil(ctx, due); err != nil {
			break
		}
		wg.Go(func() {
			one := l.callers[i%len(l.callers)].send(ctx, order{fmt.Sprintf("r%d", i), s.Work(i), s.Attempts, s.NewConnections})
			one.late = one.began.Sub(due)
			l.answered.Add(1)
			mu.Lock()
			defer mu.Unlock()
			all = append(all, one)
		})
	}
	wg.Wait()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return all, nil
}

// stalled is an error if an answer took much longer than it should. Of what was not
// answered, unread is.
func stalled(sent []sending) error {
	for _, s := range sent {
		if by := s.took - s.work; s.ok && s.sent == 1 && by > maxStall {
			return &Late{"the answer to " + s.id, by}
		}
	}
	return nil
}

func sleepUntil(ctx context.Context, at time.Time) error {
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
