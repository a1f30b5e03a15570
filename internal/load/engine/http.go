package engine

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"chokepoint/internal/load/ledger"
	"chokepoint/internal/load/wire"
)

const (
	// MaxBody is the largest answer that is read; a larger one is a
	// transport_error with the cause "oversized".
	MaxBody = wire.MaxBody
	// headerLimit is the largest header of an answer, and the size of a
	// connection's buffer, which its answers are read through.
	headerLimit = wire.MaxHeader
	// maxErrorBody is the largest body that is looked into for an "error" field,
	// and maxErrorText what is kept of the field.
	maxErrorBody = wire.MaxErrorBody
	maxErrorText = 64
)

// HTTP sends HTTP/1.1 requests on connections of its own. The requests are those
// of the loop, byte for byte, and the answers are read by the same reader, so that
// an answer means the same on both.
//
// A client library is left out, for what it hides: fasthttp's repeats GET, HEAD and
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

	// texts are buffers for requests that are being written: a worker that waits for
	// its answer has none.
	texts sync.Pool

	mu   sync.Mutex
	open map[*socket]struct{}
}

// endpointTarget is where an endpoint's requests go, and the connections there
// that are idle.
type endpointTarget struct {
	name    string
	remote  netip.AddrPort
	tls     *tls.Config // nil for http
	head    bool        // the method is HEAD
	request *template
	warmUp  *template // of the same requests

	mu   sync.Mutex
	idle []*connection
}

// NewHTTP makes the sender for the endpoints of c, which must be valid. It resolves
// names, until ctx ends.
func NewHTTP(ctx context.Context, c Config) (*HTTP, error) {
	h := &HTTP{
		connections: c.Connections, sources: &turns{n: len(c.Connections.Sources)},
		open: make(map[*socket]struct{}),
	}
	h.texts.New = func() any { return new([]byte) }
	h.ctx, h.cancel = context.WithCancel(context.Background())
	for i, e := range c.Endpoints {
		u, err := target(e.URL)
		if err != nil {
			return nil, err
		}
		remote, err := resolve(ctx, u, c.Connections)
		if err != nil {
			return nil, fmt.Errorf("endpoint %s: %w", e.Name, err)
		}
		t := &endpointTarget{name: e.Name, remote: remote, head: e.Method == http.MethodHead}
		if u.Scheme == "https" {
			t.tls = c.Connections.tls(u.Hostname())
		}
		if t.request, err = newTemplate(c, i, u); err != nil {
			return nil, err
		}
		t.warmUp = t.request.warmUp(e.Name)
		h.targets = append(h.targets, t)
	}
	return h, nil
}

// NewClient implements Sender.
func (h *HTTP) NewClient(endpoint int, warmUp bool) Client {
	t := h.targets[endpoint]
	c := &client{http: h, target: t, request: t.request}
	if warmUp {
		c.request = t.warmUp
	}
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
	http    *HTTP
	target  *endpointTarget
	request *template
	reader  wire.Reader // of the answer
	// halfSent says that the last request was answered before it had been written.
	halfSent bool
	// beyond says that bytes came after the last answer. They belong to none, and
	// would be taken for the next one's.
	beyond bool
}

// do implements Client.
func (c *client) do(index int, deadline time.Time) Exchange {
	conn, stale := c.target.usable(c.http.connections)

	x := Exchange{Began: time.Now()}
	conn, x.Answer = c.exchange(conn, index, x.Began, deadline)
	x.Done = time.Now()
	x.Received = c.reader.Received()
	x.Answer = inTime(x.Answer, x.Done.Sub(x.Began), deadline.Sub(x.Began))

	answered := x.Answer.Outcome.Answered()
	if !answered && c.http.interrupted.Load() {
		x.Answer = ledger.Answer{Outcome: ledger.Interrupted}
	}
	switch {
	case conn == nil:
	case answered && c.reusable() && !c.http.connections.spent(x.Done.Sub(conn.opened), conn.carried):
		c.target.putIdle(conn, x.Done)
	default:
		c.http.close(conn)
	}
	for _, conn := range stale {
		c.http.close(conn)
	}
	// A long error body must not be held until the next request.
	c.reader.Reset(false)
	return x
}

// exchange sends the request on conn, or on a new connection if that is nil, and
// gives back the connection with what came of it.
func (c *client) exchange(conn *connection, index int, began, deadline time.Time) (*connection, ledger.Answer) {
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
	err := c.roundTrip(conn, index, deadline)
	if err != nil && !conn.heard && isAlert(err) {
		// In TLS 1.3 the client is through with the handshake before the server has
		// seen its certificate.
		return conn, connectFailure(&handshakeError{error: err}, deadline)
	}
	if err != nil {
		return conn, transportFailure(err, conn.socket.failure())
	}
	return conn, answered(c.reader.Status(), c.reader.ErrorBody())
}

// roundTrip writes the request and reads the answer, both until deadline.
func (c *client) roundTrip(conn *connection, index int, deadline time.Time) error {
	if err := conn.SetDeadline(deadline); err != nil {
		return err
	}
	conn.carried++
	conn.socket.readErr, conn.socket.writeErr = nil, nil
	c.halfSent = false
	buffer := c.http.texts.Get().(*[]byte)
	text, rest := c.request.render((*buffer)[:0], index)
	*buffer = text
	if len(rest) > 0 {
		defer c.http.texts.Put(buffer)
		return c.roundTripAtOnce(conn, text, rest)
	}
	_, unsent := conn.Write(text)
	c.http.texts.Put(buffer)
	// The server may have answered before it closed the connection.
	return c.settle(conn, c.receive(conn), unsent)
}

// roundTripAtOnce writes a long request and reads the answer meanwhile: a server
// may answer before it has read it all, or without reading it all.
func (c *client) roundTripAtOnce(conn *connection, text, rest []byte) error {
	written := make(chan error, 1)
	go func() {
		_, err := conn.Write(text)
		if err == nil {
			_, err = conn.Write(rest)
		}
		written <- err
	}()
	err := c.receive(conn)
	// A write that the kernel has taken whole is no longer under way; one that waits
	// for the server ends here, and the connection with it.
	conn.socket.SetWriteDeadline(time.Unix(1, 0))
	return c.settle(conn, err, <-written)
}

// receive reads the answer.
func (c *client) receive(conn *connection) error {
	c.reader.Reset(c.target.head)
	c.beyond = false
	for {
		n, unread := conn.Read(conn.buffer)
		used, done, err := c.reader.Feed(conn.buffer[:n])
		switch {
		case err != nil:
			return err
		case done:
			c.beyond = used < n
			return nil
		case unread == io.EOF && c.target.tls != nil && conn.socket.readErr != nil:
			// TLS says its own farewell. Without it an answer that ends with the
			// connection could have been cut off: RFC 9112, section 9.8.
			return io.ErrUnexpectedEOF
		case unread == io.EOF:
			return c.reader.End()
		case unread != nil:
			return unread
		}
	}
}

// settle is the error of an exchange, from those of its read and its write.
func (c *client) settle(conn *connection, unread, unsent error) error {
	c.halfSent = unsent != nil
	if unread != nil || conn.socket.readErr == nil {
		return unread
	}
	// The answer ends with the connection. Where that was reset the answer could
	// have been cut off.
	if failure := conn.socket.failure(); !errors.Is(failure, io.EOF) {
		return failure
	}
	return nil
}

// reusable says whether another request may follow on the connection.
func (c *client) reusable() bool { return c.reader.Reusable() && !c.halfSent && !c.beyond }
