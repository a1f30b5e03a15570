package scenario

import (
	"context"
	"fmt"
	"sync"
	"time"

	"chokepoint/internal/adminapi"
)

// sample is the victim's state at one moment of the run.
type sample struct {
	at    time.Duration // real, from the start of the load
	stats adminapi.VictimStats
}

// sampler asks the victim for its state at every tick.
type sampler struct {
	observer *observer
	url      string
	loadOn   time.Time
	tick     time.Duration

	mu      sync.Mutex
	samples []sample
	failed  int   // questions that got no answer
	failure error // of the last of them
}

// run samples until ctx is done. Each sample is taken at its own due time: a
// slow answer does not move the next one.
func (s *sampler) run(ctx context.Context) {
	first := time.Since(s.loadOn) / s.tick
	for k := first; ; k++ {
		if !sleepUntil(ctx, s.loadOn.Add(k*s.tick)) {
			return
		}
		if late := time.Since(s.loadOn) / s.tick; late > k {
			k = late
		}
		s.take(ctx)
	}
}

// take adds one sample now.
func (s *sampler) take(ctx context.Context) {
	var stats adminapi.VictimStats
	err := s.observer.getJSON(ctx, s.url, &stats)
	at := time.Since(s.loadOn)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		if ctx.Err() == nil {
			s.failed++
			s.failure = err
		}
		return
	}
	s.samples = append(s.samples, sample{at, stats})
}

// last is the newest sample.
func (s *sampler) last() (sample, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.samples) == 0 {
		return sample{}, false
	}
	return s.samples[len(s.samples)-1], true
}

func (s *sampler) all() []sample {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]sample(nil), s.samples...)
}

// Bounds on the time between two samples under load, above which the timeline
// has a hole: a crowded machine may delay a sample, real.
const (
	maxGapTicks = 10
	minGap      = 2 * time.Second
)

// faults says what the samples do not show of the load until then.
func (s *sampler) faults(until time.Duration) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var faults []string
	if s.failed > 0 {
		faults = append(faults, fmt.Sprintf("the victim did not answer %d of %d questions for its state, the last: %v", s.failed, s.failed+len(s.samples), s.failure))
	}
	var at, gap, last time.Duration
	reach := func(moment time.Duration) {
		if moment-last > gap {
			at, gap = last, moment-last
		}
		last = max(last, moment)
	}
	for _, sample := range s.samples {
		reach(min(sample.at, until))
	}
	reach(until)
	if gap > max(maxGapTicks*s.tick, minGap) {
		faults = append(faults, fmt.Sprintf("the victim's state is not known for %v from %v into the load on", gap.Round(time.Millisecond), at.Round(time.Millisecond)))
	}
	return faults
}

// sleepUntil reports false if ctx was done first.
func sleepUntil(ctx context.Context, t time.Time) bool {
	timer := time.NewTimer(time.Until(t))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
