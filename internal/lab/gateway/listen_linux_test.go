package gateway

import (
	"net"
	"testing"

	"golang.org/x/sys/unix"
)

// TestTheListenerIsPlainTCP: Go listens with multipath TCP unless it is told not to, and
// packets then look otherwise.
func TestTheListenerIsPlainTCP(t *testing.T) {
	w := newWorld(t, nil)
	raw, err := w.public.(*net.TCPListener).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var protocol int
	raw.Control(func(fd uintptr) { protocol, err = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PROTOCOL) })
	if err != nil || protocol != unix.IPPROTO_TCP {
		t.Errorf("protocol %d (%v), want %d", protocol, err, unix.IPPROTO_TCP)
	}
}
