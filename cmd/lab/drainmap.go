package main

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"

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
	return matrixCommand{
		name: drainmap.Name, synopsis: drainMapSynopsis, bind: s.Bind,
		validate: func() error { return s.Validate() }, only: &s.Only, results: &s.ResultsDir,
		cases: func() ([]matrix.Case, error) { return drainmap.Cases(s) },
		run: func(ctx context.Context, l *lab.Lab, cases []matrix.Case) (string, result.Summary, error) {
			return l.DrainMap(ctx, s, cases)
		},
		print: printDrainMap,
	}.do(ctx, args, stdout, stderr)
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
