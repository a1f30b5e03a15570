package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"time"

	"chokepoint/internal/cli"
	"chokepoint/internal/load/engine"
	"chokepoint/internal/load/metrics"
	"chokepoint/internal/load/plan"
	"chokepoint/internal/load/threshold"
	"chokepoint/internal/result"
)

const synopsis = `Usage: loadgen -rate 20/s -duration 30s URL
       loadgen -duration 30s -endpoint name=a,url=URL,rate=20/s -endpoint name=b,url=URL,rate=5/s
       loadgen -closed 50 -duration 30s URL   a closed loop, as a control
       loadgen -plan plan.yaml        a file; a flag wins over the environment, and both over the file
       loadgen plan -check plan.yaml  show a plan, and whether this machine can carry it; send nothing
       loadgen report load.json ...   merge the results of several generators or runs
       loadgen diff BASE NEW          compare repeated runs

Sends requests at the rate given, whatever has become of those before, and
accounts for every one. -q is the rate of all workers together (hey's is of each).

Exit codes: 0 done, 1 failure, 2 usage, 3 the run is invalid, 99 a threshold is
not met, 130 interrupted. An invalid run is 3 whatever its thresholds say.`

// options is the command line.
type options struct {
	plan       engine.Config
	thresholds []threshold.Threshold
	json       string
	hlog       string
	hgrm       string // with {endpoint} for the name
	perSecond  string
	requests   string
	quiet      bool
	metrics    string        // address; empty for none
	linger     time.Duration // after the run, for a last scrape
	sharding   sharding
}

// groups are the flags by purpose.
func groups() []cli.Group {
	return append(plan.Groups(),
		cli.Group{Title: "More than one machine", Flags: []string{"shard", "claim"}},
		cli.Group{Title: "What it leaves", Flags: []string{"json", "hlog", "hgrm", "per-second", "requests", "threshold"}},
		cli.Group{Title: "While it runs", Flags: []string{"quiet", "metrics", "metrics-linger"}},
	)
}

// commandLine is the flags of a run, before and after they are parsed.
type commandLine struct {
	fs      *flag.FlagSet
	plan    *plan.Flags
	options options
}

func newCommandLine(name string) *commandLine {
	c := &commandLine{fs: flag.NewFlagSet(name, flag.ContinueOnError)}
	c.plan = plan.Register(c.fs)
	o := &c.options
	o.sharding.addFlags(c.fs, c.plan.Shard())
	cli.FileVar(c.fs, &o.json, "json", "write the result to this `file`")
	cli.FileVar(c.fs, &o.hlog, "hlog", "write the HdrHistogram interval log to this `file`")
	cli.FileVar(c.fs, &o.hgrm, "hgrm", "write the percentile distribution to this `file`, of {endpoint} and {part} (all, ok, failed) in its name")
	cli.FileVar(c.fs, &o.perSecond, "per-second", "write a row for every second and endpoint to this CSV `file`")
	c.fs.BoolVar(&o.quiet, "quiet", false, "show no progress on stderr")
	cli.FileVar(c.fs, &o.requests, "requests", "write a row for every arrival to this CSV `file`")
	c.fs.Func("metrics", "serve Prometheus metrics at this `address` while it runs; on loopback unless it has a host", func(s string) (err error) {
		o.metrics, err = metrics.ParseAddress(s)
		return err
	})
	c.fs.DurationVar(&o.linger, "metrics-linger", 0, "wait this `duration` after the run for a last scrape of -metrics")
	return c
}

// parse reads the command line and refuses a plan that cannot be had.
func parse(args []string, stdout io.Writer) (options, error) {
	c := newCommandLine("loadgen")
	if err := cli.ParseGrouped(c.fs, args, synopsis, groups(), stdout); err != nil {
		return options{}, err
	}
	o, _, err := c.settle(c.fs.Args())
	return o, err
}

// settle makes the plan of the flags, which must be parsed, and of urls.
func (c *commandLine) settle(urls []string) (options, plan.Plan, error) {
	o := c.options
	p, err := c.plan.Plan(urls)
	if err != nil {
		return o, p, err
	}
	switch {
	case o.linger < 0:
		return o, p, fmt.Errorf("-metrics-linger %v is negative; 0 waits for no scrape", o.linger)
	case o.linger > 0 && o.metrics == "":
		return o, p, errors.New("-metrics-linger waits for a scrape of -metrics, which is not given; give -metrics :9464")
	}
	p.Config.KeepRequests = o.requests != ""
	o.plan, o.thresholds = p.Config, p.Thresholds
	if n := len(o.plan.Endpoints); o.hgrm != "" && n > 1 && !strings.Contains(o.hgrm, endpointMark) {
		return o, p, fmt.Errorf("-hgrm %q: %d endpoints cannot go into one file; put %s into its name", o.hgrm, n, endpointMark)
	}
	if err := o.checkSharding(); err != nil {
		return o, p, err
	}
	return o, p, o.checkOutputs()
}

// checkOutputs refuses two outputs in one file.
func (o *options) checkOutputs() error {
	files := o.outputFiles()
	for i, f := range files {
		for _, other := range files[:i] {
			if result.SameFile(f.path, other.path) {
				return fmt.Errorf("-%s %s and -%s %s are the same file; give each its own", other.flag, other.path, f.flag, f.path)
			}
		}
	}
	return nil
}
