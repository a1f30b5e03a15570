// Package draining is the arithmetic of a gateway that is ended under load: what becomes
// of the requests, as a function of how long it serves on before it drains (the
// pre-stop), how long it then drains, and of what the world around it does. From that
// follow the smallest setting with which nothing fails, and what to write into the
// configuration of a product.
//
// A balancer in front of the gateway goes on giving it new connections for a while (the
// propagation), and open connections stay on it. Time counts from the moment at which
// the gateway is told to end, which is when the balancer is told too:
//
//	0            pre-stop          pre-stop + drain
//	|  serves as before  |  drains, accepts nothing  |  cuts off what is left
//	|  new connections arrive  | <- propagation
//
// The model knows no capacity: the gateways that stay take everything. It knows no
// retries, and not the race of a request with the close of the connection that it is put
// on, which loses a few requests wherever a gateway closes connections that rest.
package draining

import (
	"time"
)

// Stop is how a gateway is ended.
type Stop struct {
	// PreStop is how long it serves as before, from the moment it is told to end.
	PreStop time.Duration
	// Drain is how long it then has for what it has begun. It accepts no connection
	// meanwhile, and cuts off what is left after it.
	Drain time.Duration
}

// end is when the gateway cuts off what is left.
func (s Stop) end() time.Duration { return s.PreStop + s.Drain }

// Traffic is what the gateway gets, and from whom.
type Traffic struct {
	// Response is how long a request takes at the gateway.
	Response Response
	// Rate is how many requests a second reach this one gateway.
	Rate float64
	// Propagation is how long new connections still reach it.
	Propagation time.Duration
	// KeepaliveIdle is how long a client, or the edge in front of the balancer, lets a
	// connection rest before it closes it; rests are taken to be spread evenly up to
	// it. 0: each request has a connection of its own.
	KeepaliveIdle time.Duration
}

// Idle is what a gateway does to connections that rest when its drain begins.
type Idle string

const (
	// CloseIdle closes them at once: nginx, net/http's Server.Shutdown, HAProxy as it
	// comes.
	CloseIdle Idle = "closed at once"
	// KeepIdle leaves them to their next request, whose answer says that the connection
	// closes: Envoy, HAProxy with idle-close-on-response, nginx with
	// keepalive_min_timeout.
	KeepIdle Idle = "kept to their next request"
)

// Fate is what becomes of a request.
type Fate int

// The fates. OK is also what another gateway answers.
const (
	OK Fate = iota
	NeverReached
	FailedButExecuted
)

// Request is one that may reach the gateway.
type Request struct {
	At    time.Duration // from the moment at which the gateway is told to end
	Takes time.Duration // its response time
	// Kept is a request on a connection that the gateway had before. Without it the
	// request makes a connection, which the balancer gives to this gateway while it
	// does not know better.
	Kept bool
}

// Fate is what becomes of a request to a gateway that is ended so.
func (s Stop) Fate(propagation time.Duration, idle Idle, r Request) Fate {
	open := r.Kept && (r.At < s.PreStop || idle == KeepIdle && r.At < s.end())
	switch {
	case !open && r.At >= propagation:
		return OK // of another gateway
	case !open && r.At >= s.PreStop:
		return NeverReached
	case r.At+r.Takes > s.end():
		return FailedButExecuted
	}
	return OK
}

// Lost is how many requests fail as one gateway is ended, on average.
type Lost struct {
	// NeverReached were refused: their client may send them again.
	NeverReached float64 `json:"never_reached"`
	// FailedButExecuted were cut off at work that the application then finished.
	FailedButExecuted float64 `json:"failed_but_executed"`
}

// None says that nothing fails.
func (l Lost) None() bool { return l.NeverReached == 0 && l.FailedButExecuted == 0 }

// Expect is how many requests fail on average, of an even stream. It is exact for the
// stream that Traffic describes: it sums what Fate says over all of it. Each is 0 only if
// no request can fail whose response time is within Response.
//
// With kept connections it takes the worse of two for a request that comes before the
// drain: that it is on a kept one, which leads to this gateway until the drain begins.
func (s Stop) Expect(t Traffic, idle Idle) Lost {
	window := max(t.Propagation-s.PreStop, 0).Seconds() // in which new connections are refused
	last := min(s.PreStop, t.Propagation)               // when the last request begins that new connections bring
	kept := t.KeepaliveIdle > 0
	if kept {
		last = s.PreStop
	}
	lost := Lost{
		NeverReached:      t.Rate * window,
		FailedButExecuted: t.Rate * t.Response.mean(func(takes time.Duration) float64 { return max(takes-(s.end()-last), 0).Seconds() }),
	}
	if kept && idle == KeepIdle {
		// A connection that rests when the drain begins brings its next request x later
		// with the density rate * (1 - x/rest), unless it was cut before. The others
		// have been told, and make new connections: rate * x/rest.
		rest := t.KeepaliveIdle.Seconds()
		told := min(window, s.Drain.Seconds(), rest)
		lost.NeverReached = t.Rate * (told*told/(2*rest) + window - told)
		lost.FailedButExecuted += t.Rate * t.Response.mean(func(takes time.Duration) float64 {
			from, to := max(s.Drain-takes, 0), min(s.Drain, t.KeepaliveIdle)
			if from >= to {
				return 0
			}
			after, before := (t.KeepaliveIdle - from).Seconds(), (t.KeepaliveIdle - to).Seconds()
			return (after*after - before*before) / (2 * rest)
		})
	}
	return lost
}
