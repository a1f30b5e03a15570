package engine

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// readSocket and writeSocket are read(2) and write(2) on a non-blocking socket.
// Package unix would tell the scheduler before and after each call, in case it
// blocks, and might then have to wait for a processor to go on with.

func readSocket(fd int32, p []byte) (int, unix.Errno) {
	n, _, errno := unix.RawSyscall(unix.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)))
	return int(n), errno
}

func writeSocket(fd int32, p []byte) (int, unix.Errno) {
	n, _, errno := unix.RawSyscall(unix.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)))
	return int(n), errno
}
