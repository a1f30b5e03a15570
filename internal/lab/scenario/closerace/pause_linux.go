package closerace

import (
	"time"

	"golang.org/x/sys/unix"
)

// pause sleeps as precisely as the kernel does by itself, some 50 us: a timer of Go's
// runtime wakes up to a millisecond late, which is as wide as the race.
func pause(d time.Duration) {
	left := unix.NsecToTimespec(int64(d))
	for d > 0 && unix.Nanosleep(&left, &left) == unix.EINTR {
	}
}
