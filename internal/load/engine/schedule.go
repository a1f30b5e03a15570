package engine

import (
	"time"

	"chokepoint/internal/load/arrival"
)

// sequence makes the arrival sequence of endpoint i, from its start.
func (c Config) sequence(i int) arrival.Sequence {
	if c.Pattern != nil {
		return c.Pattern.Sequence(c.Endpoints[i].Name)
	}
	if c.Arrivals == Poisson {
		return arrival.Poisson(c.Endpoints[i].Rate, c.Duration, c.Seed, uint64(i))
	}
	return arrival.Constant(c.Endpoints[i].Rate, c.Duration)
}

// sequences make the arrival sequences of all endpoints, from their start; a closed
// model has none.
func (c Config) sequences() []arrival.Sequence {
	sequences := make([]arrival.Sequence, len(c.Endpoints))
	for i := range sequences {
		sequences[i] = c.sequence(i)
	}
	return sequences
}

// arrivals are the shard's arrivals of all endpoints, from their start.
func (c Config) arrivals() *arrival.Merged { return arrival.Merge(c.Shard, c.sequences()...) }

// arrivalWords are the arrivals as a result has them: the pattern as it is written
// in a plan, or the process; empty of a closed model, which has none.
func (c Config) arrivalWords() string {
	switch {
	case c.Closed > 0:
		return ""
	case c.Pattern != nil:
		return c.Pattern.String()
	}
	return string(c.Arrivals)
}

// planned is how many arrivals of endpoint i the shard has in the window.
func (c Config) planned(i int) int { return c.Shard.Count(c.wholePlan(i)) }

// wholePlan is how many arrivals endpoint i has in the window, over all shards.
func (c Config) wholePlan(i int) int {
	if c.Pattern != nil {
		return c.Pattern.Count(c.Endpoints[i].Name)
	}
	if c.Arrivals == Poisson {
		return arrival.Count(c.sequence(i))
	}
	return c.Endpoints[i].Rate.Count(c.Duration)
}

// targetRate is what the shard should bring endpoint i to over the window, per
// second: an equal part of the plan's.
func (c Config) targetRate(i int) float64 {
	shards := float64(max(1, c.Shard.Of))
	if c.Pattern != nil {
		return float64(c.wholePlan(i)) / c.Duration.Seconds() / shards
	}
	return c.Endpoints[i].Rate.PerSecond() / shards
}

// peakRate is how many arrivals of all endpoints the shard has in its busiest
// second.
func (c Config) peakRate() float64 {
	sum := 0.0
	for i, e := range c.Endpoints {
		if c.Pattern != nil {
			sum += float64(c.Shard.Most(c.Pattern.Most(e.Name, time.Second)))
		} else {
			sum += c.targetRate(i)
		}
	}
	return sum
}

// sendAt is when an arrival that falls due then may leave: Quantum rounds it up.
func (c Config) sendAt(due time.Duration) time.Duration {
	if c.Quantum == 0 {
		return due
	}
	if due > 0 {
		due += c.Quantum - 1 // a division rounds towards 0
	}
	return due / c.Quantum * c.Quantum
}
