package scenario

import (
	"context"
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
	failed  error // the last question that got no answer
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
			s.failed = err
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
