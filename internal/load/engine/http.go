package engine

import (
	"bufio"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"chokepoint/internal/adminapi"
	"chokepoint/internal/load/ledger"
	"chokepoint/internal/load/wire"
)

const (
	// MaxBody is the largest answer that is read; a larger one is a
	// transport_error with the cause "oversized".
	MaxBody = wire.MaxBody
	// headerLimit is the largest header of an answer, and the size of a
	// connection's read buffer.
	headerLimit = wire.MaxHeader
	// requestBuffer holds a request's header.
	requestBuffer = 1 << 10
	// maxIdle is how long a connection may have been idle when it is used again.
	// It is under the shortest idle timeout that servers have by default (5 s, of
	// Node.js and Apache), so that a request rarely meets a connection that the
	// server is just closing; one that does is a transport_error, not a retry.
	maxIdle = 4 * time.Second
	// maxErrorBody is the largest body that is looked into for an "error" field,
	// and maxErrorText what is kept of the field.
	maxErrorBody = wire.MaxErrorBody
	maxErrorText = 64
)

// HTTP sends HTTP/1.1 requests with fasthttp's request writer and response
// reader, on connections of its own.
//
// fasthttp's HostClient is left out, for what it hides: it repeats GET, HEAD and
// PUT up to five times, fails at 512 connections, reports an RST as EOF, and
// counts a deadline from the call instead of from the due time. Here a request is
// written once, on an idle connection or a new one, whatever comes of it.
type HTTP struct {
	targets     []*endpointTarget
	connections Connections
	sources     *turns

	ctx         context.Context // ends dials
	cancel      context.CancelFunc
	interrupted atomic.Bool

	mu   sync.Mutex
	open map[*socket]struct{}
}

// endpointTarget is where an endpoint's requests go, and the connections there
// that are idle.
type endpointTarget struct {
	name    string
	address string
	tls     *tls.Config // nil for http
	request fasthttp.Request

	mu   sync.Mutex
	idle []*connection
}

// socket is a TCP connection that remembers its last error, since neither fasthttp
// nor TLS always pass it on.
type socket struct {
	net.Conn
	err error
}

func (s *socket) Read(p []byte) (int, error) {
	n, err := s.Conn.Read(p)
	if err != nil {
		s.err = err
	}
	return n, err
}

func (s *socket) Write(p []byte) (int, error) {
	n, err := s.Conn.Write(p)
	if err != nil {
		s.err = err
	}
	return n, err
}

// connection is a keep-alive connection. It belongs to the worker that uses it,
// or to the idle ones of its endpoint.
type connection struct {
	net.Conn // what is spoken on: the socket, or TLS over it
	socket   *socket
	reader   *bufio.Reader
	heard    bool  // anything from the server
	failure  error // of the last failed read, since fasthttp does not always pass it on
	opened   time.Time
	lastUsed time.Time
	carried  int // requests
}

func (c *connection) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.heard = c.heard || n > 0
	if err != nil {
		c.failure = err
	}
	return n, err
}

// NewHTTP makes the sender for the endpoints of c, which must be valid. Nothing
// is dialled before the first request.
func NewHTTP(c Config) (*HTTP, error) {
	h := &HTTP{
		connections: c.Connections, sources: &turns{n: len(c.Connections.Sources)},
		open: make(map[*socket]struct{}),
	}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	for _, e := range c.Endpoints {
		u, err := target(e.URL)
		if err != nil {
			return nil, err
		}
		host, port, err := c.Connections.destination(u)
		if err != nil {
			return nil, err
		}
		t := &endpointTarget{name: e.Name, address: net.JoinHostPort(host, strconv.Itoa(int(port)))}
		if u.Scheme == "https" {
			t.tls = c.Connections.tls(u.Hostname())
		}
		t.request.Header.SetMethod(e.Method)
		t.request.Header.SetUserAgent(userAgent)
		t.request.URI().DisablePathNormalizing = true
		t.request.SetRequestURI(u.RequestURI())
		t.request.Header.SetHost(u.Host)
		if u.User != nil {
			t.request.Header.Set("Authorization", authorization(u.User))
		}
		if c.Connections.DisableKeepAlive {
			t.request.SetConnectionClose()
		}
		t.request.Header.Set(adminapi.HeaderPhase, c.Phase)
		h.targets = append(h.targets, t)
	}
	return h, nil
}

// NewClient implements Sender.
func (h *HTTP) NewClient(endpoint int) Client {
	t := h.targets[endpoint]
	c := &client{http: h, target: t, writer: bufio.NewWriterSize(nil, requestBuffer), id: append([]byte(t.name), '-')}
	t.request.CopyTo(&c.request)
	return c.do
}

// Interrupt implements Sender.
func (h *HTTP) Interrupt() {
	h.interrupted.Store(true)
	h.cancel()
	h.mu.Lock()
	defer h.mu.Unlock()
	for s := range h.open {
		s.Conn.Close()
	}
}

// Close closes what is left open. No request may be in flight.
func (h *HTTP) Close() { h.Interrupt() }

// client is what one worker needs to send, made before the load starts.
type client struct {
	http     *HTTP
	target   *endpointTarget
	request  fasthttp.Request
	response fasthttp.Response
	writer   *bufio.Writer
	id       []byte
}

// do implements Client.
func (c *client) do(index int, deadline time.Time) Exchange {
	c.id = strconv.AppendInt(c.id[:len(c.target.name)+1], int64(index), 10)
	c.request.Header.SetBytesV(adminapi.HeaderID, c.id)
	conn, stale := c.target.takeIdle(c.http.connections)

	x := Exchange{Began: time.Now()}
	conn, x.Answer = c.exchange(conn, x.Began, deadline)
	x.Done = time.Now()

	answered := x.Answer.Outcome.Answered()
	if !answered && c.http.interrupted.Load() {
		x.Answer = ledger.Answer{Outcome: ledger.Interrupted}
	}
	switch {
	case conn == nil:
	case answered && c.reusable(conn) && !c.http.connections.spent(x.Done.Sub(conn.opened), conn.carried):
		c.target.putIdle(conn, x.Done)
	default:
		c.http.close(conn)
	}
	for _, conn := range stale {
		c.http.close(conn)
	}
	// The body goes back to a pool: it must not be held until the next request.
	c.response.Reset()
	return x
}

// exchange sends the request on conn, or on a new connection if that is nil, and
// gives back the connection with what came of it.
func (c *client) exchange(conn *connection, began, deadline time.Time) (*connection, ledger.Answer) {
	if c.http.interrupted.Load() {
		return conn, ledger.Answer{Outcome: ledger.Interrupted}
	}
	if began.After(deadline) {
		return conn, ledger.Answer{Outcome: ledger.Timeout, Cause: CauseUnsent}
	}
	if conn == nil {
		var err error
		if conn, err = c.http.dial(c.target, deadline); err != nil {
			return nil, connectFailure(err, deadline)
		}
	}
	err := c.roundTrip(conn, deadline)
	if err != nil && !conn.heard && isAlert(conn.failure) {
		// In TLS 1.3 the client is through with the handshake before the server has
		// seen its certificate.
		return conn, connectFailure(&handshakeError{error: conn.failure}, deadline)
	}
	if err != nil {
		return conn, transportFailure(err, conn.socket.err)
	}
	return conn, answered(c.response.StatusCode(), c.response.Body())
}

// roundTrip writes the request and reads the answer, both until deadline.
func (c *client) roundTrip(conn *connection, deadline time.Time) error {
	if err := conn.SetDeadline(deadline); err != nil {
		return err
	}
	conn.socket.err = nil
	conn.carried++
	c.writer.Reset(conn)
	err := c.request.Write(c.writer)
	if err == nil {
		err = c.writer.Flush()
	}
	if err != nil {
		if c.target.tls != nil && !conn.heard {
			// An alert of the server may have come before.
			_, _ = conn.reader.Peek(1)
		}
		return err
	}
	c.response.SkipBody = c.request.Header.IsHead()
	return c.response.ReadLimitBody(conn.reader, MaxBody)
}

// reusable says whether another request may follow on the connection. Bytes
// beyond the answer belong to none and would be taken for the next one's.
func (c *client) reusable(conn *connection) bool {
	return !c.response.ConnectionClose() && conn.reader.Buffered() == 0 &&
		c.response.StatusCode() != http.StatusSwitchingProtocols
}

// takeIdle is the connection that became idle last and may be used again, or nil.
// Those that may not are stale, and the caller's to close: all, if even the last
// one has been idle too long.
func (t *endpointTarget) takeIdle(policy Connections) (conn *connection, stale []*connection) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	for last := len(t.idle) - 1; last >= 0; last-- {
		conn = t.idle[last]
		if now.Sub(conn.lastUsed) > maxIdle {
			stale = append(stale, t.idle...)
			t.idle = nil
			return nil, stale
		}
		t.idle[last] = nil
		t.idle = t.idle[:last]
		if !policy.aged(now.Sub(conn.opened)) {
			return conn, stale
		}
		stale = append(stale, conn)
	}
	return nil, stale
}

func (t *endpointTarget) putIdle(conn *connection, now time.Time) {
	conn.lastUsed = now
	t.mu.Lock()
	t.idle = append(t.idle, conn)
	t.mu.Unlock()
}

// dial opens a connection until deadline, with TLS if the target has it.
//
// fasthttp's dialer is left out too: it queues dials beyond a thousand, and goes
// on dialling behind the back of a caller that has given up.
func (h *HTTP) dial(t *endpointTarget, deadline time.Time) (*connection, error) {
	ctx, cancel := context.WithDeadline(h.ctx, deadline)
	defer cancel()
	dialer := h.connections.dialer(h.sources.take())
	opened := time.Now()
	raw, err := dialer.DialContext(ctx, "tcp", t.address)
	if err != nil {
		return nil, err
	}
	s := &socket{Conn: raw}
	conn := &connection{Conn: s, socket: s, opened: opened}
	if !h.register(s) {
		raw.Close()
		return nil, net.ErrClosed
	}
	if t.tls != nil {
		err := raw.SetDeadline(deadline)
		if err == nil {
			conn.Conn, err = shake(s, t.tls, h.connections.Certificate)
		}
		if err != nil {
			h.close(conn)
			return nil, err
		}
	}
	conn.reader = bufio.NewReaderSize(conn, headerLimit)
	return conn, nil
}

// register lets Interrupt close s, or says that it is too late to open it.
func (h *HTTP) register(s *socket) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.interrupted.Load() {
		return false
	}
	h.open[s] = struct{}{}
	return true
}

// close ends a connection at once: the server sees a FIN (an RST, if it has sent
// what was not read). TLS gets no farewell, which could block.
func (h *HTTP) close(conn *connection) {
	h.mu.Lock()
	delete(h.open, conn.socket)
	h.mu.Unlock()
	conn.socket.Conn.Close()
}
