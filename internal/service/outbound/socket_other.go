//go:build unix && !linux

package outbound

import (
	"errors"
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const hasTCPInfo = false

func (l *Look) peek(fd uintptr) {
	n, _, err := unix.Recvfrom(int(fd), l.buf[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
	errno, _ := errors.AsType[syscall.Errno](err)
	l.peeked(fd, n, errno)
}

// tcpInfo is never asked: NewLook refuses it.
func (l *Look) tcpInfo(uintptr) { l.err = errors.ErrUnsupported }

func setUserTimeout(*net.Dialer, time.Duration) error {
	return errors.New("user timeout: only Linux has TCP_USER_TIMEOUT; use 0")
}
