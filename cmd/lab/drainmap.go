package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"text/tabwriter"

	"chokepoint/internal/cli"
	"chokepoint/internal/lab"
	"chokepoint/internal/lab/matrix"
	"chokepoint/internal/lab/scenario/drainmap"
	"chokepoint/internal/result"
)

const drainMapSynopsis = `Usage: lab run drainmap [flags]

A map of pre-stop and drain: a gateway is ended under load with each combination of the
two, and what becomes of the requests stands beside what was predicted; with the smallest
setting that loses nothing, searched and measured, and the rule behind it. lab advise
drain has the same arithmetic for figures of your own.
It takes nginx, HAProxy and PostgreSQL of this machine, and no root.
Exit codes: 0 every cell as predicted, 1 failure, 2 usage, 3 a cell could not be carried
out, 4 a cell is not as predicted, 130 interrupted.`

func runDrainMap(ctx context.Context, args []string, stdout, stderr io.Writer) (int, error) {
	var s drainmap.Settings
	var list, asJSON bool
	fs := flag.NewFlagSet("lab run "+drainmap.Name, flag.ContinueOnError)
	s.Bind(fs)
	fs.BoolVar(&list, "list", false, "list the cells and what is predicted of them, and run none")
	fs.BoolVar(&asJSON, "json", false, "print summary.json instead of the verdict; of -list, the cells")
	cases, err := parseDrainMap(fs, &s, args, stdout)
	if err != nil {
		return cli.ExitUsage, err
	}
	if list {
		return cli.ExitOK, listCases(stdout, asJSON, cases)
	}
	return withLab(ctx, s.ResultsDir, liveFlags{}, 1, stdout, stderr, func(l *lab.Lab, stdout io.Writer) (int, error) {
		dir, summary, err := l.DrainMap(ctx, s, cases)
		if err != nil {
			return failureCode(ctx), err
		}
		if err := printResult(stdout, asJSON, summary, dir, printDrainMap); err != nil {
			return cli.ExitFailure, err
		}
		return exitCode(ctx, summary), nil
	})
}

// parseDrainMap reads the flags, and picks the cells that they name.
func parseDrainMap(fs *flag.FlagSet, s *drainmap.Settings, args []string, stdout io.Writer) (cases []matrix.Case, err error) {
	err = cli.Parse(fs, args, drainMapSynopsis, stdout)
	switch {
	case errors.Is(err, cli.ErrDone):
		return nil, err
	case err == nil && fs.NArg() > 0:
		err = fmt.Errorf("unexpected argument %q", fs.Arg(0))
	case err == nil:
		err = s.Validate()
	}
	if err == nil {
		cases, err = drainmap.Cases(*s)
	}
	if err == nil {
		cases, err = matrix.Select(cases, s.Only)
	}
	if err != nil {
		return nil, fmt.Errorf("%w (%s -h lists the flags)", err, fs.Name())
	}
	return cases, nil
}

// printDrainMap prints whether the run may be believed, and a row for each cell with
// what was predicted in brackets.
func printDrainMap(w io.Writer, s result.Summary, dir string) {
	printMatrixHead(w, s)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "\n  \tpre-stop\tdrain\tok\tnever reached\tfailed but executed")
	for _, c := range s.Cases {
		if c.Failure != "" {
			continue // the reasons have it
		}
		p := c.Ending.Predicted
		beside := func(n int, of result.CountRange) string {
			if of.Low == of.High {
				return fmt.Sprintf("%d (%d)", n, of.Low)
			}
			return fmt.Sprintf("%d (%d to %d)", n, of.Low, of.High)
		}
		fmt.Fprintf(table, "  %s\t%s\t%s\t%s\t%s\t%s\n", mark(c), secs(c.Ending.PreStopS), secs(c.Ending.DrainS),
			beside(c.Counts.OK, p.OK), beside(c.Counts.NeverReached, p.NeverReached), beside(c.Counts.FailedButExecuted, p.FailedButExecuted))
	}
	table.Flush()
	printOthers(w, s, dir)
}
