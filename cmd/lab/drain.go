package main

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"

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
	return matrixCommand{
		name: drain.Name, synopsis: drainSynopsis, bind: s.Bind,
		validate: func() error { return s.Validate() }, only: &s.Only, results: &s.ResultsDir,
		cases: func() ([]matrix.Case, error) { return drain.Cases(s), nil },
		run: func(ctx context.Context, l *lab.Lab, cases []matrix.Case) (string, result.Summary, error) {
			return l.Draining(ctx, s, cases)
		},
		print: printCounts,
	}.do(ctx, args, stdout, stderr)
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
