package drainmap

import (
	"flag"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"chokepoint/internal/cli"
	"chokepoint/internal/evidence/draining"
	"chokepoint/internal/lab/scenario/drain"
)

// Settings is the whole configuration of a run. All durations are real time.
type Settings struct {
	Gateway     string        `json:"gateway"`     // kind of the gateways, of package drain
	Response    string        `json:"response"`    // of the application, as draining.ReadResponse reads it
	Propagation time.Duration `json:"propagation"` // how long new connections reach a gateway that is ended
	Requests    int           `json:"requests"`
	Every       time.Duration `json:"every"` // the time between two
	// PreStops and Drains are the rows and columns of the map; empty are those that
	// follow from the propagation and the slowest response.
	PreStops durations `json:"pre_stops"`
	Drains   durations `json:"drains"`
	Seed     uint64    `json:"seed"`
	Parallel int       `json:"parallel"` // cells at a time
	Only     string    `json:"only"`     // ids, comma-separated; empty: all
	Programs drain.Programs

	ResultsDir string `json:"-"`
	BinDir     string `json:"-"`

	flags *flag.FlagSet
}

const (
	// longest bounds each duration, so that a run ends.
	longest     = time.Minute
	maxRequests = 5000
	maxCells    = 100
	maxParallel = 64
	// cellsPerCPU is how many cells at a time a processor carries, which mostly wait.
	cellsPerCPU = 4
	// cut is the share of responses beyond the slowest that counts, where they have no
	// bound.
	cut = 0.01
)

// durations are a flag: a list, separated by commas.
type durations []time.Duration

// String implements flag.Value.
func (d *durations) String() string {
	var texts []string
	for _, one := range *d {
		texts = append(texts, one.String())
	}
	return strings.Join(texts, ",")
}

// Set implements flag.Value.
func (d *durations) Set(text string) error {
	*d = nil
	for part := range strings.SplitSeq(text, ",") {
		one, err := time.ParseDuration(strings.TrimSpace(part))
		if err != nil {
			return fmt.Errorf("%q is not a duration; write them as 0s,500ms,1.5s", part)
		}
		*d = append(*d, one)
	}
	return nil
}

// Bind registers a flag for every setting, with its default.
func (s *Settings) Bind(fs *flag.FlagSet) {
	s.flags = fs
	fs.StringVar(&s.Gateway, "gateway", string(drain.HAProxy), "`kind` of the gateways: haproxy, nginx or net/http")
	fs.StringVar(&s.Response, "response", "1500ms", "how long the application takes: a `distribution` of -delay, or p50=200ms,p99=1s,max=2s")
	fs.DurationVar(&s.Propagation, "propagation", time.Second, "how long the balancer gives new connections to a gateway that is told to end")
	fs.IntVar(&s.Requests, "requests", 45, "requests of each cell")
	fs.DurationVar(&s.Every, "every", 100*time.Millisecond, "time between two of them")
	fs.Var(&s.PreStops, "pre-stops", "`durations` of the pre-stop, separated by commas (default: 0, 1/2, 6/5 and 3/2 of -propagation)")
	fs.Var(&s.Drains, "drains", "`durations` of the drain, separated by commas (default: 1/3, 2/3, 7/6 and 2 of the slowest response)")
	fs.Uint64Var(&s.Seed, "seed", 1, "seed of the response times")
	fs.IntVar(&s.Parallel, "parallel", min(cellsPerCPU*runtime.NumCPU(), maxParallel), "cells at a time; they mostly wait")
	fs.StringVar(&s.Only, "only", "", "`ids` of the cells to run, pre-stop+drain, such as 0s+1s,1.5s+3s; all without it")
	s.ResultsDir = "results"
	cli.FileVar(fs, &s.ResultsDir, "results", "`folder` of the results")
	fs.StringVar(&s.BinDir, "bin-dir", "", "`folder` of the programs (default: beside this one)")
}

// response are the response times, of which the slowest counts.
func (s Settings) response() (draining.Response, error) {
	r, err := draining.ReadResponse(s.Response, cut)
	if err != nil {
		return r, fmt.Errorf("-response: %w", err)
	}
	return r, nil
}

// grid are the cells, row by row.
func (s Settings) grid(slowest time.Duration) []draining.Stop {
	part := func(d time.Duration, numerator, denominator int64) time.Duration {
		return (d * time.Duration(numerator) / time.Duration(denominator)).Round(10 * time.Millisecond)
	}
	preStops, drains := s.PreStops, s.Drains
	if len(preStops) == 0 {
		preStops = durations{0, part(s.Propagation, 1, 2), part(s.Propagation, 6, 5), part(s.Propagation, 3, 2)}
	}
	if len(drains) == 0 {
		drains = durations{part(slowest, 1, 3), part(slowest, 2, 3), part(slowest, 7, 6), 2 * slowest}
	}
	var cells []draining.Stop
	for _, p := range preStops {
		for _, d := range drains {
			cells = append(cells, draining.Stop{PreStop: p, Drain: d})
		}
	}
	return cells
}

// Validate refuses what could not run or would not mean what it says. Its errors are
// usage errors.
func (s Settings) Validate() error {
	response, err := s.response()
	if err != nil {
		return err
	}
	slowest := response.Slowest
	for _, d := range []struct {
		name               string
		value, least, most time.Duration
	}{
		{"propagation", s.Propagation, 2 * slack, longest},
		{"every", s.Every, 10 * time.Millisecond, longest},
		{"response: the slowest", slowest, 2 * slack, longest},
	} {
		if d.value < d.least || d.value > d.most {
			return fmt.Errorf("-%s %s: want %s to %s", d.name, d.value, d.least, d.most)
		}
	}
	cells := s.grid(slowest)
	seen := map[draining.Stop]bool{}
	for _, c := range cells {
		if c.PreStop < 0 || c.PreStop > longest {
			return fmt.Errorf("-pre-stops %s: want 0s to %s", c.PreStop, longest)
		}
		if c.Drain < 10*time.Millisecond || c.Drain > longest { // 0 would be no bound
			return fmt.Errorf("-drains %s: want 10ms to %s", c.Drain, longest)
		}
		if seen[c] {
			return fmt.Errorf("-pre-stops and -drains: %s is there twice", id(c))
		}
		seen[c] = true
	}
	least := int((slowest+settle+s.Propagation+2*slack)/s.Every) + 1
	switch {
	case !slices.Contains([]string{string(drain.HAProxy), string(drain.Nginx), string(drain.NetHTTP)}, s.Gateway):
		return fmt.Errorf("-gateway %q: want haproxy, nginx or net/http", s.Gateway)
	case len(cells) > maxCells:
		return fmt.Errorf("-pre-stops and -drains: %d cells, and %d at most", len(cells), maxCells)
	case s.Requests < least || s.Requests > maxRequests:
		return fmt.Errorf("-requests %d: want %d to %d, so that the load begins before the slowest response and outlasts the propagation", s.Requests, least, maxRequests)
	case s.Parallel < 1 || s.Parallel > maxParallel:
		return fmt.Errorf("-parallel %d: want 1 to %d", s.Parallel, maxParallel)
	}
	return nil
}

// Effective is the whole configuration, flag by flag, for the manifest.
func (s Settings) Effective() map[string]string {
	all := map[string]string{}
	s.flags.VisitAll(func(f *flag.Flag) { all[f.Name] = f.Value.String() })
	for _, name := range []string{"config", "version", "json", "list"} {
		delete(all, name)
	}
	return all
}
