package report

import (
	"fmt"
	"math"
	"path"
	"path/filepath"
	"slices"

	"chokepoint/internal/evidence/page"
	"chokepoint/internal/load/latency"
	"chokepoint/internal/result"
)

// profileRuns are what a comparison draws of one profile: a timeline cannot be the
// median of several, histograms can be added up.
type profileRuns struct {
	first  *runFolder                    // the first valid run; nil if it cannot be read
	totals map[string]*latency.Histogram // of all valid runs together, by tag
	// withoutLog is how many of the valid runs the totals lack.
	withoutLog int
}

// readProfiles reads the valid runs of each profile. What is missing is left out of
// the charts: the tables have their figures from comparison.json.
func (c comparisonFolder) readProfiles() map[string]profileRuns {
	profiles := map[string]profileRuns{}
	for i, run := range c.Runs {
		if !run.Valid || c.summaries[i] == nil {
			continue
		}
		folder := filepath.Join(c.dir, filepath.FromSlash(run.Path))
		p, known := profiles[run.Profile]
		if !known {
			p.totals = map[string]*latency.Histogram{}
		}
		var totals map[string]*latency.Histogram
		if p.first == nil {
			if r, err := readRun(folder); err == nil {
				p.first, totals = &r, r.totals
			}
		} else if read, err := readTotals(filepath.Join(folder, result.HistogramFile), *c.summaries[i]); err == nil {
			totals = read
		}
		for tag, h := range totals {
			if p.totals[tag] == nil {
				p.totals[tag] = latency.New()
			}
			p.totals[tag].Merge(h)
		}
		if len(totals) == 0 {
			p.withoutLog++
		}
		profiles[run.Profile] = p
	}
	return profiles
}

// drawn lists the profiles that have a timeline.
func (c comparisonFolder) drawn() []string {
	return slices.DeleteFunc(slices.Clone(c.Profiles), func(p string) bool {
		r := c.profiles[p].first
		return r == nil || len(r.timeline) == 0
	})
}

func (c comparisonFolder) colourOf(profile string) page.Colour {
	return page.Numbered(slices.Index(c.Profiles, profile))
}

// timelineBlocks draws the first valid run of each profile over one time axis.
func (c comparisonFolder) timelineBlocks() []block {
	profiles := c.drawn()
	if len(profiles) == 0 {
		return []block{paragraph{plain("No valid run has a readable " + result.TimelineFile + ".")}}
	}
	first, last := math.Inf(1), math.Inf(-1)
	for _, p := range profiles {
		for _, row := range c.profiles[p].first.timeline {
			first, last = min(first, row.AtS), max(last, row.AtS)
		}
	}
	width := 1.0
	if last-first > chartColumns {
		width = niceWidth((last - first) / chartColumns)
	}
	start := math.Floor(first/width) * width
	xs := make([]float64, int(math.Floor((last-start)/width))+1)
	for i := range xs {
		xs[i] = start + float64(i)*width
	}
	base := c.profiles[profiles[0]].first
	spec := page.Chart{X: chartAxis(c.Scale), Xs: xs, Sync: timelineSync, Bands: loadBands(*base), Marks: dumpLines(base.summary.Dumps)}
	t := table{columns: []column{words("profile"), words("figure"), numbers("highest"), numbers("at"), numbers("last above 0")}}
	for _, pane := range []struct {
		title string
		unit  page.Unit
		log   bool
		value func(result.TimelineRow) float64
	}{
		{"Workers busy", page.Count, false, func(row result.TimelineRow) float64 { return float64(row.Busy) }},
		{"Queued for a worker", page.Count, false, func(row result.TimelineRow) float64 { return float64(row.Queued) }},
		{"/" + fastEndpoint + ", requests failed per sample", page.Count, false, func(row result.TimelineRow) float64 { return float64(row.FastFailed) }},
		{"/" + fastEndpoint + ", p99 of the response time", page.Milliseconds, true, func(row result.TimelineRow) float64 { return orNaN(row.FastP99MS) }},
	} {
		drawn := page.Pane{Title: pane.title, Unit: pane.unit, Log: pane.log, Height: 120}
		for _, p := range profiles {
			values := slices.Repeat([]float64{math.NaN()}, len(xs))
			highest, highestAt, lastAbove := math.NaN(), none, none
			for _, row := range c.profiles[p].first.timeline {
				v := pane.value(row)
				if i := int(math.Floor((row.AtS - start) / width)); !(values[i] >= v) {
					values[i] = v
				}
				if !math.IsNaN(v) && !(highest >= v) {
					highest, highestAt = v, instant(row.AtS)
				}
				if v > 0 {
					lastAbove = instant(row.AtS)
				}
			}
			drawn.Series = append(drawn.Series, page.Series{Label: p, Colour: c.colourOf(p), Style: page.Line, Spans: !pane.log, Values: values})
			printed := none
			if !math.IsNaN(highest) {
				printed = inUnit(highest, string(pane.unit))
			}
			t.rows = append(t.rows, []text{code(p), plain(pane.title), plain(printed), plain(highestAt), plain(lastAbove)})
		}
		spec.Panes = append(spec.Panes, drawn)
	}
	caption := plain(fmt.Sprintf("The first valid run of each profile; the highest value in each %s s. Shaded: the load. Dashed lines: the dumps of %s.", shortest(width), profiles[0]))
	blocks := []block{chart{caption: caption, spec: spec, numbers: []block{t}, standIn: []block{paragraph{plain("Of the first valid run of each profile:")}, t}}}
	for _, p := range c.Profiles {
		if c.validRuns(p) > 0 && !slices.Contains(profiles, p) {
			blocks = append(blocks, sentence(code(p), plain(" is not drawn: its first valid run has no readable "+result.TimelineFile+".")))
		}
	}
	return blocks
}

// whereBars shows the medians of the workers in each place.
func (c comparisonFolder) whereBars(points []string, places map[string]int) bars {
	b := bars{caption: plain("Request workers by the place in which they stand, medians over the valid runs. A part of a bar leads to the stacks of its place in the first valid run.")}
	columns := whereColumns(places)
	full := 0.0
	for _, p := range c.Profiles {
		for _, point := range points {
			sum := 0.0
			for _, where := range columns {
				sum += c.metrics["dump."+point+"."+where].Values[p].Median
			}
			full = max(full, sum)
		}
	}
	taken := map[string]bool{}
	for _, point := range points {
		for _, p := range c.Profiles {
			row := barRow{name: join(code(p), plain(" "+point)), full: full}
			sum := 0.0
			for _, where := range columns {
				n := c.metrics["dump."+point+"."+where].Values[p].Median
				if n > 0 {
					taken[where] = true
				}
				sum += n
				row.parts = append(row.parts, barPart{label: fmt.Sprintf("%s in %s", decimal(n), where), colour: placeColour(where), value: n,
					href: c.stacksOf(p, point, where)})
			}
			row.end = plain(decimal(sum) + " workers, " + decimal(c.metrics["dump."+point+".queued"].Values[p].Median) + " queued")
			b.rows = append(b.rows, row)
		}
	}
	for _, where := range columns {
		if taken[where] {
			b.keys = append(b.keys, barKey{where, placeColour(where)})
		}
	}
	return b
}

// stacksOf leads to the stacks of a place in the report of a profile's first valid
// run; it is empty where that has none.
func (c comparisonFolder) stacksOf(profile, point, where string) string {
	i := slices.IndexFunc(c.Runs, func(r result.ComparedRun) bool { return r.Profile == profile && r.Valid })
	if i < 0 || c.summaries[i] == nil {
		return ""
	}
	for n, d := range c.summaries[i].Dumps {
		if d.Point == point && hasStacks(d, where) {
			return escapedPath(path.Join(c.Runs[i].Path, result.PageFile)) + "#" + stacksAnchor(n, where)
		}
	}
	return ""
}

// waitBlocks shows where the time of a request went, in the first valid run of each
// profile.
func (c comparisonFolder) waitBlocks() []block {
	t := table{columns: []column{words("profile"), words("endpoint")}}
	var b bars
	for _, name := range c.endpoints() {
		for _, p := range c.Profiles {
			r := c.profiles[p].first
			if r == nil || r.summary.Endpoints[name].ServerTiming == nil {
				continue
			}
			waits := r.waitsOf(name)
			if len(b.keys) == 0 {
				b.caption = plain("Where the time of a request went, on average, in the first valid run of each profile; a bar is the whole of it. " + waitNote(r.summary))
				for _, w := range waits {
					b.keys = append(b.keys, barKey{w.name, w.colour})
					t.columns = append(t.columns, numbers(w.name))
				}
			}
			cells, row := waitRow(join(code(p), plain(" /"+name)), waits)
			b.rows = append(b.rows, row)
			t.rows = append(t.rows, append([]text{code(p), endpoint(name)}, cells...))
		}
	}
	if len(t.rows) == 0 {
		return nil
	}
	b.numbers = []block{t}
	b.standIn = []block{paragraph{b.caption}, t}
	return []block{b}
}

// percentileBlocks draws a curve for each profile, an endpoint at a time.
func (c comparisonFolder) percentileBlocks() []block {
	var blocks []block
	for _, name := range c.endpoints() {
		var lines []namedHistogram
		for _, p := range c.Profiles {
			if h := c.profiles[p].totals[name+"/"+latency.Response]; h != nil && h.Count() > 0 {
				lines = append(lines, namedHistogram{p, h, c.colourOf(p), false})
			}
		}
		if len(lines) == 0 {
			continue
		}
		caption := join(endpoint(name), plain(": response times of all requests, over all valid runs of a profile together. Each further nine takes the same room."))
		curve := percentileChart(caption, lines)
		curve.standIn = []block{sentence(endpoint(name), plain(", all requests, over all valid runs of a profile together:")), curve.numbers[0]}
		blocks = append(blocks, curve)
	}
	if blocks == nil {
		return []block{paragraph{plain("No valid run has a readable " + result.HistogramFile + ".")}}
	}
	for _, p := range c.Profiles {
		if n := c.profiles[p].withoutLog; n > 0 {
			blocks = append(blocks, sentence(code(p), plain(fmt.Sprintf(": %s without a readable %s.", plural(n, "valid run"), result.HistogramFile))))
		}
	}
	return blocks
}
