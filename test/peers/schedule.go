//go:build linux

package main

import (
	"slices"
	"time"

	"chokepoint/internal/stats"
)

// windowSlack is how late an arrival may be and still count as in the window.
const windowSlack = 100 * time.Millisecond

// schedule compares arrivals with the constant rate that was asked for.
//
// Nobody but the tool knows when its schedule began, so it is laid where it suits
// it best: arrival i was due at start + i/rate, and start is the latest moment
// before which nothing was sent too early. An error is how much later it came.
func (s *sample) schedule(arrivals []time.Duration, l load) {
	if len(arrivals) == 0 {
		return
	}
	last := arrivals[0] + l.duration + windowSlack
	within, _ := slices.BinarySearch(arrivals, last)
	s.ArrivedPercent = 100 * float64(within) / (float64(l.rate) * l.duration.Seconds())
	late := make([]float64, len(arrivals))
	for i, at := range arrivals {
		late[i] = milliseconds(at) - 1000*float64(i)/float64(l.rate)
	}
	slices.Sort(late)
	s.ErrorP50MS = stats.Quantile(late, 0.5) - late[0]
	s.ErrorP99MS = stats.Quantile(late, 0.99) - late[0]
}
