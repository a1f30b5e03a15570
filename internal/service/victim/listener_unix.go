//go:build unix

package victim

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

func setBacklog(raw syscall.RawConn, backlog int) error {
	var err error
	if ctlErr := raw.Control(func(fd uintptr) { err = unix.Listen(int(fd), backlog) }); ctlErr != nil {
		return ctlErr
	}
	return err
}

func peerGone(raw syscall.RawConn) bool {
	gone := false
	// Control, not Read: Read would wait behind the connection's own reader.
	raw.Control(func(fd uintptr) {
		var b [1]byte
		n, _, err := unix.Recvfrom(int(fd), b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		switch {
		case err == nil:
			gone = n == 0
		case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EINTR):
		default:
			gone = true
		}
	})
	return gone
}
