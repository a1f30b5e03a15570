package report

import (
	"fmt"
	"slices"
	"strings"

	"chokepoint/internal/result"
)

// A run whose scenario is a matrix is told by its cells: how many are as was wanted, the
// matrix, what follows from it, and behind each cell the evidence.

// matrixRun is such a run, with what its report derives from the cells.
type matrixRun struct {
	runFolder
	cases   []result.Case
	anchors []string // of the section of each case
}

func newMatrixRun(r runFolder) matrixRun {
	m := matrixRun{runFolder: r, cases: r.summary.Cases}
	taken := map[string]int{}
	for _, c := range m.cases {
		name := "cell-" + slug(strings.Join([]string{c.ID, c.Client, c.Method, c.Defence}, " "))
		taken[name]++
		if n := taken[name]; n > 1 {
			name = fmt.Sprintf("%s-%d", name, n)
		}
		m.anchors = append(m.anchors, name)
	}
	return m
}

// matrixDocument also gives the errors of evidence that is there and cannot be read.
func matrixDocument(r runFolder) (document, []error) {
	m := newMatrixRun(r)
	s := m.summary
	d := document{title: m.title(), lead: []block{runLead(s), paragraph{strong(m.sentence())}}}
	if s.Run.Scale != 1 {
		d.lead = append(d.lead, scaleNote(s.Run.Scale))
	}
	d.lead = append(d.lead, m.tiles())
	d.add("May this run be believed?", m.believedBlocks()...)
	d.add("Verdict", m.verdictBlocks()...)
	if s.Run.Scenario == result.ScenarioCloseRace {
		d.add("Failed requests over the think time", closeRaceBlocks(m.runFolder)...)
	}
	if s.Run.Scenario == result.ScenarioDrainMap {
		d.add("The map of pre-stop and drain", m.drainMapBlocks()...)
	}
	d.add("The matrix", m.matrixBlocks()...)
	if blocks := m.predictedBlocks(); blocks != nil {
		d.add("Predicted beside measured", blocks...)
	}
	if blocks := m.victimBlocks(); blocks != nil {
		d.add("Both victims", blocks...)
	}
	if blocks := m.requestBlocks(); blocks != nil {
		d.add("What became of the requests", blocks...)
	}
	if blocks := m.defenceBlocks(); blocks != nil {
		d.add("Safe defaults", blocks...)
	}
	cells, malformed := m.cellBlocks()
	d.add("The cells", cells...)
	d.add("All cells in figures", paragraph{plain("What was wanted is the prediction: it was written down before the run.")}, m.figures())
	d.add("Conditions", conditionBlocks(m.manifest, m.unread[result.ManifestFile])...)
	return d, append(slices.Clone(m.malformed), malformed...)
}

func (m matrixRun) title() string {
	if !m.summary.Validity.Valid {
		return "Invalid run: " + m.summary.Run.Scenario
	}
	return fmt.Sprintf("%s: %s as wanted", capitalisedName(m.summary.Run.Scenario), m.asWanted())
}

// asWanted is how many of the cells are what was wanted.
func (m matrixRun) asWanted() string {
	return fmt.Sprintf("%s of %s", count(len(m.cases)-len(m.unwanted())), plural(len(m.cases), "cell"))
}

// unwanted are the indices of the cells that are not what was wanted, those that could
// not be carried out among them.
func (m matrixRun) unwanted() (found []int) {
	for i, c := range m.cases {
		if !asWanted(c) {
			found = append(found, i)
		}
	}
	return found
}

// sentence is the verdict in one sentence.
func (m matrixRun) sentence() string {
	s := m.summary
	if s.Verdict.Outcome == result.Invalid || !s.Validity.Valid {
		return fmt.Sprintf("Invalid: there is no verdict. As wanted: %s.", m.asWanted())
	}
	return fmt.Sprintf("%s: %s are as was wanted before the run.", capitalised(outcomeInWords(s.Verdict.Outcome)), m.asWanted())
}

func (m matrixRun) tiles() tiles {
	s := m.summary
	var t tiles
	add := func(label, value, note string, is tone) { t.tiles = append(t.tiles, tile{label, value, note, is}) }
	if s.Validity.Valid {
		add("May it be believed?", "yes", "the run is valid", goodTone)
	} else {
		add("May it be believed?", "no", "the reasons are below", badTone)
	}
	unwanted := len(m.unwanted())
	is := goodTone
	if unwanted > 0 {
		is = badTone
	}
	add("Cells as wanted", count(len(m.cases)-unwanted), "of "+count(len(m.cases)), is)
	var twice, lost int
	for _, c := range m.cases {
		twice += c.Counts.ExecutedTwice
		lost += c.Counts.FailedButExecuted
	}
	add("Failed, but executed", count(lost), "requests, of all cells", "")
	add("Executed twice", count(twice), "requests, of all cells", "")
	return t
}

func (m matrixRun) believedBlocks() []block {
	s := m.summary
	var blocks []block
	if s.Validity.Valid {
		blocks = append(blocks, sentence(strong("Yes: the run is valid."), plain(" What speaks for it:")))
	} else {
		blocks = append(blocks, sentence(strong("No: the run is invalid."), plain(" Every cell is shown all the same. The reasons:")),
			reasonList(s.Validity.Reasons, "The summary gives no reason."), paragraph{plain("What else bears on it:")})
	}
	facts := []text{plain(fmt.Sprintf("%s of %s were carried out.", count(len(m.cases)-len(m.where(notCarriedOut))), plural(len(m.cases), "cell")))}
	if early := s.Run.EndedEarly; early != "" {
		facts = append(facts, plain("The run ended early: "+early+"."))
	}
	blocks = append(blocks, list{facts})
	if failed := m.failures(); failed.items != nil {
		blocks = append(blocks, paragraph{strong("Cells that could not be carried out:")}, failed)
	}
	if len(s.Validity.Warnings) > 0 {
		blocks = append(blocks, paragraph{strong("Warnings:")}, reasonList(s.Validity.Warnings, ""))
	}
	return blocks
}

// matrixRow are the cells that differ in client and method alone.
type matrixRow struct{ id, title, defence, why string }

func rowOf(c result.Case) matrixRow { return matrixRow{c.ID, c.Title, c.Defence, c.Why} }

func columnOf(c result.Case) string { return strings.TrimSpace(c.Client + " " + c.Method) }

// matrixBlocks are a table for each group: a row for each case and defence, a column for
// each client and method.
func (m matrixRun) matrixBlocks() []block {
	blocks := []block{paragraph{plain("Each cell has its outcome, how long it took and whether that is as wanted; it leads to its evidence. " +
		"How often a handler ran is said where a request failed although it ran, or where it ran more than once.")}}
	for _, group := range valuesOf(m.cases, func(c result.Case) string { return c.Group }) {
		in := m.where(func(c result.Case) bool { return c.Group == group })
		columns := slices.DeleteFunc(valuesOf(m.cases, columnOf), func(column string) bool { // in the same order in each group
			return !slices.ContainsFunc(in, func(i int) bool { return columnOf(m.cases[i]) == column })
		})
		t := table{columns: []column{words("case"), words("what"), words("defence")}}
		for _, c := range columns {
			t.columns = append(t.columns, words(c))
		}
		t.columns = append(t.columns, words("why"))
		var rows []matrixRow
		for _, i := range in {
			if row := rowOf(m.cases[i]); !slices.Contains(rows, row) {
				rows = append(rows, row)
			}
		}
		for _, row := range rows {
			cells := []text{strong(row.id), plain(row.title), code(row.defence)}
			for _, column := range columns {
				cells = append(cells, m.cell(in, row, column))
			}
			t.rows = append(t.rows, append(cells, plain(row.why)))
		}
		if group != "" {
			blocks = append(blocks, paragraph{strong(group)})
		}
		blocks = append(blocks, t)
	}
	return blocks
}

// cell is what stands in the matrix; a dash where nothing was tried.
func (m matrixRun) cell(in []int, row matrixRow, column string) text {
	var all text
	for _, i := range in {
		c := m.cases[i]
		if rowOf(c) != row || columnOf(c) != column {
			continue
		}
		if all != nil {
			all = join(all, plain("; "))
		}
		all = join(all, m.told(i))
	}
	if all == nil {
		return plain(none)
	}
	return all
}

// told is a cell in a few words.
func (m matrixRun) told(i int) text {
	c := m.cases[i]
	if c.Failure != "" {
		return join(m.linkTo(i, "not carried out"), plain(", "), bad("not as wanted"))
	}
	var what text
	if len(c.Victims) > 0 {
		what = m.linkTo(i, outcomeOf(c.Got))
	} else if sends(c) {
		what = join(m.linkTo(i, fmt.Sprintf("%s of %s answered", count(c.Counts.OK), count(sent(c)))), plain(notAnswered(c.Counts)))
	} else {
		what = m.linkTo(i, outcomeOf(c.Got))
		if c.Seconds > 0 {
			what = join(what, plain(" "+took(c.Seconds)))
		}
		if c.Counts.FailedButExecuted > 0 || c.HandlerRuns > 1 {
			what = join(what, plain(", "+plural(c.HandlerRuns, "run")))
		}
	}
	if c.OK {
		return join(what, plain(", ok"))
	}
	return join(what, plain(", "), bad("not as wanted"))
}

// notAnswered are the other counts of a cell that are not 0.
func notAnswered(n result.CaseCounts) string {
	var said strings.Builder
	for _, of := range []struct {
		n    int
		what string
	}{{n.NeverReached, "never reached"}, {n.FailedButExecuted, "failed but executed"}, {n.ExecutedTwice, "executed twice"}} {
		if of.n > 0 {
			fmt.Fprintf(&said, ", %s %s", count(of.n), of.what)
		}
	}
	return said.String()
}

func (m matrixRun) linkTo(i int, label string) text {
	if label == "" {
		label = none
	}
	if leftNothing(m.cases[i]) {
		return plain(label)
	}
	to := span{text: label, href: "#" + m.anchors[i]}
	if asWanted(m.cases[i]) {
		to.folded = m.cases[i].Evidence
	}
	return text{to}
}

// cellLink names a cell and leads to its section, or, where Markdown has none, to
// its folder.
func (m matrixRun) cellLink(i int) text { return m.linkTo(i, cellName(m.cases[i])) }

func cellName(c result.Case) string {
	name := strings.TrimSpace(c.ID + " " + columnOf(c))
	if c.Defence != "" && c.Defence != result.DefenceNone {
		name += ", " + c.Defence
	}
	return name
}

// outcomeOf is the outcome with which a want or a got begins.
func outcomeOf(words string) string {
	outcome, _, _ := strings.Cut(words, ",")
	return strings.TrimSpace(outcome)
}

// took prints seconds where there are some, else milliseconds.
func took(seconds float64) string {
	if seconds >= 1 {
		return number(seconds, 2) + " s"
	}
	return milliseconds(seconds*1000) + " ms"
}

// predictedBlocks are the cells of which a rule gives figures beyond what was wanted.
func (m matrixRun) predictedBlocks() []block {
	t := table{columns: []column{words("cell"), words("predicted"), words("measured"), numbers("time"), words("as wanted")}}
	for i, c := range m.cases {
		if c.Predicted != "" {
			t.rows = append(t.rows, []text{m.cellLink(i), plain(c.Predicted), plain(c.Got), plain(took(c.Seconds)), yesNo(asWanted(c))})
		}
	}
	if len(t.rows) == 0 {
		return nil
	}
	return []block{t}
}

// figures are all cells, for a spreadsheet.
func (m matrixRun) figures() table {
	t := table{columns: []column{words("case"), words("client"), words("method"), words("defence"), words("wanted"), words("got"), words("as wanted"),
		numbers("time"), words("error"), words("connection"), numbers("attempts"), numbers("handler runs"), numbers("retransmits")}}
	for i, c := range m.cases {
		attempts := none
		if c.Attempts > 0 {
			attempts = count(c.Attempts)
		}
		t.rows = append(t.rows, []text{m.linkTo(i, c.ID), plain(c.Client), plain(c.Method), plain(c.Defence), plain(c.Want), plain(c.Got), yesNo(asWanted(c)),
			plain(took(c.Seconds)), plain(c.Error), plain(c.Connection), plain(attempts), plain(count(c.HandlerRuns)), plain(count(c.Retransmits))})
	}
	return t
}

// where are the indices of the cases that a condition holds of.
func (m matrixRun) where(holds func(result.Case) bool) (found []int) {
	for i, c := range m.cases {
		if holds(c) {
			found = append(found, i)
		}
	}
	return found
}

func (m matrixRun) valuesIn(in []int, of func(result.Case) string) []string {
	var some []result.Case
	for _, i := range in {
		some = append(some, m.cases[i])
	}
	return valuesOf(some, of)
}

// valuesOf are the values of a field, each once, in the order of the items.
func valuesOf[T any](items []T, field func(T) string) []string {
	var values []string
	for _, item := range items {
		if v := field(item); !slices.Contains(values, v) {
			values = append(values, v)
		}
	}
	return values
}
