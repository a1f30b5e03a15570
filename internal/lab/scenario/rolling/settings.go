package rolling

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"time"

	"chokepoint/internal/cli"
	"chokepoint/internal/lab/balancer"
)

// Name is what the scenario is called.
const Name = "rolling"

// Settings is the whole configuration of a run. All durations are real time.
type Settings struct {
	// Timeout is how long the client waits for an answer; InFlight is how long the servers
	// are at a request that is in flight when one of them ends.
	Timeout  time.Duration `json:"timeout"`
	InFlight time.Duration `json:"in_flight"`

	ConfigFile string `json:"config_file"` // the reader's; empty: the lab's own
	Config     string `json:"config"`      // its text

	Parallel   int    `json:"parallel"` // cases at a time
	Only       string `json:"only"`     // ids, comma-separated; empty: all
	ResultsDir string `json:"-"`
	BinDir     string `json:"-"`
	// Stub and Nginx are the programs, once they have been found.
	Stub  string          `json:"stub"`
	Nginx balancer.Binary `json:"nginx"`

	flags *flag.FlagSet
}

const (
	// A client that waits for less than the kernel's first repetition of a SYN, after 1 s,
	// cannot tell a proxy_connect_timeout of 1 s from none. The published experiment's 10 s
	// are the most of which something is said.
	shortestTimeout, longestTimeout = 2 * time.Second, 10 * time.Second
	// What is in flight must still be so when the first requests come after it, and
	// nginx must not put a server back before the last.
	shortestInFlight, longestInFlight = 1500 * time.Millisecond, 4 * time.Second

	maxParallel = 64
	// longestConfig bounds a reader's file, in bytes.
	longestConfig = 1 << 20
)

// Bind registers a flag for every setting, with its default.
func (s *Settings) Bind(fs *flag.FlagSet) {
	s.flags = fs
	fs.DurationVar(&s.Timeout, "timeout", 3*time.Second, "how long the client waits for an answer")
	fs.DurationVar(&s.InFlight, "in-flight", 2*time.Second, "how long the servers are at a request that is in flight")
	cli.FileVar(fs, &s.ConfigFile, "nginx-config", "`file` of nginx to try in place of the lab's own: what stands within http { }, with "+
		holdsListen+", "+holdsWAS1+" and "+holdsWAS2+" for the addresses")
	fs.IntVar(&s.Parallel, "parallel", 12*runtime.NumCPU(), "cases at a time; they mostly wait")
	fs.StringVar(&s.Only, "only", "", "`ids` of the cases to run, such as P1,K1; all without it")
	s.ResultsDir = "results"
	cli.FileVar(fs, &s.ResultsDir, "results", "`folder` of the results")
	fs.StringVar(&s.BinDir, "bin-dir", "", "`folder` of the programs (default: beside this one)")
}

// Validate refuses what could not run or would not mean what it says, and reads the
// reader's file. Its errors are usage errors.
func (s *Settings) Validate() error {
	for _, d := range []struct {
		flag               string
		value, least, most time.Duration
	}{
		{"timeout", s.Timeout, shortestTimeout, longestTimeout},
		{"in-flight", s.InFlight, shortestInFlight, longestInFlight},
	} {
		if d.value < d.least || d.value > d.most {
			return fmt.Errorf("-%s %v: want %v to %v", d.flag, d.value, d.least, d.most)
		}
	}
	if s.Parallel < 1 || s.Parallel > maxParallel {
		return fmt.Errorf("-parallel %d: want 1 to %d", s.Parallel, maxParallel)
	}
	s.Config = ownConfig
	if s.ConfigFile == "" {
		return nil
	}
	info, err := os.Stat(s.ConfigFile)
	if err != nil {
		return fmt.Errorf("-nginx-config: %w", err)
	}
	if !info.Mode().IsRegular() || info.Size() > longestConfig {
		return fmt.Errorf("-nginx-config %s: want a file of at most %d bytes", s.ConfigFile, longestConfig)
	}
	text, err := os.ReadFile(s.ConfigFile)
	if err != nil {
		return fmt.Errorf("-nginx-config: %w", err)
	}
	if err := checkText(string(text)); err != nil {
		return fmt.Errorf("-nginx-config %s: %w", s.ConfigFile, err)
	}
	s.Config = string(text)
	if err := s.ForCheck().Validate(); err != nil {
		return fmt.Errorf("-nginx-config %s: %w", s.ConfigFile, err)
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
