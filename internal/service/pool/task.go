package pool

import (
	"context"
	"time"
)

// worker is one worker's mailbox and its profiler labels, which are made once
// so that setting them costs no allocation per request.
type worker struct {
	tasks      chan *task
	idleLabels context.Context
	labels     []context.Context // by endpoint
	spot       Spot
}

// awaitTask is where an idle worker stands in a dump. It returns nil when the
// pool has been closed.
//
//go:noinline
func (w *worker) awaitTask() *task { return <-w.tasks }

// task is one request on its way through the pool.
type task struct {
	work       Work
	endpoint   int
	arrived    time.Time
	started    chan struct{} // a worker took it out of the queue
	done       chan error    // the worker is done with it
	prev, next *task         // in the queue
	queued     bool
}

// awaitWorker is where a connection that waits for a worker stands in a dump.
// It reports false if the bound passed first.
//
//go:noinline
func (t *task) awaitWorker(bound time.Duration) bool {
	if bound <= 0 {
		<-t.started
		return true
	}
	timer := time.NewTimer(time.Until(t.arrived.Add(bound)))
	defer timer.Stop()
	select {
	case <-t.started:
		return true
	case <-timer.C:
		return false
	}
}

// awaitDone is where a connection stands while a worker runs its request.
//
//go:noinline
func (t *task) awaitDone() error { return <-t.done }

// fifo is a queue that can also give up one from its middle.
type fifo struct {
	head, tail *task
	n          int
}

func (q *fifo) len() int { return q.n }

func (q *fifo) push(t *task) {
	t.queued, t.prev, t.next = true, q.tail, nil
	if q.tail == nil {
		q.head = t
	} else {
		q.tail.next = t
	}
	q.tail = t
	q.n++
}

func (q *fifo) pop() *task {
	t := q.head
	if t != nil {
		q.remove(t)
	}
	return t
}

// remove takes t out; it reports false if t is not in the queue.
func (q *fifo) remove(t *task) bool {
	if !t.queued {
		return false
	}
	if t.prev == nil {
		q.head = t.next
	} else {
		t.prev.next = t.next
	}
	if t.next == nil {
		q.tail = t.prev
	} else {
		t.next.prev = t.prev
	}
	t.queued, t.prev, t.next = false, nil, nil
	q.n--
	return true
}
