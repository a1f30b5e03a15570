package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode"

	"chokepoint/internal/load/engine"
	"chokepoint/internal/result"
)

// runHeading is the line of a run between its validity and its counts.
func runHeading(plan engine.Config, l result.Load) string {
	part := ""
	if l.Shard != nil {
		part = fmt.Sprintf("shard %d of %d (they count from 0): ", l.Shard.Index, l.Shard.Of)
	}
	window := plan.Duration.String()
	if l.OfferedS < l.WindowS {
		window = fmt.Sprintf("%.1f s of %v", l.OfferedS, plan.Duration)
	}
	what := fmt.Sprintf("%s arrivals", l.Arrivals)
	if plan.Closed > 0 {
		what = fmt.Sprintf("a closed model with %d workers", plan.Closed)
		if plan.Closed == 1 {
			what = "a closed model with 1 worker"
		}
	}
	if plan.Warmup > 0 {
		what += fmt.Sprintf(" after %v of warm-up", plan.Warmup)
	}
	busy := ""
	if s := l.Saturation; s != nil && s.Seconds > 0 {
		busy = fmt.Sprintf(", its pacing thread at most %.0f %% of one in a second", s.PacerPercentMax)
	}
	return fmt.Sprintf("%s%s of %s, the last answer after %.1f s; the generator used %.2f s of CPU%s",
		part, window, what, l.ElapsedS, l.Generator.CPUSeconds, busy)
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
	fmt.Fprintf(w, "\n%s\n", heading)
	printTargets(w, names, l.Endpoints)
	fmt.Fprintln(w)
	printOutcomes(w, names, l)
	fmt.Fprintln(w)
	printTimes(w, names, l.Endpoints)
	var lines []string
	for _, name := range names {
		e := l.Endpoints[name]
		lines = appendCounts(lines, name+" status", e.Status)
		lines = appendCounts(lines, name+" causes", e.Causes)
		lines = appendCounts(lines, name+" error bodies", e.ErrorBodies)
	}
	if len(lines) > 0 {
		fmt.Fprintf(w, "\n%s\n", strings.Join(lines, "\n"))
	}
}

// printTargets says what was sent, and where to, in a line an endpoint. A result that
// does not know it has none.
func printTargets(w io.Writer, names []string, endpoints map[string]result.Endpoint) {
	table := tabwriter.NewWriter(w, 0, 0, 1, ' ', 0)
	for _, name := range names {
		e := endpoints[name]
		if e.Method == "" && e.URL == "" {
			continue
		}
		with := ""
		if len(e.Headers) > 0 {
			with = " with " + strings.Join(e.Headers, ", ")
		}
		fmt.Fprintf(table, "%s:\t%s\n", name, printable(cmp.Or(e.Method, "(several methods)")+" "+cmp.Or(e.URL, "(several URLs)")+with))
	}
	table.Flush()
}

// printOutcomes is a table of what became of the arrivals. Outcomes that no
// endpoint has are left out; drops are always there.
func printOutcomes(w io.Writer, names []string, l result.Load) {
	endpoints := l.Endpoints
	columns := []struct {
		title string
		of    func(result.Endpoint) int
		ifAny bool
	}{
		{"planned", func(e result.Endpoint) int { return e.Planned }, false},
		{"scheduled", func(e result.Endpoint) int { return e.Scheduled }, false},
		{"dropped", func(e result.Endpoint) int { return e.Dropped }, false},
		{"started", func(e result.Endpoint) int { return e.Started }, false},
		{"ok", func(e result.Endpoint) int { return e.OK }, false},
		{"http error", func(e result.Endpoint) int { return e.HTTPError }, true},
		{"timeout", func(e result.Endpoint) int { return e.Timeout }, true},
		{"connect error", func(e result.Endpoint) int { return e.ConnectError }, true},
		{"transport error", func(e result.Endpoint) int { return e.TransportError }, true},
		{"interrupted", func(e result.Endpoint) int { return e.Interrupted }, true},
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	header, rows := "endpoint", slices.Clone(names)
	for _, column := range columns {
		if column.title == "planned" && l.Model == result.ModelClosed {
			continue
		}
		if column.ifAny && !slices.ContainsFunc(names, func(name string) bool { return column.of(endpoints[name]) > 0 }) {
			continue
		}
		header += "\t" + column.title
		for i, name := range names {
			rows[i] += fmt.Sprintf("\t%d", column.of(endpoints[name]))
		}
	}
	fmt.Fprintf(table, "%s\tfailed\trate\treceived\treceived/s\t\n", header)
	for i, name := range names {
		e := endpoints[name]
		fmt.Fprintf(table, "%s\t%.1f %%\t%.2f/s\t%s\t%s\t\n", rows[i], 100*e.FailedRatio, e.AchievedRate,
			byteSize(float64(e.ReceivedBytes)), byteSize(e.ReceivedRate))
	}
	table.Flush()
}

// byteSize is a number of bytes with a decimal unit.
func byteSize(n float64) string {
	units := []string{"kB", "MB", "GB", "TB", "PB"}
	if n < 999.5 {
		return fmt.Sprintf("%.0f B", n)
	}
	unit := 0
	for n /= 1000; n >= 999.95 && unit < len(units)-1; n /= 1000 {
		unit++
	}
	return fmt.Sprintf("%.1f %s", n, units[unit])
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
		return digits(*t.Got) + " ms"
	case t.Unit == "ratio":
		return fmt.Sprintf("%.2f %%", 100**t.Got)
	}
	return fmt.Sprintf("%.0f", *t.Got)
}

// printTimes is a table of the percentiles of each endpoint. Good answers and
// failures are apart where there are both.
func printTimes(w io.Writer, names []string, endpoints map[string]result.Endpoint) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "milliseconds\tmin\tp50\tp90\tp95\tp99\tp99.9\tmax\tcount\t")
	for _, name := range names {
		e := endpoints[name]
		switch ok := e.OKResponse.Count; {
		case ok == e.Response.Count:
			printPercentiles(table, name+" response", e.Response)
		case ok == 0:
			printPercentiles(table, name+" response, failed", e.Response)
		default:
			printPercentiles(table, name+" response", e.Response)
			printPercentiles(table, name+" response, ok", e.OKResponse)
			printPercentiles(table, name+" response, failed", e.FailedResponse)
		}
		printPercentiles(table, name+" service", e.Service)
		printPercentiles(table, name+" lag", e.Lag)
	}
	table.Flush()
}

func printPercentiles(w io.Writer, name string, p result.Percentiles) {
	if p.Count == 0 {
		fmt.Fprintf(w, "%s\t-\t-\t-\t-\t-\t-\t-\t0\t\n", name)
		return
	}
	p999 := "-"
	if p.P999 != nil {
		p999 = digits(*p.P999)
	}
	fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%d\t\n", name,
		digits(p.Min), digits(p.P50), digits(p.P90), digits(p.P95), digits(p.P99), p999, digits(p.Max), p.Count)
}

// digits is a time in milliseconds at the precision of a histogram: 3 decimals
// under 10 ms, and from there on one less for each power of ten.
func digits(ms float64) string {
	switch {
	case ms < 10:
		return fmt.Sprintf("%.3f", ms)
	case ms < 100:
		return fmt.Sprintf("%.2f", ms)
	case ms < 1000:
		return fmt.Sprintf("%.1f", ms)
	}
	return fmt.Sprintf("%.0f", ms)
}

// appendCounts adds a line of counts by their key, if there are any.
func appendCounts(lines []string, name string, counts map[string]int) []string {
	if len(counts) == 0 {
		return lines
	}
	var parts []string
	for _, key := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%s x %d", printable(key), counts[key]))
	}
	return append(lines, name+": "+strings.Join(parts, ", "))
}

// printable is text that a server chose, as it may be shown: one that could move the
// cursor or begin a line is quoted.
func printable(text string) string {
	if strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(text)
	}
	return text
}
