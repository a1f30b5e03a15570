package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"chokepoint/internal/adminapi"
)

// connections are those that are open.
type connections struct {
	name string
	log  *accessLog

	mu       sync.Mutex // guards what follows and the info of each connection
	state    string
	accepted int
	handled  int // requests in flight, of closed connections too
	open     map[*connection]struct{}
	cutting  bool
	zero     chan struct{} // closed when none is open while draining
}

func newConnections(name string, log *accessLog) *connections {
	return &connections{name: name, log: log, state: adminapi.GatewayServing, open: map[*connection]struct{}{}, zero: make(chan struct{})}
}

// connection is one client's connection.
type connection struct {
	net.Conn
	all         *connections
	info        adminapi.GatewayConnection
	clientEnded bool // a FIN or a RST of the client was read
	closed      bool
}

type connectionKey struct{}

// withConnection is http.Server's ConnContext.
func withConnection(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connectionKey{}, c.(*connection))
}

func connectionOf(ctx context.Context) *connection { return ctx.Value(connectionKey{}).(*connection) }

// listen is l, whose connections are followed.
func (all *connections) listen(l net.Listener) net.Listener { return &listener{l, all} }

type listener struct {
	net.Listener
	all *connections
}

func (l *listener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	all := l.all
	all.mu.Lock()
	all.accepted++
	c := &connection{Conn: conn, all: all, info: adminapi.GatewayConnection{
		ID: fmt.Sprintf("%s-%d", all.name, all.accepted), Remote: conn.RemoteAddr().String(),
		AcceptedAt: time.Now(), RequestIDs: []string{},
	}}
	all.open[c] = struct{}{}
	line := c.copied("accepted")
	all.mu.Unlock()
	all.log.write(line)
	return c, nil
}

// Read notes whether the client has ended the connection.
func (c *connection) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) {
		c.all.mu.Lock()
		c.clientEnded = true
		c.all.mu.Unlock()
	}
	return n, err
}

// CloseWrite is what net/http looks for, to let a client read an answer whose request
// it has not read whole.
func (c *connection) CloseWrite() error { return c.Conn.(*net.TCPConn).CloseWrite() }

// Close closes the connection and logs it, once.
func (c *connection) Close() error {
	err := c.Conn.Close()
	all := c.all
	all.mu.Lock()
	if c.closed {
		all.mu.Unlock()
		return err
	}
	c.closed = true
	delete(all.open, c)
	c.info.ClosedAt = time.Now()
	switch {
	case c.clientEnded:
		c.info.ClosedBy = adminapi.ClosedByClient
	case all.cutting:
		c.info.ClosedBy = adminapi.ClosedByCut
	default:
		c.info.ClosedBy = adminapi.ClosedByGateway
	}
	all.checkZero()
	line := c.copied("closed")
	all.mu.Unlock()
	all.log.write(line)
	return err
}

// copied is the connection as a line of the log; all.mu is held.
func (c *connection) copied(event string) adminapi.GatewayConnection {
	info := c.info
	info.Event, info.RequestIDs = event, slices.Clone(c.info.RequestIDs)
	return info
}

// begin notes a request, and returns the connection's id.
func (c *connection) begin(id, protocol string) string {
	c.all.mu.Lock()
	defer c.all.mu.Unlock()
	c.info.Protocol, c.info.LastRequestAt = protocol, time.Now()
	c.info.Total++
	c.info.InFlight++
	c.all.handled++
	if id != "" {
		if len(c.info.RequestIDs) == adminapi.MaxGatewayIDs {
			c.info.RequestIDs = slices.Delete(c.info.RequestIDs, 0, 1)
		}
		c.info.RequestIDs = append(c.info.RequestIDs, id)
	}
	return c.info.ID
}

// end notes that a request has ended.
func (c *connection) end() {
	c.all.mu.Lock()
	defer c.all.mu.Unlock()
	c.info.InFlight--
	c.all.handled--
}

// isCut says whether the gateway cut the connection off.
func (c *connection) isCut() bool {
	c.all.mu.Lock()
	defer c.all.mu.Unlock()
	return c.info.ClosedBy == adminapi.ClosedByCut
}

func (all *connections) setState(state string) {
	all.mu.Lock()
	defer all.mu.Unlock()
	all.state = state
	all.checkZero()
}

// checkZero closes zero if it is time; all.mu is held.
func (all *connections) checkZero() {
	if all.state != adminapi.GatewayDraining || len(all.open) > 0 {
		return
	}
	select {
	case <-all.zero:
	default:
		close(all.zero)
	}
}

// waitForZero waits until no connection is open, for limit at the most. If both have come,
// no connection is open.
func (all *connections) waitForZero(limit time.Duration) error {
	select {
	case <-all.zero:
		return nil
	case <-time.After(limit):
	}
	select {
	case <-all.zero:
		return nil
	default:
		return context.DeadlineExceeded
	}
}

// cutRest makes every connection that is closed from now on one that was cut off.
func (all *connections) cutRest() {
	all.mu.Lock()
	defer all.mu.Unlock()
	all.cutting = true
}

// inFlight is how many requests have not ended.
func (all *connections) inFlight() int {
	all.mu.Lock()
	defer all.mu.Unlock()
	return all.handled
}

// left is what is open still; oldest names its oldest connection and its newest request.
func (all *connections) left() (open, inFlight int, oldest string) {
	s := all.snapshot()
	for _, c := range s.Connections {
		inFlight += c.InFlight
	}
	if len(s.Connections) > 0 {
		c := s.Connections[0]
		oldest = fmt.Sprintf("%s of %s with %d requests", c.ID, c.Remote, c.Total)
		if n := len(c.RequestIDs); n > 0 {
			oldest += fmt.Sprintf(", the last %q", c.RequestIDs[n-1])
		}
	}
	return len(s.Connections), inFlight, oldest
}

// snapshot copies the open connections, the oldest first.
func (all *connections) snapshot() adminapi.GatewayConnections {
	all.mu.Lock()
	defer all.mu.Unlock()
	s := adminapi.GatewayConnections{Name: all.name, State: all.state, Accepted: all.accepted, Connections: []adminapi.GatewayConnection{}}
	for c := range all.open {
		s.Connections = append(s.Connections, c.copied(""))
	}
	slices.SortFunc(s.Connections, func(a, b adminapi.GatewayConnection) int { return a.AcceptedAt.Compare(b.AcceptedAt) })
	return s
}

// accessLog is a file of JSON lines; a nil file takes none.
type accessLog struct {
	mu   sync.Mutex
	file *os.File
	err  error // the first; nothing is written after it
}

func newAccessLog(path string) (*accessLog, error) {
	if path == "" {
		return &accessLog{}, nil
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("-access-log: %w", err)
	}
	return &accessLog{file: file}, nil
}

func (l *accessLog) write(line any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil || l.err != nil {
		return
	}
	if err := json.NewEncoder(l.file).Encode(line); err != nil {
		l.err = fmt.Errorf("access log: %w; it is not whole", err)
	}
}

// close closes the file and returns the first error that it gave.
func (l *accessLog) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return nil
	}
	err := l.file.Close()
	l.file = nil
	if l.err != nil {
		return l.err
	}
	return err
}
