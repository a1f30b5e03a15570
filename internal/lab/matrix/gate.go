package matrix

import (
	"context"
	"runtime"
)

// Gate lets as many cases start their hosts and programs at a time as there are
// processors: the others rest meanwhile, or wait for an answer, and are not disturbed.
type Gate chan struct{}

// NewGate is a gate that nobody has passed.
func NewGate() Gate { return make(Gate, runtime.NumCPU()) }

// Through runs f when there is room. The error is f's, or the end of ctx before it.
func (g Gate) Through(ctx context.Context, f func() error) error {
	select {
	case g <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-g }()
	return f()
}
