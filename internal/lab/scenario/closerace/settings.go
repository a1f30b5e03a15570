package closerace

import (
	"flag"
	"fmt"
	"strconv"
	"time"

	"chokepoint/internal/cli"
)

// Settings is the whole configuration of a run. All durations are real time.
type Settings struct {
	// IdleTimeout is how long the server lets a connection rest.
	IdleTimeout time.Duration
	// RoundTrip is what the way between both ends takes there and back, beyond that of the
	// loopback. With one, the lab runs in a sandbox.
	RoundTrip time.Duration
	// Duration is how long the callers call.
	Duration time.Duration
	// Callers is how many there are of each line; each has a victim of its own.
	Callers int
	Seed    uint64

	ResultsDir string
	BinDir     string
}

const (
	// minIdleTimeout leaves room for the sweep, and for eviction before it.
	minIdleTimeout = 50 * time.Millisecond
	maxIdleTimeout = 10 * time.Second
	// roundTripShare bounds the round trip, as a part of the idle timeout: eviction and
	// the check of age, at 80 %, must stay clear of the race, and the sweep must see all
	// of it.
	roundTripShare = 10
	maxCallers     = 20
	maxDuration    = time.Hour
	// minRests is the fewest think times that a caller must have time for: fewer do not
	// fill the points of the sweep.
	minRests = 50
)

// Bind registers a flag for every setting, with its default.
func (s *Settings) Bind(fs *flag.FlagSet) {
	fs.DurationVar(&s.IdleTimeout, "idle-timeout", 100*time.Millisecond, "how long the server lets a connection rest: 50ms to 10s")
	fs.DurationVar(&s.RoundTrip, "round-trip", 0, "what the way to the server and back takes, in network namespaces: up to a tenth of -idle-timeout; 0 is the loopback")
	fs.DurationVar(&s.Duration, "duration", 40*time.Second, "how long the callers call")
	fs.IntVar(&s.Callers, "callers", 3, "callers of each client, method and defence, each with a victim of its own: 1 to 20")
	fs.Uint64Var(&s.Seed, "seed", 1, "seed of the order of the think times")
	s.ResultsDir = "results"
	cli.FileVar(fs, &s.ResultsDir, "results", "`folder` for the run's folder")
	cli.FileVar(fs, &s.BinDir, "bin-dir", "`folder` of victim and upstream; default: that of this program")
}

// Validate says which setting no run can have.
func (s Settings) Validate() error {
	switch {
	case s.IdleTimeout < minIdleTimeout || s.IdleTimeout > maxIdleTimeout:
		return fmt.Errorf("-idle-timeout %s: want %s to %s", s.IdleTimeout, minIdleTimeout, maxIdleTimeout)
	case s.RoundTrip < 0 || s.RoundTrip > s.IdleTimeout/roundTripShare:
		return fmt.Errorf("-round-trip %s: want 0 to %s, a tenth of -idle-timeout", s.RoundTrip, s.IdleTimeout/roundTripShare)
	case s.Callers < 1 || s.Callers > maxCallers:
		return fmt.Errorf("-callers %d: want 1 to %d", s.Callers, maxCallers)
	case s.Duration < minRests*s.IdleTimeout:
		return fmt.Errorf("-duration %s: want %s or more, which is %d think times", s.Duration, minRests*s.IdleTimeout, minRests)
	case s.Duration > maxDuration:
		return fmt.Errorf("-duration %s: want at most %s", s.Duration, maxDuration)
	}
	return nil
}

// Effective is the configuration as the manifest has it, by the names of the flags.
func (s Settings) Effective() map[string]string {
	return map[string]string{
		"idle-timeout": s.IdleTimeout.String(),
		"round-trip":   s.RoundTrip.String(),
		"duration":     s.Duration.String(),
		"callers":      strconv.Itoa(s.Callers),
		"seed":         strconv.FormatUint(s.Seed, 10),
	}
}
