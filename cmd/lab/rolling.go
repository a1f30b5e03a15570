package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"

	"chokepoint/internal/cli"
	"chokepoint/internal/lab"
	"chokepoint/internal/lab/balancer"
	"chokepoint/internal/lab/matrix"
	"chokepoint/internal/lab/scenario/rolling"
)

const rollingSynopsis = `Usage: lab run rolling [flags]

One step of a rolling deploy: nginx keeps connections to two servers, and one of them goes
away. A matrix of how it ends, whether its address goes with it, whether requests are in
flight, and what the balancer is told to do about it. Every case has hosts of its own, in
network namespaces; no root is needed. nginx is this machine's; -nginx-config tries a
configuration of yours, and what is wanted stays what the lab's own gives.
Exit codes: 0 every case as wanted, 1 failure, 2 usage, or nginx rejects the file, 3 a case
could not be carried out, 4 a case is not as wanted, 130 interrupted.`

func runRolling(ctx context.Context, args []string, stdout, stderr io.Writer) (int, error) {
	var s rolling.Settings
	var list, asJSON bool
	fs := flag.NewFlagSet("lab run "+rolling.Name, flag.ContinueOnError)
	s.Bind(fs)
	fs.BoolVar(&list, "list", false, "list the cases and what is wanted of them, and run none")
	fs.BoolVar(&asJSON, "json", false, "print summary.json instead of the verdict; of -list, the cases")
	cases, err := parseRolling(fs, &s, args, stdout)
	if err != nil {
		return cli.ExitUsage, err
	}
	if list {
		return cli.ExitOK, listCases(stdout, asJSON, cases)
	}
	return withLab(ctx, s.ResultsDir, liveFlags{}, 1, stdout, stderr, func(l *lab.Lab, stdout io.Writer) (int, error) {
		dir, summary, err := l.Rolling(ctx, s, cases)
		var rejected *balancer.Rejected
		if errors.As(err, &rejected) && s.ConfigFile != "" && ctx.Err() == nil {
			return cli.ExitUsage, fmt.Errorf("-nginx-config %s: %w", s.ConfigFile, err)
		}
		if err != nil {
			return failureCode(ctx), err
		}
		if err := printResult(stdout, asJSON, summary, dir, printMatrix); err != nil {
			return cli.ExitFailure, err
		}
		return exitCode(ctx, summary), nil
	})
}

// parseRolling reads the flags and the reader's file, and picks the cases that they name.
func parseRolling(fs *flag.FlagSet, s *rolling.Settings, args []string, stdout io.Writer) (cases []matrix.Case, err error) {
	err = cli.Parse(fs, args, rollingSynopsis, stdout)
	switch {
	case errors.Is(err, cli.ErrDone):
		return nil, err
	case err == nil && fs.NArg() > 0:
		err = fmt.Errorf("unexpected argument %q", fs.Arg(0))
	case err == nil:
		err = s.Validate()
	}
	if err == nil {
		cases, err = matrix.Select(rolling.Cases(*s), s.Only)
	}
	if err != nil {
		return nil, fmt.Errorf("%w (%s -h lists the flags)", err, fs.Name())
	}
	return cases, nil
}
