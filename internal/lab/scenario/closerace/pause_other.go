//go:build !linux

package closerace

import "time"

// pause sleeps. Rests are up to a millisecond longer than wanted, and measured as such.
func pause(d time.Duration) { time.Sleep(d) }
