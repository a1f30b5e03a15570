package report

import (
	"fmt"
	"math"
	"slices"

	"chokepoint/internal/evidence/page"
	"chokepoint/internal/evidence/stacks"
	"chokepoint/internal/result"
)

// timelineSync is the cursor that all charts over the time of a run share.
const timelineSync = "time"

// chartAxis is in scenario seconds, which are called so where they are not real ones.
func chartAxis(scale float64) page.XAxis {
	label := "seconds from the start of the load"
	if scale != 1 {
		label = "scenario " + label
	}
	return page.XAxis{Kind: page.Seconds, Label: label}
}

// numberRows is how many rows the table below a chart has at most.
const numberRows = 400

// timelineChart puts what the pool did above what the victim used and what a user of
// /fast saw. A run without a timeline has none.
func timelineChart(r runFolder) (chart, bool) {
	rows := r.timeline
	if len(rows) == 0 {
		return chart{}, false
	}
	column := func(value func(result.TimelineRow) float64) []float64 {
		values := make([]float64, len(rows))
		for i, row := range rows {
			values[i] = value(row)
		}
		return values
	}
	limit := float64(r.summary.Pool.WorkerLimit)
	columns := [][]float64{
		column(func(row result.TimelineRow) float64 { return float64(row.Busy) }),
		column(func(row result.TimelineRow) float64 { return float64(row.PermitsHeld) }),
		column(func(row result.TimelineRow) float64 { return float64(row.Queued) }),
		column(func(row result.TimelineRow) float64 { return float64(row.AcceptQueue) }),
		column(func(row result.TimelineRow) float64 { return row.CPUPercent }),
		column(func(row result.TimelineRow) float64 { return orNaN(row.FastP50MS) }),
		column(func(row result.TimelineRow) float64 { return orNaN(row.FastP99MS) }),
		column(func(row result.TimelineRow) float64 { return float64(row.FastDone - row.FastFailed) }),
		column(func(row result.TimelineRow) float64 { return float64(row.FastFailed) }),
	}
	xs, drawn, every := thinned(column(func(row result.TimelineRow) float64 { return row.AtS }), columns...)
	spec := page.Chart{
		X: chartAxis(r.summary.Run.Scale), Xs: xs, Sync: timelineSync,
		Bands: loadBands(r), Marks: dumpLines(r.summary.Dumps),
		Panes: knownPanes(r, []page.Pane{
			{Title: "Workers", Unit: page.Count, Top: limit, Height: 130, Series: taken(
				page.Series{Label: "busy", Colour: stacks.UpstreamRead, Style: page.Step, Values: drawn[0]},
				page.Series{Label: "permits held", Colour: stacks.PermitWait, Style: page.Step, Values: drawn[1]})},
			{Title: "Waiting", Unit: page.Count, Height: 100, Series: taken(
				page.Series{Label: "queued for a worker", Colour: stacks.Queued, Style: page.Step, Values: drawn[2]},
				page.Series{Label: "accept queue", Colour: stacks.Other, Style: page.Step, Values: drawn[3]})},
			{Title: cpuTitle(r.summary), Unit: page.Percent, Top: float64(r.cpuLimit()), Height: 80, Series: []page.Series{
				{Label: "CPU", Colour: page.CPU, Style: page.Since, Values: drawn[4]}}},
			{Title: "/" + protected(r.summary) + ", response time", Unit: page.Milliseconds, Log: true, Height: 120, Series: []page.Series{
				{Label: "p50", Colour: stacks.Database, Values: drawn[5]},
				{Label: "p99", Colour: stacks.Queued, Dashed: true, Values: drawn[6]}}},
			{Title: "/" + protected(r.summary) + ", requests ended per sample", Unit: page.Count, Height: 90, Stacked: true, Series: taken(
				page.Series{Label: "ok", Colour: page.OK, Style: page.Since, Values: drawn[7]},
				page.Series{Label: "failed", Colour: stacks.UpstreamRead, Style: page.Since, Values: drawn[8]})},
		}),
	}
	caption := plain(timelineLegend(r, every))
	if busiest := busyAndIdle(r); busiest != "" {
		caption = join(strong(busiest), plain(" "+timelineLegend(r, every)))
	}
	return chart{caption: caption, spec: spec, numbers: timelineNumbers(r)}, true
}

// taken leaves out the series that are 0 throughout, but for the first.
func taken(first page.Series, others ...page.Series) []page.Series {
	series := []page.Series{first}
	for _, s := range others {
		if slices.ContainsFunc(s.Values, func(v float64) bool { return v != 0 }) {
			series = append(series, s)
		}
	}
	return series
}

func orNaN(v *float64) float64 {
	if v == nil {
		return math.NaN()
	}
	return *v
}

// busyAndIdle is the picture in a sentence: the row of the timeline in which most is
// at a standstill.
func busyAndIdle(r runFolder) string {
	worst := r.timeline[0]
	for _, row := range r.timeline {
		if row.Busy > worst.Busy || row.Busy == worst.Busy && row.Queued > worst.Queued {
			worst = row
		}
	}
	if !r.summary.Knows(result.MetricBusy) {
		return ""
	}
	busy := fmt.Sprintf("%s in flight", plural(worst.Busy, "request"))
	if limit := r.summary.Pool.WorkerLimit; limit > 0 {
		busy = fmt.Sprintf("%s of %s workers busy", count(worst.Busy), count(limit))
	}
	busy += " at " + instant(worst.AtS)
	if r.summary.Knows(result.MetricQueued) {
		busy += fmt.Sprintf(", %s queued", count(worst.Queued))
	}
	if r.summary.Knows(result.MetricCPU) {
		busy += fmt.Sprintf(", CPU %s", inUnit(worst.CPUPercent, "percent"))
	}
	return busy + "."
}

// knownPanes leaves out those of workers, of what waits and of CPU where an attached
// service does not tell them; they are the first three.
func knownPanes(r runFolder, panes []page.Pane) []page.Pane {
	var known []page.Pane
	for i, metric := range []string{result.MetricBusy, result.MetricQueued, result.MetricCPU} {
		if r.summary.Knows(metric) {
			known = append(known, panes[i])
		}
	}
	return append(known, panes[3:]...)
}

func timelineLegend(r runFolder, every float64) string {
	legend := "Shaded: the load. Dashed lines: the dumps."
	if r.summary.Run.Scale != 1 {
		legend += " Seconds are scenario seconds."
	}
	if every > 0 {
		legend += fmt.Sprintf(" Each %s s show the lowest and the highest of their rows.", shortest(every))
	}
	return legend
}

// loadBands shade the load, as far as the events date it.
func loadBands(r runFolder) []page.Band {
	on, isOn := r.event("load_on")
	off, isOff := r.event("load_off")
	if !isOn || !isOff {
		return nil
	}
	return []page.Band{{From: on.AtS, To: off.AtS, Label: "load"}}
}

func dumpLines(dumps []result.Dump) (marks []page.Mark) {
	for _, d := range dumps {
		marks = append(marks, page.Mark{At: d.AtS, Label: d.Point})
	}
	return marks
}

// timelineNumbers is timeline.csv as a table, or, of a long run, its first rows and
// the file.
func timelineNumbers(r runFolder) []block {
	cell := func(n func(result.TimelineRow) int) func(result.TimelineRow) text {
		return func(row result.TimelineRow) text { return plain(count(n(row))) }
	}
	victim, fast := r.summary.Attached == nil, "/"+protected(r.summary)
	var t table
	var cells []func(result.TimelineRow) text
	for _, c := range []struct {
		column
		known bool
		cell  func(result.TimelineRow) text
	}{
		{numbers("at"), true, func(row result.TimelineRow) text { return plain(number(row.AtS, 1)) }},
		{words("phase"), true, func(row result.TimelineRow) text { return plain(row.Phase) }},
		{numbers("workers"), victim, cell(func(row result.TimelineRow) int { return row.Workers })},
		{numbers("busy"), r.summary.Knows(result.MetricBusy), cell(func(row result.TimelineRow) int { return row.Busy })},
		{numbers("queued"), r.summary.Knows(result.MetricQueued), cell(func(row result.TimelineRow) int { return row.Queued })},
		{numbers("permits"), victim, cell(func(row result.TimelineRow) int { return row.PermitsHeld })},
		{numbers("accept queue"), victim, cell(func(row result.TimelineRow) int { return row.AcceptQueue })},
		{numbers("CPU"), r.summary.Knows(result.MetricCPU), func(row result.TimelineRow) text { return plain(inUnit(row.CPUPercent, "percent")) }},
		{numbers(fast + " p50"), true, func(row result.TimelineRow) text { return optional(row.FastP50MS) }},
		{numbers(fast + " p99"), true, func(row result.TimelineRow) text { return optional(row.FastP99MS) }},
		{numbers(fast + " ended"), true, cell(func(row result.TimelineRow) int { return row.FastDone })},
		{numbers(fast + " failed"), true, cell(func(row result.TimelineRow) int { return row.FastFailed })},
	} {
		if c.known {
			t.columns, cells = append(t.columns, c.column), append(cells, c.cell)
		}
	}
	step := (len(r.timeline) + numberRows - 1) / numberRows
	for i := 0; i < len(r.timeline); i += step {
		var row []text
		for _, cell := range cells {
			row = append(row, cell(r.timeline[i]))
		}
		t.rows = append(t.rows, row)
	}
	blocks := []block{t}
	if step > 1 {
		blocks = append(blocks, sentence(plain(fmt.Sprintf("One row in %s of ", count(step))), rawFile(r.dir, ".", result.TimelineFile), plain(".")))
	}
	return blocks
}

func optional(ms *float64) text {
	if ms == nil {
		return plain(none)
	}
	return plain(inUnit(*ms, "ms"))
}

// eventBlocks lists the moments of the run.
func eventBlocks(r runFolder) []block {
	if missing, ok := r.unread[result.EventsFile]; ok {
		return []block{paragraph{plain(missing + " The window of the load is not marked.")}}
	}
	t := table{columns: []column{numbers("at"), words("event"), words("detail"), numbers("pause")}}
	for _, e := range r.events {
		pause := plain(none)
		if e.PauseMS > 0 {
			pause = plain(inUnit(e.PauseMS, "ms"))
		}
		t.rows = append(t.rows, []text{plain(instant(e.AtS)), code(e.Name), plain(e.Detail), pause})
	}
	return []block{t}
}
