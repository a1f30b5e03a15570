package drain

import (
	"flag"
	"fmt"
	"runtime"
	"time"

	"chokepoint/internal/cli"
)

// Name is what the scenario is called.
const Name = "drain"

// Settings is the whole configuration of a run.
type Settings struct {
	// Scale is the factor on every duration of the cases, which are those of the incident.
	Scale    float64 `json:"scale"`
	Parallel int     `json:"parallel"` // cases at a time
	Only     string  `json:"only"`     // ids, comma-separated; empty: all
	Programs Programs

	ResultsDir string `json:"-"`
	BinDir     string `json:"-"`

	flags *flag.FlagSet
}

const (
	// Under the least a drain is no longer than a crowded machine's hiccup.
	leastScale, mostScale = 0.05, 1
	maxParallel           = 64
	defaultScale          = 0.1
	// casesPerCPU is how many cases at a time a processor carries, which mostly wait.
	casesPerCPU = 4
)

// Bind registers a flag for every setting, with its default.
func (s *Settings) Bind(fs *flag.FlagSet) {
	s.flags = fs
	fs.Float64Var(&s.Scale, "scale", defaultScale, "`factor` on every duration of the cases, which are those of the incident; 0.05 to 1")
	fs.IntVar(&s.Parallel, "parallel", min(casesPerCPU*runtime.NumCPU(), maxParallel), "cases at a time; they mostly wait")
	fs.StringVar(&s.Only, "only", "", "`ids` of the cases to run, such as short-drain,zero-edge; all without it")
	s.ResultsDir = "results"
	cli.FileVar(fs, &s.ResultsDir, "results", "`folder` of the results")
	fs.StringVar(&s.BinDir, "bin-dir", "", "`folder` of the programs (default: beside this one)")
}

// Validate refuses what could not run. Its errors are usage errors.
func (s *Settings) Validate() error {
	switch {
	case !(s.Scale >= leastScale && s.Scale <= mostScale):
		return fmt.Errorf("-scale %v: want %v to %v", s.Scale, leastScale, mostScale)
	case s.Parallel < 1 || s.Parallel > maxParallel:
		return fmt.Errorf("-parallel %d: want 1 to %d", s.Parallel, maxParallel)
	}
	return nil
}

// Effective is the whole configuration, flag by flag, for the manifest.
func (s *Settings) Effective() map[string]string {
	all := map[string]string{}
	s.flags.VisitAll(func(f *flag.Flag) { all[f.Name] = f.Value.String() })
	for _, name := range []string{"config", "version", "json", "list"} {
		delete(all, name)
	}
	return all
}

// scaled is a duration of the incident in real time.
func scaled(d time.Duration, scale float64) time.Duration {
	return time.Duration(float64(d) * scale).Round(time.Millisecond)
}

// in scales every duration of a setup.
func (s Setup) in(scale float64) Setup {
	for _, d := range []*time.Duration{
		&s.Edge, &s.Balancer.Propagation, &s.Balancer.DeregistrationDelay,
		&s.End.PreStop, &s.End.Drain, &s.End.Grace, &s.Load.Every, &s.Load.Before, &s.Load.IdleTimeout,
	} {
		*d = scaled(*d, scale)
	}
	s.Keepers = append([]Keeper(nil), s.Keepers...)
	for i := range s.Keepers {
		s.Keepers[i].Every = scaled(s.Keepers[i].Every, scale)
	}
	work := s.Load.Work
	s.Load.Work = func(i int) time.Duration { return scaled(work(i), scale) }
	return s
}
