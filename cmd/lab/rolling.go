package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"chokepoint/internal/lab"
	"chokepoint/internal/lab/balancer"
	"chokepoint/internal/lab/matrix"
	"chokepoint/internal/lab/scenario/rolling"
	"chokepoint/internal/result"
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
	return matrixCommand{
		name: rolling.Name, synopsis: rollingSynopsis, bind: s.Bind,
		validate: func() error { return s.Validate() }, only: &s.Only, results: &s.ResultsDir,
		cases: func() ([]matrix.Case, error) { return rolling.Cases(s), nil },
		run: func(ctx context.Context, l *lab.Lab, cases []matrix.Case) (string, result.Summary, error) {
			dir, summary, err := l.Rolling(ctx, s, cases)
			if _, ok := errors.AsType[*balancer.Rejected](err); ok && s.ConfigFile != "" {
				err = rejectedError{fmt.Errorf("-nginx-config %s: %w", s.ConfigFile, err)}
			}
			return dir, summary, err
		},
		print: printMatrix,
	}.do(ctx, args, stdout, stderr)
}
