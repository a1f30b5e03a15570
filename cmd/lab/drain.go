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
	"chokepoint/internal/lab/scenario/drain"
	"chokepoint/internal/result"
)

const drainSynopsis = `Usage: lab run drain [flags]

Gateways that are ended under load, behind a balancer of layer 4 that learns of it late:
what the clients get is joined with what the application did, by the ids of the requests.
It takes nginx, HAProxy and PostgreSQL of this machine, and no root. The cases' times are
those of an incident; -scale shortens them.
Exit codes: 0 every case as wanted, 1 failure, 2 usage, 3 a case could not be carried
out, 4 a case is not as wanted, 130 interrupted.`

func runDrain(ctx context.Context, args []string, stdout, stderr io.Writer) (int, error) {
	var s drain.Settings
	var list, asJSON bool
	fs := flag.NewFlagSet("lab run "+drain.Name, flag.ContinueOnError)
	s.Bind(fs)
	fs.BoolVar(&list, "list", false, "list the cases and what is wanted of them, and run none")
	fs.BoolVar(&asJSON, "json", false, "print summary.json instead of the verdict; of -list, the cases")
	cases, err := parseDrain(fs, &s, args, stdout)
	if err != nil {
		return cli.ExitUsage, err
	}
	if list {
		return cli.ExitOK, listCases(stdout, asJSON, cases)
	}
	return withLab(ctx, s.ResultsDir, liveFlags{}, 1, stdout, stderr, func(l *lab.Lab, stdout io.Writer) (int, error) {
		dir, summary, err := l.Draining(ctx, s, cases)
		if err != nil {
			return failureCode(ctx), err
		}
		if err := printResult(stdout, asJSON, summary, dir, printCounts); err != nil {
			return cli.ExitFailure, err
		}
		return exitCode(ctx, summary), nil
	})
}

// parseDrain reads the flags, and picks the cases that they name.
func parseDrain(fs *flag.FlagSet, s *drain.Settings, args []string, stdout io.Writer) (cases []matrix.Case, err error) {
	err = cli.Parse(fs, args, drainSynopsis, stdout)
	switch {
	case errors.Is(err, cli.ErrDone):
		return nil, err
	case err == nil && fs.NArg() > 0:
		err = fmt.Errorf("unexpected argument %q", fs.Arg(0))
	case err == nil:
		err = s.Validate()
	}
	if err == nil {
		cases, err = matrix.Select(drain.Cases(*s), s.Only)
	}
	if err != nil {
		return nil, fmt.Errorf("%w (%s -h lists the flags)", err, fs.Name())
	}
	return cases, nil
}

// printCounts is printMatrix for cases of many requests: the classes stand in the rows.
func printCounts(w io.Writer, s result.Summary, dir string) {
	printMatrixHead(w, s)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	group := ""
	for _, c := range s.Cases {
		if c.Failure != "" {
			continue // the reasons have it
		}
		if c.Group != group {
			group = c.Group
			table.Flush()
			fmt.Fprintf(w, "\n%s\n", group)
			fmt.Fprintln(table, "  \tcase\tclient\tdefence\tok\tnever reached\tfailed but executed\texecuted twice")
		}
		fmt.Fprintf(table, "  %s\t%s\t%s\t%s\t%d\t%d\t%d\t%d\n", mark(c), c.ID, c.Client, c.Defence,
			c.Counts.OK, c.Counts.NeverReached, c.Counts.FailedButExecuted, c.Counts.ExecutedTwice)
	}
	table.Flush()
	printOthers(w, s, dir)
}
