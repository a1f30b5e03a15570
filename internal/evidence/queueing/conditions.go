package queueing

import (
	"math"
	"math/rand/v2"
	"sort"
	"time"
)

// Ranges from which the ensemble draws, in real time. Messages and wake-ups on a
// loopback between two busy cores were seen from tens of microseconds to a few
// milliseconds. A full dump of the 700 to 2,000 goroutines of an exhausted victim,
// with labels, stopped the world for 20 to 55 ms on a machine with two cores, and
// the requests of that time pile up. A stall of 20 ms once a second leaves a run
// valid, for it makes fewer than one request in a hundred late.
const (
	leastHop, mostHop         = 20 * time.Microsecond, time.Millisecond
	leastWake, mostWake       = 20 * time.Microsecond, 2 * time.Millisecond
	leastService, mostService = 200 * time.Microsecond, 4 * time.Millisecond
	mostLate                  = 10 * time.Millisecond                   // from asking for a dump until it is taken
	mostPause                 = 60 * time.Millisecond                   // of the world, by a dump
	leastStall, mostStall     = time.Millisecond, 20 * time.Millisecond // of the victim, by the machine
	stallEvery                = time.Second                             // on average
)

// Purposes of the random generators of one case.
const (
	drawConditions = iota
	drawJitter
	drawUpstream
	drawArrivals // and one more for each stream
)

// conditions are what one case of the ensemble assumes about everything that
// the configuration does not say. All in scenario time.
type conditions struct {
	variant            int
	hop, wake, service time.Duration
	jitter             *rand.Rand // nil: every overhead is the same each time
	reverseTies        bool       // of what falls due at one instant, the last stream first
	stopShift          time.Duration
	dumpShift          []time.Duration
	pauses             []pause // of the victim, in the order of time, not overlapping
}

// pause is a time in which the victim does nothing.
type pause struct{ from, to time.Duration }

// nominal are typical conditions: the same small overheads each time.
func nominal(cfg *Config) *conditions {
	c := &conditions{
		hop:       cfg.scenario(cfg.Overheads.Hop),
		wake:      cfg.scenario(cfg.Overheads.Wake),
		service:   cfg.scenario(cfg.Overheads.Service),
		dumpShift: make([]time.Duration, len(cfg.DumpAt)),
	}
	for i := range c.dumpShift {
		c.dumpShift[i] = c.hop + c.wake
	}
	return c
}

// variant are the conditions of case i of the ensemble.
func variant(cfg *Config, i int) *conditions {
	r := newRand(cfg, i+1, drawConditions)
	c := &conditions{
		variant:     i + 1,
		hop:         cfg.scenario(between(r, leastHop, mostHop)),
		wake:        cfg.scenario(between(r, leastWake, mostWake)),
		service:     cfg.scenario(between(r, leastService, mostService)),
		reverseTies: i%2 == 1,
		dumpShift:   make([]time.Duration, len(cfg.DumpAt)),
	}
	if i%4 >= 2 { // ties x jitter: a quarter of the cases each
		c.jitter = newRand(cfg, i+1, drawJitter)
	}
	interval := float64(cfg.interval())
	c.stopShift = time.Duration((2*r.Float64() - 1) * interval)
	for k, d := range cfg.DumpAt {
		early := time.Duration(r.Float64() * interval)
		late := cfg.scenario(time.Duration(r.Float64() * float64(mostLate)))
		c.dumpShift[k] = late - early
		if d.At >= 0 {
			at := d.At + c.dumpShift[k]
			c.pauses = append(c.pauses, pause{at, at + cfg.scenario(time.Duration(r.Float64()*float64(mostPause)))})
		}
	}
	gap := float64(cfg.scenario(stallEvery))
	for at := r.ExpFloat64() * gap; at < float64(cfg.Duration); at += r.ExpFloat64() * gap {
		length := cfg.scenario(between(r, leastStall, mostStall))
		c.pauses = append(c.pauses, pause{time.Duration(at), time.Duration(at) + length})
	}
	c.pauses = merge(c.pauses)
	return c
}

// between draws log-uniformly, so that small is as likely as large.
func between(r *rand.Rand, least, most time.Duration) time.Duration {
	return time.Duration(float64(least) * math.Pow(float64(most)/float64(least), r.Float64()))
}

// merge sorts pauses and joins those that overlap.
func merge(pauses []pause) []pause {
	sort.Slice(pauses, func(i, j int) bool { return pauses[i].from < pauses[j].from })
	var merged []pause
	for _, p := range pauses {
		if n := len(merged); n > 0 && p.from <= merged[n-1].to {
			merged[n-1].to = max(merged[n-1].to, p.to)
			continue
		}
		merged = append(merged, p)
	}
	return merged
}

// resumed is when the victim does what falls due at t.
func (c *conditions) resumed(t time.Duration) time.Duration {
	i := sort.Search(len(c.pauses), func(i int) bool { return c.pauses[i].to > t })
	if i < len(c.pauses) && c.pauses[i].from <= t {
		return c.pauses[i].to
	}
	return t
}

// some is an overhead of that size: the same each time, or up to twice it.
func (c *conditions) some(size time.Duration) time.Duration {
	if c.jitter == nil {
		return size
	}
	return time.Duration(2 * c.jitter.Float64() * float64(size))
}
