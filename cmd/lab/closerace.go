package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"

	"chokepoint/internal/cli"
	"chokepoint/internal/lab"
	"chokepoint/internal/lab/netlab"
	"chokepoint/internal/lab/scenario/closerace"
	"chokepoint/internal/lab/world"
	"chokepoint/internal/result"
)

const closeRaceSynopsis = `Usage: lab run closerace [flags]

The keep-alive close race: how many requests fail whose connection had rested for
about the server's idle timeout, for both clients, without a defence and with each.
With -round-trip everything runs in network namespaces; no root is needed.
Exit codes: 0 as expected, 1 failure, 2 usage, 3 the run is invalid, 4 another
outcome than wanted, 130 interrupted.`

func runCloseRace(ctx context.Context, args []string, stdout, stderr io.Writer) (int, error) {
	var s closerace.Settings
	var asJSON bool
	fs := flag.NewFlagSet("lab run closerace", flag.ContinueOnError)
	s.Bind(fs)
	fs.BoolVar(&asJSON, "json", false, "print summary.json instead of the verdict")
	err := cli.Parse(fs, args, closeRaceSynopsis, stdout)
	if errors.Is(err, cli.ErrDone) {
		return cli.ExitUsage, err
	}
	if err == nil && fs.NArg() > 0 {
		err = fmt.Errorf("unexpected argument %q", fs.Arg(0))
	}
	if err == nil {
		err = s.Validate()
	}
	if err != nil {
		return cli.ExitUsage, fmt.Errorf("%w (%s -h lists the flags)", err, fs.Name())
	}
	if _, _, err := world.FindPrograms(s.BinDir, "victim", "upstream"); err != nil {
		return cli.ExitFailure, err
	}
	if s.RoundTrip > 0 && !netlab.Inside() {
		out := newOutput(stderr)
		return openLab(ctx, s.ResultsDir, nil, out, func(l *lab.Lab) (int, error) {
			out.progress("a round trip takes network namespaces of the run's own; everything goes on in there")
			code, err := l.InSandbox(ctx, s.ResultsDir, append([]string{"run", closerace.Name}, args...), stdout, stderr)
			if err != nil {
				return failureCode(ctx), err
			}
			return code, nil
		})
	}
	return withLab(ctx, s.ResultsDir, liveFlags{}, 1, stdout, stderr, func(l *lab.Lab, stdout io.Writer) (int, error) {
		dir, summary, err := l.CloseRace(ctx, s)
		if err != nil {
			return failureCode(ctx), err
		}
		if err := printResult(stdout, asJSON, summary, dir, printCloseRace); err != nil {
			return cli.ExitFailure, err
		}
		return exitCode(ctx, summary), nil
	})
}

// printCloseRace prints what a reader wants first: may the run be believed, and what
// failed where.
func printCloseRace(w io.Writer, s result.Summary, dir string) {
	printValidity(w, s)
	fmt.Fprintf(w, "verdict: %s\n\n", s.Verdict.Outcome)
	printChecks(w, s.Verdict)
	fmt.Fprintln(w)
	told := map[string]bool{}
	for _, c := range s.Cases {
		if !told[c.ID] {
			told[c.ID] = true
			fmt.Fprintf(w, "  %-5s  %s\n", c.ID, c.Title)
		}
	}
	group := ""
	for _, c := range s.Cases {
		if of := c.Client + ": " + c.Group; of != group {
			group = of
			fmt.Fprintf(w, "\n  %s (%s)\n", group, c.Defence)
		}
		got, mark := c.Got, "ok  "
		if c.Failure != "" {
			got = c.Failure
		}
		if !c.OK {
			mark, got = "FAIL", got+"; want "+c.Want
		}
		fmt.Fprintf(w, "    %s  %-5s  %s\n", mark, c.ID, got)
	}
	fmt.Fprintf(w, "\nreport: %s/%s\n", dir, result.PageFile)
}
