package queueing

import "time"

// connections are those between the clients and the victim, where the victim's cap
// on them may bind: it takes a connection from the kernel only while it has fewer,
// and the kernel holds the backlog and one more (net/ipv4: sk_acceptq_is_full).
// What comes beyond is dropped, and the client's kernel tries again.
//
// A client keeps a connection on which it got an answer and uses the one that
// became idle last; it closes one on which it gave up. The victim notices a closed
// one when it has ended the request on it, not before. A connection that its client
// has closed stays in the accept queue, and its request is read in its turn.
type connections struct {
	limit   int // 0: the cap cannot bind, and nothing of this happens
	backlog int
	open    int               // accepted and not closed
	waiting fifo              // requests whose connection is in the accept queue
	queued  int               // how many those are
	idle    [][]time.Duration // by stream: since when each connection that a client keeps is idle
}

// Of the client's kernel and of the load generator, real.
const (
	// A SYN that gets no answer is sent again each second for linearRetries times, and
	// then after 1, 2, 4, ... s (tcp_syn_linear_timeouts, 4 since Linux 6.5; older
	// kernels have none of the even ones).
	firstRetry    = time.Second
	linearRetries = 4
	maxRetries    = linearRetries + 6 // tcp_syn_retries
	// clientIdle is how long the load generator keeps an idle connection
	// (load/engine: maxIdle).
	clientIdle = 4 * time.Second
)

func newConnections(cfg *Config) connections {
	if cfg.MaxConnections == 0 || cfg.arrivals() <= float64(cfg.MaxConnections) {
		return connections{}
	}
	return connections{limit: cfg.MaxConnections, backlog: cfg.AcceptBacklog, idle: make([][]time.Duration, len(cfg.Streams))}
}

// connect lets a request reach the victim: on an idle connection, or on a new one.
func (s *simulation) connect(id int32, r *request) {
	reached := s.now + s.cond.some(s.cond.hop)
	c := &s.connections
	if c.limit == 0 {
		s.planVictim(received, reached, id)
		return
	}
	s.closeStale(r.stream)
	if idle := c.idle[r.stream]; len(idle) > 0 {
		c.idle[r.stream] = idle[:len(idle)-1]
		r.connected = true
		s.planVictim(received, reached, id)
		return
	}
	s.plan(dialled, reached, id)
}

// closeStale closes the client's connections that have been idle for too long.
func (s *simulation) closeStale(stream int32) {
	idle, stale := s.connections.idle[stream], 0
	for stale < len(idle) && s.now-idle[stale] > s.cfg.scenario(clientIdle) {
		stale++
	}
	s.connections.idle[stream] = idle[stale:]
	for range stale {
		s.closeConnection()
	}
}

// dial is one attempt to connect, as the victim's kernel meets it.
func (s *simulation) dial(id int32, r *request) {
	c := &s.connections
	if r.clientDone {
		return // it has given up
	}
	if c.queued > c.backlog {
		if r.attempts < maxRetries {
			s.plan(dialled, s.now+s.cfg.scenario(retryAfter(r.attempts)), id)
		}
		r.attempts++
		return
	}
	r.connected = true
	c.waiting.push(id)
	c.queued++
	s.acceptWaiting()
	s.tally.maxAcceptQueue = max(s.tally.maxAcceptQueue, c.queued)
}

// retryAfter is the time from attempt n, of which the first is 0, to the next.
func retryAfter(n uint8) time.Duration {
	if n < linearRetries {
		return firstRetry
	}
	return firstRetry << (n - linearRetries)
}

// acceptWaiting takes connections from the accept queue while the cap allows it.
func (s *simulation) acceptWaiting() {
	c := &s.connections
	for c.open < c.limit {
		id, ok := c.waiting.pop()
		if !ok {
			return
		}
		c.queued--
		c.open++
		s.planVictim(received, s.now, id)
	}
}

// closeConnection is the end of an accepted connection at the victim.
func (s *simulation) closeConnection() {
	s.connections.open--
	s.acceptWaiting()
}

// answeredOn is the end of a request at the victim: of its connection too if the
// client has gone, or if nobody is answered.
func (s *simulation) answeredOn(r *request, answers bool) {
	if r.connected && (r.clientDone || !answers) {
		r.connected = false
		s.closeConnection()
	}
}

// keep is what a client does with the connection of an answered request.
func (s *simulation) keep(r *request) {
	switch {
	case !r.connected:
	case r.clientDone: // it gave up while the answer was on its way
		s.closeConnection()
	default:
		s.connections.idle[r.stream] = append(s.connections.idle[r.stream], s.now)
	}
	r.connected = false
}

// closeIdle is the end of the load generator, which keeps nothing.
func (s *simulation) closeIdle() {
	for stream, idle := range s.connections.idle {
		s.connections.idle[stream] = nil
		for range idle {
			s.closeConnection()
		}
	}
}
