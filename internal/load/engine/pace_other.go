//go:build !linux

package engine

// realTime is not known here.
func realTime() bool { return false }

// pacing waits with the runtime's timers where there is no clock_nanosleep.
func pacing() wait { return timerWait }
