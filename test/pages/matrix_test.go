//go:build browser

package pages

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"chokepoint/internal/evidence/report"
	"chokepoint/internal/result"
	"chokepoint/test/browser"
)

// matrixPage is the report of a part of a run that is a matrix.
func matrixPage(t *testing.T) string {
	return write(t, report.Run, filepath.Join("..", "..", "internal", "evidence", "report", "testdata", "deadconn"))
}

const (
	cellInMatrix = `document.querySelector('#the-matrix ~ .table a[href="#cell-a2-net-http-get-none"]')`
	cellSection  = `document.getElementById("cell-a2-net-http-get-none")`
)

// testACellOpensItsEvidence: by keyboard, from the matrix to the packets.
func testACellOpensItsEvidence(t *testing.T, b *browser.Browser) {
	url := browser.FileURL(t, matrixPage(t))
	tab := b.Open(t, url)
	if n := browser.Eval[int](tab, `document.querySelectorAll("details[open]").length`); n > 0 {
		t.Errorf("%d sections are open from the start", n)
	}
	tab.Press(cellInMatrix, kb.Enter)
	tab.Until(cellSection + `.open && document.activeElement === ` + cellSection + `.querySelector("summary")`)
	text := browser.Eval[string](tab, cellSection+`.innerText`)
	for _, want := range []string{"exact error: net/http: timeout awaiting response headers", "ESTABLISHED 10.81.0.10:57372 -> 10.82.0.10:8080", "FIN_WAIT1", "+0.831 caller:57372 > upstream:8080 [P.] 92 bytes (retransmission)"} {
		if !strings.Contains(text, want) {
			t.Errorf("the section of the cell does not show %q", want)
		}
	}
	tab.Until(cellSection + `.querySelector("pre").checkVisibility() && ` + cellSection + `.querySelector("summary").getBoundingClientRect().top < innerHeight`) // once it has scrolled
	if n := browser.Eval[int](tab, `document.querySelectorAll('details[id^="cell-"][open]').length`); n != 1 {
		t.Errorf("%d cells are open, want 1", n)
	}
	if got := browser.Eval[string](tab, cellSection+`.querySelector('a[href$="packets.txt"]').getAttribute("href")`); got != "cases/A2-net-http-GET/packets.txt" {
		t.Errorf("the packets are linked as %q", got)
	}
	wantQuiet(t, tab, url)
}

// testWhatIsNotAsWantedIsSaid: a cell says it in words, which no colour is needed for.
func testWhatIsNotAsWantedIsSaid(t *testing.T, b *browser.Browser) {
	tab := b.Open(t, browser.FileURL(t, matrixPage(t)))
	for _, scheme := range []string{"light", "dark"} {
		tab.Prefer(scheme)
		cells := browser.Eval[[]string](tab, `[...document.querySelectorAll("#the-matrix ~ .table td .bad")].map((e) => e.innerText + " " + (getComputedStyle(e).color === getComputedStyle(e.parentElement).color))`)
		if got := strings.Join(cells, ", "); got != "not as wanted false, not as wanted false" {
			t.Errorf("%s: %q, want two cells in words and another colour", scheme, got)
		}
	}
}

// testHostileCells: what a case of a file says is text wherever it ends up on the page.
func testHostileCells(t *testing.T, b *browser.Browser) {
	const hostile = `"'><script>window.ran=1</script><img src=x onerror="window.ran=1">--><!--</script>`
	dir := t.TempDir()
	c := result.Case{ID: hostile, Group: hostile, Title: hostile, Client: hostile, Method: hostile, Defence: hostile, Settings: hostile, Fault: hostile,
		Want: hostile, Got: hostile, Why: hostile, Predicted: hostile, Error: hostile, Connection: hostile, Failure: hostile, Evidence: "javascript:window.ran=1",
		Before: &result.Observed{Client: []string{hostile}}, Files: []result.EvidenceFile{{Name: "packets" + hostile, What: hostile}},
		Requests: []result.CaseRequest{{ID: hostile, Got: hostile, Server: hostile, Conn: hostile}, {ID: hostile, Got: hostile}},
		Events:   []result.CaseEvent{{Where: hostile, What: hostile, Detail: hostile}}}
	threat := c
	threat.Defence, threat.Failure, threat.Counts.NeverReached = result.DefenceNone, "", 1
	answered := c
	answered.Failure, answered.Counts.OK = "", 1
	s := result.Summary{Schema: result.SummarySchema, Run: result.Run{ID: hostile, Scenario: hostile, Scale: 1}, Validity: result.Validity{Valid: true}, Cases: []result.Case{c, threat, answered}}
	if err := result.WriteJSON(filepath.Join(dir, result.SummaryFile), s); err != nil {
		t.Fatal(err)
	}
	page := write(t, report.Run, dir)
	tab := b.Open(t, browser.FileURL(t, page))
	if browser.Eval[bool](tab, "window.ran !== undefined") {
		t.Error("text of a file ran as a script")
	}
	if n := browser.Eval[int](tab, "document.images.length"); n > 0 {
		t.Errorf("text of a file became %d images", n)
	}
	if links := browser.Eval[[]string](tab, `[...document.links].filter((a) => a.protocol !== "file:").map((a) => a.outerHTML)`); len(links) > 0 {
		t.Errorf("links that lead elsewhere than to files: %q", links)
	}
	if !browser.Eval[bool](tab, `document.getElementById("safe-defaults") !== null`) {
		t.Error("nothing is derived from the cells")
	}
	wantQuiet(t, tab, browser.FileURL(t, page))
}
