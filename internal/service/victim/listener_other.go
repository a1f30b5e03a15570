//go:build !linux

package victim

import "syscall"

// acceptQueue is unknown: only Linux tells.
func acceptQueue(syscall.RawConn) (n int, known bool) { return 0, false }

// listenDrops is unknown: only Linux tells.
func listenDrops(syscall.RawConn) int { return 0 }
