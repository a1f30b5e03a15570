package report

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"math"
	"net/url"
	"path"
	"strings"
	"unicode"

	"chokepoint/internal/evidence/page"
	"chokepoint/internal/result"
)

//go:embed html.tmpl
var htmlTemplate string

// htmlPage writes a document as one HTML file. Everything that the document holds is
// text to it: html/template escapes it for the place in which it stands.
func htmlPage(d document) (string, error) {
	templates, err := template.New("").Parse(htmlTemplate)
	if err != nil {
		return "", err
	}
	w := htmlWriter{anchors: map[string]int{}}
	view := htmlDocument{Title: d.title, Lead: w.blocks(d.lead), Markdown: result.ReportFile}
	for _, s := range d.sections {
		w.section = s.title
		view.Sections = append(view.Sections, htmlSection{s.title, w.anchor(s.title), w.blocks(s.blocks)})
	}
	var body, whole bytes.Buffer
	if err := templates.ExecuteTemplate(&body, "report", view); err != nil {
		return "", err
	}
	if err := page.Write(&whole, page.Page{Title: d.title, Body: template.HTML(body.String())}); err != nil {
		return "", err
	}
	return whole.String(), nil
}

// The views are what the template reads: the blocks of a document, of which each view
// holds one.
type htmlDocument struct {
	Title, Markdown string
	Lead            []htmlBlock
	Sections        []htmlSection
}

type htmlSection struct {
	Title, Anchor string
	Blocks        []htmlBlock
}

type htmlBlock struct {
	Paragraph []htmlSpan
	Items     [][]htmlSpan
	Table     *htmlTable
	Listing   string
	Details   *htmlDetails
	Tiles     []htmlTile
	Chart     *htmlChart
	Bars      *htmlBars
}

type htmlSpan struct{ Text, Style, Href string }

type htmlTable struct {
	Label   string
	Columns []htmlColumn
	Rows    [][][]htmlSpan
	Small   bool
}

type htmlColumn struct {
	Title   string
	Numeric bool
}

type htmlDetails struct {
	Summary []htmlSpan
	Blocks  []htmlBlock
	Anchor  string
}

type htmlTile struct {
	Label, Value, Note string
	Tone               tone
}

type htmlChart struct {
	ID      string
	Caption []htmlSpan
	Spec    page.Chart
	Numbers []htmlBlock
}

type htmlBars struct {
	Caption []htmlSpan
	Keys    []htmlKey
	Rows    []htmlBar
	Numbers []htmlBlock
}

type htmlKey struct {
	Label  string
	Colour page.Colour
}

type htmlBar struct {
	Name, End []htmlSpan
	Label     string
	Parts     []htmlPart
}

// htmlPart is in the units of a bar's SVG, which is barWidth wide.
type htmlPart struct {
	Label, Href string
	Colour      page.Colour
	X, Width    float64
}

const barWidth = 1000

// htmlWriter gives every heading and chart of a page a name of its own.
type htmlWriter struct {
	section string
	anchors map[string]int
	charts  int
}

func (w *htmlWriter) anchor(title string) string {
	name := slug(title)
	w.anchors[name]++
	if n := w.anchors[name]; n > 1 {
		name = fmt.Sprintf("%s-%d", name, n)
	}
	return name
}

// slug is a title as part of an address.
func slug(title string) string {
	return strings.Join(strings.FieldsFunc(strings.ToLower(title), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r)
	}), "-")
}

func (w *htmlWriter) blocks(blocks []block) []htmlBlock {
	var views []htmlBlock
	for _, bl := range blocks {
		switch bl := bl.(type) {
		case paragraph:
			views = append(views, htmlBlock{Paragraph: htmlSpans(bl.text)})
		case list:
			view := htmlBlock{}
			for _, item := range bl.items {
				view.Items = append(view.Items, htmlSpans(item))
			}
			views = append(views, view)
		case table:
			views = append(views, htmlBlock{Table: w.table(bl)})
		case listing:
			views = append(views, htmlBlock{Listing: strings.Join(bl.lines, "\n")})
		case details:
			views = append(views, htmlBlock{Details: &htmlDetails{htmlSpans(bl.summary), w.blocks(bl.blocks), bl.anchor}})
		case tiles:
			view := htmlBlock{}
			for _, t := range bl.tiles {
				view.Tiles = append(view.Tiles, htmlTile{t.label, t.value, t.note, t.tone})
			}
			views = append(views, view)
		case chart:
			w.charts++
			views = append(views, htmlBlock{Chart: &htmlChart{fmt.Sprintf("chart-%d", w.charts), htmlSpans(bl.caption), bl.spec, w.blocks(bl.numbers)}})
		case bars:
			views = append(views, htmlBlock{Bars: w.bars(bl)})
		case strip:
			views = append(views, htmlBlock{Bars: w.strip(bl)})
		case unabridged:
			views = append(views, w.blocks(bl.blocks)...)
		}
	}
	return views
}

func (w *htmlWriter) table(t table) *htmlTable {
	view := &htmlTable{Label: w.section, Small: t.small}
	for _, c := range t.columns {
		view.Columns = append(view.Columns, htmlColumn{c.title, c.numeric})
	}
	for _, row := range t.rows {
		var cells [][]htmlSpan
		for _, cell := range row {
			cells = append(cells, htmlSpans(cell))
		}
		view.Rows = append(view.Rows, cells)
	}
	return view
}

func (w *htmlWriter) bars(b bars) *htmlBars {
	view := &htmlBars{Caption: htmlSpans(b.caption), Numbers: w.blocks(b.numbers)}
	for _, k := range b.keys {
		view.Keys = append(view.Keys, htmlKey{k.label, k.colour})
	}
	for _, r := range b.rows {
		bar := htmlBar{Name: htmlSpans(r.name), End: htmlSpans(r.end)}
		x, labels := 0.0, []string{}
		for _, p := range r.parts {
			if p.value <= 0 || r.full <= 0 {
				continue
			}
			width := math.Round(p.value/r.full*barWidth*100) / 100
			bar.Parts = append(bar.Parts, htmlPart{p.label, p.href, p.colour, x, width})
			labels = append(labels, p.label)
			x += width
		}
		bar.Label = strings.Join(labels, ", ")
		view.Rows = append(view.Rows, bar)
	}
	return view
}

// strip is drawn as bars whose parts stand where their time is. A part that would be
// too narrow to be seen is as wide as leastMark.
func (w *htmlWriter) strip(s strip) *htmlBars {
	view := &htmlBars{Caption: htmlSpans(s.caption), Numbers: w.blocks(s.numbers)}
	for _, k := range s.keys {
		view.Keys = append(view.Keys, htmlKey{k.label, k.colour})
	}
	length := s.to - s.from
	for _, l := range s.lanes {
		bar := htmlBar{Name: htmlSpans(l.name), Label: plural(len(l.marks), "mark")}
		for _, m := range l.marks {
			if !(length > 0) {
				break
			}
			x := inBar((m.from - s.from) / length)
			width := max(inBar((m.to-s.from)/length)-x, leastMark)
			bar.Parts = append(bar.Parts, htmlPart{Label: m.label, Colour: m.colour, X: min(x, barWidth-leastMark), Width: width})
		}
		view.Rows = append(view.Rows, bar)
	}
	return view
}

const leastMark = 3

// inBar is a share of a bar in its units, to a hundredth of one; of what is no number it
// is none.
func inBar(share float64) float64 {
	if math.IsNaN(share) {
		return 0
	}
	return math.Round(min(max(share, 0), 1)*barWidth*100) / 100
}

func htmlSpans(t text) []htmlSpan {
	var spans []htmlSpan
	for _, s := range t {
		view := htmlSpan{Text: oneLine(s.text)}
		switch s.style {
		case codeStyle:
			view.Style = "code"
		case strongStyle:
			view.Style = "strong"
		case badStyle:
			view.Style = "bad"
		}
		switch {
		case s.report != "":
			view.Href = escapedPath(path.Join(s.report, result.PageFile))
		case strings.HasPrefix(s.href, "#"):
			view.Href = s.href
		case s.href != "":
			view.Href = escapedPath(s.href)
		}
		spans = append(spans, view)
	}
	return spans
}

// escapedPath writes a relative path as a URL. One whose first part holds a colon
// would else name a scheme.
func escapedPath(name string) string { return (&url.URL{Path: name}).String() }
