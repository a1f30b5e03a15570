// Package guard puts a profile's protections around one call to an upstream:
// the circuit breaker outermost, the bulkhead inside it, the timeout inside
// that. A protection that the profile does not name is not there.
//
// It knows nothing of HTTP: the call is a function that is told its deadline.
package guard

import (
	"errors"
	"time"

	"github.com/sony/gobreaker/v2"

	"chokepoint/internal/profile"
)

// Errors of Do for calls that were refused before they were made.
var (
	ErrBulkheadFull = errors.New("no permit became free in time")
	ErrBreakerOpen  = errors.New("the circuit breaker is open")
)

// Guard protects calls to one upstream. It is safe for concurrent use.
type Guard struct {
	timeout  time.Duration
	bulkhead *Bulkhead                                // nil: none
	breaker  *gobreaker.CircuitBreaker[time.Duration] // nil: none
}

// New builds the protections of p, whose durations are real time.
func New(p profile.Profile) *Guard {
	g := &Guard{timeout: p.Timeout}
	if p.Permits > 0 {
		g.bulkhead = NewBulkhead(p.Permits, p.PermitWait)
	}
	if p.BreakerFailures > 0 {
		threshold := uint32(p.BreakerFailures)
		g.breaker = gobreaker.NewCircuitBreaker[time.Duration](gobreaker.Settings{
			Name:        "upstream",
			MaxRequests: 1,
			Timeout:     p.BreakerOpenFor,
			ReadyToTrip: func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= threshold },
			// A full bulkhead says that we are busy, not that the upstream is sick.
			IsExcluded: func(err error) bool { return errors.Is(err, ErrBulkheadFull) },
		})
	}
	return g
}

// Call is one call to the upstream. A zero deadline means that it may take for
// ever.
type Call func(deadline time.Time) error

// Do makes the call if the protections let it. It returns how long the request
// waited for a permit, and ErrBulkheadFull, ErrBreakerOpen or the call's error.
func (g *Guard) Do(call Call) (permitWait time.Duration, err error) {
	if g.breaker == nil {
		return g.permitted(call)
	}
	// The breaker drops the result of a call that failed, so the wait is kept here.
	_, err = g.breaker.Execute(func() (time.Duration, error) {
		var err error
		permitWait, err = g.permitted(call)
		return permitWait, err
	})
	if errors.Is(err, gobreaker.ErrOpenState) || errors.Is(err, gobreaker.ErrTooManyRequests) {
		err = ErrBreakerOpen
	}
	return permitWait, err
}

func (g *Guard) permitted(call Call) (time.Duration, error) {
	if g.bulkhead == nil {
		return 0, call(g.deadline())
	}
	wait, err := g.bulkhead.acquire()
	if err != nil {
		return wait, err
	}
	defer g.bulkhead.release()
	return wait, call(g.deadline())
}

func (g *Guard) deadline() time.Time {
	if g.timeout == 0 {
		return time.Time{}
	}
	return time.Now().Add(g.timeout)
}

// Permits is how many permits are held, and how many there are; both 0 without
// a bulkhead.
func (g *Guard) Permits() (held, limit int) {
	if g.bulkhead == nil {
		return 0, 0
	}
	return g.bulkhead.Held(), g.bulkhead.limit
}

// Breaker is "none", "closed", "half-open" or "open".
func (g *Guard) Breaker() string {
	if g.breaker == nil {
		return "none"
	}
	return g.breaker.State().String()
}
