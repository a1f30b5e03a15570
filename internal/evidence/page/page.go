// Package page is what the report and the live view look like: one style sheet, the
// charts, the tables, and the frame of a page that is whole in one file. A page asks
// nothing of any other host: its policy forbids the browser to.
//
// The charts are drawn by uPlot (assets/uplot, MIT licence beside it), which is
// embedded as it was published.
package page

import (
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"strings"
)

//go:embed assets page.html.tmpl
var files embed.FS

// Page is one HTML page.
type Page struct {
	Title string
	Body  template.HTML // within <body>: a header, <main id="main">, a footer
	Style string        // after the style sheet of this package
	// Scripts run after those of this package (see Theme, Tables and Charts in
	// assets), which are always there.
	Scripts []string
	// Connects lets the page ask the server that it came from for more.
	Connects bool
}

// Write writes p as one file.
func Write(w io.Writer, p Page) error {
	frame, err := template.ParseFS(files, "page.html.tmpl")
	if err != nil {
		return err
	}
	style, err := join("assets/uplot/uPlot.min.css", "assets/style.css")
	if err != nil {
		return err
	}
	style += p.Style
	licence, err := join("assets/uplot/LICENSE")
	if err != nil {
		return err
	}
	var scripts []template.JS
	for _, name := range []string{"assets/uplot/uPlot.iife.min.js", "assets/theme.js", "assets/table.js", "assets/chart.js"} {
		script, err := join(name)
		if err != nil {
			return err
		}
		if name == "assets/uplot/uPlot.iife.min.js" {
			script = "/*!\nuPlot\n" + licence + "*/\n" + script
		}
		scripts = append(scripts, template.JS(script))
	}
	for _, s := range p.Scripts {
		scripts = append(scripts, template.JS(s))
	}
	return frame.Execute(w, struct {
		Title, Policy string
		Style         template.CSS
		Body          template.HTML
		Scripts       []template.JS
	}{p.Title, policy(style, scripts, p.Connects), template.CSS(style), p.Body, scripts})
}

func join(names ...string) (string, error) {
	var b strings.Builder
	for _, name := range names {
		data, err := files.ReadFile(name)
		if err != nil {
			return "", err
		}
		b.Write(data)
	}
	return b.String(), nil
}

// policy is a Content-Security-Policy under which the styles and scripts of the page,
// and nothing else, take effect: text that got past the template's escaping could
// still not run.
func policy(style string, scripts []template.JS, connects bool) string {
	var hashes []string
	for _, s := range scripts {
		hashes = append(hashes, digest(string(s)))
	}
	p := fmt.Sprintf("default-src 'none'; img-src data:; style-src %s; script-src %s; base-uri 'none'; form-action 'none'",
		digest(style), strings.Join(hashes, " "))
	if connects {
		p += "; connect-src 'self'"
	}
	return p
}

// digest names an inline style or script by its SHA-256 (CSP Level 3, section 2.3.1).
func digest(content string) string {
	sum := sha256.Sum256([]byte(content))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}
