//go:build unix

package engine

import "syscall"

// silent says that nothing has come on s and that it is still open. It asks the
// kernel and does not wait.
func silent(s *socket) bool {
	conn, ok := s.Conn.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return false
	}
	var next [1]byte
	var peeked error
	// Control and not Read, which fails once the deadline of the last request is over.
	err = raw.Control(func(fd uintptr) {
		_, _, peeked = syscall.Recvfrom(int(fd), next[:], syscall.MSG_PEEK)
	})
	return err == nil && (peeked == syscall.EAGAIN || peeked == syscall.EWOULDBLOCK)
}
