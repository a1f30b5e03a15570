package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"chokepoint/internal/cli"
	"chokepoint/internal/lab"
	"chokepoint/internal/lab/matrix"
	"chokepoint/internal/lab/scenario/deadconn"
	"chokepoint/internal/result"
)

const deadconnSynopsis = `Usage: lab run deadconn [flags]

Pooled connections that died while they rested, and the request that is put on one: a
matrix of what the device on the path does, what the server did, and what the caller
does about it. Every case has hosts of its own, in network namespaces; no root is needed.
Exit codes: 0 every case as wanted, 1 failure, 2 usage, 3 a case could not be carried
out, 4 a case is not as wanted, 130 interrupted.`

func runDeadConnections(ctx context.Context, args []string, stdout, stderr io.Writer) (int, error) {
	var s deadconn.Settings
	var list, asJSON bool
	fs := flag.NewFlagSet("lab run "+deadconn.Name, flag.ContinueOnError)
	s.Bind(fs)
	fs.BoolVar(&list, "list", false, "list the cases and what is wanted of them, and run none")
	fs.BoolVar(&asJSON, "json", false, "print summary.json instead of the verdict; of -list, the cases")
	cases, err := parseDeadConnections(fs, &s, args, stdout)
	if err != nil {
		return cli.ExitUsage, err
	}
	if list {
		return cli.ExitOK, listCases(stdout, asJSON, cases)
	}
	return withLab(ctx, s.ResultsDir, liveFlags{}, 1, stdout, stderr, func(l *lab.Lab, stdout io.Writer) (int, error) {
		dir, summary, err := l.DeadConnections(ctx, s, cases)
		if err != nil {
			return failureCode(ctx), err
		}
		if err := printResult(stdout, asJSON, summary, dir, printMatrix); err != nil {
			return cli.ExitFailure, err
		}
		return exitCode(ctx, summary), nil
	})
}

// parseDeadConnections reads the flags, and picks the cases that they name.
func parseDeadConnections(fs *flag.FlagSet, s *deadconn.Settings, args []string, stdout io.Writer) (cases []matrix.Case, err error) {
	err = cli.Parse(fs, args, deadconnSynopsis, stdout)
	switch {
	case errors.Is(err, cli.ErrDone):
		return nil, err
	case err == nil && fs.NArg() > 0:
		err = fmt.Errorf("unexpected argument %q", fs.Arg(0))
	case err == nil:
		err = s.Validate()
	}
	if err == nil {
		cases, err = matrix.Select(deadconn.Cases(*s), s.Only)
	}
	if err != nil {
		return nil, fmt.Errorf("%w (%s -h lists the flags)", err, fs.Name())
	}
	return cases, nil
}

// listCases prints what there is and what is wanted of it.
func listCases(w io.Writer, asJSON bool, cases []matrix.Case) error {
	listed := make([]result.Case, len(cases))
	for i, c := range cases {
		listed[i] = c.Case
	}
	return printResult(w, asJSON, listed, "", func(w io.Writer, cases []result.Case, _ string) {
		table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		group := ""
		for _, c := range cases {
			if c.Group != group {
				group = c.Group
				table.Flush()
				fmt.Fprintf(w, "\n%s\n", group)
			}
			fmt.Fprintf(table, "  %s\t%s\t%s\t%s\t%s\n", c.ID, c.Client, c.Method, c.Defence, c.Want)
		}
		table.Flush()
	})
}

// printMatrix prints whether the run may be believed, a row for each case that ran, and
// what was wanted of those that are not as wanted.
func printMatrix(w io.Writer, s result.Summary, dir string) {
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
		}
		outcome, _, _ := strings.Cut(c.Got, ",")
		fmt.Fprintf(table, "  %s\t%s\t%s\t%s\t%s\t%s\t%s\t%d x\t%.3f s\n", mark(c), c.ID, c.Client, c.Method, c.Defence, outcome, c.Connection, c.HandlerRuns, c.Seconds)
	}
	table.Flush()
	printOthers(w, s, dir)
}

// printMatrixHead prints whether the run may be believed, and its verdict.
func printMatrixHead(w io.Writer, s result.Summary) {
	fmt.Fprintln(w)
	if s.Validity.Valid {
		fmt.Fprintf(w, "valid run: every case was carried out\n")
	} else {
		fmt.Fprintf(w, "INVALID run:\n")
		for _, reason := range s.Validity.Reasons {
			fmt.Fprintf(w, "  %s\n", reason)
		}
	}
	fmt.Fprintf(w, "verdict: %s (expected %s)\n", s.Verdict.Outcome, s.Verdict.Expected)
}

func mark(c result.Case) string {
	if c.OK {
		return "ok"
	}
	return "FAIL"
}

// printOthers prints what was wanted of the cases that are not as wanted.
func printOthers(w io.Writer, s result.Summary, dir string) {
	fmt.Fprintln(w)
	for _, c := range s.Cases {
		if !c.OK && c.Failure == "" {
			fmt.Fprintf(w, "  %s %s %s %s\n    want %s\n    got  %s\n", c.ID, c.Client, c.Method, c.Defence, c.Want, c.Got)
		}
	}
	printChecks(w, s.Verdict)
	fmt.Fprintf(w, "report: %s/%s\n", dir, result.PageFile)
}
