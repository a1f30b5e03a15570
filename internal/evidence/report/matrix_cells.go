package report

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"chokepoint/internal/result"
)

// cellBlocks are the sections of all cells, folded up, by group. Markdown has those alone
// that are not as wanted. A cell of which nothing is left has none. It gives the errors of evidence that is there and cannot be read.
func (m matrixRun) cellBlocks() (blocks []block, malformed []error) {
	inline := newInliner(m.dir)
	blocks = append(blocks, paragraph{plain("Of each cell: what was wanted and what came, the client's exact error, the sockets of both ends and the entry of the device " +
		"before and after the judged request, and its files. Those that are not as wanted:")})
	var folded []block
	for _, group := range valuesOf(m.cases, func(c result.Case) string { return c.Group }) {
		if group != "" {
			folded = append(folded, paragraph{strong(group)})
		}
		for _, i := range m.where(func(c result.Case) bool { return c.Group == group }) {
			if leftNothing(m.cases[i]) {
				continue
			}
			section := m.section(i, inline)
			if asWanted(m.cases[i]) {
				folded = append(folded, section)
				continue
			}
			blocks = append(blocks, section)
		}
	}
	if len(blocks) == 1 {
		blocks = append(blocks, paragraph{plain("None.")})
	}
	if t := m.fileTable(); len(t.rows) > 0 {
		blocks = append(blocks, paragraph{plain("The files of each cell are in its folder:")}, t)
	}
	blocks = append(blocks, unabridged{append([]block{paragraph{plain("Those that are as wanted, by group. Short sequences of packets stand here whole.")}}, folded...)})
	return blocks, inline.malformed
}

// fileTable says once what the files of the cells hold.
func (m matrixRun) fileTable() table {
	t := table{columns: []column{words("file"), words("what it holds"), numbers("cells")}}
	of := map[result.EvidenceFile]int{}
	var files []result.EvidenceFile
	for _, c := range m.cases {
		for _, f := range c.Files {
			if of[f]++; of[f] == 1 {
				files = append(files, f)
			}
		}
	}
	for _, f := range files {
		t.rows = append(t.rows, []text{code(f.Name), plain(f.What), plain(count(of[f]))})
	}
	return t
}

func (m matrixRun) section(i int, inline *inliner) details {
	c := m.cases[i]
	d := details{anchor: m.anchors[i], summary: strong(cellName(c))}
	switch {
	case c.Failure != "":
		d.summary = join(d.summary, plain(": not carried out, "), bad("not as wanted"))
	case c.OK:
		d.summary = join(d.summary, plain(": "+outcomeOf(c.Got)+", as wanted"))
	default:
		d.summary = join(d.summary, plain(": "+outcomeOf(c.Got)+", "), bad("not as wanted"))
	}
	if about := strings.Join(filled(c.Title, c.Why), ": "); about != "" {
		d.blocks = append(d.blocks, paragraph{plain(about + ".")})
	}
	if c.Failure != "" {
		d.blocks = append(d.blocks, sentence(bad("It could not be carried out"), plain(": "+c.Failure)))
	}
	if !asWanted(c) {
		d.blocks = append(d.blocks, sideBySide(c))
	}
	d.blocks = append(d.blocks, cellFacts(c))
	if t := observed(c); len(t.rows) > 0 {
		d.blocks = append(d.blocks, t)
	}
	if sends(c) {
		d.blocks = append(d.blocks, timeline(c)...)
	}
	d.blocks = append(d.blocks, requestTable(c)...)
	d.blocks = append(d.blocks, m.poolBlocks(c, inline)...)
	return withFiles(d, m.dir, c, inline)
}

func filled(texts ...string) []string {
	return slices.DeleteFunc(texts, func(s string) bool { return s == "" })
}

// cellFacts are what is known of the judged request beyond that.
func cellFacts(c result.Case) list {
	var l list
	add := func(name string, value text) { l.items = append(l.items, join(plain(name+": "), value)) }
	if asWanted(c) {
		add("wanted", plain(c.Want))
		add("got", plain(c.Got))
	}
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
	t := table{columns: []column{words("when"), words("whose"), words("state")}, small: true}
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
	if len(c.Files) == 0 {
		d.blocks = append(d.blocks, paragraph{plain("No file of evidence is named for this cell.")})
		return d
	}
	files := plain("files: ")
	var packets []block
	for i, f := range c.Files {
		if i > 0 {
			files = join(files, plain(", "))
		}
		name := path.Join(c.Evidence, f.Name)
		files = join(files, rawFileAs(f.Name, dir, name))
		if strings.HasPrefix(f.Name, packetsPrefix) {
			packets = append(packets, inline.blocks(name, f)...)
		}
	}
	d.blocks = append(d.blocks, paragraph{files})
	if packets != nil {
		d.blocks = append(d.blocks, unabridged{packets})
	}
	return d
}
