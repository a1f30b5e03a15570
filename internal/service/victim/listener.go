package victim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"chokepoint/internal/adminapi"
)

// listener accepts at most a given number of connections at a time and leaves
// the rest unaccepted, in a kernel queue of a given length: a servlet
// container's maxConnections and acceptCount.
type listener struct {
	*net.TCPListener
	raw     syscall.RawConn
	slots   chan struct{}
	closed  chan struct{}
	once    sync.Once
	backlog int
	open    atomic.Int64 // connections accepted and not yet closed
	longest atomic.Int64 // accept queue, the highest sample
	dropped atomic.Int64 // the socket's drop counter at the last reset
	log     *slog.Logger
}

// listen opens addr. Go listens with the system's somaxconn; a second listen(2)
// on the same socket sets the backlog that was asked for.
func listen(ctx context.Context, addr string, backlog, maxConnections int, log *slog.Logger) (*listener, error) {
	// MPTCP off: with it the kernel keeps the accept queue of another socket than
	// the one whose state is read below.
	var config net.ListenConfig
	config.SetMultipathTCP(false)
	l, err := config.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	tcp := l.(*net.TCPListener)
	raw, err := tcp.SyscallConn()
	if err == nil {
		err = setBacklog(raw, backlog)
	}
	if err != nil {
		l.Close()
		return nil, fmt.Errorf("set the accept backlog of %s to %d: %w", addr, backlog, err)
	}
	return &listener{
		TCPListener: tcp, raw: raw, backlog: backlog, log: log,
		slots: make(chan struct{}, maxConnections), closed: make(chan struct{}),
	}, nil
}

// Accept waits for a free slot first, so that a connection over the limit stays
// in the kernel.
func (l *listener) Accept() (net.Conn, error) {
	select {
	case l.slots <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	l.sample()
	c, err := l.acceptTCP()
	if err != nil {
		<-l.slots
		return nil, err
	}
	raw, err := c.SyscallConn()
	if err != nil {
		c.Close()
		<-l.slots
		return nil, err
	}
	l.open.Add(1)
	return &conn{TCPConn: c, raw: raw, listener: l}, nil
}

// retryPause is how long a listener that has no file for a connection waits
// before it tries again; the connection stays in the kernel meanwhile.
const retryPause = 50 * time.Millisecond

// acceptTCP goes on when files have run out: fasthttp takes any error for the
// end of the listener, and the service would end with its first full table.
func (l *listener) acceptTCP() (*net.TCPConn, error) {
	for {
		c, err := l.AcceptTCP()
		if !errors.Is(err, syscall.EMFILE) && !errors.Is(err, syscall.ENFILE) {
			return c, err
		}
		l.log.Warn("accept: out of files; raise the hard limit (ulimit -Hn)", "error", err, "retry_in", retryPause)
		select {
		case <-time.After(retryPause):
		case <-l.closed:
			return nil, net.ErrClosed
		}
	}
}

func (l *listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.TCPListener.Close()
}

// sample reads the accept queue and keeps the longest.
func (l *listener) sample() (queue int, known bool) {
	queue, known = acceptQueue(l.raw)
	for {
		longest := l.longest.Load()
		if int64(queue) <= longest || l.longest.CompareAndSwap(longest, int64(queue)) {
			return queue, known
		}
	}
}

// reset makes the extremes, and the drops, those of now on.
func (l *listener) reset() {
	l.longest.Store(0)
	l.dropped.Store(int64(listenDrops(l.raw)))
}

func (l *listener) stats() adminapi.ListenerStats {
	queue, known := l.sample()
	return adminapi.ListenerStats{
		Known: known, AcceptQueue: queue, MaxAcceptQueue: int(l.longest.Load()), Backlog: l.backlog,
		Drops: listenDrops(l.raw) - int(l.dropped.Load()), Connections: int(l.open.Load()), MaxConnections: cap(l.slots),
	}
}

// conn gives its slot back when it is closed, and can tell whether its client
// has left.
type conn struct {
	*net.TCPConn
	raw      syscall.RawConn
	listener *listener
	once     sync.Once
}

func (c *conn) Close() error {
	err := c.TCPConn.Close()
	c.once.Do(func() {
		c.listener.open.Add(-1)
		<-c.listener.slots
	})
	return err
}

// gone reports whether the client has closed or reset the connection. It looks
// without reading, so a request that is pipelined behind stays where it is; a
// client that has only shut down its sending side counts as gone too.
func (c *conn) gone() bool { return peerGone(c.raw) }
