package engine

import (
	"context"
	"time"
)

// timerWait waits with the runtime's timers.
func timerWait(ctx context.Context, until time.Time) bool {
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
