package engine

import (
	"sync"
	"time"
)

// job is an arrival on its way to a worker; its due time goes with it.
type job struct {
	index int // among the arrivals of its endpoint, over all shards
	due   time.Duration
}

// crew is the workers of one stream, each known by the channel that it takes
// its jobs from. The worker that came free last is used first, so that as few
// connections as possible are kept busy.
type crew struct {
	all []chan job

	mu   sync.Mutex
	free []int
}

func newCrew(workers int) *crew {
	c := &crew{all: make([]chan job, workers), free: make([]int, workers)}
	for i := range workers {
		// One place: a free worker has none in it, so a hand-off never blocks.
		c.all[i] = make(chan job, 1)
		c.free[i] = workers - 1 - i
	}
	return c
}

// offer hands the job to a free worker, or says that there is none.
func (c *crew) offer(j job) bool {
	c.mu.Lock()
	last := len(c.free) - 1
	if last < 0 {
		c.mu.Unlock()
		return false
	}
	w := c.free[last]
	c.free = c.free[:last]
	c.mu.Unlock()
	c.all[w] <- j
	return true
}

func (c *crew) release(w int) {
	c.mu.Lock()
	c.free = append(c.free, w)
	c.mu.Unlock()
}

// dismiss lets every worker end after the job that it has.
func (c *crew) dismiss() {
	for _, jobs := range c.all {
		close(jobs)
	}
}

// work is the life of one worker of an open model.
func work(c *crew, w int, client Client, t *tally, start time.Time, timeout time.Duration) {
	for j := range c.all[w] {
		due := start.Add(j.due)
		x := client(j.index, due.Add(timeout))
		t.finish(j, x.Began.Sub(due), x.Done.Sub(x.Began), x.Received, x.Answer)
		c.release(w)
	}
}
