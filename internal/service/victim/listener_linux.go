package victim

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// acceptQueue is the number of connections that wait to be accepted: on a
// listening socket TCP_INFO gives it as tcpi_unacked (net/ipv4/tcp.c,
// tcp_get_info).
func acceptQueue(raw syscall.RawConn) (n int, known bool) {
	raw.Control(func(fd uintptr) {
		if info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
			n, known = int(info.Unacked), true
		}
	})
	return n, known
}

// skMeminfoDrops is SK_MEMINFO_DROPS of linux/sock_diag.h: what this very
// socket dropped, for a listener the connections that met a full queue.
const skMeminfoDrops = 8

// listenDrops reads the socket's drop counter, 0 where the kernel has none.
func listenDrops(raw syscall.RawConn) int {
	var info [9]uint32
	size := uint32(unsafe.Sizeof(info))
	raw.Control(func(fd uintptr) {
		unix.Syscall6(unix.SYS_GETSOCKOPT, fd, unix.SOL_SOCKET, unix.SO_MEMINFO,
			uintptr(unsafe.Pointer(&info)), uintptr(unsafe.Pointer(&size)), 0)
	})
	return int(info[skMeminfoDrops])
}
