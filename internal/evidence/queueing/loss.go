package queueing

import (
	"math"
	"net/http"
	"time"

	"chokepoint/internal/adminapi"
)

// Of the kernel of the victim, real: none of it scales. A segment on an open
// connection is sent again after the least retransmission timeout, once as a tail loss
// probe, and then after twice as long each time up to the longest, until tcp_retries2
// is reached: 924.8 s in all. An attempt to connect ends when the wait behind its last
// retry does, after 131 s (connections.go has the retries; 127 s before Linux 6.5).
const (
	leastRTO    = 200 * time.Millisecond // TCP_RTO_MIN, which a loopback's round trip does not reach
	longestRTO  = 120 * time.Second      // TCP_RTO_MAX
	dataRetries = 15                     // tcp_retries2
)

// lossy is what comes of call c on a path that loses packets. Where all are lost that is
// all there is. Where some are, it leaves out what the other side sends again in the
// handshake, the later segments of a long answer, the ends of connections, and, which
// counts, that a kernel takes the time until a repeated segment was acknowledged for a
// round trip: its retransmission timeout grows to seconds, and calls take longer than
// this says.
func (s *simulation) lossy(c call) call {
	if s.kept > 0 {
		s.kept--
	} else {
		connects, ok := s.connectLossy()
		c.connects = max(connects, 1) // not 0, which is no connect at all
		if !ok {
			c.takes = c.connects
			c.result = timedOut
			return c
		}
	}
	request, ok := s.sendLossy()
	c.takes += c.connects + request
	if ok {
		var answers time.Duration
		answers, ok = s.sendLossy()
		c.takes += answers
	}
	if !ok {
		c.result = timedOut
	}
	return c
}

// timedOut is a call that the kernel gave up: ETIMEDOUT is a timeout to the victim.
var timedOut = answer{http.StatusGatewayTimeout, adminapi.CauseUpstreamTimeout}

// passes draws whether a packet arrives.
func (s *simulation) passes() bool { return s.upstream.Float64() >= s.cfg.Loss }

// connectLossy draws how long a connection takes, in scenario time; not ok is how long
// until it is given up.
func (s *simulation) connectLossy() (takes time.Duration, ok bool) {
	for n := range uint8(maxRetries + 1) {
		if syn, answer := s.passes(), s.passes(); syn && answer {
			return s.cfg.scenario(takes), true
		}
		takes += retryAfter(n)
	}
	return s.cfg.scenario(takes), false
}

// sendLossy draws how much longer a segment takes than on a good path.
func (s *simulation) sendLossy() (takes time.Duration, ok bool) {
	if s.passes() {
		return 0, true
	}
	takes = leastRTO // until the tail loss probe
	for n := range dataRetries + 1 {
		if s.passes() {
			return s.cfg.scenario(takes), true
		}
		takes += time.Duration(math.Min(float64(leastRTO)*math.Pow(2, float64(n)), float64(longestRTO)))
	}
	return s.cfg.scenario(takes), false
}
