package outbound

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// tally counts the connections of a client.
type tally struct{ open, idle, dialled, discarded atomic.Int64 }

// conn is a connection that knows what has become of it, and that is looked at
// before a request is put on it. The check is made in the first write of a request,
// and not when the client's pool hands the connection out, which neither client lets
// anyone see in time; nothing has been written until then.
type conn struct {
	net.Conn
	tally  *tally
	look   *Look // nil without a stale check
	after  time.Duration
	maxAge time.Duration
	// byAddr is whether a request begins with the question for the local address:
	// fasthttp asks it once, when it has taken a connection, and gives no other sign.
	// net/http says itself when it takes one.
	byAddr bool

	mu       sync.Mutex
	uses     int  // requests that it was taken for
	unvetted bool // the next write is the first of a request on a kept connection
	idle     bool
	closed   bool
	lastUse  time.Time
	use      use // of the newest request
}

// use is what became of one request on a connection.
type use struct {
	number    int
	written   bool  // something of it was written
	discarded error // the check found the connection dead
	socket    error // the socket's first error
}

// discardedError is what a write answers on a connection that must not be used.
// Nothing was written.
type discardedError struct{ reason error }

func (e *discardedError) Error() string {
	return "the kept connection is not used: " + e.reason.Error()
}
func (e *discardedError) Unwrap() error { return e.reason }

// established ends the dialling: what a TLS handshake has read and written is no
// request.
func (c *conn) established() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.uses, c.unvetted, c.lastUse, c.use = 0, false, time.Now(), use{}
	c.tally.dialled.Add(1)
}

// take begins a request. It returns the number of the use.
func (c *conn) take() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unvetted = c.uses > 0
	c.uses++
	c.use = use{number: c.uses}
	c.setIdleLocked(false)
	return c.uses
}

// rest ends a use: the connection is in the pool, unless another has taken it already.
func (c *conn) rest(number int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.uses == number && !c.closed {
		c.setIdleLocked(true)
	}
}

func (c *conn) setIdleLocked(idle bool) {
	if c.idle == idle {
		return
	}
	c.idle = idle
	if idle {
		c.tally.idle.Add(1)
	} else {
		c.tally.idle.Add(-1)
	}
}

// result is what became of the use of that number; of an older one nothing is known.
func (c *conn) result(number int) use {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.use.number != number {
		return use{number: number}
	}
	return c.use
}

func (c *conn) Write(p []byte) (int, error) {
	if err := c.vet(); err != nil {
		return 0, err
	}
	n, err := c.Conn.Write(p)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.use.written = c.use.written || n > 0
	c.noteLocked(err)
	return n, err
}

// vet looks at a kept connection once for each request.
func (c *conn) vet() error {
	c.mu.Lock()
	due := c.unvetted
	c.unvetted = false
	rested := time.Since(c.lastUse)
	c.mu.Unlock()
	if !due {
		return nil
	}
	var reason error
	if c.maxAge > 0 && rested > c.maxAge {
		reason = fmt.Errorf("it rested for %v, over %v", rested.Round(time.Millisecond), c.maxAge)
	} else if c.look != nil && rested >= c.after {
		reason = c.look.Dead()
	}
	if reason == nil {
		return nil
	}
	err := &discardedError{reason}
	c.mu.Lock()
	c.use.discarded = err
	c.mu.Unlock()
	c.tally.discarded.Add(1)
	return err
}

func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.mu.Lock()
	defer c.mu.Unlock()
	if n > 0 {
		c.lastUse = time.Now()
	}
	c.noteLocked(err)
	return n, err
}

// noteLocked keeps the first error that came from the socket. A deadline and a close
// come from this side.
func (c *conn) noteLocked(err error) {
	if err != nil && c.use.socket == nil && !errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, net.ErrClosed) {
		c.use.socket = err
	}
}

func (c *conn) Close() error {
	c.mu.Lock()
	if !c.closed {
		c.closed = true
		c.setIdleLocked(false)
		c.tally.open.Add(-1)
	}
	c.mu.Unlock()
	return c.Conn.Close()
}

// LocalAddr is the only word of a connection that fasthttp passes on, with the
// answer. So it says which connection that is, and for which use.
func (c *conn) LocalAddr() net.Addr {
	if !c.byAddr {
		return c.Conn.LocalAddr()
	}
	return localAddr{c.Conn.LocalAddr(), c, c.take()}
}

type localAddr struct {
	net.Addr
	conn *conn
	use  int
}

// connOf is the connection under what a client holds.
func connOf(c net.Conn) *conn {
	if encrypted, ok := c.(*tls.Conn); ok {
		c = encrypted.NetConn()
	}
	return c.(*conn)
}

// port is the local port.
func (c *conn) port() int { return c.Conn.LocalAddr().(*net.TCPAddr).Port }

// socketName names a socket's error as the system does: EOF, ECONNRESET; empty for none.
func socketName(err error) string {
	if err == nil {
		return ""
	}
	if err == io.EOF {
		return "EOF"
	}
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return unix.ErrnoName(errno)
	}
	return err.Error()
}
