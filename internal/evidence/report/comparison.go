package report

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"chokepoint/internal/result"
	"chokepoint/internal/stats"
)

// Comparison writes the report of the comparison in dir, as Markdown and as one HTML
// file. The figures are those of comparison.json; the folders of its runs add stacks and
// conditions, and where one is missing the report says so. A folder without a
// readable comparison.json is an error.
func Comparison(dir string) (Report, error) {
	c, err := readComparison(dir)
	if err != nil {
		return Report{}, err
	}
	return render(comparisonDocument(c), c.malformed)
}

// comparisonFolder holds what the folder of a comparison and its runs say.
type comparisonFolder struct {
	result.Comparison
	dir       string
	metrics   map[string]result.ComparedMetric
	summaries []*result.Summary  // of Runs, by index; nil where unreadable
	manifests []*result.Manifest // likewise
	profiles  map[string]profileRuns
	// malformed are the errors of files of the runs that are there and cannot be read.
	malformed []error
}

func readComparison(dir string) (comparisonFolder, error) {
	comparison, err := result.ReadComparison(dir)
	if err != nil {
		return comparisonFolder{}, needed(dir, result.ComparisonFile, "a comparison", err)
	}
	c := comparisonFolder{Comparison: comparison, dir: dir, metrics: map[string]result.ComparedMetric{}}
	for _, m := range c.Metrics {
		c.metrics[m.Name] = m
	}
	for _, r := range c.Runs {
		folder := filepath.Join(dir, filepath.FromSlash(r.Path))
		var summary *result.Summary
		if s, err := result.ReadSummary(folder); c.note(err) {
			summary = &s
		}
		var manifest *result.Manifest
		if m, err := result.ReadManifest(folder); c.note(err) {
			manifest = &m
		}
		c.summaries, c.manifests = append(c.summaries, summary), append(c.manifests, manifest)
	}
	c.profiles = c.readProfiles()
	return c, nil
}

// note says whether a file of a run could be read. That it is gone is no error: a
// comparison outlives its runs.
func (c *comparisonFolder) note(err error) bool {
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		c.malformed = append(c.malformed, err)
	}
	return err == nil
}

func comparisonDocument(c comparisonFolder) document {
	d := document{title: fmt.Sprintf("%s: %s", capitalisedName(c.Scenario), c.against()),
		lead: []block{sentence(plain("Comparison "), code(c.ID), plain(", started "+c.StartedAt.UTC().Format("2006-01-02 15:04:05")+
			" UTC: "+plural(len(c.Runs), "run")+" in the order of the list at the end."))}}
	if c.Scale != 1 {
		d.lead = append(d.lead, scaleNote(c.Scale))
	}
	if len(c.Metrics) > 0 {
		d.lead = append(d.lead, paragraph{plain(c.figureNote())})
	}
	d.lead = append(d.lead, c.tiles())
	d.add("May this comparison be believed?", c.believedBlocks()...)
	d.add("Outcomes", c.outcomeBlocks()...)
	if blocks := c.faultBlocks(); blocks != nil {
		d.add("Faults on the path to the upstream", blocks...)
	}
	if len(c.Metrics) == 0 {
		d.add("Figures of the invalid runs", c.invalidBlocks()...)
	} else {
		if blocks := c.protectionBlocks(); blocks != nil {
			d.add("What each profile does, and what it does not", blocks...)
		}
		d.add("Latency and failures", c.latencyBlocks()...)
		d.add("Timeline", c.timelineBlocks()...)
		d.add("Status codes and causes of errors", c.statusBlocks()...)
		d.add("Where the workers stood", c.whereBlocks()...)
		d.add("Dumps", c.dumpBlocks()...)
		if blocks := c.waitBlocks(); blocks != nil {
			d.add("Where the wait went", blocks...)
		}
		d.add("Percentiles", c.percentileBlocks()...)
		d.add("Pool maxima", c.metricTable(metricColumns("pool.", "max_workers", "max_busy", "max_queued", "max_permits", "max_accept_queue", "abandoned_by_client")))
		d.add("CPU and memory of the victim", c.metricTable(metricColumns("victim.", "cpu_percent_mean", "cpu_percent_max", "rss_bytes_max", "goroutines_max")))
		d.add("Recovery", c.recoveryBlocks()...)
		d.add("Baselines and dose", c.metricTable(c.baselineColumns()))
	}
	d.add("How differences are judged", judgementBlocks(c.Scale)...)
	d.add("Runs", c.runTable())
	d.add("Conditions", c.conditionBlocks()...)
	return d
}

// against names the profiles, as far as a title has room.
func (c comparisonFolder) against() string {
	if len(c.Faults) > 0 {
		var faults, profiles []string
		for _, cell := range c.Faults {
			faults, profiles = append(faults, cell.Fault), append(profiles, cell.Profile)
		}
		slices.Sort(faults)
		slices.Sort(profiles)
		return fmt.Sprintf("%s on the path to the upstream, with %s", plural(len(slices.Compact(faults)), "fault"), strings.Join(slices.Compact(profiles), " and "))
	}
	if len(c.Profiles) > 3 {
		return fmt.Sprintf("%s against %s", c.Profiles[0], plural(len(c.Profiles)-1, "other profile"))
	}
	return strings.Join(c.Profiles, " against ")
}

// figureNote says how to read the cells.
func (c comparisonFolder) figureNote() string {
	most, compared := 0, false
	for i, p := range c.Profiles {
		most = max(most, c.validRuns(p))
		compared = compared || i > 0 && c.comparable(p)
	}
	note := "A figure is the median over the valid runs of a profile, with the range in brackets where there is one."
	if most == 1 {
		note = "A figure is that of the only valid run of its profile."
	}
	if compared {
		note += fmt.Sprintf(" The word behind it compares with %s: higher, lower, ~ (no difference that the runs can carry) or ? (too few values).", c.Profiles[0])
	}
	return note
}

func (c comparisonFolder) validRuns(profile string) (n int) {
	for _, r := range c.Runs {
		if r.Profile == profile && r.Valid {
			n++
		}
	}
	return n
}

// comparable tells whether there are enough runs to compare a profile with the
// first one at all.
func (c comparisonFolder) comparable(profile string) bool {
	return min(c.validRuns(profile), c.validRuns(c.Profiles[0])) >= stats.MinRuns
}

func (c comparisonFolder) believedBlocks() []block {
	var facts list
	var invalid list
	for _, p := range c.Profiles {
		made, valid := 0, 0
		for _, r := range c.Runs {
			if r.Profile != p {
				continue
			}
			made++
			if r.Valid {
				valid++
				continue
			}
			reasons := "no reason given"
			if len(r.Reasons) > 0 {
				reasons = strings.Join(figuresIn(r.Reasons), "; ")
			}
			invalid.items = append(invalid.items, join(c.runLink(r), plain(": "+reasons)))
		}
		facts.items = append(facts.items, join(code(p), plain(fmt.Sprintf(": %s of %s valid", count(valid), plural(made, "run")))))
	}
	blocks := []block{facts}
	if len(invalid.items) > 0 {
		blocks = append(blocks, paragraph{strong("Invalid runs, left out of every median:")}, invalid)
	}
	if warnings := c.allWarnings(); len(warnings) > 0 {
		blocks = append(blocks, paragraph{strong("Warnings:")}, reasonList(warnings, ""))
	}
	return blocks
}

// allWarnings are those of the comparison, then those of its metrics, each once.
func (c comparisonFolder) allWarnings() []string {
	warnings := slices.Clone(c.Warnings)
	figures := map[string]int{}
	var order []string
	for _, m := range c.Metrics {
		for _, p := range c.Profiles {
			if w, ok := m.Warnings[p]; ok && m.Differs[p] != string(stats.TooFew) {
				key := p + ": " + w
				if figures[key] == 0 {
					order = append(order, key)
				}
				figures[key]++
			}
		}
	}
	for _, w := range order {
		warnings = append(warnings, fmt.Sprintf("%s (%s)", w, plural(figures[w], "figure")))
	}
	return warnings
}

// figuresIn cuts reasons to the figure that each begins with; the run's own
// report tells the rest.
func figuresIn(reasons []string) []string {
	var figures []string
	for _, r := range reasons {
		figure, _, _ := strings.Cut(r, "; ")
		figures = append(figures, figure)
	}
	return figures
}

func (c comparisonFolder) outcomeBlocks() []block {
	t := table{columns: []column{words("profile"), words("outcome of the valid runs"), numbers("/fast failed"), numbers("/fast p50"), numbers("max busy"), numbers("victim's CPU")}}
	for _, p := range c.Profiles {
		var outcomes []string
		counts := map[result.Outcome]int{}
		for _, r := range c.Runs {
			if r.Profile == p && r.Valid {
				counts[r.Outcome]++
			}
		}
		for _, o := range slices.Sorted(maps.Keys(counts)) {
			outcomes = append(outcomes, fmt.Sprintf("%s × %s", count(counts[o]), outcomeInWords(o)))
		}
		if len(outcomes) == 0 {
			outcomes = []string{none}
		}
		t.rows = append(t.rows, []text{code(p), plain(strings.Join(outcomes, ", ")), c.cell(fastEndpoint+".failed_ratio", p), c.cell(fastEndpoint+".p50_ms", p),
			c.cell("pool.max_busy", p), c.cell("victim.cpu_percent_mean", p)})
	}
	return []block{t}
}

// cell is one figure of one profile: the median, its range, how many runs it
// rests on if only these are too few, and how it compares. What holds for every
// figure of a profile, since the profile has too few runs, is said once, above.
func (c comparisonFolder) cell(metric, profile string) text {
	m := c.metrics[metric]
	v := m.Values[profile]
	if v.N == 0 {
		return plain(none)
	}
	cell := inUnit(v.Median, m.Unit) + spread(v.Min, v.Median, v.Max, m.Unit)
	if v.N < stats.MinRuns && v.N < c.validRuns(profile) {
		cell += fmt.Sprintf(" (n = %d)", v.N)
	}
	word, ok := m.Differs[profile]
	switch {
	case !ok || !c.comparable(profile):
		return plain(cell)
	case word == string(stats.Higher) || word == string(stats.Lower):
		return join(plain(cell+" "), strong(word))
	}
	return plain(cell + " " + word)
}

// metricColumn is a column of a table with a row for each profile.
type metricColumn struct{ title, metric string }

func metricColumns(prefix string, names ...string) []metricColumn {
	var columns []metricColumn
	for _, n := range names {
		title := strings.NewReplacer("_percent", "", "_bytes", "", "_", " ").Replace(n)
		columns = append(columns, metricColumn{title, prefix + n})
	}
	return columns
}

func (c comparisonFolder) metricTable(columns []metricColumn) block {
	t := table{columns: []column{words("profile")}}
	for _, col := range columns {
		t.columns = append(t.columns, numbers(col.title))
	}
	for _, p := range c.Profiles {
		row := []text{code(p)}
		for _, col := range columns {
			row = append(row, c.cell(col.metric, p))
		}
		t.rows = append(t.rows, row)
	}
	return t
}

// runLink leads to a run's own report, which lab report can rebuild.
func (c comparisonFolder) runLink(r result.ComparedRun) text {
	return reportLink(path.Base(r.Path), r.Path)
}

func (c comparisonFolder) runTable() block {
	t := table{columns: []column{numbers("#"), words("profile"), words("run"), words("valid"), words("outcome")}}
	for i, r := range c.Runs {
		t.rows = append(t.rows, []text{plain(count(i + 1)), code(r.Profile), c.runLink(r), yesNo(r.Valid), plain(outcomeInWords(r.Outcome))})
	}
	return t
}

func judgementBlocks(scale float64) []block {
	return []block{list{[]text{
		plain(fmt.Sprintf("Under %d valid runs of a profile nothing is claimed.", stats.MinRuns)),
		plain("With three, a difference is claimed where the ranges are disjoint and the medians differ by more than 25 % (of the smaller) and by more than the lab resolves: " +
			fmt.Sprintf("%d requests, %s workers in a dump, %d ms for a p50 or p95, %d ms for a p99, %s real seconds for recovery. Shares and CPU must differ by more than 5 percentage points.",
				requestsFloor, count(int(workersFloor(scale))), medianFloorMS, tailFloorMS, shortest(recoveryFloorS))),
		plain(fmt.Sprintf("From %d on, a Mann-Whitney U test decides, with Holm's correction for the number of figures at a level of %s. Where the runs are too few for any order to pass the corrected level, the rule for three decides, and a warning says so.",
			stats.RankTestRuns, percent(stats.Alpha))),
	}}}
}
