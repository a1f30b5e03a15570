package engine

import (
	"context"
	"errors"
	"net"
	"os"
	"time"
)

// maxIdle is how long a connection may have been idle when it is used again.
// It is under the shortest idle timeout that servers have by default (5 s, of
// Node.js and Apache), so that a request rarely meets a connection that the
// server is just closing; one that does is a transport_error, not a retry.
const maxIdle = 4 * time.Second

// maxRetired is how many idle connections may be found to be of no use before a
// request is sent on a new one.
const maxRetired = 4

// socket is a TCP connection that remembers its last errors, since TLS does not
// always pass them on. A read and a write may be under way at once.
type socket struct {
	net.Conn
	readErr, writeErr error
}

// failure is what ended the exchange on s. A connection that the peer has reset
// says so once, to the read or to the write.
func (s *socket) failure() error {
	if s.writeErr != nil && !errors.Is(s.writeErr, os.ErrDeadlineExceeded) {
		return s.writeErr
	}
	return s.readErr // a read waits as long as a write
}

func (s *socket) Read(p []byte) (int, error) {
	n, err := s.Conn.Read(p)
	if err != nil {
		s.readErr = err
	}
	return n, err
}

func (s *socket) Write(p []byte) (int, error) {
	n, err := s.Conn.Write(p)
	if err != nil {
		s.writeErr = err
	}
	return n, err
}

// connection is a keep-alive connection. It belongs to the worker that uses it,
// or to the idle ones of its endpoint.
type connection struct {
	net.Conn // what is spoken on: the socket, or TLS over it
	socket   *socket
	buffer   []byte // that answers are read through
	heard    bool   // anything from the server
	opened   time.Time
	lastUsed time.Time
	carried  int // requests
}

func (c *connection) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.heard = c.heard || n > 0
	return n, err
}

// usable is an idle connection for the next request, or nil, and the stale ones
// that are the caller's to close.
//
// One that the server has ended, or on which it has sent what nobody asked for, is
// stale: no request was on it, so that nothing is put on record. Only a few are
// looked at, since a request waits for it.
func (t *endpointTarget) usable(policy Connections) (conn *connection, stale []*connection) {
	for range maxRetired {
		var aged []*connection
		conn, aged = t.takeIdle(policy)
		stale = append(stale, aged...)
		if conn == nil || silent(conn.socket) {
			return conn, stale
		}
		stale = append(stale, conn)
	}
	return nil, stale
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
// fasthttp's dialer is left out: it queues dials beyond a thousand, and goes
// on dialling behind the back of a caller that has given up.
func (h *HTTP) dial(t *endpointTarget, deadline time.Time) (*connection, error) {
	ctx, cancel := context.WithDeadline(h.ctx, deadline)
	defer cancel()
	dialer := h.connections.dialer(h.sources.take())
	opened := time.Now()
	raw, err := dialer.DialContext(ctx, "tcp", t.remote.String())
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
	conn.buffer = make([]byte, headerLimit)
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
