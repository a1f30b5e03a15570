package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"chokepoint/internal/cli"
	"chokepoint/internal/evidence/dumps"
	"chokepoint/internal/evidence/stacks"
)

// printDumps prints what each dump is, who stands where, and the groups: with
// their counts over time if there are several dumps. What a dump says is another's
// text: it is made printable.
func printDumps(stdout io.Writer, r dumpReport, f dumpFlags) {
	w := &strings.Builder{}
	defer func() { io.WriteString(stdout, cli.Printable(w.String())) }()
	for i, d := range r.Dumps {
		printHeading(w, d, i, len(r.Dumps))
	}
	fmt.Fprintf(w, "\n%s:\n", whoIsPlaced(r.Dumps))
	printWords(w, "where", stacks.Wheres(), r.Dumps, func(d dumps.Dump) map[string]int { return d.Where })
	printOther(w, r.Dumps)
	fmt.Fprintf(w, "\nall %s, by what they wait for:\n", r.Dumps[0].Format.Unit())
	printWords(w, "waits for", stacks.Waits(), r.Dumps, func(d dumps.Dump) map[string]int { return d.Waits })
	if len(r.Dumps) == 1 {
		printGroups(w, r.Dumps[0].Groups, f)
	} else {
		printTimeline(w, r, f)
	}
	for i, h := range r.Asserted {
		if i == 0 {
			fmt.Fprintln(w)
		}
		mark := "ok  "
		if !h.OK {
			mark = "FAIL"
		}
		why := ""
		if h.Why != "" {
			why = "; " + h.Why
		}
		fmt.Fprintf(w, "  %s  %s: got %d in %s%s\n", mark, h.Text, h.Got, h.Dump, why)
	}
}

// printHeading prints what a dump is. One of several has its number in front.
func printHeading(w io.Writer, d dumps.Dump, i, of int) {
	number := ""
	if of > 1 {
		number = fmt.Sprintf("#%d ", i+1)
	}
	format := string(d.Format)
	if d.Gzip {
		format += ", gzip"
	}
	fmt.Fprintf(w, "%s%s: %d %s (%s)", number, d.Name, d.Total, d.Format.Unit(), format)
	switch {
	case d.Workers == 0 && d.Queued == 0:
	case d.Format.Unit() == "goroutines":
		fmt.Fprintf(w, ", %d of them workers, %d queued", d.Workers, d.Queued)
	default: // the connections that wait for a worker of Tomcat are no threads
		fmt.Fprintf(w, ", %d of them workers", d.Workers)
	}
	fmt.Fprintln(w)
	if d.Truncated {
		fmt.Fprintln(w, "  warning: the text ends before the dump does; the counts are too low")
	}
	for _, note := range d.Notes {
		fmt.Fprintf(w, "  note: %s\n", note)
	}
}

// whoIsPlaced says whom the table of places counts: that of waits counts everyone.
func whoIsPlaced(all []dumps.Dump) string {
	unit := all[0].Format.Unit()
	var everyone []string
	for i, d := range all {
		if stacks.CountsEveryone(d.Result()) {
			everyone = append(everyone, fmt.Sprintf("#%d", i+1))
		}
	}
	if len(everyone) == len(all) {
		return "all " + unit + ", by place (no pool that the rules know)"
	}
	who := "the workers of the pool, and the connections that wait for one, by place"
	if unit == "threads" {
		who = "the workers of the pool, by place"
	}
	if len(everyone) > 0 {
		who += fmt.Sprintf(" (in %s all %s: no pool that the rules know)", strings.Join(everyone, ", "), unit)
	}
	return who
}

// printOther names what most stand in where no rule has a word for it.
func printOther(w io.Writer, all []dumps.Dump) {
	for i, d := range all {
		largest := stacks.LargestOther(d.Result())
		if len(largest) == 0 {
			continue
		}
		number := ""
		if len(all) > 1 {
			number = fmt.Sprintf("#%d: ", i+1)
		}
		var groups []string
		for _, g := range largest {
			state := ""
			if g.State != "" {
				state = " (" + orDash(g.State) + ")"
			}
			groups = append(groups, fmt.Sprintf("%d in %s%s", g.Count, orDash(g.Frame), state))
		}
		fmt.Fprintf(w, "  %sother is %d of %d; the largest: %s\n", number, d.Where[stacks.Other], d.Total, strings.Join(groups, ", "))
	}
}

// printWords prints the words that any dump has, a row each and a column a dump.
func printWords(w io.Writer, title string, words []string, all []dumps.Dump, counts func(dumps.Dump) map[string]int) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(table, "%s\t%s\n", title, columns(len(all)))
	for _, word := range words {
		if !slices.ContainsFunc(all, func(d dumps.Dump) bool { return counts(d)[word] > 0 }) {
			continue
		}
		row := make([]int, len(all))
		for i, d := range all {
			row[i] = counts(d)[word]
		}
		fmt.Fprintf(table, "%s\t%s\n", orDash(word), numbers(row))
	}
	table.Flush()
}

// columns are the titles of one count for each dump.
func columns(n int) string {
	if n == 1 {
		return "count\t"
	}
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "#%d\t", i+1)
	}
	return b.String()
}

func numbers(counts []int) string {
	var b strings.Builder
	for _, n := range counts {
		fmt.Fprintf(&b, "%d\t", n)
	}
	return b.String()
}

// maxCell is how many characters of a name a table shows: it is padded to its longest.
const maxCell = 300

// orDash is a name as a table shows it.
func orDash(text string) string {
	n := 0
	for i := range text {
		if n == maxCell {
			return text[:i] + "…"
		}
		n++
	}
	return cmp.Or(text, "-")
}

// identity are the cells that say which group it is. A dash is a field in which
// its members differ, or that the format does not have.
func identity(g stacks.Group) string {
	if g.Rest {
		return "(all beyond the limit of groups)"
	}
	cells := []string{orDash(g.Where), orDash(g.Wait), orDash(g.State), orDash(g.Frame)}
	return strings.Join(cells, "\t") + "\t" + orDash(cmp.Or(g.CreatedBy, g.Name))
}

const identityTitles = "where\twaits for\tstate\ttelling frame\tcreated by, or name"

func printGroups(w io.Writer, groups []stacks.Group, f dumpFlags) {
	shown := firstOf(groups, f.top)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "\ncount\tstacks\t%s\n", identityTitles)
	for _, g := range shown {
		fmt.Fprintf(table, "%d\t%d\t%s\n", g.Count, g.Stacks, identity(g))
	}
	table.Flush()
	left := 0
	for _, g := range groups[len(shown):] {
		left += g.Count
	}
	if left > 0 {
		fmt.Fprintf(w, "and %d more groups of together %d; -top 0 prints all\n", len(groups)-len(shown), left)
	}
	if f.examples {
		for i, g := range shown {
			fmt.Fprintf(w, "\ngroup %d, %d alike:\n%s", i+1, g.Count, withNewline(cmp.Or(g.Example, "(not kept: there were too many groups)")))
		}
	}
}

func printTimeline(w io.Writer, r dumpReport, f dumpFlags) {
	last := len(r.Dumps) - 1
	table := func(title, counts string, rows []stacks.Row, of func([]int) string) {
		shown := firstOf(rows, f.top)
		fmt.Fprintf(w, "\n%s\n", title)
		cells := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintf(cells, "%s%s\n", counts, identityTitles)
		for _, row := range shown {
			fmt.Fprintf(cells, "%s%s\n", of(row.Counts), identity(row.Group))
		}
		cells.Flush()
		if len(shown) < len(rows) {
			fmt.Fprintf(w, "and %d more; -top 0 prints all\n", len(rows)-len(shown))
		}
	}
	table("timeline, the largest group first:", columns(len(r.Dumps)), r.Timeline, numbers)
	if len(r.Changes) == 0 {
		fmt.Fprintf(w, "\nno difference from #1 to #%d\n", last+1)
	} else {
		table(fmt.Sprintf("difference from #1 to #%d, the largest first:", last+1), fmt.Sprintf("change\t#1\t#%d\t", last+1), r.Changes, func(counts []int) string {
			return fmt.Sprintf("%+d\t%d\t%d\t", counts[last]-counts[0], counts[0], counts[last])
		})
	}
	if f.examples {
		for _, d := range r.Dumps {
			for _, g := range firstOf(d.Groups, f.top) {
				fmt.Fprintf(w, "\n%s, %d alike:\n%s", d.Name, g.Count, withNewline(cmp.Or(g.Example, "(not kept: there were too many groups)")))
			}
		}
	}
}

func firstOf[T any](all []T, n int) []T {
	if n > 0 && n < len(all) {
		return all[:n]
	}
	return all
}

func withNewline(text string) string { return strings.TrimRight(text, "\r\n") + "\n" }
