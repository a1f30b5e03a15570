package report

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"chokepoint/internal/evidence/stacks"
	"chokepoint/internal/result"
)

// endpoints and points are read off the metrics' names, in their order.
func (c comparisonFolder) endpoints() []string {
	var names []string
	for _, m := range c.Metrics {
		if name, ok := strings.CutSuffix(m.Name, ".scheduled"); ok {
			names = append(names, name)
		}
	}
	return names
}

func (c comparisonFolder) points() []string {
	var points []string
	for _, m := range c.Metrics {
		rest, isDump := strings.CutPrefix(m.Name, "dump.")
		if point, ok := strings.CutSuffix(rest, ".workers"); ok && isDump {
			points = append(points, point)
		}
	}
	return points
}

func (c comparisonFolder) latencyBlocks() []block {
	all := c.endpointTable([]metricColumn{{"failed", "failed_ratio"}, {"p50", "p50_ms"}, {"p95", "p95_ms"}, {"p99", "p99_ms"},
		{"scheduled", "scheduled"}, {"failed of the completed", "completed_failed_ratio"}})
	ends := c.endpointTable([]metricColumn{{"ok", "ok"}, {"http_error", "http_error"}, {"timeout", "timeout"}, {"connect_error", "connect_error"},
		{"transport_error", "transport_error"}, {"interrupted", "interrupted"}, {"dropped", "dropped"}})
	good := c.endpointTable([]metricColumn{{"p50", "ok_p50_ms"}, {"p95", "ok_p95_ms"}, {"p99", "ok_p99_ms"}, {"lag p99", "lag_p99_ms"}})
	return []block{
		paragraph{plain("Response times of all requests that ended; a client timeout counts as the time that the client waited:")}, all,
		paragraph{plain("How the scheduled requests ended:")}, ends,
		paragraph{plain("Of the good answers alone, and how late the generator was:")}, good,
	}
}

// endpointTable has a row for each profile and endpoint; a column's metric is
// the part of its name behind the endpoint's.
func (c comparisonFolder) endpointTable(columns []metricColumn) block {
	t := table{columns: []column{words("profile"), words("endpoint")}}
	for _, col := range columns {
		t.columns = append(t.columns, numbers(col.title))
	}
	for _, p := range c.Profiles {
		for _, e := range c.endpoints() {
			row := []text{code(p), endpoint(e)}
			for _, col := range columns {
				row = append(row, c.cell(e+"."+col.metric, p))
			}
			t.rows = append(t.rows, row)
		}
	}
	return t
}

func (c comparisonFolder) dumpBlocks() []block {
	points := c.points()
	if len(points) == 0 {
		return []block{paragraph{plain("No valid run holds a dump.")}}
	}
	var blocks []block
	for _, what := range []struct{ title, suffix string }{
		{"Request workers alive:", "workers"}, {"Requests queued for a worker:", "queued"}, {"All goroutines of the victim:", "goroutines"},
	} {
		var columns []metricColumn
		for _, point := range points {
			columns = append(columns, metricColumn{point, "dump." + point + "." + what.suffix})
		}
		blocks = append(blocks, paragraph{plain(what.title)}, c.metricTable(columns))
	}
	return blocks
}

func (c comparisonFolder) whereBlocks() []block {
	points := c.points()
	if len(points) == 0 {
		return []block{paragraph{plain("No valid run holds a dump.")}}
	}
	places := map[string]int{}
	for _, m := range c.Metrics {
		for _, point := range points {
			where, ok := strings.CutPrefix(m.Name, "dump."+point+".")
			if ok && !slices.Contains([]string{"goroutines", "workers", "queued"}, where) {
				places[where] = 0
			}
		}
	}
	t := table{columns: []column{words("profile"), words("where")}}
	for _, point := range points {
		t.columns = append(t.columns, numbers(point))
	}
	for _, p := range c.Profiles {
		for _, where := range whereColumns(places) {
			row, highest := []text{code(p), plain(where)}, 0.0
			for _, point := range points {
				metric := "dump." + point + "." + where
				if _, known := c.metrics[metric]; known {
					row = append(row, c.cell(metric, p))
				} else {
					row = append(row, plain("0")) // no run had a worker there then
				}
				highest = max(highest, c.metrics[metric].Values[p].Max)
			}
			if highest > 0 {
				t.rows = append(t.rows, row)
			}
		}
	}
	b := c.whereBars(points, places)
	b.standIn = []block{paragraph{plain("Request workers by the place in which they stand; places without any are left out:")}, t}
	b.numbers = []block{t}
	return append([]block{b}, c.frameBlocks()...)
}

// frameBlocks shows, from the first valid run of each profile, the frame of the
// largest group of workers at each point.
func (c comparisonFolder) frameBlocks() []block {
	t := table{columns: []column{words("profile"), words("point"), numbers("workers"), words("where"), words("state"), words("frame"), words("raw text")}}
	var missing []string
	for _, p := range c.Profiles {
		i := slices.IndexFunc(c.Runs, func(r result.ComparedRun) bool { return r.Profile == p && r.Valid })
		if i < 0 {
			continue
		}
		if c.summaries[i] == nil {
			missing = append(missing, p)
			continue
		}
		for _, d := range c.summaries[i].Dumps {
			if g, ok := largestOfWorkers(d.Groups); ok {
				t.rows = append(t.rows, []text{code(p), code(d.Point), plain(count(g.Count)), plain(g.Where), plain(g.State), code(g.Frame),
					rawFile(c.dir, c.Runs[i].Path, d.File)})
			}
		}
	}
	var blocks []block
	if len(t.rows) > 0 {
		blocks = append(blocks, paragraph{plain("The largest group of workers at each point, in the first valid run of each profile:")}, t)
	}
	if len(missing) > 0 {
		blocks = append(blocks, paragraph{plain("The first valid run of " + strings.Join(missing, ", ") + " cannot be read: its frames are not shown.")})
	}
	return blocks
}

// largestOfWorkers leaves out the goroutines that are no workers.
func largestOfWorkers(groups []result.Group) (result.Group, bool) {
	var found result.Group
	for _, g := range groups {
		if (heldPlace(g.Where) || g.Where == stacks.Idle) && g.Count > found.Count {
			found = g
		}
	}
	return found, found.Count > 0
}

func (c comparisonFolder) statusBlocks() []block {
	t := table{columns: []column{words("endpoint"), words("answer")}}
	for _, p := range c.Profiles {
		t.columns = append(t.columns, numbers(p))
	}
	known := map[string]bool{}
	for _, e := range c.endpoints() {
		for _, f := range endpointFigures(e, nil) {
			known[f.name] = true
		}
	}
	for _, e := range c.endpoints() {
		for _, m := range c.Metrics {
			answer, ok := strings.CutPrefix(m.Name, e+".")
			if !ok || known[m.Name] || m.Unit != "count" {
				continue
			}
			label := plain(answer)
			if status, ok := strings.CutPrefix(answer, "status_"); ok {
				label = plain("status " + status)
			} else if cause, ok := strings.CutPrefix(answer, "client_"); ok {
				label = join(plain("at the client: "), clientCause(cause))
			}
			row := []text{endpoint(e), label}
			for _, p := range c.Profiles {
				row = append(row, c.cell(m.Name, p))
			}
			t.rows = append(t.rows, row)
		}
	}
	if len(t.rows) == 0 {
		return []block{paragraph{plain("No request got an answer, and no cause was noted.")}}
	}
	return []block{t}
}

func (c comparisonFolder) recoveryBlocks() []block {
	t := table{columns: []column{words("profile"), words("recovered"), numbers("after the end of the load"), numbers("predicted"), numbers("waited at most")}}
	for _, p := range c.Profiles {
		predicted, waited := none, none
		for i, r := range c.Runs {
			if s := c.summaries[i]; r.Profile == p && r.Valid && s != nil {
				predicted = predictedRecovery(s.Recovery)
				waited = number(s.Recovery.WaitedS, 1) + " s"
				break
			}
		}
		seconds := c.cell("recovery.seconds", p)
		if c.metrics["recovery.seconds"].Values[p].N == 0 {
			seconds = strong("not within the wait")
		}
		t.rows = append(t.rows, []text{code(p), recovered(c.metrics["recovery.recovered"].Values[p]), seconds, plain(predicted), plain(waited)})
	}
	note := "The prediction and the wait are those of the first valid run."
	if c.Scale != 1 {
		note = "Seconds are scenario seconds. " + note
	}
	return []block{t, paragraph{plain(note)}}
}

// recovered spells a share of runs, each of which is 0 or 1.
func recovered(share result.Spread) text {
	switch {
	case share.N == 0:
		return plain(none)
	case share.Min == 1:
		return plain("yes")
	case share.Max == 0:
		return strong("no")
	}
	return plain("in some of the runs")
}

func (c comparisonFolder) baselineColumns() []metricColumn {
	var columns []metricColumn
	for _, m := range c.Metrics {
		if rest, ok := strings.CutPrefix(m.Name, "baseline."); ok {
			name, percentile, _ := strings.Cut(strings.TrimSuffix(rest, "_ms"), ".")
			columns = append(columns, metricColumn{name + " " + percentile, m.Name})
		}
	}
	return append(columns, metricColumn{"upstream delay seen", "dose.delay_seen_ms"})
}

// conditionBlocks shows the manifest of the first run that has one, and what
// differs from run to run.
func (c comparisonFolder) conditionBlocks() []block {
	var read []*result.Manifest
	for _, m := range c.manifests {
		if m != nil {
			read = append(read, m)
		}
	}
	if len(read) == 0 {
		return conditionBlocks(nil, "No run has a readable "+result.ManifestFile+".")
	}
	blocks := []block{sentence(plain("Those of "), code(read[0].RunID), plain(":"))}
	blocks = append(blocks, conditionBlocks(read[0], "")...)
	if unread := len(c.manifests) - len(read); unread > 0 {
		blocks = append(blocks, paragraph{plain(fmt.Sprintf("%s without a readable %s.", plural(unread, "run"), result.ManifestFile))})
	}
	t := table{columns: []column{words("differs between the runs"), words("values, in the order of the runs")}}
	for _, d := range manifestDifferences(read) {
		t.rows = append(t.rows, []text{code(d.name), plain(strings.Join(d.values, ", "))})
	}
	if len(t.rows) == 0 {
		return append(blocks, paragraph{plain("The runs do not differ in any of this.")})
	}
	return append(blocks, t)
}

type difference struct {
	name   string
	values []string // of each manifest
}

// manifestDifferences lists the conditions that are not the same in all.
func manifestDifferences(manifests []*result.Manifest) []difference {
	values := map[string][]string{}
	for i, m := range manifests {
		put := func(name, value string) {
			if values[name] == nil {
				values[name] = slices.Repeat([]string{none}, len(manifests))
			}
			values[name][i] = value
		}
		put("revision", m.Revision)
		put("modified", strconv.FormatBool(m.Modified))
		put("go", m.GoVersion)
		put("os", m.OS)
		put("kernel", m.Kernel)
		put("cpus", count(m.CPUs))
		put("cpu_model", m.CPUModel)
		put("memory", size(m.MemoryBytes))
		put("runtime", m.Runtime)
		put("postgres", m.Postgres)
		put("seed", strconv.FormatUint(m.Seed, 10))
		for name, v := range m.Limits {
			put("limit "+name, v)
		}
		for name, v := range m.Config {
			put(name, v)
		}
		for name, v := range m.Programs {
			put("program "+name, v)
		}
	}
	var differing []difference
	for name, v := range values {
		if len(slices.Compact(slices.Clone(v))) > 1 {
			differing = append(differing, difference{name, v})
		}
	}
	slices.SortFunc(differing, func(a, b difference) int { return strings.Compare(a.name, b.name) })
	return differing
}
