//go:build !linux

package engine

// pacing waits with the runtime's timers where there is no clock_nanosleep.
func pacing() wait { return timerWait }
