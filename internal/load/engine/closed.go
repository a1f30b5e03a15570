package engine

import (
	"context"
	"fmt"
	"time"

	"chokepoint/internal/result"
)

// validateClosed says what a closed model cannot be combined with.
func (c Config) validateClosed() error {
	switch {
	case c.Closed < 0:
		return fmt.Errorf("a closed model with %d workers; give one or more", c.Closed)
	case c.Closed == 0:
		return nil
	case c.Pattern != nil || c.Arrivals != Constant:
		return fmt.Errorf("%s arrivals are of the open model; a closed model has none", c.Arrivals)
	case c.Quantum > 0:
		return fmt.Errorf("a quantum of %v is of the open model; a closed model has no due times", c.Quantum)
	}
	return nil
}

// model is the plan's model as the result has it.
func (c Config) model() string {
	if c.Closed > 0 {
		return result.ModelClosed
	}
	return result.ModelOpen
}

// closedWarning is the first thing that the result of a closed model says.
func closedWarning(c Config) string {
	workers := fmt.Sprintf("each of %d workers", c.Closed)
	if c.Closed == 1 {
		workers = "its one worker"
	}
	return fmt.Sprintf("closed model, a control: %s sends when its last request is over, so whatever stands still stops the arrivals too, and who would have waited outside is not seen (coordinated omission)", workers)
}

// workClosed is the life of one worker of a closed model: it sends one request
// after the other while the stream lasts.
func workClosed(ctx context.Context, s stream, client Client, start time.Time, timeout time.Duration) {
	if !timerWait(ctx, start.Add(s.from)) {
		return
	}
	for due := time.Now(); due.Before(start.Add(s.until)) && ctx.Err() == nil; due = time.Now() {
		index := s.tally.next()
		x := client(index, due.Add(timeout))
		s.tally.finish(job{index: index, due: x.Began.Sub(start)}, 0, x.Done.Sub(x.Began), x.Received, x.Answer)
	}
}
