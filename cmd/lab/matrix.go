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
	"chokepoint/internal/result"
)

// matrixCommand is lab run of a scenario that is a matrix of cases.
type matrixCommand struct {
	name, synopsis string
	bind           func(*flag.FlagSet) // the scenario's own flags
	validate       func() error
	cases          func() ([]matrix.Case, error) // all of them, by the flags
	only, results  *string                       // the flags -only and -results
	// ready finds out, before a results folder is touched, what the run would miss; nil
	// leaves that to the run.
	ready func(context.Context) error
	run   func(context.Context, *lab.Lab, []matrix.Case) (string, result.Summary, error)
	print func(io.Writer, result.Summary, string)
}

// rejectedError is an error of a run that is one of usage.
type rejectedError struct{ error }

// do reads the flags, and lists the cases or runs them.
func (m matrixCommand) do(ctx context.Context, args []string, stdout, stderr io.Writer) (int, error) {
	var list, asJSON bool
	fs := flag.NewFlagSet("lab run "+m.name, flag.ContinueOnError)
	m.bind(fs)
	fs.BoolVar(&list, "list", false, "list the cases and what is wanted of them, and run none")
	fs.BoolVar(&asJSON, "json", false, "print summary.json instead of the verdict; of -list, the cases")
	cases, err := m.parse(fs, args, stdout)
	if err != nil {
		return cli.ExitUsage, err
	}
	if list {
		return cli.ExitOK, listCases(stdout, asJSON, cases)
	}
	if m.ready != nil {
		if err := m.ready(ctx); err != nil {
			return failureCode(ctx), err
		}
	}
	return withLab(ctx, *m.results, liveFlags{}, 1, stdout, stderr, func(l *lab.Lab, stdout io.Writer) (int, error) {
		dir, summary, err := m.run(ctx, l, cases)
		if rejected, ok := errors.AsType[rejectedError](err); ok && ctx.Err() == nil {
			return cli.ExitUsage, rejected
		}
		if err != nil {
			return failureCode(ctx), err
		}
		if err := printResult(stdout, asJSON, summary, dir, m.print); err != nil {
			return cli.ExitFailure, err
		}
		return exitCode(ctx, summary), nil
	})
}

// parse reads the flags, and picks the cases that they name.
func (m matrixCommand) parse(fs *flag.FlagSet, args []string, stdout io.Writer) (cases []matrix.Case, err error) {
	err = cli.Parse(fs, args, m.synopsis, stdout)
	switch {
	case errors.Is(err, cli.ErrDone):
		return nil, err
	case err == nil && fs.NArg() > 0:
		err = fmt.Errorf("unexpected argument %q", fs.Arg(0))
	case err == nil:
		err = m.validate()
	}
	if err == nil {
		cases, err = m.cases()
	}
	if err == nil {
		cases, err = matrix.Select(cases, *m.only)
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
