package report

import (
	"strings"

	"chokepoint/internal/cli"
	"chokepoint/internal/evidence/page"
)

// What a report shows of a name, or of a stack. Both are another's: a frame, a pool's
// label or the body of an error is as long as whoever sent it likes.
const (
	maxText  = 1000 // characters of a text, a line or a label; a sentence of a report's own has half
	maxLines = 1100 // lines of a listing; a JVM prints 1,024 frames of a stack
)

// bounded is s, or as much of it as is shown.
func bounded(s string) string {
	n := 0
	for i := range s {
		if n == maxText {
			return s[:i] + "…"
		}
		n++
	}
	return s
}

// label is what stands in an attribute or in a chart, in one line.
func label(s string) string { return oneLine(bounded(s)) }

// boundedDocument is d with everything in it cut off where it is too long. It leaves
// out links that are, since a part of one leads nowhere.
func boundedDocument(d document) document {
	whole := document{title: bounded(d.title), lead: boundedBlocks(d.lead)}
	for _, s := range d.sections {
		whole.add(bounded(s.title), boundedBlocks(s.blocks)...)
	}
	return whole
}

func boundedBlocks(blocks []block) []block {
	var all []block
	for _, bl := range blocks {
		switch bl := bl.(type) {
		case paragraph:
			all = append(all, paragraph{boundedText(bl.text)})
		case list:
			all = append(all, list{boundedTexts(bl.items)})
		case table:
			all = append(all, boundedTable(bl))
		case listing:
			all = append(all, boundedListing(bl))
		case details:
			all = append(all, details{boundedText(bl.summary), boundedBlocks(bl.blocks), wholeLink(bl.anchor)})
		case tiles:
			var shown tiles
			for _, t := range bl.tiles {
				shown.tiles = append(shown.tiles, tile{label(t.label), label(t.value), label(t.note), t.tone})
			}
			all = append(all, shown)
		case chart:
			all = append(all, chart{boundedText(bl.caption), boundedChart(bl.spec), boundedBlocks(bl.numbers), boundedBlocks(bl.standIn)})
		case bars:
			all = append(all, boundedBars(bl))
		case strip:
			all = append(all, boundedStrip(bl))
		case unabridged:
			all = append(all, unabridged{boundedBlocks(bl.blocks)})
		}
	}
	return all
}

func boundedText(t text) text {
	var all text
	for _, s := range t {
		all = append(all, span{bounded(s.text), s.style, wholeLink(s.href), wholeLink(s.folded), wholeLink(s.report)})
	}
	return all
}

func boundedTexts(texts []text) []text {
	var all []text
	for _, t := range texts {
		all = append(all, boundedText(t))
	}
	return all
}

func wholeLink(target string) string {
	if len(target) > maxText {
		return ""
	}
	return target
}

func boundedTable(t table) table {
	shown := table{small: t.small}
	for _, c := range t.columns {
		shown.columns = append(shown.columns, column{bounded(c.title), c.numeric})
	}
	for _, row := range t.rows {
		shown.rows = append(shown.rows, boundedTexts(row))
	}
	return shown
}

// boundedListing also makes its lines such that no terminal is steered by them: all
// other text becomes one line, of which that is true, as it is written.
func boundedListing(l listing) listing {
	var shown listing
	for i, line := range l.lines {
		if i == maxLines {
			shown.lines = append(shown.lines, "…")
			break
		}
		shown.lines = append(shown.lines, cli.Printable(bounded(strings.TrimSuffix(line, "\r"))))
	}
	return shown
}

func boundedChart(c page.Chart) page.Chart {
	panes, marks := c.Panes, c.Marks
	c.Panes, c.Marks = nil, nil
	for _, p := range panes {
		series := p.Series
		p.Title, p.Series = label(p.Title), nil
		for _, s := range series {
			s.Label = label(s.Label)
			p.Series = append(p.Series, s)
		}
		c.Panes = append(c.Panes, p)
	}
	for _, m := range marks {
		c.Marks = append(c.Marks, page.Mark{At: m.At, Label: label(m.Label)})
	}
	return c
}

func boundedBars(b bars) bars {
	shown := bars{caption: boundedText(b.caption), numbers: boundedBlocks(b.numbers), standIn: boundedBlocks(b.standIn)}
	for _, k := range b.keys {
		shown.keys = append(shown.keys, barKey{label(k.label), k.colour})
	}
	for _, r := range b.rows {
		row := barRow{name: boundedText(r.name), end: boundedText(r.end), full: r.full}
		for _, p := range r.parts {
			row.parts = append(row.parts, barPart{label(p.label), p.colour, p.value, wholeLink(p.href)})
		}
		shown.rows = append(shown.rows, row)
	}
	return shown
}

func boundedStrip(s strip) strip {
	shown := strip{caption: boundedText(s.caption), from: s.from, to: s.to, numbers: boundedBlocks(s.numbers)}
	for _, k := range s.keys {
		shown.keys = append(shown.keys, barKey{label(k.label), k.colour})
	}
	for _, l := range s.lanes {
		lane := stripLane{name: boundedText(l.name)}
		for _, m := range l.marks {
			m.label = label(m.label)
			lane.marks = append(lane.marks, m)
		}
		shown.lanes = append(shown.lanes, lane)
	}
	return shown
}
