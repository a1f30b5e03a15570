package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"chokepoint/internal/cli"
	"chokepoint/internal/lab"
	"chokepoint/internal/lab/balancer"
	"chokepoint/internal/lab/matrix"
	"chokepoint/internal/lab/scenario/spread"
	"chokepoint/internal/lab/world"
	"chokepoint/internal/result"
)

const spreadSynopsis = `Usage: lab run spread [flags]

Two services behind nginx, one with a slow upstream, or both: does the outage spread,
or stay? Round robin and least_conn, requests sent again or not, profiles anti and fixed.
It needs nginx. Durations and rates are scenario time; -scale shortens it.
Exit codes: 0 every cell as wanted, 1 failure, 2 usage, 3 a cell could not be carried
out, 4 a cell is not as wanted, 130 interrupted.`

func runSpread(ctx context.Context, args []string, stdout, stderr io.Writer) (int, error) {
	var s spread.Settings
	var list, asJSON bool
	fs := flag.NewFlagSet("lab run "+spread.Name, flag.ContinueOnError)
	s.Bind(fs)
	fs.BoolVar(&list, "list", false, "list the cells and what is wanted of them, and run none")
	fs.BoolVar(&asJSON, "json", false, "print summary.json instead of the verdict; of -list, the cells")
	cases, err := parseSpread(fs, &s, args, stdout)
	if err != nil {
		return cli.ExitUsage, err
	}
	if list {
		return cli.ExitOK, listCases(stdout, asJSON, cases)
	}
	if _, _, err := world.FindPrograms(s.BinDir, "victim", "upstream", "loadgen"); err != nil {
		return cli.ExitFailure, err
	}
	if _, err := balancer.Find(ctx, balancer.Nginx); err != nil {
		return failureCode(ctx), err
	}
	return withLab(ctx, s.ResultsDir, liveFlags{}, 1, stdout, stderr, func(l *lab.Lab, stdout io.Writer) (int, error) {
		dir, summary, err := l.Spread(ctx, s, cases)
		if err != nil {
			return failureCode(ctx), err
		}
		if err := printResult(stdout, asJSON, summary, dir, printSpread); err != nil {
			return cli.ExitFailure, err
		}
		return exitCode(ctx, summary), nil
	})
}

// parseSpread reads the flags, and picks the cells that they name.
func parseSpread(fs *flag.FlagSet, s *spread.Settings, args []string, stdout io.Writer) (cases []matrix.Case, err error) {
	err = cli.Parse(fs, args, spreadSynopsis, stdout)
	switch {
	case errors.Is(err, cli.ErrDone):
		return nil, err
	case err == nil && fs.NArg() > 0:
		err = fmt.Errorf("unexpected argument %q", fs.Arg(0))
	case err == nil:
		err = s.Validate()
	}
	if err == nil {
		cases, err = matrix.Select(spread.Cases(), s.Only)
	}
	if err != nil {
		return nil, fmt.Errorf("%w (%s -h lists the flags)", err, fs.Name())
	}
	if s.DatabaseURL == "" {
		s.DatabaseURL = os.Getenv("DATABASE_URL")
	}
	return cases, nil
}

// printSpread prints whether the run may be believed, and of each cell where /fast died.
func printSpread(w io.Writer, s result.Summary, dir string) {
	printValidity(w, s)
	fmt.Fprintf(w, "verdict: %s\n\n", s.Verdict.Outcome)
	printChecks(w, s.Verdict)
	group := ""
	for _, c := range s.Cases {
		if c.Group != group {
			group = c.Group
			fmt.Fprintf(w, "\n%s\n", group)
		}
		switch {
		case c.Failure != "":
			fmt.Fprintf(w, "  FAIL  %s %s\n        %s\n", c.ID, c.Defence, c.Failure)
		case !c.OK:
			fmt.Fprintf(w, "  FAIL  %s %s\n        got  %s\n        want %s\n", c.ID, c.Defence, c.Got, c.Want)
		default:
			fmt.Fprintf(w, "  ok    %s %s\n        %s\n", c.ID, c.Defence, c.Got)
		}
	}
	fmt.Fprintf(w, "\nreport: %s/%s\n", dir, result.PageFile)
}
