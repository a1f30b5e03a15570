package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"chokepoint/internal/result"
)

// printComparison prints the runs, why any of them cannot be believed, and what
// came out for each profile.
func printComparison(w io.Writer, c result.Comparison, dir string) {
	fmt.Fprintln(w)
	for i, r := range c.Runs {
		fmt.Fprintf(w, "  run %d: %-10s %s\n", i+1, r.Profile, r.Outcome)
		for _, reason := range r.Reasons {
			fmt.Fprintf(w, "    %s\n", reason)
		}
	}
	fmt.Fprintln(w, "\nmedians of the valid runs:")
	printOutcomes(w, c)
	fmt.Fprintln(w)
	printFaults(w, c)
	for _, warning := range c.Warnings {
		fmt.Fprintf(w, "warning: %s\n", warning)
	}
	fmt.Fprintf(w, "report: %s/%s\n", dir, result.PageFile)
}

// printOutcomes prints a row for each profile. A dash is a figure that no valid
// run has.
func printOutcomes(w io.Writer, c result.Comparison) {
	type column struct {
		title, metric string
		factor        float64
	}
	columns := []column{
		{"fast failed %", "fast.failed_ratio", 100}, {"fast p50 ms", "fast.p50_ms", 1}, {"fast p95 ms", "fast.p95_ms", 1},
		{"upstream failed %", "upstream.failed_ratio", 100},
	}
	metrics := map[string]result.ComparedMetric{}
	for _, m := range c.Metrics {
		metrics[m.Name] = m
		point, isDump := strings.CutPrefix(m.Name, "dump.")
		if point, held := strings.CutSuffix(point, ".upstream_read"); isDump && held && strings.HasPrefix(point, "load_") {
			columns = append(columns, column{"upstream read " + point, m.Name, 1})
		}
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(table, "profile\truns\tvalid\toutcome\t")
	for _, col := range columns {
		fmt.Fprintf(table, "%s\t", col.title)
	}
	fmt.Fprintln(table)
	for _, name := range c.Profiles {
		runs, valid, outcome := outcomeOf(c, name)
		fmt.Fprintf(table, "%s\t%d\t%d\t%s\t", name, runs, valid, outcome)
		for _, col := range columns {
			spread := metrics[col.metric].Values[name]
			if spread.N == 0 {
				fmt.Fprint(table, "-\t")
				continue
			}
			fmt.Fprintf(table, "%.1f\t", col.factor*spread.Median)
		}
		fmt.Fprintln(table)
	}
	table.Flush()
}

// printFaults prints a row for each fault with each profile, if the comparison is by
// fault: what was expected of /fast, and what came out. The places are those of the last
// dump under load.
func printFaults(w io.Writer, c result.Comparison) {
	if len(c.Faults) == 0 {
		return
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "fault\tprofile\twant\tgot\tok\tfast failed %\tconnecting\treading\tqueued\tfree after s\t")
	for _, cell := range c.Faults {
		got := "no valid run"
		if len(cell.Got) > 0 {
			var outcomes []string
			for _, o := range cell.Got {
				outcomes = append(outcomes, string(o))
			}
			slices.Sort(outcomes)
			got = strings.Join(slices.Compact(outcomes), " or ")
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%v\t", cell.Fault, cell.Profile, cell.Want, got, cell.OK)
		figures := map[string]result.FaultFigure{}
		under := ""
		for _, f := range cell.Figures {
			figures[f.Name] = f
			if point, ok := strings.CutSuffix(f.Name, ".upstream_read"); ok && strings.HasPrefix(point, "dump.load_") {
				under = point
			}
		}
		for _, figure := range []struct {
			name   string
			factor float64
		}{{"fast.failed_ratio", 100}, {under + ".upstream_connect", 1}, {under + ".upstream_read", 1}, {under + ".queued", 1}, {"recovery.seconds", 1}} {
			f, ok := figures[figure.name]
			switch {
			case !ok:
				fmt.Fprint(table, "-\t")
			case strings.HasPrefix(f.Note, "not recovered"):
				fmt.Fprintf(table, "> %.0f\t", f.Measured.Max)
			default:
				fmt.Fprintf(table, "%.1f\t", figure.factor*f.Measured.Median)
			}
		}
		fmt.Fprintln(table)
	}
	table.Flush()
	fmt.Fprintln(w)
}

// outcomeOf counts a profile's runs and names the outcome of the valid ones,
// each if they do not agree.
func outcomeOf(c result.Comparison, name string) (runs, valid int, outcome string) {
	var outcomes []string
	for _, r := range c.Runs {
		if r.Profile != name {
			continue
		}
		runs++
		if r.Valid {
			valid++
			outcomes = append(outcomes, string(r.Outcome))
		}
	}
	slices.Sort(outcomes)
	switch outcomes = slices.Compact(outcomes); {
	case runs == 0:
		return 0, 0, "-"
	case valid == 0:
		return runs, 0, string(result.Invalid)
	}
	return runs, valid, strings.Join(outcomes, " or ")
}
