package outbound

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"chokepoint/internal/profile"
)

// Look finds out whether the peer has closed a connection that rests, without
// putting anything on the wire. It sees a FIN or an RST that has come. It cannot see
// that a device on the path has forgotten the connection: both ends still believe in
// it. A Look is for one goroutine at a time.
type Look struct {
	kind profile.StaleCheck
	conn *net.TCPConn
	raw  syscall.RawConn
	look func(fd uintptr) // made once: a closure for each look would be an allocation
	// strict is whether data that nobody asked for means that the connection is not
	// to be used: of plain HTTP it would be taken for the next answer. Under TLS it is
	// a session ticket, or the word that comes before a FIN; the socket's state tells
	// them apart.
	strict bool
	buf    [1]byte
	err    error
}

// errUnsolicited is found where a connection has an answer to no request.
var errUnsolicited = errors.New("unsolicited data")

// NewLook makes a look of a kind at conn. StalePeek is one recvfrom with MSG_PEEK.
// StaleTCPInfo is one getsockopt, and only Linux has it. StaleRead reads a byte and
// waits a millisecond for it: it cannot be used beside another reader, and under TLS
// it would eat what it finds, so that encrypted refuses it.
func NewLook(kind profile.StaleCheck, conn *net.TCPConn, encrypted bool) (*Look, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	l := &Look{kind: kind, conn: conn, raw: raw, strict: !encrypted}
	switch {
	case kind == profile.StalePeek:
		l.look = l.peek
	case kind == profile.StaleTCPInfo && hasTCPInfo:
		l.look = l.tcpInfo
	case kind == profile.StaleRead && !encrypted:
	default:
		return nil, fmt.Errorf("stale check %q cannot be had here; use %s", kind, profile.StalePeek)
	}
	return l, nil
}

// Dead is why the connection must not be used: io.EOF after a FIN, the socket's
// error after an RST. It is nil for one that looks alive.
func (l *Look) Dead() error {
	if l.kind == profile.StaleRead {
		return l.read()
	}
	l.err = nil
	// Control, not Read: Read would wait behind net/http's own reader.
	if err := l.raw.Control(l.look); err != nil {
		return err
	}
	return l.err
}

// read waits a millisecond for a byte, as BHttpConnectionBase.isStale of Apache
// HttpCore 5 does, and leaves no deadline behind.
func (l *Look) read() error {
	if err := l.conn.SetReadDeadline(time.Now().Add(time.Millisecond)); err != nil {
		return err
	}
	_, err := l.conn.Read(l.buf[:])
	switch {
	case err == nil:
		return errUnsolicited
	case errors.Is(err, os.ErrDeadlineExceeded):
		return l.conn.SetReadDeadline(time.Time{})
	}
	return err
}

// peeked judges what a peek of one byte gave.
func (l *Look) peeked(fd uintptr, n int, errno syscall.Errno) {
	switch {
	case errno == syscall.EAGAIN || errno == syscall.EINTR:
	case errno != 0:
		l.err = errno
	case n == 0:
		l.err = io.EOF
	case l.strict:
		l.err = errUnsolicited
	case hasTCPInfo:
		l.tcpInfo(fd)
	}
}
