package engine

import (
	"fmt"
	"time"

	"chokepoint/internal/load/arrival"
	"chokepoint/internal/load/ledger"
	"chokepoint/internal/rate"
	"chokepoint/internal/result"
)

// stream is what an engine plays of an endpoint: its load, or the warm-up before
// it. Each has workers of its own, so what the warm-up leaves in flight at due time
// 0 takes none from the load; they share the connections.
type stream struct {
	endpoint int
	warmUp   bool
	tally    *tally
	// from and until bound the due times, from the start. A closed model, which has
	// no others, sends between the two.
	from, until time.Duration
}

// newStreams makes the streams of c: those of the load, with the tallies, in the
// order of the endpoints, and then those of the warm-up in the same order.
func newStreams(c Config, tallies []*tally) []stream {
	var all []stream
	for i, t := range tallies {
		all = append(all, stream{endpoint: i, tally: t, until: c.Duration})
	}
	if c.Warmup > 0 {
		for i := range c.Endpoints {
			all = append(all, stream{endpoint: i, warmUp: true, tally: newWarmUpTally(c, i), from: -c.Warmup})
		}
	}
	return all
}

// slots is how many requests of e can be in flight at once, those of the warm-up
// included, and so how many connections it can have.
func (c Config) slots(e Endpoint) int {
	if c.Warmup > 0 {
		return 2 * e.Workers
	}
	return e.Workers
}

// initialRate is the rate of endpoint i at due time 0.
func (c Config) initialRate(i int) rate.Rate {
	if c.Pattern != nil {
		return c.Pattern.Initial(c.Endpoints[i].Name)
	}
	return c.Endpoints[i].Rate
}

// validateWarmup says what is wrong with the warm-up.
func (c Config) validateWarmup() error {
	if c.Warmup < 0 || c.Warmup > maxDuration {
		return fmt.Errorf("a warm-up of %v must be between 0 and %v", c.Warmup, maxDuration)
	}
	if c.Warmup == 0 || c.Closed > 0 {
		return nil
	}
	for i := range c.Endpoints {
		if c.initialRate(i) > 0 {
			return nil
		}
	}
	return fmt.Errorf("the %s arrivals begin at rate 0, so a warm-up would send nothing; leave it out, or begin above 0", c.Arrivals)
}

// played are the shard's arrivals of all streams: From is the stream's index.
// Those of the warm-up are evenly spaced.
func (c Config) played() *arrival.Merged {
	sequences := c.sequences()
	if c.Warmup > 0 {
		for i := range c.Endpoints {
			var s arrival.Sequence = arrival.Concat()
			if r := c.initialRate(i); r > 0 {
				s = arrival.Shift(arrival.Constant(r, c.Warmup), -c.Warmup)
			}
			sequences = append(sequences, s)
		}
	}
	return arrival.Merge(c.Shard, sequences...)
}

// reportWarmUp puts what became of the warm-up beside the result, which it is no
// part of: what went wrong in it is a warning.
func reportWarmUp(c Config, streams []stream, load *result.Load) {
	if c.Warmup == 0 {
		return
	}
	load.Warmup = &result.Warmup{Seconds: c.Warmup.Seconds(), Endpoints: map[string]result.WarmupEndpoint{}}
	warn := func(format string, args ...any) {
		load.Validity.Warnings = append(load.Validity.Warnings, fmt.Sprintf(format, args...))
	}
	for _, s := range streams {
		if !s.warmUp {
			continue
		}
		l := s.tally.close()
		e := result.WarmupEndpoint{
			Scheduled: l.Scheduled, Started: l.Started, Dropped: l.Dropped,
			OK: l.Count(ledger.OK), Failed: l.Started - l.Count(ledger.OK), Overhang: s.tally.overhang,
		}
		load.Warmup.Endpoints[s.tally.name] = e
		if err := l.Check(); err != nil {
			warn("%s: warm-up: %v", s.tally.name, err)
		}
		if e.Dropped > 0 {
			warn("%s: warm-up: %d of %d arrivals were dropped", s.tally.name, e.Dropped, e.Scheduled)
		}
		if e.Failed > 0 {
			warn("%s: warm-up: %d of %d requests failed", s.tally.name, e.Failed, e.Started)
		}
	}
}
