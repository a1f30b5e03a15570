package victim

import (
	"context"
	"log/slog"
	"net"
	"syscall"
	"testing"
)

// notifier is a slog.Handler that says that something was logged.
type notifier struct {
	slog.Handler
	logged chan string
}

func (n notifier) Enabled(context.Context, slog.Level) bool { return true }

func (n notifier) Handle(_ context.Context, r slog.Record) error {
	select {
	case n.logged <- r.Message:
	default:
	}
	return nil
}

func testListener(t *testing.T, maxConnections int, log *slog.Logger) *listener {
	t.Helper()
	l, err := listen(t.Context(), "127.0.0.1:0", 10, maxConnections, log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func dial(t *testing.T, l *listener) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// A full file table must not end the listener: fasthttp would stop serving.
func TestAcceptOutlivesAFullFileTable(t *testing.T) {
	log := notifier{slog.DiscardHandler, make(chan string, 1)}
	l := testListener(t, 10, slog.New(log))
	dial(t, l)
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 3, Max: limit.Max}); err != nil {
		t.Fatal(err)
	}
	restore := func() { syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit) }
	t.Cleanup(restore)

	accepted := make(chan error)
	go func() {
		c, err := l.Accept()
		if err == nil {
			err = c.Close()
		}
		accepted <- err
	}()
	select {
	case <-log.logged:
	case err := <-accepted:
		t.Fatalf("accept ended with %v and no word of the full table", err)
	}
	restore()
	if err := <-accepted; err != nil {
		t.Errorf("accept after files were to be had again: %v", err)
	}
}

// A listener that waits for a connection has none.
func TestConnectionsCountsOnlyOpenOnes(t *testing.T) {
	l := testListener(t, 2, slog.New(slog.DiscardHandler))
	if n := l.stats().Connections; n != 0 {
		t.Errorf("%d connections before the first", n)
	}
	conns := make(chan net.Conn)
	go func() {
		defer close(conns)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			conns <- c
		}
	}()
	dial(t, l)
	first := <-conns
	if n := l.stats().Connections; n != 1 {
		t.Errorf("%d connections, want 1: the slot that Accept holds is no connection", n)
	}
	first.Close()
	first.Close()
	if n := l.stats().Connections; n != 0 {
		t.Errorf("%d connections after a double close, want 0", n)
	}
	l.Close()
	if _, open := <-conns; open {
		t.Error("accepted after Close")
	}
}

// Accept that waits for a slot ends with Close.
func TestCloseEndsAnAcceptThatWaitsForASlot(t *testing.T) {
	l := testListener(t, 1, slog.New(slog.DiscardHandler))
	dial(t, l)
	dial(t, l)
	held, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	ended := make(chan error)
	go func() { _, err := l.Accept(); ended <- err }()
	l.Close()
	if err := <-ended; err == nil {
		t.Error("a second connection was accepted over the limit of 1")
	}
}
