package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"chokepoint/internal/cli"
	"chokepoint/internal/evidence/stacks"
	"chokepoint/internal/lab"
	"chokepoint/internal/lab/scenario"
	"chokepoint/internal/lab/world"
	"chokepoint/internal/result"
)

const attachSynopsis = `Usage: lab attach -plan plan.yaml -protect ENDPOINT -dump-url URL [flags]

The experiment on a service that runs already: a baseline of the endpoint that must
survive, the load of a plan, dumps of who stands where, metrics, recovery, and a
verdict. It loads the service until it breaks: by default only one on this machine.

  lab attach -plan shop.yaml -protect fast -dump-url 'http://127.0.0.1:6060/debug/pprof/goroutine?debug=2'
  lab attach -plan shop.yaml -protect fast -dump-url http://127.0.0.1:8081/actuator/threaddump \\
    -metrics-url http://127.0.0.1:8081/actuator/prometheus -busy-metric 'tomcat_threads_busy_threads{name="http-nio-8080"}'

Exit codes: 0 protected, 1 failure, 2 usage, 3 the run is invalid, 4 the endpoint did
not survive, 99 it did and a threshold is not met, 130 interrupted.`

// attachGroups are the flags of lab attach by purpose.
func attachGroups() []cli.Group {
	return []cli.Group{
		{Title: "What is sent, and where", Flags: []string{"plan", "header", "allow-target"}},
		{Title: "What must hold", Flags: []string{"protect", "max-failed", "max-p95", "threshold"}},
		{Title: "Dumps", Flags: []string{"dump-url", "dump-at", "dump-timeout", "admin-header"}},
		{Title: "Metrics", Flags: []string{"metrics-url", "busy-metric", "limit-metric", "queued-metric", "cpu-metric", "memory-metric"}},
		{Title: "Before and after", Flags: []string{"baseline-duration", "baseline-rate", "recovery-wait"}},
		{Title: "What it leaves", Flags: []string{"name", "results", "json", "bin-dir"}},
	}
}

func attach(ctx context.Context, args []string, stdout, stderr io.Writer) (int, error) {
	var s scenario.AttachSettings
	var asJSON bool
	fs := flag.NewFlagSet("lab attach", flag.ContinueOnError)
	s.Bind(fs)
	fs.BoolVar(&asJSON, "json", false, "print summary.json instead of the verdict")
	err := cli.ParseGrouped(fs, args, attachSynopsis, attachGroups(), stdout)
	if errors.Is(err, cli.ErrDone) {
		return cli.ExitOK, err
	}
	if err == nil && fs.NArg() > 0 {
		err = fmt.Errorf("unexpected argument %q", fs.Arg(0))
	}
	if err == nil {
		err = s.Validate()
	}
	if err != nil {
		return cli.ExitUsage, fmt.Errorf("%w (lab attach -h lists the flags)", err)
	}
	if err := world.CheckGenerator(s.BinDir); err != nil {
		return cli.ExitFailure, err
	}
	return withLab(ctx, s.ResultsDir, liveFlags{}, 1, stdout, stderr, func(l *lab.Lab, stdout io.Writer) (int, error) {
		dir, summary, err := l.Attach(ctx, s)
		if usage := (*scenario.UsageError)(nil); errors.As(err, &usage) {
			return cli.ExitUsage, err
		}
		if err != nil {
			return failureCode(ctx), err
		}
		if err := printResult(stdout, asJSON, summary, dir, printAttached); err != nil {
			return cli.ExitFailure, err
		}
		return attachCode(ctx, summary), nil
	})
}

// attachCode tells a threshold that is not met from an endpoint that did not
// survive.
func attachCode(ctx context.Context, s result.Summary) int {
	code := exitCode(ctx, s)
	died := slices.ContainsFunc(s.Verdict.Checks, func(c result.Check) bool {
		return !c.OK && !c.Informative && c.Name != scenario.CheckThreshold
	})
	if code == cli.ExitUnexpected && !died {
		return cli.ExitThreshold
	}
	return code
}

// printAttached prints what came out, the endpoints, and who stood where.
func printAttached(w io.Writer, s result.Summary, dir string) {
	printValidity(w, s)
	fmt.Fprintf(w, "verdict: %s (%s must survive)\n\n", s.Verdict.Outcome, s.Run.Protect)
	printChecks(w, s.Verdict)
	fmt.Fprintln(w)
	var names []string
	for name := range s.Endpoints {
		names = append(names, name)
	}
	slices.Sort(names)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "endpoint\tscheduled\tdropped\tok\tfailed %\tp50 ms\tp95 ms\t")
	for _, name := range names {
		e := s.Endpoints[name]
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%.1f\t%.1f\t%.1f\t\n", name, e.Scheduled, e.Dropped, e.OK, 100*e.FailedRatio, e.Response.P50, e.Response.P95)
	}
	table.Flush()
	fmt.Fprintln(w)
	printPlaces(w, s.Dumps)
	fmt.Fprintf(w, "report: %s/%s\n", dir, result.PageFile)
}

// printPlaces prints who stood where in each dump; places that are never taken are
// left out, and workers where no dump shows them.
func printPlaces(w io.Writer, dumps []result.Dump) {
	if len(dumps) == 0 {
		return
	}
	type column struct {
		title string
		of    func(result.Dump) int
	}
	columns := []column{{"total", func(d result.Dump) int { return d.Goroutines }}}
	optional := []column{{"workers", func(d result.Dump) int { return d.Workers }}}
	for _, where := range stacks.Wheres() {
		optional = append(optional, column{where, func(d result.Dump) int { return d.Where[where] }})
	}
	for _, c := range optional {
		if slices.ContainsFunc(dumps, func(d result.Dump) bool { return c.of(d) > 0 }) {
			columns = append(columns, c)
		}
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(table, "dump\tat s\t")
	for _, c := range columns {
		fmt.Fprintf(table, "%s\t", c.title)
	}
	fmt.Fprintln(table, "took ms\t")
	for _, d := range dumps {
		fmt.Fprintf(table, "%s\t%.1f\t", d.Point, d.AtS)
		for _, c := range columns {
			fmt.Fprintf(table, "%d\t", c.of(d))
		}
		fmt.Fprintf(table, "%.1f\t\n", d.TookMS)
	}
	table.Flush()
}
