package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"chokepoint/internal/result"
)

// sparklineColumns is the widest that a sparkline becomes; beyond, a column
// stands for several rows of timeline.csv.
const sparklineColumns = 72

// timeAxis maps scenario seconds to the columns of a sparkline.
type timeAxis struct {
	start, width float64 // scenario seconds
	columns      int
}

func axisOver(first, last float64) timeAxis {
	width := max(1, math.Ceil((last-first+1)/sparklineColumns))
	start := math.Floor(first)
	return timeAxis{start: start, width: width, columns: int((last-start)/width) + 1}
}

// column is -1 for a moment outside the axis.
func (a timeAxis) column(at float64) int {
	c := math.Floor((at - a.start) / a.width)
	if c < 0 || c >= float64(a.columns) {
		return -1
	}
	return int(c)
}

// sparkline draws the highest value of each column on a scale from 0 to top. A
// dot is a zero, a space a column without a row.
func (a timeAxis) sparkline(rows []result.TimelineRow, value func(result.TimelineRow) float64, top float64) string {
	levels := []rune("▁▂▃▄▅▆▇█")
	highest := slices.Repeat([]float64{math.NaN()}, a.columns)
	for _, r := range rows {
		if c := a.column(r.AtS); c >= 0 && !(highest[c] >= value(r)) {
			highest[c] = value(r)
		}
	}
	line := make([]rune, a.columns)
	for i, v := range highest {
		switch {
		case math.IsNaN(v):
			line[i] = ' '
		case v <= 0 || top <= 0:
			line[i] = '·'
		default:
			line[i] = levels[min(len(levels)-1, int(v/top*float64(len(levels))))]
		}
	}
	return string(line)
}

type timelineSeries struct {
	name  string
	value func(result.TimelineRow) float64
	unit  string
	// limit is the top of the scale; 0 stands for the highest value.
	limit float64
	// always shows the series even if it is 0 throughout.
	always bool
}

func timelineBlocks(r runFolder) []block {
	if missing, ok := r.unread[result.TimelineFile]; ok {
		return []block{paragraph{plain(missing + " There is no timeline to show.")}}
	}
	rows := r.timeline
	if len(rows) == 0 {
		return []block{paragraph{plain(result.TimelineFile + " holds no rows.")}}
	}
	first, last := rows[0].AtS, rows[0].AtS
	for _, row := range rows {
		first, last = min(first, row.AtS), max(last, row.AtS)
	}
	axis := axisOver(first, last)
	lines := []string{timelineLine("load", axis.marks(loadMarks(r.events)), ""), timelineLine("dumps", axis.marks(dumpMarks(r.summary.Dumps)), "")}
	blank := false
	for _, s := range []timelineSeries{
		{"busy", func(row result.TimelineRow) float64 { return float64(row.Busy) }, "count", float64(r.summary.Pool.WorkerLimit), r.summary.Knows(result.MetricBusy)},
		{"queued", func(row result.TimelineRow) float64 { return float64(row.Queued) }, "count", 0, r.summary.Knows(result.MetricQueued)},
		{"permits", func(row result.TimelineRow) float64 { return float64(row.PermitsHeld) }, "count", 0, false},
		{"CPU", func(row result.TimelineRow) float64 { return row.CPUPercent }, "percent", float64(r.cpuLimit()), r.summary.Knows(result.MetricCPU)},
		{"/" + protected(r.summary) + " failed", func(row result.TimelineRow) float64 { return float64(row.FastFailed) }, "count", 0, true},
	} {
		highest := 0.0
		for _, row := range rows {
			highest = max(highest, s.value(row))
		}
		if highest == 0 && !s.always {
			continue
		}
		top := max(highest, s.limit)
		line := axis.sparkline(rows, s.value, top)
		blank = blank || strings.Contains(line, " ")
		lines = append(lines, timelineLine(s.name, line,
			fmt.Sprintf("max %s, full scale %s", inUnit(highest, s.unit), inUnit(top, s.unit))))
	}
	legend := fmt.Sprintf("A column is %s, from %s to %s; it shows the highest value in it. A dot is zero.",
		scenarioSeconds(axis.width, r.summary.Run.Scale), number(first, 1), number(last, 1))
	if blank {
		legend += " A blank is a column in which no sample fell, as happens while a dump stops the victim."
	}
	drawn, _ := timelineChart(r) // there are rows
	drawn.standIn = append([]block{listing{lines}, paragraph{plain(legend)}}, markLegend(r)...)
	return []block{drawn, unabridged{eventBlocks(r)}}
}

func timelineLine(name, line, note string) string {
	return strings.TrimRight(fmt.Sprintf("%-12s  %s  %s", name, line, note), " ")
}

// mark is a sign at an instant, in scenario seconds.
type mark struct {
	at   float64
	sign rune
}

// marks draws signs in their columns; the later one wins where two share one.
func (a timeAxis) marks(marks []mark) string {
	line := []rune(strings.Repeat(" ", a.columns))
	for _, m := range marks {
		if c := a.column(m.at); c >= 0 {
			line[c] = m.sign
		}
	}
	return string(line)
}

// loadMarks and dumpMarks have a line each, so that the first dump, close before
// the load, hides nothing.
func loadMarks(events []result.Event) (marks []mark) {
	for _, e := range events {
		if sign, ok := eventMark(e.Name); ok {
			marks = append(marks, mark{e.AtS, sign})
		}
	}
	return marks
}

func dumpMarks(dumps []result.Dump) (marks []mark) {
	for i, d := range dumps {
		marks = append(marks, mark{d.AtS, dumpMark(i)})
	}
	return marks
}

// eventMark is the mark of the events that the timeline shows beside dumps.
func eventMark(name string) (rune, bool) {
	switch name {
	case "load_on":
		return '[', true
	case "load_off":
		return ']', true
	case "recovered":
		return 'R', true
	}
	return 0, false
}

// dumpMark is 1 to 9, then a, b, ...
func dumpMark(i int) rune {
	if i < 9 {
		return rune('1' + i)
	}
	return rune('a' + (i-9)%26)
}

func markLegend(r runFolder) []block {
	var l list
	for i, d := range r.summary.Dumps {
		l.items = append(l.items, join(code(string(dumpMark(i))), plain(" dump "), code(d.Point), plain(" at "+number(d.AtS, 1))))
	}
	for _, e := range r.events {
		if e.Name == "dump" {
			continue // listed above
		}
		item := join(code(e.Name), plain(" at "+number(e.AtS, 1)))
		if mark, ok := eventMark(e.Name); ok {
			item = join(code(string(mark)), plain(" "), item)
		}
		if e.Detail != "" {
			item = join(item, plain(": "+e.Detail))
		}
		l.items = append(l.items, item)
	}
	var blocks []block
	if len(l.items) > 0 {
		blocks = append(blocks, l)
	}
	if missing, ok := r.unread[result.EventsFile]; ok {
		blocks = append(blocks, paragraph{plain(missing + " The window of the load is not marked.")})
	}
	return blocks
}
