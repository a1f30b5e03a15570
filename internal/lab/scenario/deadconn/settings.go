package deadconn

import (
	"flag"
	"fmt"
	"runtime"
	"time"

	"chokepoint/internal/cli"
)

// Name is what the scenario is called.
const Name = "deadconn"

// Settings is the whole configuration of a run. All durations are real time.
type Settings struct {
	// DeviceIdle is how long the device on the path remembers a connection that rests;
	// Rest is how long the connections rest before the judged request; Timeout is how
	// long the caller waits for an answer, each time that it sends the request.
	DeviceIdle time.Duration `json:"device_idle"`
	Rest       time.Duration `json:"rest"`
	Timeout    time.Duration `json:"timeout"`

	Parallel int    `json:"parallel"` // cases at a time
	Only     string `json:"only"`     // ids, comma-separated; empty: all
	// NoDatabase leaves out the cases of the database's pool, which need a PostgreSQL.
	NoDatabase bool   `json:"no_database"`
	ResultsDir string `json:"-"`
	BinDir     string `json:"-"`
	// Victim and Stub are the paths of the programs, once they have been found.
	Victim string `json:"victim"`
	Stub   string `json:"stub"`

	flags *flag.FlagSet
}

const (
	// The device's memory: an entry's remaining time is known in whole seconds and
	// keepalive is no faster than one probe a second, so that under 3 s too little is
	// left to be told apart; and from 15 s on Go's own keepalive is quicker than it.
	shortestIdle, longestIdle = 3 * time.Second, 14 * time.Second
	// leastOver is how much longer than the device remembers a connection rests: the
	// kernel counts an entry's time in whole seconds.
	leastOver = time.Second
	// shortestTimeout is longer than the longest TCP_USER_TIMEOUT takes to act.
	shortestTimeout = 3 * time.Second
	// longest bounds each duration, so that a run ends.
	longest     = 10 * time.Minute
	maxParallel = 256
)

// Bind registers a flag for every setting, with its default.
func (s *Settings) Bind(fs *flag.FlagSet) {
	s.flags = fs
	fs.DurationVar(&s.DeviceIdle, "device-idle", 3*time.Second, "how long the device remembers a connection that rests: 3s to 14s")
	fs.DurationVar(&s.Rest, "rest", 4*time.Second, "how long connections rest before the judged request: at least 1s longer than -device-idle")
	fs.DurationVar(&s.Timeout, "timeout", 3*time.Second, "how long the caller waits for an answer, each time that it sends the request: 3s or more")
	fs.IntVar(&s.Parallel, "parallel", min(24*runtime.NumCPU(), maxParallel), "cases at a time; they mostly rest")
	fs.StringVar(&s.Only, "only", "", "`ids` of the cases to run, such as A1,C3; all without it")
	fs.BoolVar(&s.NoDatabase, "no-database", false, "leave out the cases PG-..., which need a PostgreSQL on this machine")
	s.ResultsDir = "results"
	cli.FileVar(fs, &s.ResultsDir, "results", "`folder` of the results")
	fs.StringVar(&s.BinDir, "bin-dir", "", "`folder` of the programs (default: beside this one)")
}

// Validate refuses what could not run or would not mean what it says. Its errors are
// usage errors.
func (s *Settings) Validate() error {
	if s.DeviceIdle%time.Second != 0 {
		return fmt.Errorf("-device-idle %v: want whole seconds, as the kernel counts it", s.DeviceIdle)
	}
	for _, d := range []struct {
		flag               string
		value, least, most time.Duration
		because            string
	}{
		{"device-idle", s.DeviceIdle, shortestIdle, longestIdle,
			"from 15s on Go's own keepalive, which cases want to be late, is quicker than the device; one that remembers for longer does the same, later"},
		{"rest", s.Rest, s.DeviceIdle + leastOver, longest,
			fmt.Sprintf("at least %v longer than the device remembers (-device-idle %v)", leastOver, s.DeviceIdle)},
		{"timeout", s.Timeout, shortestTimeout, longest, "a shorter one is over before the longest TCP_USER_TIMEOUT of the cases acts"},
	} {
		if d.value < d.least || d.value > d.most {
			return fmt.Errorf("-%s %v: want %v to %v: %s", d.flag, d.value, d.least, d.most, d.because)
		}
	}
	if s.Parallel < 1 || s.Parallel > maxParallel {
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
