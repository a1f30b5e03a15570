package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"chokepoint/internal/result"
)

// threat is a fault that a method of a client does not survive without a defence.
type threat struct{ fault, method string }

func threatOf(c result.Case) threat { return threat{c.Fault, c.Method} }

// defenceStudy is what the cells of one client say of its defences.
type defenceStudy struct {
	threats []threat
	cell    map[threat]int // a cell in which it failed without a defence
	records []defenceRecord
	untried []string // defences that no cell tried on any threat
}

// defenceRecord is what one defence of a client did, in the cells that have it.
type defenceRecord struct {
	name, settings string
	held           map[threat]bool
	failed         []int // cells in which a threat was not answered
	// Cells whatever their fault: repeated ran the handler more than once for one
	// request, again did so for a method that is not idempotent, and lost failed
	// although a handler ran.
	repeated, again, lost []int
	slowest               float64 // seconds, of the cells in which a threat was answered
}

// answers says whether a cell's requests were all answered.
func answers(c result.Case) bool {
	n := c.Counts
	return c.Failure == "" && n.OK > 0 && n.NeverReached == 0 && n.FailedButExecuted == 0
}

// idempotent says whether a method may be executed twice by its own definition
// (RFC 9110, section 9.2.2).
func idempotent(method string) bool {
	return slices.Contains([]string{"GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"}, method)
}

// study compares the cells of a client. A threat is a fault of which a cell without a
// defence failed and no handler ran: the connection was dead.
func (m matrixRun) study(client string) defenceStudy {
	s := defenceStudy{cell: map[threat]int{}}
	for i, c := range m.cases {
		if c.Client == client && c.Defence == result.DefenceNone && c.Fault != "" && c.Failure == "" && c.Counts.NeverReached > 0 {
			if _, known := s.cell[threatOf(c)]; !known {
				s.cell[threatOf(c)] = i
				s.threats = append(s.threats, threatOf(c))
			}
		}
	}
	with := m.where(func(c result.Case) bool {
		return c.Client == client && c.Defence != result.DefenceNone && c.Fault != "" && c.Failure == ""
	})
	for _, name := range m.valuesIn(with, func(c result.Case) string { return c.Defence }) {
		r := m.record(name, slices.DeleteFunc(slices.Clone(with), func(i int) bool { return m.cases[i].Defence != name }), s)
		if len(r.held) == 0 && len(r.failed) == 0 {
			s.untried = append(s.untried, name)
			continue
		}
		s.records = append(s.records, r)
	}
	slices.SortStableFunc(s.records, func(a, b defenceRecord) int {
		return cmp.Or(cmp.Compare(len(b.held), len(a.held)), cmp.Compare(len(a.failed), len(b.failed)), cmp.Compare(len(a.again), len(b.again)), cmp.Compare(a.slowest, b.slowest))
	})
	return s
}

func (m matrixRun) record(name string, cells []int, s defenceStudy) defenceRecord {
	r := defenceRecord{name: name, held: map[threat]bool{}}
	for _, i := range cells {
		c := m.cases[i]
		r.settings = cmp.Or(r.settings, c.Settings)
		if c.Counts.ExecutedTwice > 0 {
			r.repeated = append(r.repeated, i)
			if !idempotent(c.Method) {
				r.again = append(r.again, i)
			}
		}
		if c.Counts.FailedButExecuted > 0 {
			r.lost = append(r.lost, i)
		}
		if _, ok := s.cell[threatOf(c)]; !ok {
			continue
		}
		if !answers(c) {
			r.failed = append(r.failed, i)
			continue
		}
		r.held[threatOf(c)] = true
		r.slowest = max(r.slowest, c.Seconds)
	}
	for _, i := range r.failed {
		delete(r.held, threatOf(m.cases[i])) // not answered if any of its cells was not
	}
	return r
}

// missed are the threats that no cell of a defence tried.
func (m matrixRun) missed(s defenceStudy, r defenceRecord) (cells []int) {
	for _, t := range s.threats {
		if !r.held[t] && !slices.ContainsFunc(r.failed, func(i int) bool { return threatOf(m.cases[i]) == t }) {
			cells = append(cells, s.cell[t])
		}
	}
	return cells
}

// defenceBlocks say, of each client, which defence the cells speak for. It is nil where
// there is nothing to compare.
func (m matrixRun) defenceBlocks() []block {
	var blocks []block
	for _, client := range valuesOf(m.cases, func(c result.Case) string { return c.Client }) {
		s := m.study(client)
		if len(s.threats) == 0 || len(s.records) == 0 {
			continue
		}
		blocks = append(blocks, paragraph{strong(client)}, m.threatsInWords(s))
		blocks = append(blocks, m.advice(client, s)...)
		blocks = append(blocks, m.recordTable(s))
		if len(s.untried) > 0 {
			names := plain("No cell tried these on any of them: ")
			for i, name := range s.untried {
				if i > 0 {
					names = join(names, plain(", "))
				}
				names = join(names, code(name))
			}
			blocks = append(blocks, paragraph{join(names, plain("."))})
		}
	}
	if blocks == nil {
		return nil
	}
	return append([]block{paragraph{plain("Derived from the cells alone. What a client needs a defence against is each fault that a method of it did not survive without one, " +
		"on a connection that was dead: no handler ran. A defence is recommended if it had all of them answered, and executed no request twice whose method is not idempotent. " +
		"Cells of the same fault are compared; what was not tried does not count as answered. " +
		"Times in the settings are those that were run: what a device on a real path asks for follows from how long it remembers.")}}, blocks...)
}

func (m matrixRun) threatsInWords(s defenceStudy) block {
	l := list{}
	for _, t := range s.threats {
		c := m.cases[s.cell[t]]
		l.items = append(l.items, join(m.shortLink(s.cell[t]), plain(": "+c.Fault+"; "+outcomeOf(c.Got)+" after "+took(c.Seconds))))
	}
	return details{summary: plain("What failed on a dead connection without a defence: " + count(len(s.threats))), blocks: []block{l}}
}

// advice names the defences that answered everything, what they cost, and what is beyond
// them.
func (m matrixRun) advice(client string, s defenceStudy) []block {
	var advised []text
	var costly []block
	for _, r := range s.records {
		if len(r.held) < len(s.threats) {
			continue
		}
		had := fmt.Sprintf(" had all of them answered, in %s at the most", took(r.slowest))
		if len(r.again) > 0 {
			costly = append(costly, sentence(r.named(), plain(had+", but executes twice what is not idempotent: "), m.links(r.again), plain(".")))
			continue
		}
		said := join(r.named(), plain(". It"+had+"."))
		if len(r.repeated) > 0 {
			said = join(said, plain(" A handler ran more than once for one idempotent request in "), m.links(r.repeated), plain("."))
		} else {
			said = join(said, plain(" In none of its cells did a handler run more than once for one request."))
		}
		if beyond := m.beyond(client, r); len(beyond) > 0 {
			said = join(said, plain(" It does not cover: "), m.links(beyond), plain(", where requests failed although a handler ran, with it or, where that was not tried, without a defence."))
		}
		advised = append(advised, said)
	}
	switch len(advised) {
	case 0:
		return append(m.together(s), costly...)
	case 1:
		return append([]block{sentence(strong("Recommended:"), plain(" "), advised[0])}, costly...)
	}
	lead := sentence(strong(fmt.Sprintf("Recommended, any one of these %s:", count(len(advised)))))
	return append([]block{lead, list{advised}}, costly...)
}

// named is a defence with its settings.
func (r defenceRecord) named() text {
	if r.settings == "" {
		return code(r.name)
	}
	return join(code(r.name), plain(" ("), code(r.settings), plain(")"))
}

// together is what there is to say where no defence answered everything by itself: the
// few that did so each in its own cells, by always taking the one that adds most.
func (m matrixRun) together(s defenceStudy) []block {
	said := sentence(strong("No single defence is recommended."))
	left := slices.Clone(s.threats)
	var taken []text
	for len(left) > 0 {
		best, adds := defenceRecord{}, 0
		for _, r := range s.records {
			n := 0
			for _, t := range left {
				if r.held[t] {
					n++
				}
			}
			if n > adds && len(r.again) == 0 {
				best, adds = r, n
			}
		}
		if adds == 0 {
			break
		}
		taken = append(taken, best.named())
		left = slices.DeleteFunc(left, func(t threat) bool { return best.held[t] })
	}
	for i, name := range taken {
		if i > 0 {
			said.text = join(said.text, plain(" and "), name)
		} else {
			said.text = join(said.text, plain(" Of "+plural(len(s.threats), "fault")+", "), name)
		}
	}
	if taken != nil {
		said.text = join(said.text, plain(fmt.Sprintf(" had %s answered, each in cells of its own", count(len(s.threats)-len(left)))))
		if len(taken) > 1 {
			said.text = join(said.text, plain("; to have them at once is not what these cells ran"))
		}
		said.text = join(said.text, plain("."))
	}
	if len(left) > 0 {
		var open []int
		for _, t := range left {
			open = append(open, s.cell[t])
		}
		said.text = join(said.text, plain(" Left open: "), m.links(open), plain("."))
	}
	return []block{said}
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

func (m matrixRun) recordTable(s defenceStudy) table {
	t := table{columns: []column{words("defence"), words("settings"), numbers("answered"), words("failed again"), words("not tried"),
		numbers("slowest answer"), words("ran more than once"), words("failed, but executed")}}
	for _, r := range s.records {
		slowest, settings := none, plain(none)
		if len(r.held) > 0 {
			slowest = took(r.slowest)
		}
		if r.settings != "" {
			settings = code(r.settings)
		}
		t.rows = append(t.rows, []text{code(r.name), settings, plain(fmt.Sprintf("%s of %s", count(len(r.held)), count(len(s.threats)))), m.links(r.failed),
			m.links(m.missed(s, r)), plain(slowest), m.links(r.repeated), m.links(r.lost)})
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
		all = join(all, m.shortLink(i))
	}
	return all
}

func (m matrixRun) shortLink(i int) text {
	return m.linkTo(i, strings.TrimSpace(m.cases[i].ID+" "+m.cases[i].Method))
}
