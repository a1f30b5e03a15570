package guard

import (
	"context"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
)

// Bulkhead bounds how many calls are in flight, first come first served.
type Bulkhead struct {
	limit int
	wait  time.Duration
	sem   *semaphore.Weighted
	held  atomic.Int64
}

// NewBulkhead makes a bulkhead of limit permits; a call waits up to wait for one.
func NewBulkhead(limit int, wait time.Duration) *Bulkhead {
	return &Bulkhead{limit: limit, wait: wait, sem: semaphore.NewWeighted(int64(limit))}
}

// Held is the number of permits in use.
func (b *Bulkhead) Held() int { return int(b.held.Load()) }

// acquire is where a worker that waits for a permit stands in a dump. It
// returns how long it waited, and ErrBulkheadFull if no permit came.
//
//go:noinline
func (b *Bulkhead) acquire() (time.Duration, error) {
	if b.sem.TryAcquire(1) {
		b.held.Add(1)
		return 0, nil
	}
	start := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), b.wait)
	defer cancel()
	err := b.sem.Acquire(ctx, 1)
	wait := time.Since(start)
	if err != nil {
		return wait, ErrBulkheadFull
	}
	b.held.Add(1)
	return wait, nil
}

func (b *Bulkhead) release() {
	b.held.Add(-1)
	b.sem.Release(1)
}
