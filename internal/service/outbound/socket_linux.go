package outbound

import (
	"io"
	"net"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const hasTCPInfo = true

// peek is the bare system call: unix.Recvfrom allocates an address.
func (l *Look) peek(fd uintptr) {
	n, _, errno := unix.RawSyscall6(unix.SYS_RECVFROM, fd, uintptr(unsafe.Pointer(&l.buf)), 1,
		unix.MSG_PEEK|unix.MSG_DONTWAIT, 0, 0)
	l.peeked(fd, int(n), errno)
}

// tcpEstablished is TCP_ESTABLISHED of include/net/tcp_states.h.
const tcpEstablished = 1

// tcpInfo asks for the first byte of struct tcp_info, which is tcpi_state: the kernel
// copies no more than was asked for.
func (l *Look) tcpInfo(fd uintptr) {
	size := uint32(1)
	_, _, errno := unix.RawSyscall6(unix.SYS_GETSOCKOPT, fd, unix.IPPROTO_TCP, unix.TCP_INFO,
		uintptr(unsafe.Pointer(&l.buf)), uintptr(unsafe.Pointer(&size)), 0)
	switch {
	case errno != 0:
		l.err = errno
	case l.buf[0] != tcpEstablished:
		l.err = io.EOF
	}
}

// setUserTimeout has dialled sockets end when written data stays unacknowledged for d.
func setUserTimeout(dialer *net.Dialer, d time.Duration) error {
	ms := int((d + time.Millisecond - 1) / time.Millisecond)
	dialer.Control = func(_, _ string, raw syscall.RawConn) error {
		var err error
		if ctlErr := raw.Control(func(fd uintptr) {
			err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, ms)
		}); ctlErr != nil {
			return ctlErr
		}
		return err
	}
	return nil
}
