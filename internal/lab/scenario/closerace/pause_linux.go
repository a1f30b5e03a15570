package closerace

import (
	"time"

	"golang.org/x/sys/unix"
)

// pause sleeps as precisely as the kernel can, if the thread is locked and prompt: a
// timer of Go's runtime wakes up to a millisecond late, which is as wide as the race.
func pause(d time.Duration) {
	left := unix.NsecToTimespec(int64(d))
	for d > 0 && unix.Nanosleep(&left, &left) == unix.EINTR {
	}
}

// prompt takes the slack of the calling thread's timers down from 50 us to 1 ns.
// Where that is refused, rests are longer, and measured as such.
func prompt() { _ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0) }
