// Package sizing chooses the timeout and the permits of the calls to one
// upstream, and says why: from the distribution of the healthy latency, the rate
// of the calls and the shared worker pool.
//
// The timeout is a quantile of the healthy latency. The permits are searched with
// the model of evidence/queueing, since a formula over means or percentiles knows
// neither the bursts of the arrivals nor the wait for a permit: the fewest of
// which the healthy load is refused seldom enough. What the pair holds in an
// outage is the model's too, and Little's law is shown beside it.
//
// It refuses to size the pool itself, retries and breakers, and to guess how the
// upstream slows down under load: its latency is taken to be that of the question
// at any rate.
package sizing

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"chokepoint/internal/evidence/queueing"
	"chokepoint/internal/profile"
	"chokepoint/internal/rate"
)

// Question is what a size is wanted for. Times are real.
type Question struct {
	Latency Latency
	// Rate is of the calls to the upstream at their peak; OtherRate of the requests
	// that share the pool and call nobody, 0 for none.
	Rate, OtherRate rate.Rate
	Workers         int // of the shared pool, at most
	PermitWait      time.Duration
	Poisson         bool // arrivals of a Poisson process; else evenly spaced
	Goals           Goals
	Seed            uint64
	calls           float64 // of each case of the model; 0 is simulated
}

// Goals are what a pair must meet; shares are from 0 to 1.
type Goals struct {
	// MaxRejected is the share of the healthy calls that the bulkhead may refuse, or
	// their clients abandon in the queue before it, also when the rate is Headroom above
	// the one asked for.
	MaxRejected float64 `json:"max_rejected"`
	Headroom    float64 `json:"headroom"`
	// MaxCut is the share of the healthy answers that the timeout may cut off.
	MaxCut float64 `json:"max_cut"`
	// MaxHeld is the share of the workers that may be busy in an outage.
	MaxHeld float64 `json:"max_held"`
}

// Pair is a timeout with a number of permits.
type Pair struct {
	Timeout time.Duration
	Permits int
}

const (
	// maxRate and maxWorkers bound the time and the memory of the model: a minute.
	minRate    = 0.001
	maxRate    = 20_000
	maxOthers  = 100 // times the rate of the calls
	maxWorkers = 100_000
	// maxHeadroom is ten times the rate: beyond it the rate is not what it says.
	maxHeadroom = 9
	longest     = 10 * time.Minute
	// simulated is how many calls each case of the model makes; the rarest share
	// that a goal may ask for is tens of them.
	simulated = 6000
	leastGoal = 0.0001
	// steady is how many times the p99 a load lasts at the least: at its beginning
	// nothing is in flight.
	steady      = 10
	patience    = 5 * time.Second // of a client, beyond timeout and permit wait
	otherClient = 30 * time.Second
)

func (q *Question) validate() error {
	share := func(name string, v, least, most float64) error {
		if !(v >= least && v <= most) {
			return fmt.Errorf("%s %v: want a share from %v to %v", name, v, least, most)
		}
		return nil
	}
	err := errors.Join(
		share("max-rejected", q.Goals.MaxRejected, leastGoal, 1),
		share("max-cut", q.Goals.MaxCut, leastGoal, 0.5),
		share("max-held", q.Goals.MaxHeld, leastGoal, 1),
		share("headroom", q.Goals.Headroom, 0, maxHeadroom),
	)
	if err != nil {
		return err
	}
	slowest := q.Latency.Quantile(1 - q.Goals.MaxCut)
	switch {
	case !(q.Rate >= minRate && q.Rate <= maxRate):
		return fmt.Errorf("rate %v: want %v/s to %d/s; of a higher one take the share of one instance", q.Rate, minRate, maxRate)
	case !(q.OtherRate >= 0 && q.OtherRate <= maxRate && q.OtherRate <= maxOthers*q.Rate):
		return fmt.Errorf("other rate %v: want 0/s to %d/s, and no more than %d times the rate of the calls", q.OtherRate, maxRate, maxOthers)
	case q.Workers < 1 || q.Workers > maxWorkers:
		return fmt.Errorf("%d workers: want 1 to %d", q.Workers, maxWorkers)
	case q.PermitWait < 0 || q.PermitWait > longest:
		return fmt.Errorf("permit wait %v: want 0s to %v", q.PermitWait, longest)
	case slowest <= 0:
		return errors.New("the latency is 0s: a call that takes no time needs no size")
	case slowest > longest:
		return fmt.Errorf("the latency reaches %v in a share of %v of the answers: want at most %v; cut off more with max-cut", slowest, q.Goals.MaxCut, longest)
	}
	return nil
}

// profile is the pair as a protection; without a timeout or without permits if
// that is 0.
func (q *Question) profile(p Pair) profile.Profile {
	return profile.Profile{Name: "size", Timeout: p.Timeout, Permits: p.Permits, PermitWait: q.PermitWait}
}

// model is the load at r on the pair.
func (q *Question) model(p Pair, r rate.Rate, length time.Duration) queueing.Config {
	client := p.Timeout + q.PermitWait + patience
	if p.Timeout == 0 {
		client = otherClient
	}
	streams := []queueing.Stream{{Name: callStream, Rate: r, Poisson: q.Poisson, Timeout: client, CallsUpstream: true}}
	if q.OtherRate > 0 {
		streams = append(streams, queueing.Stream{Name: otherStream, Rate: q.OtherRate, Poisson: q.Poisson, Timeout: otherClient})
	}
	return queueing.Config{
		Streams: streams, Duration: length, GracefulStop: queueing.WaitForAll,
		Profile: q.profile(p), PoolMin: min(10, q.Workers), PoolMax: q.Workers,
		Delay: q.Latency.Sample, Scale: 1, Seed: q.Seed,
	}
}

// Streams of the model: as the endpoints of the exhaustion scenario.
const (
	callStream  = "upstream"
	otherStream = "fast"
)

// healthy predicts the load in which the upstream answers as in the question. A
// prediction may take seconds: none is begun once ctx is done.
func (q *Question) healthy(ctx context.Context, p Pair, r rate.Rate) (queueing.Prediction, error) {
	calls := q.calls
	if calls == 0 {
		calls = simulated
	}
	length := max(time.Duration(calls/r.PerSecond()*float64(time.Second)), steady*q.Latency.Quantile(0.99))
	if ctx.Err() != nil {
		return queueing.Prediction{}, context.Cause(ctx)
	}
	return queueing.Predict(q.model(p, r, length))
}

// outage predicts the load in which the upstream reads every request and never
// answers. It is long enough for calls without any protection to fill the pool. Once
// ctx is done it is not begun.
func (q *Question) outage(ctx context.Context, p Pair) (queueing.Prediction, error) {
	fill := float64(q.Workers) / q.Rate.PerSecond()
	length := time.Duration(1.5*fill*float64(time.Second)) + 3*(p.Timeout+q.PermitWait) + time.Second
	cfg := q.model(p, q.Rate, length)
	cfg.Fault, cfg.FaultRate = "hang", 1
	if ctx.Err() != nil {
		return queueing.Prediction{}, context.Cause(ctx)
	}
	return queueing.Predict(cfg)
}

// inFlight is the mean number of calls in flight by Little's law: the rate times
// the mean time of a call that is given up at bound.
func (q *Question) inFlight(bound time.Duration) float64 {
	return q.Rate.PerSecond() * q.Latency.meanWithin(bound).Seconds()
}

// roundUp rounds up to two significant digits, which a person would set.
func roundUp(d time.Duration) time.Duration {
	unit := math.Pow10(int(math.Floor(math.Log10(float64(d)))) - 1)
	return time.Duration(math.Ceil(float64(d)/unit-1e-9) * unit)
}
