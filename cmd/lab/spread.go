package main

import (
	"context"
	"fmt"
	"io"
	"os"

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
	return matrixCommand{
		name: spread.Name, synopsis: spreadSynopsis, bind: s.Bind,
		validate: func() error { return s.Validate() }, only: &s.Only, results: &s.ResultsDir,
		cases: func() ([]matrix.Case, error) { return spread.Cases(), nil },
		ready: func(ctx context.Context) error {
			if _, _, err := world.FindPrograms(s.BinDir, "victim", "upstream", "loadgen"); err != nil {
				return err
			}
			_, err := balancer.Find(ctx, balancer.Nginx)
			return err
		},
		run: func(ctx context.Context, l *lab.Lab, cases []matrix.Case) (string, result.Summary, error) {
			if s.DatabaseURL == "" {
				s.DatabaseURL = os.Getenv("DATABASE_URL")
			}
			return l.Spread(ctx, s, cases)
		},
		print: printSpread,
	}.do(ctx, args, stdout, stderr)
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
