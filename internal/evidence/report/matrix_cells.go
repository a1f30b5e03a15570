package report

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"chokepoint/internal/result"
)

// cellBlocks are the sections of all cells, folded up, by group. It gives the errors of
// evidence that is there and cannot be read.
func (m matrixRun) cellBlocks() (blocks []block, malformed []error) {
	inline := newInliner(m.dir)
	blocks = append(blocks, paragraph{plain("Of each cell: what was wanted and what came, the client's exact error, the sockets of both ends and the entry of the device " +
		"before and after the judged request, and its files. Short sequences of packets stand here whole.")})
	for _, group := range valuesOf(m.cases, func(c result.Case) string { return c.Group }) {
		if group != "" {
			blocks = append(blocks, paragraph{strong(group)})
		}
		for _, i := range m.where(func(c result.Case) bool { return c.Group == group }) {
			blocks = append(blocks, m.section(i, inline))
		}
	}
	return blocks, inline.malformed
}

func (m matrixRun) section(i int, inline *inliner) details {
	c := m.cases[i]
	d := details{anchor: m.anchors[i]}
	d.summary = join(strong(cellName(c)), plain(": "+outcomeOf(c.Got)), plain(", "))
	switch {
	case c.Failure != "":
		d.summary = join(strong(cellName(c)), plain(": not carried out, "), bad("not as wanted"))
	case c.OK:
		d.summary = join(d.summary, plain("as wanted"))
	default:
		d.summary = join(d.summary, bad("not as wanted"))
	}
	if about := strings.Join(filled(c.Title, c.Why), ": "); about != "" {
		d.blocks = append(d.blocks, paragraph{plain(about + ".")})
	}
	if c.Failure != "" {
		d.blocks = append(d.blocks, sentence(bad("It could not be carried out"), plain(": "+c.Failure)))
	}
	d.blocks = append(d.blocks, sideBySide(c), cellFacts(c))
	if t := observed(c); len(t.rows) > 0 {
		d.blocks = append(d.blocks, t)
	}
	d.blocks = append(d.blocks, timeline(c)...)
	d.blocks = append(d.blocks, requestTable(c)...)
	return withFiles(d, m.dir, c, inline)
}

func filled(texts ...string) []string {
	return slices.DeleteFunc(texts, func(s string) bool { return s == "" })
}

// sideBySide puts the parts of what was wanted beside those of what came: both are in
// the same words and the same order.
func sideBySide(c result.Case) table {
	t := table{columns: []column{words("wanted"), words("got")}}
	want, got := strings.Split(c.Want, ", "), strings.Split(c.Got, ", ")
	if len(want) != len(got) {
		want, got = []string{c.Want}, []string{c.Got}
	}
	for i := range want {
		t.rows = append(t.rows, []text{plain(want[i]), plain(got[i])})
	}
	return t
}

// cellFacts are what is known of the judged request beyond that.
func cellFacts(c result.Case) list {
	var l list
	add := func(name string, value text) { l.items = append(l.items, join(plain(name+": "), value)) }
	if c.Predicted != "" {
		add("predicted", plain(c.Predicted))
	}
	if c.Settings != "" {
		add("settings of the defence", code(c.Settings))
	}
	if c.Fault != "" {
		add("fault", plain(c.Fault))
	}
	add("time", plain(number(c.Seconds, 4)+" s"))
	if c.Error != "" {
		add("exact error", code(c.Error))
	}
	if c.Connection != "" {
		add("connection", plain(c.Connection))
	}
	if c.Attempts > 0 {
		add("attempts", plain(count(c.Attempts)))
	}
	add("handler runs", plain(count(c.HandlerRuns)))
	add("segments sent again", plain(count(c.Retransmits)))
	n := c.Counts
	add("requests", plain(fmt.Sprintf("%s ok, %s failed and never reached a handler, %s failed but executed, %s executed twice",
		count(n.OK), count(n.NeverReached), count(n.FailedButExecuted), count(n.ExecutedTwice))))
	return l
}

// observed are the sockets of both ends and the entry of the device, a line for each.
func observed(c result.Case) table {
	t := table{columns: []column{words("when"), words("whose"), words("state")}}
	for _, at := range []struct {
		when string
		is   *result.Observed
	}{{"before", c.Before}, {"after", c.After}} {
		if at.is == nil {
			continue
		}
		for _, of := range []struct {
			whose string
			lines []string
		}{{"client's sockets", at.is.Client}, {"server's sockets", at.is.Server}, {"conntrack", at.is.Conntrack}} {
			if len(of.lines) == 0 {
				t.rows = append(t.rows, []text{plain(at.when), plain(of.whose), plain("none")})
			}
			for _, line := range of.lines {
				t.rows = append(t.rows, []text{plain(at.when), plain(of.whose), code(line)})
			}
		}
	}
	return t
}

// withFiles ends the section of a cell with its files, each a link; short sequences of
// packets a page holds itself.
func withFiles(d details, dir string, c result.Case, inline *inliner) details {
	if c.Evidence == "" {
		return d
	}
	var items []text
	var packets []block
	for _, f := range c.Files {
		name := path.Join(c.Evidence, f.Name)
		raw := rawFileAs(f.Name, dir, name)
		if f.What != "" {
			raw = join(raw, plain(": "+f.What))
		}
		items = append(items, raw)
		if strings.HasPrefix(f.Name, packetsPrefix) {
			packets = append(packets, inline.blocks(name, f)...)
		}
	}
	if items == nil {
		d.blocks = append(d.blocks, paragraph{plain("No file of evidence is named for this cell.")})
		return d
	}
	d.blocks = append(d.blocks, list{items})
	if packets != nil {
		d.blocks = append(d.blocks, unabridged{packets})
	}
	return d
}
