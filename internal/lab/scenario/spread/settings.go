package spread

import (
	"flag"
	"fmt"
	"strconv"
	"time"

	"chokepoint/internal/cli"
)

// Settings is the whole configuration of a run.
type Settings struct {
	// Scale is a factor on every duration of the experiment, and a divisor of its rates.
	Scale float64
	// Only are the ids of the cells to run, comma-separated; empty is all.
	Only string
	Seed uint64
	// MaxLag is the generator's lag p99 above which a cell may not be believed, in real
	// time.
	MaxLag time.Duration

	DatabaseURL string
	ResultsDir  string
	BinDir      string
}

// minScale is that of the exhaustion scenario: below it the machine's own milliseconds
// would be the result.
const minScale = 0.05

// Bind registers a flag for every setting, with its default.
func (s *Settings) Bind(fs *flag.FlagSet) {
	fs.Float64Var(&s.Scale, "scale", 0.1, "`factor` on every duration, and divisor of every rate: 0.05 to 1")
	fs.StringVar(&s.Only, "only", "", "`ids` of the cells to run, comma-separated; empty is all")
	fs.Uint64Var(&s.Seed, "seed", 1, "seed of the arrivals")
	fs.DurationVar(&s.MaxLag, "max-lag", 200*time.Millisecond, "lag p99 of the generator, in real time, above which a cell is invalid; what decides here takes half a second and more at the default scale")
	fs.StringVar(&s.DatabaseURL, "database-url", "", "PostgreSQL `URL` (default: $DATABASE_URL, else a throwaway server)")
	s.ResultsDir = "results"
	cli.FileVar(fs, &s.ResultsDir, "results", "`folder` for the run's folder")
	cli.FileVar(fs, &s.BinDir, "bin-dir", "`folder` of the programs; default: that of this program")
}

// Validate says which setting no run can have.
func (s Settings) Validate() error {
	switch {
	case !(s.Scale >= minScale && s.Scale <= 1):
		return fmt.Errorf("-scale %v: want %v to 1; below it the machine's own milliseconds would be the result", s.Scale, minScale)
	case s.MaxLag <= 0 || s.MaxLag > time.Minute:
		return fmt.Errorf("-max-lag %v: want more than 0s, up to 1m", s.MaxLag)
	}
	return nil
}

// Effective is the configuration as the manifest has it, by the names of the flags.
func (s Settings) Effective() map[string]string {
	return map[string]string{
		"scale":   strconv.FormatFloat(s.Scale, 'g', -1, 64),
		"only":    s.Only,
		"seed":    strconv.FormatUint(s.Seed, 10),
		"max-lag": s.MaxLag.String(),
	}
}

// real turns scenario time into real time.
func (s Settings) real(d time.Duration) time.Duration {
	return time.Duration(float64(d) * s.Scale)
}

// scenarioSeconds turns real time into scenario seconds.
func (s Settings) scenarioSeconds(d time.Duration) float64 { return d.Seconds() / s.Scale }
