package queueing

import "time"

// breaker follows sony/gobreaker v2.4.0 as the victim sets it up: opens on
// consecutive failures, one probe when half-open, no interval. A test runs both
// side by side. Its rules that matter here: a result from before the last change
// of state is ignored; an excluded result counts for nothing, and gives the
// probe's place back; open ends strictly after openFor.
type breaker struct {
	threshold int           // consecutive failures that open it; 0: no breaker
	openFor   time.Duration // how long it stays open

	state      breakerState
	generation int
	admitted   int // in this generation, less the excluded; half-open allows one
	failures   int // consecutive
	openUntil  time.Duration
}

type breakerState uint8

const (
	closed breakerState = iota
	open
	halfOpen
)

// callResult is what a call is to the breaker.
type callResult uint8

const (
	succeeded callResult = iota
	failed
	excluded
)

// admit asks whether a request may go on; its result goes to report with the
// generation.
func (b *breaker) admit(now time.Duration) (generation int, ok bool) {
	if b.threshold == 0 {
		return 0, true
	}
	b.advance(now)
	if b.state == open || b.state == halfOpen && b.admitted >= 1 {
		return 0, false
	}
	b.admitted++
	return b.generation, true
}

// report counts the result of an admitted request.
func (b *breaker) report(now time.Duration, generation int, result callResult) {
	if b.threshold == 0 {
		return
	}
	b.advance(now)
	switch {
	case generation != b.generation:
	case result == excluded:
		b.admitted--
	case result == succeeded:
		b.failures = 0
		if b.state == halfOpen {
			b.enter(closed, now)
		}
	case b.state == halfOpen:
		b.enter(open, now)
	default:
		if b.failures++; b.failures >= b.threshold {
			b.enter(open, now)
		}
	}
}

func (b *breaker) advance(now time.Duration) {
	if b.state == open && b.openUntil < now {
		b.enter(halfOpen, now)
	}
}

func (b *breaker) enter(state breakerState, now time.Duration) {
	b.state = state
	b.generation++
	b.admitted, b.failures = 0, 0
	b.openUntil = now + b.openFor
}
