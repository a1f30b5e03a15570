package report

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

// block is one of paragraph, list, table, listing and details.
type block interface{ isBlock() }

type paragraph struct{ text text }

type list struct{ items []text }

// table has as many cells in each row as columns.
type table struct {
	columns []column
	rows    [][]text
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
}

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
	href  string // a path relative to the report; empty for none
}

type style int

const (
	plainStyle style = iota
	strongStyle
	codeStyle
)

func plain(s string) text  { return text{{text: s}} }
func strong(s string) text { return text{{text: s, style: strongStyle}} }
func code(s string) text   { return text{{text: s, style: codeStyle}} }

func link(label, href string) text { return text{{text: label, href: href}} }

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
