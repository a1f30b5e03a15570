package queueing

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"time"

	"chokepoint/internal/adminapi"
	"chokepoint/internal/profile"
	"chokepoint/internal/rate"
)

// WaitForAll, as Config.GracefulStop, waits for every answer or client timeout.
const WaitForAll time.Duration = -1

// Config is what the model reads: the settings of a run. Durations and rates are
// scenario time unless they say real.
type Config struct {
	// Streams send at the same instants in this order.
	Streams  []Stream
	Duration time.Duration // of the load window
	// GracefulStop is how long after the window the generator waits; what is then
	// in flight is interrupted. Negative (WaitForAll) waits for all, 0 for nothing.
	GracefulStop time.Duration
	Profile      profile.Profile // in scenario time
	// PoolMin and PoolMax bound the workers (ignored where the profile is unbounded).
	PoolMin, PoolMax int
	// MaxConnections is how many connections the victim accepts at a time, and
	// AcceptBacklog how many the kernel holds besides; MaxConnections 0 is no limit.
	MaxConnections, AcceptBacklog int
	// Delay is how long the upstream takes to answer.
	Delay Delay
	// Fault befalls FaultRate (0..1) of the calls, as the stub does it; a fault of
	// connections befalls them all.
	Fault     adminapi.Fault
	FaultRate float64
	// Loss is the share (0..1) of the packets between victim and upstream, in both
	// directions, that are lost from the start of the load on. Kept is how many
	// connections to the upstream the victim has by then; a call that finds one idle
	// sends on it, the others connect. Both matter to a path that loses only.
	Loss   float64
	Kept   int
	Scale  float64     // real seconds per scenario second; 0 is 1
	DumpAt []DumpPoint // in the order of time
	// RecoveryWait is how long after the window the run watches for recovery.
	RecoveryWait time.Duration
	// Overheads of the nominal case; zero fields take the typical ones.
	Overheads Overheads
	Seed      uint64
}

// Stream is one endpoint's load.
type Stream struct {
	Name    string
	Rate    rate.Rate
	Poisson bool          // arrivals of a Poisson process; else one each 1/Rate
	Timeout time.Duration // of the client, from the due time
	// Workers is how many requests the generator can have in flight; 0 takes
	// ceil(rate x (timeout + 250 ms real)) + 8, which drops nothing (DESIGN section 4).
	Workers       int
	CallsUpstream bool // else a worker answers by itself, in Overheads.Service
}

// DumpPoint is a moment at which the run takes a goroutine dump, from the start
// of the load window; a negative one is before the load.
type DumpPoint struct {
	Name string
	At   time.Duration
}

// Delay draws one delay of the upstream, in scenario time, at or above zero.
type Delay func(*rand.Rand) time.Duration

// Constant is the same delay every time.
func Constant(d time.Duration) Delay { return func(*rand.Rand) time.Duration { return d } }

// Overheads are what the machine adds, in real time. They are small, but a
// worker's cycle is "timeout + overhead", and the sum over a run's cycles is
// what settles its ties.
type Overheads struct {
	Hop     time.Duration // a message from one process to the next; typically 0.1 ms on loopback
	Wake    time.Duration // how late a timer fires or a finished read is noticed; typically 0.3 ms
	Service time.Duration // a request that needs no upstream: one row; typically 1 ms
}

// maxRequests bounds memory (about 100 bytes a request) and, with maxSimulated,
// time.
const (
	maxRequests  = 2_000_000
	maxSimulated = 2_000_000
	fullEnsemble = 24
	leastCases   = 4
)

func (c Config) withDefaults() Config {
	if c.Scale == 0 {
		c.Scale = 1
	}
	o := &c.Overheads
	for _, d := range []struct {
		field   *time.Duration
		typical time.Duration
	}{
		{&o.Hop, 100 * time.Microsecond},
		{&o.Wake, 300 * time.Microsecond},
		{&o.Service, time.Millisecond},
	} {
		if *d.field == 0 {
			*d.field = d.typical
		}
	}
	streams := make([]Stream, len(c.Streams))
	copy(streams, c.Streams)
	for i := range streams {
		if s := &streams[i]; s.Workers == 0 && c.Scale > 0 {
			held := s.Timeout.Seconds() + 0.25/c.Scale
			s.Workers = int(math.Ceil(s.Rate.PerSecond()*held)) + 8
		}
	}
	c.Streams = streams
	return c
}

func (c *Config) validate() error {
	switch {
	case len(c.Streams) == 0:
		return errors.New("queueing: no streams; a run needs at least one")
	case c.Duration <= 0:
		return fmt.Errorf("queueing: duration %v must be above zero", c.Duration)
	case !(c.Scale > 0) || math.IsInf(c.Scale, 0):
		return fmt.Errorf("queueing: scale %v must be above zero; 1 is real time", c.Scale)
	case !c.Profile.Unbounded && (c.PoolMin < 0 || c.PoolMax < 1 || c.PoolMin > c.PoolMax):
		return fmt.Errorf("queueing: pool of %d to %d workers; want 0 <= min <= max and max >= 1", c.PoolMin, c.PoolMax)
	case c.MaxConnections < 0 || c.AcceptBacklog < 0:
		return fmt.Errorf("queueing: %d connections and a backlog of %d must not be negative; 0 connections is no limit", c.MaxConnections, c.AcceptBacklog)
	case c.Delay == nil:
		return errors.New("queueing: no upstream delay; use Constant")
	case !(c.FaultRate >= 0 && c.FaultRate <= 1):
		return fmt.Errorf("queueing: fault rate %v must be from 0 to 1", c.FaultRate)
	case !(c.Loss >= 0 && c.Loss <= 1) || c.Kept < 0:
		return fmt.Errorf("queueing: a loss of %v with %d connections kept; want a share from 0 to 1, and 0 or more", c.Loss, c.Kept)
	case c.RecoveryWait < 0:
		return fmt.Errorf("queueing: recovery wait %v must not be negative", c.RecoveryWait)
	case c.Overheads.Hop < 0 || c.Overheads.Wake < 0 || c.Overheads.Service < 0:
		return fmt.Errorf("queueing: overheads %+v must not be negative", c.Overheads)
	}
	if _, known := faultOutcome(c.Fault); c.Fault != adminapi.FaultNone && !known {
		return fmt.Errorf("queueing: unknown fault %q; use one of the stub's", c.Fault)
	}
	if err := c.Profile.Validate(); err != nil {
		return err
	}
	names := map[string]bool{}
	for _, s := range c.Streams {
		switch {
		case s.Name == "" || names[s.Name]:
			return fmt.Errorf("queueing: stream name %q is empty or used twice", s.Name)
		case !(s.Rate > 0) || math.IsInf(float64(s.Rate), 0):
			return fmt.Errorf("queueing: stream %s: rate %v must be above zero", s.Name, s.Rate)
		case s.Timeout <= 0:
			return fmt.Errorf("queueing: stream %s: client timeout %v must be above zero", s.Name, s.Timeout)
		case s.Workers < 1:
			return fmt.Errorf("queueing: stream %s: %d workers; use at least one, or 0 for the default", s.Name, s.Workers)
		}
		names[s.Name] = true
	}
	for i, d := range c.DumpAt {
		if i > 0 && d.At < c.DumpAt[i-1].At {
			return fmt.Errorf("queueing: dump point %s at %v comes after a later one; put them in the order of time", d.Name, d.At)
		}
	}
	if n := c.arrivals(); n > maxRequests {
		return fmt.Errorf("queueing: %.0f requests are more than the model holds (%d); lower the rate or the duration", n, maxRequests)
	}
	return nil
}

// fault is what becomes of a call that a fault of the stub befalls.
type fault struct {
	answers      bool // false: nothing ever comes
	atOnce       bool // instead of after the delay
	onConnection bool // whatever the rate
	answer       answer
}

// faultOutcome knows the stub's faults. What fails after the request was read
// does so when the answer would have been due.
func faultOutcome(f adminapi.Fault) (outcome fault, known bool) {
	switch f {
	case adminapi.FaultError:
		return fault{answers: true, answer: answer{http.StatusBadGateway, adminapi.CauseUpstreamStatus}}, true
	case adminapi.FaultClose, adminapi.FaultCloseMid, adminapi.FaultReset, adminapi.FaultResetMid:
		return fault{answers: true, answer: answer{http.StatusBadGateway, adminapi.CauseUpstreamReset}}, true
	case adminapi.FaultRefuse:
		return fault{answers: true, atOnce: true, onConnection: true,
			answer: answer{http.StatusBadGateway, adminapi.CauseUpstreamConnect}}, true
	case adminapi.FaultHang:
		return fault{}, true
	case adminapi.FaultTLSHang:
		return fault{onConnection: true}, true
	default:
		return fault{}, false
	}
}

// faultRate is the share of the calls that the fault befalls.
func (c *Config) faultRate() float64 {
	if f, _ := faultOutcome(c.Fault); f.onConnection {
		return 1
	}
	return c.FaultRate
}

// arrivals is the expected number of requests of all streams.
func (c *Config) arrivals() float64 {
	n := 0.0
	for _, s := range c.Streams {
		n += s.Rate.PerSecond() * c.Duration.Seconds()
	}
	return n
}

// variants is the size of the ensemble: full for the scenarios of the lab,
// smaller where a run is so long that the prediction would keep it waiting.
func (c *Config) variants() int {
	return min(fullEnsemble, max(leastCases, int(maxSimulated/c.arrivals())))
}

// interval is the shortest time between two arrivals of one stream.
func (c *Config) interval() time.Duration {
	shortest := time.Duration(math.MaxInt64)
	for _, s := range c.Streams {
		shortest = min(shortest, s.Rate.Interval())
	}
	return shortest
}

// scenario turns real time into scenario time.
func (c *Config) scenario(real time.Duration) time.Duration {
	return time.Duration(float64(real) / c.Scale)
}
