package main

import (
	"context"
	"errors"
	"io"

	"chokepoint/internal/cli"
	"chokepoint/internal/lab"
	"chokepoint/internal/lab/netlab"
	"chokepoint/internal/lab/scenario"
)

// needsSandbox says that some of the runs lose packets, and that the command does not
// run in a sandbox yet: then all of its runs go into one, so that they are alike.
func needsSandbox(settings ...scenario.Settings) bool {
	for _, s := range settings {
		if s.Loses() {
			return !netlab.Inside()
		}
	}
	return false
}

// inSandbox runs a command of the lab again in a sandbox.
func inSandbox(ctx context.Context, s scenario.Settings, shown liveFlags, args []string, stdout, stderr io.Writer) (int, error) {
	switch {
	case shown.on:
		return cli.ExitUsage, errors.New("-live: packets are lost in network namespaces of the run's own, whose page no browser outside can reach; leave one of the two out")
	case s.DatabaseURL != "":
		return cli.ExitUsage, errors.New("packets are lost in network namespaces of the run's own, from which the given database cannot be reached; unset DATABASE_URL and -database-url: the lab starts a PostgreSQL of its own")
	}
	out := newOutput(stderr)
	return openLab(ctx, s.ResultsDir, nil, out, func(l *lab.Lab) (int, error) {
		if err := l.PreparePostgres(ctx); err != nil {
			return failureCode(ctx), err
		}
		out.progress("packets are lost in network namespaces of the run's own; everything goes on in there")
		code, err := l.InSandbox(ctx, s.ResultsDir, args, stdout, stderr)
		if err != nil {
			return failureCode(ctx), err
		}
		return code, nil
	})
}
