//go:build unix

package engine

import (
	"net"
	"syscall"
	"testing"
	"time"

	"chokepoint/internal/load/ledger"
)

// fullListener has no room for another connection: one that is being opened gets
// no answer.
func fullListener(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	shrinkBacklog(t, listener.(*net.TCPListener))
	for {
		conn, err := net.DialTimeout("tcp", listener.Addr().String(), 200*time.Millisecond)
		if err != nil {
			return "http://" + listener.Addr().String()
		}
		t.Cleanup(func() { conn.Close() })
	}
}

func TestATimeoutWhileConnecting(t *testing.T) {
	withEachClient(t, fullListener(t), func(t *testing.T, do Client) {
		want := ledger.Answer{Outcome: ledger.Timeout, Cause: CauseConnect}
		if x := do(0, time.Now().Add(100*time.Millisecond)); x.Answer != want {
			t.Errorf("got %+v, want %+v", x.Answer, want)
		}
	})
}

func TestOutOfFiles(t *testing.T) {
	p := newPeer(t, write(okAnswer))
	withEachClient(t, p.url(), func(t *testing.T, do Client) {
		var limit syscall.Rlimit
		if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 3, Max: limit.Max}); err != nil {
			t.Fatal(err)
		}
		x := do(0, time.Now().Add(10*time.Second))
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
			t.Fatal(err)
		}
		if want := (ledger.Answer{Outcome: ledger.ConnectError, Cause: CauseOutOfFiles}); x.Answer != want {
			t.Errorf("got %+v, want %+v", x.Answer, want)
		}
		if x := do(1, time.Now().Add(10*time.Second)); x.Answer.Outcome != ledger.OK {
			t.Errorf("with files again: %+v", x.Answer)
		}
	})
}

// shrinkBacklog makes the listener's accept queue as short as can be: a second
// listen(2) sets it.
func shrinkBacklog(t *testing.T, listener *net.TCPListener) {
	t.Helper()
	raw, err := listener.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var listenErr error
	if err := raw.Control(func(fd uintptr) { listenErr = syscall.Listen(int(fd), 0) }); err != nil || listenErr != nil {
		t.Fatal(err, listenErr)
	}
}
