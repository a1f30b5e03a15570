// Package pool is the bounded worker pool that is put under test: a set of
// workers that grows on demand, a first-in first-out queue behind it, and named
// places to wait, so that a goroutine dump tells by function name who stands
// where.
//
// It has the shape of a servlet container's: min-spare and max threads, and a
// request that holds its worker until it has been answered. It refuses to be
// clever about it: no priorities, no work stealing, and no shrinking, since the
// dump after the load should still show the peak.
package pool

import (
	"context"
	"errors"
	"fmt"
	"runtime/pprof"
	"strconv"
	"sync"
	"time"
)

// Errors of Do. The work has not run when either is returned.
var (
	// ErrOverloaded: the queue was full, or the request waited too long in it.
	ErrOverloaded = errors.New("pool: overloaded")
	// ErrAbandoned: the client had gone when a worker reached the request.
	ErrAbandoned = errors.New("pool: abandoned by client")
	// ErrClosed: the pool was closed before a worker reached the request.
	ErrClosed = errors.New("pool: closed")
)

// Work is one request.
type Work interface {
	// Run does the work, on a worker. wait is how long it waited for one. The work
	// may say at spot where its worker stands; it is told as Running until then.
	Run(wait time.Duration, spot *Spot)
	// Gone reports whether the client has left. It is asked once, when a worker
	// has reached the request.
	Gone() bool
}

// Config sizes a pool. The zero value of a bound is "none".
type Config struct {
	Min, Max      int           // workers at the start, and at most
	MaxQueue      int           // requests that may wait for a worker
	MaxQueueWait  time.Duration // how long one may wait
	SkipAbandoned bool          // drop a request whose client has gone
	Unbounded     bool          // no pool: run on the caller's goroutine
	Labels        []string      // values of the "endpoint" profiler label, by index
}

// Validate refuses a pool that could not work.
func (c Config) Validate() error {
	if c.Unbounded {
		return nil
	}
	if c.Min < 0 || c.Max < 1 || c.Min > c.Max {
		return fmt.Errorf("pool of %d to %d workers: want 0 <= min <= max and max >= 1", c.Min, c.Max)
	}
	return nil
}

// Stats is the state of a pool at one moment, and its extremes since the start.
type Stats struct {
	Workers, Busy, Queued         int
	MaxWorkers, MaxBusy, MaxQueue int
	Abandoned, Shed               int
	// IdleSince is when busy and queued both became zero; zero while they are not.
	IdleSince time.Time
}

// Pool runs work on its workers. It is safe for concurrent use.
type Pool struct {
	cfg    Config
	labels []context.Context // unbounded: one per endpoint
	tasks  sync.Pool         // of *task whose channels are empty
	wg     sync.WaitGroup

	mu        sync.Mutex
	idle      []*worker // last in, first out: a warm worker first
	queue     fifo
	stats     Stats
	closed    bool
	nextLabel int
	spots     []*Spot // of every worker
	vacant    []*Spot // unbounded: those of spots that nobody has
}

// New starts a pool with its minimum of workers.
func New(cfg Config) (*Pool, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	p := &Pool{cfg: cfg}
	p.stats.IdleSince = time.Now()
	p.labels = labelContexts(cfg.Labels)
	p.tasks.New = func() any {
		return &task{started: make(chan struct{}, 1), done: make(chan error, 1)}
	}
	if !cfg.Unbounded {
		for range cfg.Min {
			w := p.newWorker()
			p.idle = append(p.idle, w)
			go p.work(w)
		}
	}
	return p, nil
}

// Do has a worker run work and returns when it has been run. endpoint is an
// index into Config.Labels.
func (p *Pool) Do(endpoint int, work Work) error {
	if p.cfg.Unbounded {
		return p.runUnbounded(endpoint, work)
	}
	t := p.tasks.Get().(*task)
	t.work, t.endpoint, t.arrived = work, endpoint, time.Now()
	defer p.recycle(t)

	p.mu.Lock()
	switch {
	case p.closed:
		p.mu.Unlock()
		return ErrClosed
	case len(p.idle) > 0:
		w := p.idle[len(p.idle)-1]
		p.idle = p.idle[:len(p.idle)-1]
		p.occupy()
		p.mu.Unlock()
		w.tasks <- t
	case p.stats.Workers < p.cfg.Max:
		w := p.newWorker()
		p.occupy()
		p.mu.Unlock()
		w.tasks <- t
		go p.work(w)
	case p.cfg.MaxQueue > 0 && p.queue.len() >= p.cfg.MaxQueue:
		p.stats.Shed++
		p.mu.Unlock()
		return ErrOverloaded
	default:
		p.queue.push(t)
		p.stats.Queued = p.queue.len()
		p.stats.MaxQueue = max(p.stats.MaxQueue, p.stats.Queued)
		p.mu.Unlock()
		if !t.awaitWorker(p.cfg.MaxQueueWait) {
			if p.withdraw(t) {
				return ErrOverloaded
			}
			<-t.started // a worker was faster than the bound: take its signal
		}
	}
	return t.awaitDone()
}

// recycle keeps a task for the next request. Both its signals have been taken.
func (p *Pool) recycle(t *task) {
	t.work = nil
	p.tasks.Put(t)
}

// withdraw takes a task out of the queue; it reports false if a worker was faster.
func (p *Pool) withdraw(t *task) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.queue.remove(t) {
		return false
	}
	p.stats.Queued = p.queue.len()
	p.stats.Shed++
	return true
}

// occupy counts a worker as busy. The caller holds the lock.
func (p *Pool) occupy() {
	p.stats.Busy++
	p.stats.MaxBusy = max(p.stats.MaxBusy, p.stats.Busy)
	p.stats.IdleSince = time.Time{}
}

// vacate counts a worker as free again. The caller holds the lock.
func (p *Pool) vacate() {
	p.stats.Busy--
	if p.stats.Busy == 0 && p.queue.len() == 0 {
		p.stats.IdleSince = time.Now()
	}
}

// work is a worker's whole life. Its name is what tells a worker in a dump from
// a goroutine that merely inherited a worker's labels.
//
//go:noinline
func (p *Pool) work(w *worker) {
	defer p.wg.Done()
	pprof.SetGoroutineLabels(w.idleLabels)
	for t := w.awaitTask(); t != nil; t = w.awaitTask() {
		for t != nil {
			err := p.execute(w, t)
			// Free before the answer is: a client that sends one request after the
			// other then never needs a second worker.
			next := p.next(w)
			t.done <- err
			t = next
		}
		w.spot.Enter(Idle)
		pprof.SetGoroutineLabels(w.idleLabels)
	}
}

// execute runs one task, or returns ErrAbandoned if it is to be skipped.
func (p *Pool) execute(w *worker, t *task) error {
	pprof.SetGoroutineLabels(w.labels[t.endpoint])
	w.spot.Enter(Running)
	if t.work.Gone() {
		p.mu.Lock()
		p.stats.Abandoned++
		p.mu.Unlock()
		if p.cfg.SkipAbandoned {
			return ErrAbandoned
		}
	}
	t.work.Run(time.Since(t.arrived), &w.spot)
	w.spot.Enter(Running)
	return nil
}

// next gives a worker the head of the queue, or files it as idle and returns nil.
func (p *Pool) next(w *worker) *task {
	p.mu.Lock()
	defer p.mu.Unlock()
	if t := p.queue.pop(); t != nil {
		p.stats.Queued = p.queue.len()
		t.started <- struct{}{}
		return t
	}
	p.vacate()
	if p.closed {
		close(w.tasks)
		return nil
	}
	p.idle = append(p.idle, w)
	return nil
}

// runUnbounded is the pool that is none: the caller's own goroutine does the
// work, as Go's net/http does by default.
//
//go:noinline
func (p *Pool) runUnbounded(endpoint int, work Work) error {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return ErrClosed
	}
	p.occupy()
	p.stats.Workers = p.stats.Busy
	p.stats.MaxWorkers = max(p.stats.MaxWorkers, p.stats.Workers)
	spot := p.claimSpot()
	p.mu.Unlock()

	pprof.SetGoroutineLabels(p.labels[endpoint])
	if work.Gone() {
		p.mu.Lock()
		p.stats.Abandoned++
		p.mu.Unlock()
	}
	work.Run(0, spot)
	pprof.SetGoroutineLabels(context.Background())

	p.mu.Lock()
	p.vacate()
	p.releaseSpot(spot)
	p.stats.Workers = p.stats.Busy
	p.mu.Unlock()
	return nil
}

// Stats reads the pool's state.
func (p *Pool) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stats
}

// ResetExtremes makes the extremes those of now on.
func (p *Pool) ResetExtremes() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stats.MaxWorkers, p.stats.MaxBusy, p.stats.MaxQueue = p.stats.Workers, p.stats.Busy, p.stats.Queued
}

// Close refuses new work, answers what is queued with ErrClosed and waits until
// the workers have ended what they hold, or ctx is done.
func (p *Pool) Close(ctx context.Context) error {
	p.mu.Lock()
	if !p.closed {
		p.closed = true
		for t := p.queue.pop(); t != nil; t = p.queue.pop() {
			t.started <- struct{}{}
			t.done <- ErrClosed
		}
		p.stats.Queued = 0
		for _, w := range p.idle {
			close(w.tasks)
		}
		p.idle = nil
	}
	p.mu.Unlock()

	ended := make(chan struct{})
	go func() { p.wg.Wait(); close(ended) }()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// newWorker makes a worker that counts as alive. The caller holds the lock, or
// is New.
func (p *Pool) newWorker() *worker {
	p.nextLabel++
	p.stats.Workers++
	p.stats.MaxWorkers = max(p.stats.MaxWorkers, p.stats.Workers)
	p.wg.Add(1)
	idle := pprof.WithLabels(context.Background(), pprof.Labels("pool_worker", strconv.Itoa(p.nextLabel)))
	w := &worker{tasks: make(chan *task, 1), idleLabels: idle}
	for _, endpoint := range p.cfg.Labels {
		w.labels = append(w.labels, pprof.WithLabels(idle, pprof.Labels("endpoint", endpoint)))
	}
	p.spots = append(p.spots, &w.spot)
	return w
}

func labelContexts(endpoints []string) []context.Context {
	var contexts []context.Context
	for _, endpoint := range endpoints {
		contexts = append(contexts, pprof.WithLabels(context.Background(), pprof.Labels("endpoint", endpoint)))
	}
	return contexts
}
