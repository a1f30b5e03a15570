package report

import "chokepoint/internal/evidence/page"

// document is a report before it has a format.
type document struct {
	title    string
	lead     []block // before the first section
	sections []section
}

type section struct {
	title  string
	blocks []block
}

// block is one of the types below. A format without charts writes what stands in
// for them.
type block interface{ isBlock() }

type paragraph struct{ text text }

type list struct{ items []text }

// table has as many cells in each row as columns.
type table struct {
	columns []column
	rows    [][]text
	small   bool // neither sorted nor copied
}

type column struct {
	title   string
	numeric bool // aligned to the right
}

// listing is preformatted text.
type listing struct{ lines []string }

// details is folded up until a reader opens it: what only backs a statement that
// stands outside.
type details struct {
	summary text
	blocks  []block
	anchor  string // by which a page links to it, or empty
}

// tiles are the figures that a reader looks for first. They repeat what the text
// says, and only a page shows them.
type tiles struct{ tiles []tile }

type tile struct {
	label, value, note string
	tone               tone
}

// tone says whether a figure is one to like.
type tone string

const (
	goodTone tone = "good"
	badTone  tone = "bad"
	warnTone tone = "warn"
)

// chart is drawn where a format can, with its numbers folded up below it. Where it
// cannot, standIn is written.
type chart struct {
	caption text
	spec    page.Chart
	numbers []block
	standIn []block
}

// bars are stacked bars, one above another, over their numbers.
type bars struct {
	caption text
	keys    []barKey
	rows    []barRow
	numbers []block
	standIn []block
}

type barKey struct {
	label  string
	colour page.Colour
}

// barRow is one bar; parts that are shorter than full leave the rest of it empty.
type barRow struct {
	name, end text // before and behind the bar
	full      float64
	parts     []barPart
}

type barPart struct {
	label  string // said of the part by name, such as "200 in upstream_read"
	colour page.Colour
	value  float64
	href   string // an anchor of the page or of another one, or empty
}

// strip is a line of moments and spans of time for each of several actors, all over one
// axis. Lanes of a format that cannot draw are left to its numbers.
type strip struct {
	caption  text
	keys     []barKey
	from, to float64 // seconds
	lanes    []stripLane
	numbers  []block // in which every mark is told as text
}

type stripLane struct {
	name  text
	marks []stripMark
}

// stripMark is a moment where from is to.
type stripMark struct {
	label    string
	colour   page.Colour
	from, to float64 // seconds
}

// unabridged is what only a page shows, since there it can be folded up and linked
// to.
type unabridged struct{ blocks []block }

func (tiles) isBlock()      {}
func (chart) isBlock()      {}
func (bars) isBlock()       {}
func (strip) isBlock()      {}
func (unabridged) isBlock() {}

func (paragraph) isBlock() {}
func (list) isBlock()      {}
func (table) isBlock()     {}
func (listing) isBlock()   {}
func (details) isBlock()   {}

// text is a line of text in spans. It holds raw characters: what has a meaning
// in the target format is escaped by the writer of that format.
type text []span

type span struct {
	text  string
	style style
	href  string // a path relative to the report, or #anchor; empty for none
	// folded is where Markdown leads instead, which does not hold what a page folds up.
	folded string
	// report is the folder, relative to this report's, whose report in the same format
	// is linked; empty for none.
	report string
}

type style int

const (
	plainStyle style = iota
	strongStyle
	codeStyle
	badStyle // what a reader must not miss; it reads so without colour too
)

func plain(s string) text  { return text{{text: s}} }
func strong(s string) text { return text{{text: s, style: strongStyle}} }
func code(s string) text   { return text{{text: s, style: codeStyle}} }
func bad(s string) text    { return text{{text: s, style: badStyle}} }

func link(label, href string) text { return text{{text: label, href: href}} }

func reportLink(label, folder string) text { return text{{text: label, report: folder}} }

// join puts texts one after another.
func join(parts ...text) text {
	var all text
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

func sentence(parts ...text) paragraph { return paragraph{join(parts...)} }

func words(title string) column   { return column{title: title} }
func numbers(title string) column { return column{title: title, numeric: true} }

func (d *document) add(title string, blocks ...block) {
	d.sections = append(d.sections, section{title, blocks})
}

// Report is what a reader gets: the same document in each format.
type Report struct {
	Markdown string // charts are left out of it, or stand as text
	HTML     string // one file that needs nothing beside it
	// Malformed are the errors of files that are there and could not be read. The
	// report says so in their place.
	Malformed []error
}

func render(d document, malformed []error) (Report, error) {
	d = boundedDocument(d)
	page, err := htmlPage(d)
	if err != nil {
		return Report{}, err
	}
	return Report{Markdown: markdown(d), HTML: page, Malformed: malformed}, nil
}
