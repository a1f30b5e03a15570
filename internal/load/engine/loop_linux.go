package engine

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"chokepoint/internal/load/arrival"
	"chokepoint/internal/load/ledger"
)

// loopSupported says that this system has the loop's epoll.
const loopSupported = true

const (
	// readBuffer is the one buffer that all answers are read through.
	readBuffer = 64 << 10
	// maxEvents is how many events are fetched at once.
	maxEvents = 256
	// maxBurst is how many overdue requests are sent before answers are looked at
	// again. A loop that has fallen behind would else run out of free slots while
	// the answers that free them wait to be read.
	maxBurst = 64
)

// loopEngine is the engine whose threads each pace and answer: every one plays a
// shard of the plan with a share of the workers.
type loopEngine struct {
	c        Config
	routes   []route     // of each endpoint
	requests []*template // likewise
	sources  *turns
	polls    []*poller // one for each loop
}

func newLoopEngine(ctx context.Context, c Config) (Engine, error) {
	e := &loopEngine{c: c, sources: &turns{n: len(c.Connections.Sources)}}
	slots := 0
	for i, endpoint := range c.Endpoints {
		u, err := target(endpoint.URL)
		if err != nil {
			return nil, fmt.Errorf("endpoint %s: %w", endpoint.Name, err)
		}
		to, err := resolve(ctx, u, c.Connections)
		if err != nil {
			return nil, fmt.Errorf("endpoint %s: %w", endpoint.Name, err)
		}
		r, err := newRoute(to, c.Connections)
		if err != nil {
			return nil, fmt.Errorf("endpoint %s: %w", endpoint.Name, err)
		}
		e.routes = append(e.routes, r)
		request, err := newTemplate(c, i, u)
		if err != nil {
			return nil, err
		}
		e.requests = append(e.requests, request)
		if slots += c.slots(endpoint); slots > math.MaxInt32 {
			return nil, fmt.Errorf("%d workers are more than there can be; give fewer workers, a lower rate or a shorter timeout", slots)
		}
	}
	for range c.loops() {
		poll, err := newPoller()
		if err != nil {
			e.Close()
			return nil, fmt.Errorf("engine %s: %w; choose engine %s", Loop, err, Goroutines)
		}
		e.polls = append(e.polls, poll)
	}
	return e, nil
}

// Run implements Engine.
func (e *loopEngine) Run(ctx context.Context) (*Report, error) {
	tallies := newTallies(e.c)
	streams := newStreams(e.c, tallies)
	loops := make([]*loop, len(e.polls))
	for i := range loops {
		loops[i] = newLoop(e, streams, i)
	}
	start := e.c.startTime()
	log := newIntervals(e.c, tallies, start)
	offered := e.c.offering(ctx, start)
	woken := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(woken)
		for _, l := range loops {
			l.cancelled.Store(true)
			l.poll.wakeUp()
		}
	})
	var threads sync.WaitGroup
	for _, l := range loops {
		l.start = start
		threads.Go(func() {
			// The thread is changed by prompt and ends with this goroutine.
			runtime.LockOSThread()
			defer log.meter.enlist()()
			prompt()
			l.play()
		})
	}
	threads.Wait()
	last := time.Now()
	if !stop() {
		<-woken // or it might write to a descriptor that has been closed
	}
	err := log.close()
	r := report(e.c, tallies, start, last, offered(), log.meter, ctx.Err() != nil)
	r.Load.Loops = len(loops)
	reportWarmUp(e.c, streams, &r.Load)
	for i, route := range e.routes {
		r.connectedTo(e.c.Endpoints[i].Name, route.remote)
	}
	return r, err
}

// Close implements Engine.
func (e *loopEngine) Close() {
	for _, poll := range e.polls {
		poll.close()
	}
}

// loop plays a plan, or a shard of one, on one thread: it sends what falls due,
// reads what comes,
// and gives up what has run into its deadline, each as soon as the clock or the
// kernel says so. Times are durations from the start.
type loop struct {
	c        Config
	start    time.Time
	lanes    []lane
	slots    slots
	busy     int // slots with a request of the load
	poll     *poller
	sources  *turns
	arrivals *arrival.Merged
	// next is the arrival that falls due next, and when it may be sent: forever
	// once there is none.
	next struct {
		arrival.Arrival
		leaves time.Duration
	}
	// looked says that the kernel had nothing for the loop when it was asked last,
	// and nothing was sent since: an arrival that finds no free slot then is dropped,
	// and not before. A loop that was kept from its CPU would else drop what fell due
	// while the answers that free its slots have long come.
	looked bool
	// patience is when the answers in flight are no longer waited for.
	patience  time.Duration
	stopping  bool
	cancelled atomic.Bool
	events    [maxEvents]unix.EpollEvent
	buffer    [readBuffer]byte
	text      []byte // of the request that is being written
}

// newLoop makes the loop with that index among those of e.
func newLoop(e *loopEngine, streams []stream, index int) *loop {
	c := e.c
	c.Shard = c.Shard.Split(index, len(e.polls))
	l := &loop{c: c, poll: e.polls[index], sources: e.sources, lanes: make([]lane, len(streams)), patience: forever}
	if c.Closed == 0 {
		l.arrivals = c.played()
	}
	if c.GracefulStop != nil {
		l.patience = c.Duration + *c.GracefulStop
	}
	end := 0
	pools := make([]*pool, len(c.Endpoints))
	for i, endpoint := range c.Endpoints {
		pools[i] = &pool{route: e.routes[i].own(), idle: newList(), vacant: newList(), fresh: int32(end)}
		endpoint.Workers = part(endpoint.Workers, index, len(e.polls))
		end += c.slots(endpoint)
	}
	for i, s := range streams {
		endpoint := c.Endpoints[s.endpoint]
		request := e.requests[s.endpoint]
		if s.warmUp {
			request = request.warmUp(endpoint.Name)
		}
		l.lanes[i] = lane{
			stream: s, pool: pools[s.endpoint], request: request,
			head: endpoint.Method == http.MethodHead, timeout: endpoint.Timeout,
			free: part(endpoint.Workers, index, len(e.polls)), busy: newList(),
		}
	}
	l.slots = make(slots, end)
	return l
}

// part is how many of n workers loop i of m has.
func part(n, i, m int) int { return (n + m - 1 - i) / m }

func (l *loop) now() time.Duration { return time.Since(l.start) }

// play runs the loop to its end: no arrival to come, and an outcome for each.
func (l *loop) play() {
	l.draw()
	for {
		l.dispatch()
		if l.next.leaves == forever && l.busy == 0 {
			break
		}
		l.turn(l.idleTime())
	}
	l.interrupt(l.now()) // the rest of a warm-up, which nobody waits for
	l.hangUpIdle()
}

// interrupt ends every request in flight.
func (l *loop) interrupt(now time.Duration) {
	for i := range l.lanes {
		for l.lanes[i].busy.first != none {
			l.finish(l.lanes[i].busy.first, now, ledger.Answer{Outcome: ledger.Interrupted}, false)
		}
	}
}

// hangUpIdle closes the connections without a request.
func (l *loop) hangUpIdle() {
	for i := range l.lanes {
		for l.lanes[i].idle.first != none {
			l.discard(l.lanes[i].idle.first)
		}
	}
}

// turn waits for events, no longer than the timeout, and deals with what the
// kernel or the clock has brought.
func (l *loop) turn(timeout time.Duration) {
	l.looked = false
	n := l.poll.wait(l.events[:], timeout)
	for _, event := range l.events[:n] {
		l.handle(event)
		// A request that has fallen due does not wait for the other events.
		l.dispatch()
	}
	l.expire()
	l.looked = n == 0
}

// draw fetches the next arrival.
func (l *loop) draw() {
	if l.arrivals == nil {
		l.next.leaves = l.lanes[len(l.lanes)-1].from // of a closed model, the first
		return
	}
	next, ok := l.arrivals.Next()
	l.next.Arrival, l.next.leaves = next, l.c.sendAt(next.Due)
	if !ok {
		l.next.leaves = forever
	}
}

// dispatch sends what has fallen due, in due order.
func (l *loop) dispatch() {
	if l.arrivals == nil {
		l.refill()
		return
	}
	for range maxBurst {
		now := l.now()
		if l.next.leaves > now {
			return
		}
		free := l.lanes[l.next.From].free > 0
		if !free && !l.looked {
			return // the next turn does not wait
		}
		l.looked = l.looked && !free
		l.begin(int32(l.next.From), job{index: l.next.Index, due: l.next.Due}, now)
		l.draw()
	}
}

// idleTime is how long there is nothing to do unless an event comes.
func (l *loop) idleTime() time.Duration {
	until := l.next.leaves
	for i := range l.lanes {
		if first := l.lanes[i].busy.first; first != none {
			until = min(until, l.slots[first].due+l.lanes[i].timeout)
		}
	}
	if l.next.leaves == forever {
		until = min(until, l.patience)
	}
	if until == forever {
		return forever
	}
	return until - l.now()
}

// expire ends what the clock ends: requests that have reached their deadline,
// and the run.
func (l *loop) expire() {
	now := l.now()
	if l.cancelled.Load() && !l.stopping {
		l.stopping = true
		l.next.leaves = forever
		grace := CancelGrace
		if l.c.GracefulStop != nil {
			grace = min(grace, *l.c.GracefulStop)
		}
		l.patience = min(l.patience, now+grace)
	}
	for i := range l.lanes {
		lane := &l.lanes[i]
		for first := lane.busy.first; first != none && l.slots[first].due+lane.timeout <= now; first = lane.busy.first {
			cause := CauseResponse
			if l.slots[first].phase == connecting {
				cause = CauseConnect
			}
			l.finish(first, now, ledger.Answer{Outcome: ledger.Timeout, Cause: cause}, false)
		}
	}
	if l.next.leaves == forever && now >= l.patience {
		l.interrupt(now)
	}
}
