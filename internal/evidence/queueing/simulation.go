package queueing

import (
	"math"
	"math/rand/v2"
	"net/http"
	"time"

	"chokepoint/internal/adminapi"
)

// stage is how far the victim is with a request.
type stage uint8

const (
	underway      stage = iota // not read yet
	queued                     // waits for a worker
	permitWaiting              // holds a worker, waits for a permit
	calling                    // holds a worker, and a permit if there are any
	serving                    // holds a worker, which answers by itself
	finished                   // answered, or dropped for its client had gone
)

// request is one request from its due time on. The client and the victim each
// have their own view: the victim works on when the client has long gone.
type request struct {
	due        time.Duration
	gone       time.Duration // when the victim can know that the client has left
	generation int           // of the breaker
	stream     int32
	result     answer // as decided by the victim
	stage      stage
	clientDone bool
	connecting bool  // its call has no connection to the upstream yet
	connected  bool  // on a connection that counts, in the accept queue or accepted
	attempts   uint8 // to connect, that were dropped
}

// simulation is one case on its way.
type simulation struct {
	cfg   *Config
	cond  *conditions
	tally *tally

	now       time.Duration
	calendar  calendar
	requests  []request
	upstream  *rand.Rand
	sources   []source
	queue     fifo
	permits   fifo // requests that wait for one
	waiting   int  // in queue
	wanting   int  // in permits
	busy      int
	workers   int
	held      int // permits
	inCall    int // those that connect included
	inConnect int
	kept      int // idle connections to the upstream, of a path that loses packets
	inService int
	breaker   breaker

	connections connections
}

// source is the generator's side of one stream.
type source struct {
	free  int  // workers of the generator
	sent  int  // arrivals planned so far
	ended bool // none is planned any more
	total int  // of a constant rate
	rand  *rand.Rand
}

// fifo holds request numbers in order. Those that left it from the middle are
// skipped when they come to its head.
type fifo struct {
	ids  []int32
	head int
}

func (f *fifo) push(id int32) { f.ids = append(f.ids, id) }

func (f *fifo) pop() (int32, bool) {
	if f.head == len(f.ids) {
		return 0, false
	}
	f.head++
	return f.ids[f.head-1], true
}

// simulate runs one case to its end: until nothing is left that could happen.
// Every request makes at most eight events, so it ends.
func simulate(cfg *Config, cond *conditions) *tally {
	s := newSimulation(cfg, cond)
	for s.step() {
	}
	for i := range s.tally.ledgers {
		s.tally.ledgers[i].close()
	}
	s.tally.stuck = s.busy > 0
	return s.tally
}

func newSimulation(cfg *Config, cond *conditions) *simulation {
	s := &simulation{
		cfg: cfg, cond: cond,
		tally:    &tally{ledgers: make([]ledger, len(cfg.Streams)), dumps: make([]snapshot, len(cfg.DumpAt))},
		requests: make([]request, 0, int(cfg.arrivals())+len(cfg.Streams)),
		upstream: newRand(cfg, cond.variant, drawUpstream),
		workers:  cfg.PoolMin,
		kept:     cfg.Kept,
		breaker:  breaker{threshold: cfg.Profile.BreakerFailures, openFor: cfg.Profile.BreakerOpenFor},

		connections: newConnections(cfg),
	}
	if cfg.Profile.Unbounded {
		s.workers = 0
	}
	s.tally.maxWorkers = s.workers
	for i := range cfg.Streams {
		s.tally.ledgers[i].answers = map[answer]int{}
		s.sources = append(s.sources, source{
			free:  cfg.Streams[i].Workers,
			total: cfg.Streams[i].Rate.Count(cfg.Duration),
			rand:  newRand(cfg, cond.variant, drawArrivals+i),
		})
		s.planArrival(i, 0)
	}
	for i, d := range cfg.DumpAt {
		if d.At >= 0 { // before the load there is nothing to see
			s.plan(dumpTaken, max(0, d.At+cond.dumpShift[i]), int32(i))
		}
	}
	if cfg.GracefulStop >= 0 {
		s.plan(stopped, max(cfg.Duration, cfg.Duration+cfg.GracefulStop+cond.stopShift), 0)
	}
	return s
}

// step lets the next event happen; it reports false when there is none.
func (s *simulation) step() bool {
	if len(s.calendar.events) == 0 {
		return false
	}
	e := s.calendar.pop()
	s.now = e.at
	s.happen(e)
	return true
}

func (s *simulation) plan(k kind, at time.Duration, id int32) {
	s.calendar.push(event{at: at, due: at, id: id, kind: k})
}

// planVictim plans something that the victim does, which a pause puts off.
func (s *simulation) planVictim(k kind, due time.Duration, id int32) {
	s.calendar.push(event{at: s.cond.resumed(due), due: due, id: id, kind: k})
}

func (s *simulation) happen(e event) {
	switch e.kind {
	case arrival:
		s.arrive(int(e.id))
	case dumpTaken:
		s.tally.dumps[e.id] = snapshot{upstreamConnect: s.inConnect, upstreamRead: s.inCall - s.inConnect, permitWait: s.wanting, queued: s.waiting, serving: s.inService}
	case stopped:
		s.stop()
	default:
		s.happenTo(e.kind, e.id, &s.requests[e.id])
	}
}

func (s *simulation) happenTo(k kind, id int32, r *request) {
	switch k {
	case dialled:
		s.dial(id, r)
	case received:
		s.enter(id, r)
	case queueExpired:
		if r.stage == queued {
			s.waiting--
			s.reply(id, r, answer{http.StatusServiceUnavailable, adminapi.CauseOverloaded})
		}
	case permitExpired:
		if r.stage == permitWaiting {
			s.wanting--
			s.refuse(id, r)
			s.release()
		}
	case connected:
		s.endConnect(r)
	case callEnded:
		s.endCall(id, r)
	case served:
		s.inService--
		s.reply(id, r, r.result)
		s.release()
	case answered:
		s.keep(r)
		s.endClient(r, func(l *ledger) {
			l.answers[r.result]++
			l.responses = append(l.responses, s.now-r.due)
		})
	case clientExpired:
		s.endClient(r, func(l *ledger) {
			// Recorded at what the client was told to wait, as DESIGN section 3 asks.
			l.timeout++
			l.responses = append(l.responses, s.cfg.Streams[r.stream].Timeout)
		})
	}
}

// The generator.

// planArrival plans the next arrival of stream i, if the window holds one more.
func (s *simulation) planArrival(i int, previous time.Duration) {
	stream, src := &s.cfg.Streams[i], &s.sources[i]
	var due time.Duration
	switch {
	case stream.Poisson:
		due = previous + time.Duration(src.rand.ExpFloat64()/stream.Rate.PerSecond()*float64(time.Second))
		if due >= s.cfg.Duration {
			src.ended = true
			return
		}
	case src.sent == src.total:
		src.ended = true
		return
	default: // to the nanosecond, so that nothing drifts
		due = time.Duration(math.Ceil(float64(src.sent)*float64(time.Second)/stream.Rate.PerSecond() - 1e-3))
	}
	src.sent++
	rank := int16(i) - int16(len(s.cfg.Streams)) // before everything else of the instant
	if s.cond.reverseTies {
		rank = int16(len(s.cfg.Streams) - i)
	}
	s.calendar.push(event{at: due, due: due, id: int32(i), rank: rank, kind: arrival})
}

func (s *simulation) arrive(i int) {
	stream, src, book := &s.cfg.Streams[i], &s.sources[i], &s.tally.ledgers[i]
	due := s.now
	s.planArrival(i, due)
	book.scheduled++
	if src.free == 0 {
		book.dropped++
		return
	}
	src.free--
	id := int32(len(s.requests))
	giveUp := due + stream.Timeout + s.cond.some(s.cond.wake)
	s.requests = append(s.requests, request{due: due, gone: giveUp + s.cond.hop, stream: int32(i)})
	s.connect(id, &s.requests[id])
	s.plan(clientExpired, giveUp, id)
}

// endClient is the end of a request for its client, whichever way comes first.
func (s *simulation) endClient(r *request, book func(*ledger)) {
	if r.clientDone {
		return
	}
	r.clientDone = true
	s.sources[r.stream].free++
	book(&s.tally.ledgers[r.stream])
	if s.connections.limit > 0 && s.allAnswered() {
		s.closeIdle()
	}
}

// allAnswered says whether the load generator has nothing more to wait for.
func (s *simulation) allAnswered() bool {
	for i := range s.sources {
		if !s.sources[i].ended || s.sources[i].free < s.cfg.Streams[i].Workers {
			return false
		}
	}
	return true
}

// stop ends the wait of the generator: what is in flight is interrupted, and its
// connections are closed.
func (s *simulation) stop() {
	for i := range s.requests {
		r := &s.requests[i]
		s.endClient(r, func(l *ledger) {
			l.interrupted++
			r.gone = min(r.gone, s.now+s.cond.hop)
		})
	}
}

// The victim.

// enter gives a request a worker or a place in the queue.
func (s *simulation) enter(id int32, r *request) {
	p := &s.cfg.Profile
	switch {
	case p.Unbounded || s.busy < s.workers || s.workers < s.cfg.PoolMax:
		s.busy++
		s.workers = max(s.workers, s.busy)
		s.tally.maxBusy = max(s.tally.maxBusy, s.busy)
		s.tally.maxWorkers = max(s.tally.maxWorkers, s.workers)
		if !p.Unbounded && s.busy == s.cfg.PoolMax && !s.tally.full {
			s.tally.full, s.tally.fullAt = true, s.now
		}
		if !s.work(id, r) {
			s.release()
		}
	case p.MaxQueue > 0 && s.waiting >= p.MaxQueue:
		s.reply(id, r, answer{http.StatusServiceUnavailable, adminapi.CauseOverloaded})
	default:
		r.stage = queued
		s.queue.push(id)
		s.waiting++
		s.tally.maxQueued = max(s.tally.maxQueued, s.waiting)
		if p.MaxQueueWait > 0 {
			s.planVictim(queueExpired, s.now+p.MaxQueueWait+s.cond.some(s.cond.wake), id)
		}
	}
}

// release is a worker that has ended a request: it takes the head of the queue
// until one keeps it, or idles.
func (s *simulation) release() {
	for {
		id, ok := s.queue.pop()
		if !ok {
			break
		}
		r := &s.requests[id]
		if r.stage != queued {
			continue // it waited too long
		}
		s.waiting--
		if s.work(id, r) {
			return
		}
	}
	s.busy--
	if s.busy == 0 {
		s.tally.idleSince = s.now
	}
}

// work has a worker take up a request. It reports false if the worker is free
// again at once.
func (s *simulation) work(id int32, r *request) (holds bool) {
	if s.cfg.Profile.SkipAbandoned && r.gone <= s.now {
		r.stage = finished
		s.answeredOn(r, false)
		return false
	}
	if !s.cfg.Streams[r.stream].CallsUpstream {
		r.stage, r.result = serving, answer{status: http.StatusOK}
		s.inService++
		s.planVictim(served, s.now+s.cond.some(s.cond.service), id)
		return true
	}
	generation, ok := s.breaker.admit(s.now)
	if !ok {
		s.reply(id, r, answer{http.StatusServiceUnavailable, adminapi.CauseBreakerOpen})
		return false
	}
	r.generation = generation
	switch p := &s.cfg.Profile; {
	case p.Permits == 0 || s.held < p.Permits: // a free permit means that nobody waits for one
		s.call(id, r)
	case p.PermitWait == 0:
		s.refuse(id, r)
		return false
	default:
		r.stage = permitWaiting
		s.permits.push(id)
		s.wanting++
		s.planVictim(permitExpired, s.now+p.PermitWait+s.cond.some(s.cond.wake), id)
	}
	return true
}

// refuse answers a request that got no permit in time.
func (s *simulation) refuse(id int32, r *request) {
	s.breaker.report(s.now, r.generation, excluded)
	s.reply(id, r, answer{http.StatusServiceUnavailable, adminapi.CauseBulkheadFull})
}

// call calls the upstream; what will come of it is decided at once. A call that
// nobody answers and nothing bounds holds its worker for ever.
func (s *simulation) call(id int32, r *request) {
	r.stage = calling
	s.inCall++
	if s.cfg.Profile.Permits > 0 {
		s.held++
		s.tally.maxPermits = max(s.tally.maxPermits, s.held)
	}
	c := s.draw()
	if bound := s.cfg.Profile.Timeout; bound > 0 && (!c.ends || c.takes > bound) {
		// A call that is given up costs a little more than a timer that fires: its
		// connection is closed before anything else.
		c.ends = true
		c.takes = bound + s.cond.some(s.cond.wake) + s.cond.some(s.cond.hop)
		c.result = answer{http.StatusGatewayTimeout, adminapi.CauseUpstreamTimeout}
	}
	r.result = c.result
	if c.connects > 0 {
		r.connecting = true
		s.inConnect++
		if c.connects < c.takes {
			s.planVictim(connected, s.now+c.connects, id)
		}
	}
	if c.ends {
		s.planVictim(callEnded, s.now+c.takes, id)
	}
}

// call is what comes of a call to the upstream that nothing cuts short.
type call struct {
	connects time.Duration // until it has a connection: 0 if it has one; it gets none if that is not under takes
	ends     bool          // false: never, and takes says nothing
	takes    time.Duration
	result   answer
}

const never = time.Duration(math.MaxInt64)

// draw decides what comes of one call.
func (s *simulation) draw() call {
	trip := s.cond.some(s.cond.hop) + s.cond.some(s.cond.wake) + s.cond.some(s.cond.hop)
	c := call{ends: true, takes: s.cfg.Delay(s.upstream) + trip, result: answer{status: http.StatusOK}}
	if s.cfg.Loss > 0 {
		return s.lossy(c)
	}
	f, ok := faultOutcome(s.cfg.Fault)
	if !ok || s.upstream.Float64() >= s.cfg.faultRate() {
		return c
	}
	c.result, c.ends = f.answer, f.answers
	if f.atOnce {
		c.takes = trip
	}
	switch {
	case f.onConnection && f.answers:
		c.connects = c.takes
	case f.onConnection:
		c.connects = never
	}
	return c
}

// endConnect is the end of the connect of a call, whichever way.
func (s *simulation) endConnect(r *request) {
	if r.connecting {
		r.connecting = false
		s.inConnect--
	}
}

// endCall gives back the permit, then tells the breaker, then answers, then
// frees the worker: the order in which the victim's guard unwinds.
func (s *simulation) endCall(id int32, r *request) {
	s.endConnect(r)
	s.inCall--
	if s.cfg.Loss > 0 && r.result.cause == "" {
		s.kept++
	}
	if s.cfg.Profile.Permits > 0 {
		s.held--
		s.passPermit()
	}
	result := succeeded
	if r.result.cause != "" {
		result = failed
	}
	s.breaker.report(s.now, r.generation, result)
	s.reply(id, r, r.result)
	s.release()
}

// passPermit gives a free permit to the request that has waited longest.
func (s *simulation) passPermit() {
	for {
		id, ok := s.permits.pop()
		if !ok {
			return
		}
		if r := &s.requests[id]; r.stage == permitWaiting {
			s.wanting--
			s.call(id, r)
			return
		}
	}
}

// reply sends an answer on its way.
func (s *simulation) reply(id int32, r *request, a answer) {
	r.stage, r.result = finished, a
	s.answeredOn(r, true)
	if !r.clientDone {
		s.plan(answered, s.now+s.cond.some(s.cond.hop)+s.cond.some(s.cond.wake), id)
	}
}
