package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"chokepoint/internal/result"
)

// threat is a fault that a method of a client does not survive without a defence.
type threat struct{ fault, method string }

func threatOf(c result.Case) threat { return threat{c.Fault, c.Method} }

// defenceRecord is what one defence of a client did, in the cells that have it.
type defenceRecord struct {
	name, settings string
	// Indices of cells: of threats that were answered and that failed again, and of
	// requests that were executed twice or failed although they were executed, whatever
	// the fault.
	answered, failed, twice, lost []int
	held, open                    map[threat]bool
	untried                       []threat
	slowest                       float64 // seconds, of those that were answered
}

// answers says whether a cell's requests were all answered.
func answers(c result.Case) bool {
	n := c.Counts
	return c.Failure == "" && n.OK > 0 && n.NeverReached == 0 && n.FailedButExecuted == 0
}

// threatsOf are the cells of a client without a defence in which no handler ran for a
// request that failed: its connection was dead.
func (m matrixRun) threatsOf(client string) []int {
	return m.where(func(c result.Case) bool {
		return c.Client == client && c.Defence == result.DefenceNone && c.Fault != "" && c.Failure == "" && c.Counts.NeverReached > 0
	})
}

// recordsOf are the defences that a client has in any cell, the best first.
func (m matrixRun) recordsOf(client string, threats []int) []defenceRecord {
	var all []threat
	for _, i := range threats {
		if t := threatOf(m.cases[i]); !slices.Contains(all, t) {
			all = append(all, t)
		}
	}
	var records []defenceRecord
	with := m.where(func(c result.Case) bool {
		return c.Client == client && c.Defence != result.DefenceNone && c.Fault != "" && c.Failure == ""
	})
	for _, name := range m.valuesIn(with, func(c result.Case) string { return c.Defence }) {
		r := defenceRecord{name: name, held: map[threat]bool{}, open: map[threat]bool{}}
		for _, i := range with {
			c := m.cases[i]
			if c.Defence != name {
				continue
			}
			r.settings = cmp.Or(r.settings, c.Settings)
			if c.Counts.ExecutedTwice > 0 || c.HandlerRuns > 1 && !sends(c) {
				r.twice = append(r.twice, i)
			}
			if c.Counts.FailedButExecuted > 0 {
				r.lost = append(r.lost, i)
			}
			switch t := threatOf(c); {
			case !slices.Contains(all, t):
			case answers(c):
				r.held[t] = true
				r.answered = append(r.answered, i)
				r.slowest = max(r.slowest, c.Seconds)
			default:
				r.open[t] = true
				r.failed = append(r.failed, i)
			}
		}
		for _, t := range all {
			if r.open[t] {
				delete(r.held, t) // a threat of which any cell failed is not answered
			} else if !r.held[t] {
				r.untried = append(r.untried, t)
			}
		}
		records = append(records, r)
	}
	slices.SortStableFunc(records, func(a, b defenceRecord) int {
		return cmp.Or(cmp.Compare(len(b.held), len(a.held)), cmp.Compare(len(a.open), len(b.open)), cmp.Compare(len(a.twice), len(b.twice)), cmp.Compare(a.slowest, b.slowest))
	})
	return records
}

// covers says whether a defence answered every threat.
func (r defenceRecord) covers() bool { return len(r.open) == 0 && len(r.untried) == 0 }

// defenceBlocks say, of each client, which defence the cells speak for. It is nil where
// there is nothing to compare.
func (m matrixRun) defenceBlocks() []block {
	var blocks []block
	for _, client := range valuesOf(m.cases, func(c result.Case) string { return c.Client }) {
		threats := m.threatsOf(client)
		records := m.recordsOf(client, threats)
		if len(threats) == 0 || len(records) == 0 {
			continue
		}
		blocks = append(blocks, paragraph{strong(client)}, m.threatsInWords(threats))
		blocks = append(blocks, m.advice(client, records)...)
		blocks = append(blocks, m.recordTable(records))
	}
	if blocks == nil {
		return nil
	}
	return append([]block{paragraph{plain("Derived from the cells alone. What a client needs a defence against are the faults that it did not survive without one, " +
		"on a connection that was dead: no handler ran. A defence is recommended if it had each of them answered, with every method that failed, and executed nothing twice. " +
		"Cells of the same fault are compared; what was not tried is not counted as answered.")}}, blocks...)
}

func (m matrixRun) threatsInWords(threats []int) block {
	l := list{}
	for _, i := range threats {
		c := m.cases[i]
		l.items = append(l.items, join(m.linkTo(i, c.ID+" "+c.Method), plain(": "+c.Fault+"; "+outcomeOf(c.Got)+" after "+took(c.Seconds))))
	}
	return details{summary: plain(fmt.Sprintf("Without a defence %s failed on a dead connection", plural(len(threats), "cell"))), blocks: []block{l}}
}

// advice names the defences that answered everything, what they cost, and what is beyond
// them. One that had a handler run more than once is not recommended: that is a request
// that was executed twice.
func (m matrixRun) advice(client string, records []defenceRecord) []block {
	var advised, costly []block
	for _, r := range records {
		if !r.covers() {
			continue
		}
		had := fmt.Sprintf(" had all of them answered, in %s at the most", took(r.slowest))
		if len(r.twice) > 0 {
			costly = append(costly, sentence(r.named(), plain(had+", but executes twice what is sent again: "), m.links(r.twice), plain(".")))
			continue
		}
		advised = append(advised, sentence(strong("Recommended:"), plain(" "), r.named(), plain(". It"+had+", and none of its cells executed a request twice.")))
		if beyond := m.beyond(client, r); len(beyond) > 0 {
			advised = append(advised, sentence(plain("It does not cover: "), m.links(beyond), plain(", where requests failed although a handler ran.")))
		}
	}
	if advised == nil {
		advised = together(records)
	}
	return append(advised, costly...)
}

// named is a defence with its settings.
func (r defenceRecord) named() text {
	if r.settings == "" {
		return code(r.name)
	}
	return join(code(r.name), plain(" ("), code(r.settings), plain(")"))
}

// together is what there is to say where no defence answered everything by itself: the
// fewest that did so each in its own cells, by always taking the one that adds most.
func together(records []defenceRecord) []block {
	left := map[threat]bool{}
	for _, r := range records {
		for _, all := range []map[threat]bool{r.held, r.open} {
			for t := range all {
				left[t] = true
			}
		}
		for _, t := range r.untried {
			left[t] = true
		}
	}
	all := len(left)
	var taken []text
	for len(left) > 0 {
		best, adds := defenceRecord{}, 0
		for _, r := range records {
			n := 0
			for t := range r.held {
				if left[t] {
					n++
				}
			}
			if n > adds && len(r.twice) == 0 {
				best, adds = r, n
			}
		}
		if adds == 0 {
			break
		}
		taken = append(taken, best.named())
		for t := range best.held {
			delete(left, t)
		}
	}
	said := sentence(strong("No single defence is recommended:"), plain(" none had all of them answered without executing a request twice."))
	if taken == nil {
		return []block{said}
	}
	which := taken[0]
	for _, t := range taken[1:] {
		which = join(which, plain(" and "), t)
	}
	said.text = join(said.text, plain(fmt.Sprintf(" Of the %s, ", plural(all, "threat"))), which,
		plain(fmt.Sprintf(" had %s answered, each in cells of its own", count(all-len(left)))))
	if len(taken) > 1 {
		said.text = join(said.text, plain("; to have them at once is not what these cells ran"))
	}
	said.text = join(said.text, plain("."))
	if len(left) > 0 {
		said.text = join(said.text, plain(" Left open: "+strings.Join(threatNames(slices.Collect(maps.Keys(left))), "; ")+"."))
	}
	return []block{said}
}

// threatNames are threats in words, in the order of their names.
func threatNames(threats []threat) []string {
	var names []string
	for _, t := range threats {
		names = append(names, strings.TrimSpace(t.method+" "+t.fault))
	}
	slices.Sort(names)
	return names
}

// beyond are the cells of a client that failed although a handler ran, with this
// defence or, where that was not tried, without one.
func (m matrixRun) beyond(client string, r defenceRecord) []int {
	found := slices.Clone(r.lost)
	tried := func(t threat) bool {
		return slices.ContainsFunc(m.cases, func(c result.Case) bool { return c.Client == client && c.Defence == r.name && threatOf(c) == t })
	}
	for i, c := range m.cases {
		if c.Client == client && c.Defence == result.DefenceNone && c.Counts.FailedButExecuted > 0 && !tried(threatOf(c)) {
			found = append(found, i)
		}
	}
	slices.Sort(found)
	return found
}

func (m matrixRun) recordTable(records []defenceRecord) table {
	t := table{columns: []column{words("defence"), words("settings"), numbers("answered"), words("failed again"), words("not tried"),
		numbers("slowest answer"), words("ran more than once"), words("failed, but executed")}}
	for _, r := range records {
		slowest, settings := none, plain(none)
		if r.settings != "" {
			settings = code(r.settings)
		}
		if len(r.answered) > 0 {
			slowest = took(r.slowest)
		}
		t.rows = append(t.rows, []text{code(r.name), settings, plain(count(len(r.held))), m.links(r.failed), plain(cmp.Or(strings.Join(threatNames(r.untried), "; "), none)),
			plain(slowest), m.links(r.twice), m.links(r.lost)})
	}
	return t
}

// links lead to cells, by id and method.
func (m matrixRun) links(cells []int) text {
	if len(cells) == 0 {
		return plain(none)
	}
	var all text
	for n, i := range cells {
		if n > 0 {
			all = join(all, plain(", "))
		}
		all = join(all, m.linkTo(i, strings.TrimSpace(m.cases[i].ID+" "+m.cases[i].Method)))
	}
	return all
}
