package report

import (
	"cmp"
	"html"
	"path"
	"strings"
	"unicode"

	"chokepoint/internal/cli"
	"chokepoint/internal/result"
)

// markdown writes a document as GitHub-flavoured Markdown
// (https://github.github.com/gfm/).
func markdown(d document) string {
	var b strings.Builder
	b.WriteString("# " + inline(plain(d.title), false) + "\n")
	for _, bl := range d.lead {
		writeBlock(&b, bl)
	}
	for _, s := range d.sections {
		b.WriteString("\n## " + inline(plain(s.title), false) + "\n")
		for _, bl := range s.blocks {
			writeBlock(&b, bl)
		}
	}
	return b.String()
}

func writeBlock(b *strings.Builder, bl block) {
	switch bl := bl.(type) {
	case tiles, unabridged:
		return
	case chart:
		for _, inner := range bl.standIn {
			writeBlock(b, inner)
		}
		return
	case bars:
		for _, inner := range bl.standIn {
			writeBlock(b, inner)
		}
		return
	case strip:
		for _, inner := range bl.numbers {
			writeBlock(b, inner)
		}
		return
	}
	b.WriteByte('\n')
	switch bl := bl.(type) {
	case paragraph:
		b.WriteString(guardStart(inline(bl.text, false)) + "\n")
	case list:
		for _, item := range bl.items {
			b.WriteString("- " + guardStart(inline(item, false)) + "\n")
		}
	case table:
		writeTable(b, bl)
	case listing:
		fence := fenceFor(bl.lines, "```")
		b.WriteString(fence + "text\n")
		for _, line := range bl.lines {
			b.WriteString(line + "\n")
		}
		b.WriteString(fence + "\n")
	case details:
		// Markdown begins again after a blank line. The summary is HTML: GFM reads
		// nothing in a block that begins with this tag.
		anchor := ""
		if bl.anchor != "" {
			anchor = ` id="` + html.EscapeString(bl.anchor) + `"`
		}
		b.WriteString("<details" + anchor + ">\n<summary>" + htmlText(bl.summary) + "</summary>\n")
		for _, inner := range bl.blocks {
			writeBlock(b, inner)
		}
		b.WriteString("\n</details>\n")
	}
}

// htmlText writes a text in one line of HTML, without its links.
func htmlText(t text) string {
	var b strings.Builder
	for _, s := range t {
		written := html.EscapeString(oneLine(s.text))
		switch s.style {
		case codeStyle:
			written = "<code>" + written + "</code>"
		case strongStyle, badStyle:
			written = "<strong>" + written + "</strong>"
		}
		b.WriteString(written)
	}
	return b.String()
}

func writeTable(b *strings.Builder, t table) {
	b.WriteByte('|')
	for _, c := range t.columns {
		b.WriteString(" " + inline(plain(c.title), true) + " |")
	}
	b.WriteString("\n|")
	for _, c := range t.columns {
		if c.numeric {
			b.WriteString("---:|")
		} else {
			b.WriteString("---|")
		}
	}
	b.WriteByte('\n')
	for _, row := range t.rows {
		b.WriteByte('|')
		for _, cell := range row {
			b.WriteString(" " + inline(cell, true) + " |")
		}
		b.WriteByte('\n')
	}
}

// inline writes a text in one line that does not leave its block, or its cell
// where inCell says that it stands in a table.
func inline(t text, inCell bool) string {
	var b strings.Builder
	for _, s := range t {
		written := ""
		switch s.style {
		case codeStyle:
			written = codeSpan(s.text, inCell)
		case strongStyle, badStyle:
			written = "**" + escape(s.text) + "**"
		default:
			written = escape(s.text)
		}
		if s.report != "" {
			written = "[" + written + "](" + target(path.Join(s.report, result.ReportFile)) + ")"
		}
		if href := cmp.Or(s.folded, s.href); href != "" {
			written = "[" + written + "](" + linkTarget(href) + ")"
		}
		b.WriteString(written)
	}
	return b.String()
}

// escape puts a backslash before every character that could begin markup. An
// underscore between letters and a single tilde begin none.
func escape(s string) string {
	runes := []rune(oneLine(s))
	tildes := strings.Count(s, "~")
	wordAt := func(i int) bool {
		return i >= 0 && i < len(runes) && (unicode.IsLetter(runes[i]) || unicode.IsDigit(runes[i]))
	}
	var b strings.Builder
	for i, r := range runes {
		special := strings.ContainsRune("\\`*[]<>|&", r) ||
			r == '_' && !(wordAt(i-1) && wordAt(i+1)) ||
			r == '~' && tildes > 1
		if special {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}

// guardStart keeps the first characters of a block from making it a heading, a
// list or a quotation.
func guardStart(s string) string {
	digits := len(s) - len(strings.TrimLeft(s, "0123456789"))
	switch {
	case s == "":
		return s
	case strings.ContainsRune("#+-=~", rune(s[0])):
		return `\` + s
	case digits > 0 && digits < len(s) && strings.ContainsRune(".)", rune(s[digits])):
		return s[:digits] + `\` + s[digits:]
	}
	return s
}

// codeSpan fences s with more backticks than it holds in a row. Inside code a
// backslash is only a backslash, but a table cell ends at a bar even there, and
// there alone the bar is escaped.
func codeSpan(s string, inCell bool) string {
	s = oneLine(s)
	if s == "" {
		return ""
	}
	if inCell {
		s = strings.ReplaceAll(s, "|", `\|`)
	}
	fence := fenceFor([]string{s}, "`")
	if strings.HasPrefix(s, "`") || strings.HasSuffix(s, "`") {
		s = " " + s + " "
	}
	return fence + s + fence
}

// fenceFor lengthens fence until no line holds it.
func fenceFor(lines []string, fence string) string {
	for _, line := range lines {
		for strings.Contains(line, fence) {
			fence += "`"
		}
	}
	return fence
}

// oneLine turns line breaks, tabs and other control characters into spaces. The rest is
// as cli.Printable leaves it.
func oneLine(s string) string {
	return cli.Printable(strings.Join(strings.FieldsFunc(s, func(r rune) bool { return unicode.IsControl(r) }), " "))
}

// linkTarget is that of an anchor of the page, or of a relative path.
func linkTarget(href string) string {
	if anchor, ok := strings.CutPrefix(href, "#"); ok {
		return "#" + target(anchor)
	}
	return target(href)
}

// target makes a relative path the target of a link.
func target(name string) string {
	return strings.NewReplacer("(", "%28", ")", "%29", "|", "%7C").Replace(escapedPath(name))
}
