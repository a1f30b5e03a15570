package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"chokepoint/internal/cli"
	"chokepoint/internal/load/compare"
	"chokepoint/internal/result"
	"chokepoint/internal/stats"
)

const diffSynopsis = `Usage: loadgen diff [flags] BASE NEW

Compares repeated runs: BASE and NEW are each a result, several with commas between
them, or a quoted pattern such as 'base/*.json'. Each side has its median, with the
reach of its confidence interval from 6 runs on, and its range and number of runs,
those of BASE first. The shift is by how
much the new values lie above those of the base, with an interval that agrees with
what is claimed; it takes 6 runs a side, or more if there are many endpoints. A
difference is claimed as docs/adr/0009 says. "~" is noise, which does not mean equal,
and "?" is too few runs.

Exit codes: 0 done, 1 failure, 2 usage, 3 one side has no valid run, 99 a metric has
become worse.`

// diff is the subcommand: it returns the exit code.
func diff(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	fs := flag.NewFlagSet("loadgen diff", flag.ContinueOnError)
	out := outputFile{flag: "json"}
	cli.FileVar(fs, &out.path, "json", "write the comparison to this `file`")
	err := cli.Parse(fs, args, diffSynopsis, stdout)
	switch {
	case errors.Is(err, cli.ErrDone):
		return cli.ExitOK
	case err == nil && fs.NArg() != 2:
		err = fmt.Errorf("want BASE and NEW, got %d arguments; quote a pattern, and put commas between files", fs.NArg())
	}
	if err != nil {
		return cli.Fail(stderr, "loadgen", cli.ExitUsage, fmt.Errorf("%w (loadgen diff -h lists the flags)", err))
	}
	var sets [2][]compare.Run
	for i := range sets {
		if sets[i], err = readRuns(fs.Arg(i)); err != nil {
			return cli.Fail(stderr, "loadgen", cli.ExitFailure, err)
		}
	}
	for _, set := range sets {
		if err := out.overwrites(pathsOf(set)); err != nil {
			return cli.Fail(stderr, "loadgen", cli.ExitUsage, err)
		}
	}
	if err := cmp.Or(compare.CheckModel(sets[0], sets[1]), compare.CheckWhole(sets[0], sets[1])); err != nil {
		return cli.Fail(stderr, "loadgen", cli.ExitUsage, err)
	}
	d := compare.Loads(sets[0], sets[1])
	believed := anyValid(sets[0]) && anyValid(sets[1])
	if believed && len(d.Metrics) == 0 {
		return cli.Fail(stderr, "loadgen", cli.ExitFailure, fmt.Errorf("nothing to compare: no endpoint is in every run; %s", strings.Join(d.Warnings, "; ")))
	}
	if out.path != "" {
		if err := out.write(ctx, func() error { return result.WriteJSON(out.path, d) }); err != nil {
			return cli.Fail(stderr, "loadgen", cli.ExitFailure, out.unwritable(err))
		}
	}
	printDiff(stdout, d)
	switch {
	case !believed:
		return cli.ExitInvalid
	case d.Regressed:
		return cli.ExitThreshold
	}
	return cli.ExitOK
}

// readRuns reads the results of a list of files and patterns.
func readRuns(list string) ([]compare.Run, error) {
	var runs []compare.Run
	var given result.Inputs
	for item := range strings.SplitSeq(list, ",") {
		paths, err := matching(item)
		if err != nil {
			return nil, err
		}
		for _, path := range paths {
			if other, twice := given.Add(path); twice {
				return nil, fmt.Errorf("%s is given twice in %q, as %s too: a run counts once", path, list, other)
			}
			load, err := result.ReadLoad(path)
			if err != nil {
				return nil, err
			}
			runs = append(runs, compare.Run{Path: path, Load: load})
		}
	}
	return runs, nil
}

// matching are the files that an argument names: itself, or what it matches.
func matching(argument string) ([]string, error) {
	if !strings.ContainsAny(argument, "*?[") {
		if info, err := os.Stat(argument); err == nil && info.IsDir() {
			return nil, fmt.Errorf("%s is a folder; name the results in it, such as '%s'", argument, filepath.Join(argument, "*.json"))
		}
		return []string{argument}, nil
	}
	paths, err := filepath.Glob(argument)
	switch {
	case err != nil:
		return nil, fmt.Errorf("pattern %q: %w", argument, err)
	case len(paths) == 0:
		return nil, fmt.Errorf("no file matches %q", argument)
	}
	return paths, nil
}

func pathsOf(runs []compare.Run) []string {
	paths := make([]string, len(runs))
	for i, r := range runs {
		paths[i] = r.Path
	}
	return paths
}

func anyValid(runs []compare.Run) bool {
	for _, r := range runs {
		if compare.Disbelief(r.Load) == "" {
			return true
		}
	}
	return false
}

func printDiff(w io.Writer, d result.LoadDiff) {
	for _, warning := range d.Warnings {
		fmt.Fprintln(w, "warning:", warning)
	}
	if len(d.Warnings) > 0 && len(d.Metrics) > 0 {
		fmt.Fprintln(w)
	}
	if len(d.Metrics) == 0 {
		return
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "metric\tbase\t\tnew\t\tranges\truns\tchange\tshift\t")
	for _, m := range d.Metrics {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s, %s\t%d, %d\t%s\t%s\t%s\n", m.Name,
			figure(m, m.Base.Median), intervalCell(m, m.Base), figure(m, m.New.Median), intervalCell(m, m.New),
			rangeOf(m, m.Base), rangeOf(m, m.New), m.Base.N, m.New.N, changeCell(m), shiftCell(m), verdictCell(m))
	}
	table.Flush()
	said := map[string]bool{}
	for _, m := range d.Metrics {
		if m.Warning != "" && m.Differs != string(stats.TooFew) && !said[m.Warning] {
			said[m.Warning] = true
			fmt.Fprintln(w, "\nwarning:", m.Warning)
		}
	}
}

// rangeOf is the lowest and the highest value.
func rangeOf(m result.LoadMetric, s result.LoadSpread) string {
	return figure(m, s.Min) + ".." + figure(m, s.Max)
}

// intervalCell is how far the interval reaches from the median, on its wider side.
func intervalCell(m result.LoadMetric, s result.LoadSpread) string {
	if s.Interval == nil {
		return "± ∞"
	}
	reach := max(s.Interval.High-s.Median, s.Median-s.Interval.Low)
	switch {
	case m.Unit == "ratio":
		return fmt.Sprintf("± %.2f points", 100*reach)
	case reach == 0:
		return "± 0.0 %"
	case s.Median == 0:
		return "± " + figure(m, reach)
	}
	return fmt.Sprintf("± %.1f %%", 100*reach/s.Median)
}

func figure(m result.LoadMetric, v float64) string {
	switch m.Unit {
	case "ratio":
		return fmt.Sprintf("%.2f %%", 100*v)
	case "rate":
		return fmt.Sprintf("%.3f/s", v)
	}
	return fmt.Sprintf("%.3f", v)
}

// shiftCell is the estimate of the shift and its interval, in the unit of the figure.
func shiftCell(m result.LoadMetric) string {
	if m.Shift == nil {
		return "-"
	}
	format, factor := "%+.3f (%+.3f..%+.3f)", 1.0
	if m.Unit == "ratio" {
		format, factor = "%+.2f (%+.2f..%+.2f) points", 100
	}
	return fmt.Sprintf(format, factor*m.Shift.Estimate, factor*m.Shift.Low, factor*m.Shift.High)
}

func changeCell(m result.LoadMetric) string {
	switch {
	case m.Change == nil:
		return "-"
	case m.Unit == "ratio":
		return fmt.Sprintf("%+.2f points", 100**m.Change)
	}
	return fmt.Sprintf("%+.1f %%", 100**m.Change)
}

func verdictCell(m result.LoadMetric) string {
	if m.Regression {
		return m.Differs + ": WORSE"
	}
	return m.Differs
}
