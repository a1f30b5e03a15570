package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"chokepoint/internal/load/engine"
	"chokepoint/internal/result"
)

// runHeading is the line of a run between its validity and its counts.
func runHeading(plan engine.Config, l result.Load) string {
	part := ""
	if l.Shard != nil {
		part = fmt.Sprintf("shard %d of %d (they count from 0): ", l.Shard.Index, l.Shard.Of)
	}
	return fmt.Sprintf("%s%v of %s arrivals, the last answer after %.1f s; the generator used %.2f s of CPU",
		part, plan.Duration, plan.Arrivals, l.ElapsedS, l.Generator.CPUSeconds)
}

// endpointNames are the endpoints in the order of the plan.
func endpointNames(plan engine.Config) []string {
	var names []string
	for _, e := range plan.Endpoints {
		names = append(names, e.Name)
	}
	return names
}

// printSummary says first whether the run may be believed, then whether it met its
// thresholds, then what it showed.
func printSummary(w io.Writer, heading string, names []string, l result.Load) {
	if l.Validity.Valid {
		fmt.Fprintln(w, "valid")
	} else {
		fmt.Fprintln(w, "INVALID: the figures below must not be compared with others")
	}
	for _, reason := range l.Validity.Reasons {
		fmt.Fprintln(w, "  -", reason)
	}
	for _, warning := range l.Validity.Warnings {
		fmt.Fprintln(w, "  - warning:", warning)
	}
	printThresholds(w, l.Thresholds)
	fmt.Fprintf(w, "\n%s\n\n", heading)

	counts := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(counts, "endpoint\tplanned\tscheduled\tdropped\tstarted\tok\thttp error\ttimeout\tconnect error\ttransport error\tinterrupted\tfailed\trate\t")
	for _, name := range names {
		r := l.Endpoints[name]
		fmt.Fprintf(counts, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%.1f %%\t%.2f/s\t\n",
			name, r.Planned, r.Scheduled, r.Dropped, r.Started, r.OK, r.HTTPError, r.Timeout,
			r.ConnectError, r.TransportError, r.Interrupted, 100*r.FailedRatio, r.AchievedRate)
	}
	counts.Flush()

	fmt.Fprintln(w)
	times := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(times, "milliseconds\tmin\tp50\tp90\tp95\tp99\tp99.9\tmax\tcount\t")
	for _, name := range names {
		r := l.Endpoints[name]
		printTimes(times, name+" response", r.Response)
		if r.OKResponse.Count != r.Response.Count {
			printTimes(times, name+" response, ok", r.OKResponse)
			printTimes(times, name+" response, failed", r.FailedResponse)
		}
		printTimes(times, name+" service", r.Service)
		printTimes(times, name+" lag", r.Lag)
	}
	times.Flush()

	for _, name := range names {
		r := l.Endpoints[name]
		printCounts(w, name+" status", r.Status)
		printCounts(w, name+" causes", r.Causes)
		printCounts(w, name+" error bodies", r.ErrorBodies)
	}
}

func printThresholds(w io.Writer, all []result.Threshold) {
	if len(all) == 0 {
		return
	}
	fmt.Fprintln(w)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "threshold\tmeasured\t")
	for _, t := range all {
		word := "met"
		if !t.OK {
			word = "NOT MET"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\n", t.Text, thresholdFigure(t), word)
	}
	table.Flush()
}

// thresholdFigure is what was measured, in the unit of the threshold.
func thresholdFigure(t result.Threshold) string {
	switch {
	case t.Got == nil:
		return "nothing"
	case t.Unit == "ms":
		return fmt.Sprintf("%.3f ms", *t.Got)
	case t.Unit == "ratio":
		return fmt.Sprintf("%.2f %%", 100**t.Got)
	}
	return fmt.Sprintf("%.0f", *t.Got)
}

func printTimes(w io.Writer, name string, p result.Percentiles) {
	if p.Count == 0 {
		fmt.Fprintf(w, "%s\t-\t-\t-\t-\t-\t-\t-\t0\t\n", name)
		return
	}
	p999 := "-"
	if p.P999 != nil {
		p999 = fmt.Sprintf("%.3f", *p.P999)
	}
	fmt.Fprintf(w, "%s\t%.3f\t%.3f\t%.3f\t%.3f\t%.3f\t%s\t%.3f\t%d\t\n", name, p.Min, p.P50, p.P90, p.P95, p.P99, p999, p.Max, p.Count)
}

func printCounts(w io.Writer, name string, counts map[string]int) {
	if len(counts) == 0 {
		return
	}
	var parts []string
	for _, key := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%s x %d", key, counts[key]))
	}
	fmt.Fprintf(w, "\n%s: %s\n", name, strings.Join(parts, ", "))
}
