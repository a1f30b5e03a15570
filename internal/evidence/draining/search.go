package draining

import (
	"sort"
	"time"

	"chokepoint/internal/delay"
)

// Rule is the smallest setting with which nothing fails, as it is derived: the pre-stop
// covers the propagation, and the drain covers the slowest response; where connections
// that rest are kept to their next request, the drain covers their longest rest before
// it.
//
// It is not the only one without connections that are kept: a pre-stop longer than the
// propagation then takes as much off the drain.
func Rule(t Traffic, idle Idle) Stop {
	s := Stop{PreStop: t.Propagation, Drain: t.Response.Slowest}
	if idle == KeepIdle {
		s.Drain += t.KeepaliveIdle
	}
	return s
}

// longest bounds the search: each of what it adds up is at most delay.Max.
const longest = 3 * delay.Max

// Smallest is the smallest setting with which nothing fails, as it is searched: first the
// shortest pre-stop with which every request reaches a gateway, then the shortest drain
// with which none is cut off, both to resolution. It knows nothing of Rule.
func Smallest(t Traffic, idle Idle, resolution time.Duration) Stop {
	shortest := func(enough func(time.Duration) bool) time.Duration {
		steps := sort.Search(int(longest/resolution), func(n int) bool { return enough(time.Duration(n) * resolution) })
		return time.Duration(steps) * resolution
	}
	var s Stop
	s.PreStop = shortest(func(d time.Duration) bool { return Stop{PreStop: d}.Expect(t, idle).NeverReached == 0 })
	s.Drain = shortest(func(d time.Duration) bool { return Stop{s.PreStop, d}.Expect(t, idle).FailedButExecuted == 0 })
	return s
}
