package main

import (
	"context"
	"io"

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
	return matrixCommand{
		name: deadconn.Name, synopsis: deadconnSynopsis, bind: s.Bind,
		validate: func() error { return s.Validate() }, only: &s.Only, results: &s.ResultsDir,
		cases: func() ([]matrix.Case, error) { return deadconn.Cases(s), nil },
		run: func(ctx context.Context, l *lab.Lab, cases []matrix.Case) (string, result.Summary, error) {
			return l.DeadConnections(ctx, s, cases)
		},
		print: printMatrix,
	}.do(ctx, args, stdout, stderr)
}
