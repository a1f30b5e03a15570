package engine

import (
	"context"
	"math"
	"time"

	"golang.org/x/sys/unix"
)

// A runtime timer wakes up to a millisecond late, but can be given up when the
// run is stopped; the kernel's sleep is precise, but ends only at its time. So a
// long wait takes the timer for all but its last milliseconds.
const (
	preciseBelow = 5 * time.Millisecond
	preciseLast  = 3 * time.Millisecond
)

// pacing makes the calling thread, which must be locked, wake as close to a due
// time as the kernel can: an absolute sleep, with the timer slack of 50 us taken
// down to 1 ns. Measured, it wakes about 0.08 ms late, time.Sleep 0.5 ms.
func pacing() wait {
	prompt()
	zero, ok := monotonicZero()
	if !ok {
		return timerWait
	}
	return func(ctx context.Context, until time.Time) bool {
		if time.Until(until) > preciseBelow && !timerWait(ctx, until.Add(-preciseLast)) {
			return false
		}
		due := unix.NsecToTimespec(int64(until.Sub(zero)))
		for unix.ClockNanosleep(unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME, &due, nil) == unix.EINTR {
		}
		return true
	}
}

// slice is how long a thread that paces asks to run at a time, in nanoseconds:
// the least that there is.
const slice = 100_000

// prompt makes the calling thread, which must be locked, wake as soon after its
// time as an ordinary thread can. The timer slack, 50 us by default, goes down to
// 1 ns. And from Linux 6.12 on a thread that asks for a short time slice is
// preferred when it wakes, without getting a larger share of the CPU (EEVDF).
// Beside two busy threads on its core it takes the median lag from 1 ms down to
// 0.04 ms. Where the kernel refuses either, e.g. by a seccomp filter, wake-ups
// are later and the lag says so.
func prompt() {
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
	if attr, err := unix.SchedGetAttr(0, 0); err == nil && attr.Policy == unix.SCHED_NORMAL {
		attr.Runtime = slice
		_ = unix.SchedSetAttr(0, attr, 0)
	}
}

// realTime says whether the calling thread is in a class of which a thread leaves
// its CPU only when it blocks.
func realTime() bool {
	attr, err := unix.SchedGetAttr(0, 0)
	return err == nil && (attr.Policy == unix.SCHED_FIFO || attr.Policy == unix.SCHED_RR || attr.Policy == unix.SCHED_DEADLINE)
}

// monotonicZero is the moment at which CLOCK_MONOTONIC was zero, as a time.Time
// that can be compared with others: that type counts the same clock from another
// zero. It is the closest of a few readings, and early rather than late by less
// than the two clock reads take, so that nothing wakes before it is due.
func monotonicZero() (zero time.Time, ok bool) {
	closest := time.Duration(math.MaxInt64)
	for range 10 {
		before := time.Now()
		var clock unix.Timespec
		if unix.ClockGettime(unix.CLOCK_MONOTONIC, &clock) != nil {
			return time.Time{}, false
		}
		if gap := time.Since(before); gap < closest {
			closest, zero = gap, before.Add(-time.Duration(clock.Nano()))
		}
	}
	return zero, true
}
