//go:build browser

// Package pages opens the pages of the lab in a real browser.
package pages

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp/kb"

	"chokepoint/internal/evidence/report"
	"chokepoint/internal/result"
	"chokepoint/test/browser"
)

// TestReport shares one browser: starting one takes longer than most of the tests.
func TestReport(t *testing.T) {
	b := browser.Start(t)
	for _, tt := range []struct {
		name string
		test func(*testing.T, *browser.Browser)
	}{
		{"reports open from disk", testReportsOpenFromDisk},
		{"the policy bites", testThePolicyBites},
		{"tables sort by keyboard", testTablesSortByKeyboard},
		{"tables copy", testTablesCopy},
		{"CSV has bare numbers", testCSVHasBareNumbers},
		{"what is wide is not cut off", testWhatIsWideIsNotCutOff},
		{"a bar opens the stacks of its place", testABarOpensTheStacksOfItsPlace},
		{"colours", testColours},
		{"print", testPrint},
		{"a legend hides its series", testALegendHidesItsSeries},
		{"a profile is hidden in all panes", testAProfileIsHiddenInAllPanes},
		{"hostile text", testHostileText},
		{"a cell opens its evidence", testACellOpensItsEvidence},
		{"what is not as wanted is said", testWhatIsNotAsWantedIsSaid},
		{"hostile cells", testHostileCells},
	} {
		t.Run(tt.name, func(t *testing.T) { tt.test(t, b) })
	}
}

// reference is the folder of the one result of that pattern.
func reference(t *testing.T, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join("..", "..", "results", "reference", pattern))
	if err != nil || len(found) != 1 {
		t.Fatalf("%s is %q (error %v), want one folder", pattern, found, err)
	}
	return found[0]
}

// write renders the report of a folder to a file of its own.
func write(t *testing.T, render func(string) (report.Report, error), dir string) string {
	t.Helper()
	r, err := render(dir)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), result.PageFile)
	if err := os.WriteFile(path, []byte(r.HTML), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func runPage(t *testing.T) string { return write(t, report.Run, reference(t, "*-anti-1")) }

// attachedPage is the report of a run against a service that is not ours, which has
// no metrics and is written in Java.
func attachedPage(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(reference(t, "*-anti-1"))); err != nil {
		t.Fatal(err)
	}
	s, err := result.ReadSummary(dir)
	if err != nil {
		t.Fatal(err)
	}
	s.Run.Scenario, s.Run.Protect, s.Verdict.Outcome = "attach", "fast", result.NotProtected
	s.Attached = &result.Attached{DumpURL: "http://127.0.0.1:8081/actuator/threaddump"}
	for i := range s.Dumps {
		s.Dumps[i].Unit, s.Dumps[i].Workers, s.Dumps[i].Queued = "threads", 0, 0
	}
	if err := result.WriteJSON(filepath.Join(dir, result.SummaryFile), s); err != nil {
		t.Fatal(err)
	}
	return write(t, report.Run, dir)
}

// undrawn lists the series of all charts whose colour is nowhere on their canvas, though
// they have a value above 0.
const undrawn = `(() => {
  const missing = [];
  for (const figure of document.querySelectorAll("figure[data-chart]")) {
    const chart = JSON.parse(document.getElementById(figure.dataset.chart).textContent);
    const canvases = [...figure.querySelectorAll("canvas")];
    if (canvases.length !== chart.panes.length) missing.push(figure.dataset.chart + " has " + canvases.length + " canvases");
    canvases.forEach((canvas, i) => {
      // A copy for reading: the browser complains of reading the original twice.
      const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d", { willReadFrequently: true });
      copy.drawImage(canvas, 0, 0);
      const pixels = copy.getImageData(0, 0, canvas.width, canvas.height).data;
      const seen = new Set();
      for (let p = 0; p < pixels.length; p += 4) if (pixels[p + 3] === 255) seen.add(pixels[p] + ", " + pixels[p + 1] + ", " + pixels[p + 2]);
      for (const s of chart.panes[i].series) {
        const rgb = Theme.colour("g-" + s.colour).replace(/^rgb\(|\)$/g, "");
        if (s.values.some((v) => v > 0) && !seen.has(rgb)) missing.push(chart.panes[i].title + ": " + s.label);
      }
    });
  }
  return missing;
})()`

func testReportsOpenFromDisk(t *testing.T, b *browser.Browser) {
	for _, tt := range []struct {
		name   string
		page   string
		charts int
	}{
		{"run anti", runPage(t), 3},
		{"run fixed", write(t, report.Run, reference(t, "*-fixed-1")), 3},
		{"comparison", write(t, report.Comparison, reference(t, "*-compare-1")), 3},
		{"attached service", attachedPage(t), 3},
		{"matrix", matrixPage(t), 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			info, err := os.Stat(tt.page)
			if err != nil || info.Size() > 2<<20 {
				t.Errorf("%s has %d bytes (error %v), want under 2 MiB", tt.page, info.Size(), err)
			}
			url := browser.FileURL(t, tt.page)
			tab := b.Open(t, url)
			if n := browser.Eval[int](tab, `document.querySelectorAll("figure[data-chart]").length`); n != tt.charts {
				t.Errorf("%d charts, want %d", n, tt.charts)
			}
			for _, scheme := range []string{"light", "dark"} {
				tab.Prefer(scheme)
				if missing := browser.Eval[[]string](tab, undrawn); len(missing) > 0 {
					t.Errorf("%s: not drawn: %q", scheme, missing)
				}
			}
			if n := browser.Eval[int](tab, `[...document.querySelectorAll("figure")].filter((f) => !f.querySelector("table")).length`); n > 0 {
				t.Errorf("%d figures have no numbers", n)
			}
			if ids := browser.Eval[[]string](tab, `(() => { const all = [...document.querySelectorAll("[id]")].map((e) => e.id); return all.filter((id, i) => all.indexOf(id) !== i); })()`); len(ids) > 0 {
				t.Errorf("ids that are there twice: %q", ids)
			}
			if dead := browser.Eval[[]string](tab, `[...document.querySelectorAll('a[href^="#"]')].map((a) => decodeURIComponent(a.getAttribute("href").slice(1))).filter((id) => !document.getElementById(id))`); len(dead) > 0 {
				t.Errorf("links that lead nowhere: %q", dead)
			}
			if n := browser.Eval[int](tab, `[...document.querySelectorAll("h1, h2, h3, h4")].map((h) => +h.tagName[1]).filter((level, i, all) => i > 0 && level > all[i - 1] + 1).length`); n > 0 {
				t.Errorf("%d headings skip a level", n)
			}
			if n := browser.Eval[int](tab, `[...document.querySelectorAll("button, a, summary, [role=img], [role=region]")].filter((e) => !(e.getAttribute("aria-label") || e.textContent).trim()).length`); n > 0 {
				t.Errorf("%d controls have no name", n)
			}
			if wide := browser.Eval[int](tab, `document.documentElement.scrollWidth - innerWidth`); wide > 0 {
				t.Errorf("the page is %d pixels wider than its window", wide)
			}
			wantQuiet(t, tab, url)
		})
	}
}

// wantQuiet holds that a page asked for nothing but itself, and that the browser had
// nothing to complain of.
func wantQuiet(t *testing.T, tab *browser.Tab, url string) {
	t.Helper()
	if errs := tab.Errors(); len(errs) > 0 {
		t.Errorf("the console: %q", errs)
	}
	if got := tab.Requests(); !slices.Equal(got, []string{url}) {
		t.Errorf("the page asked for %q, want itself alone", got)
	}
}

// testThePolicyBites: that no request left would also hold of a page that tries none.
func testThePolicyBites(t *testing.T, b *browser.Browser) {
	tab := b.Open(t, browser.FileURL(t, runPage(t)))
	browser.Eval[any](tab, `(async () => {
	  const image = new Image(); image.src = "http://127.0.0.1:9/x.png";
	  const script = document.createElement("script"); script.textContent = "window.ran = true"; document.body.append(script);
	  await fetch("http://127.0.0.1:9/").catch(() => {});
	})()`)
	if ran := browser.Eval[bool](tab, "window.ran === true"); ran {
		t.Error("a script that is not the page's own ran")
	}
	if errs := strings.Join(tab.Errors(), "\n"); strings.Count(errs, "Content Security Policy") < 3 {
		t.Errorf("the console has %q, want three refusals", errs)
	}
}

// column reads the cells of a column of the table that follows a heading.
func column(tab *browser.Tab, heading string, n int) []string {
	return browser.Eval[[]string](tab, fmt.Sprintf(`[...document.getElementById(%q).parentElement.querySelector("table").tBodies[0].rows].map((r) => r.cells[%d].innerText)`, heading, n))
}

func testTablesSortByKeyboard(t *testing.T, b *browser.Browser) {
	tab := b.Open(t, browser.FileURL(t, runPage(t)))
	const heading, points = "dumps", 4 // goroutines, in order: 21, 612, 1,216, 2,014
	first := column(tab, heading, 2)
	press := func(n int) (sort string) {
		tab.Press(fmt.Sprintf(`document.getElementById(%q).parentElement.querySelectorAll("th button")[%d]`, heading, n), kb.Enter)
		return browser.Eval[string](tab, fmt.Sprintf(`document.getElementById(%q).parentElement.querySelectorAll("th")[%d].getAttribute("aria-sort")`, heading, n))
	}
	if sort := press(2); sort != "ascending" || !slices.Equal(column(tab, heading, 2), first) || len(first) != points {
		t.Errorf("%s: %q, want %q", sort, column(tab, heading, 2), first)
	}
	slices.Reverse(first)
	if sort := press(2); sort != "descending" || !slices.Equal(column(tab, heading, 2), first) {
		t.Errorf("%s: %q, want %q", sort, column(tab, heading, 2), first)
	}
	if sort := press(0); sort != "ascending" || !slices.IsSorted(column(tab, heading, 0)) {
		t.Errorf("%s: %q", sort, column(tab, heading, 0))
	}
	if n := browser.Eval[int](tab, `document.querySelectorAll("th[aria-sort]").length`); n != 1 {
		t.Errorf("%d columns say that they are sorted by, want 1", n)
	}
}

func testTablesCopy(t *testing.T, b *browser.Browser) {
	tab := b.Open(t, browser.FileURL(t, runPage(t)))
	for _, tt := range []struct{ name, clipboard string }{
		{"by the clipboard", `{ writeText: async (s) => { window.copied = s; } }`},
		{"without one", `{ writeText: async () => { throw new Error("refused"); } }`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			browser.Eval[any](tab, `(() => {
			  window.copied = null;
			  Object.defineProperty(navigator, "clipboard", { configurable: true, value: `+tt.clipboard+` });
			  window.addEventListener("copy", (event) => { window.copied = event.clipboardData.getData("text/plain"); });
			})()`)
			for _, format := range []struct{ name, want string }{
				{"markdown", "| endpoint | scheduled | ok | failed | failed share | failed share of the completed | target rate | achieved rate | client timeout |\n" +
					"| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n" +
					"| /fast | 1,200 | 399 | 801 | 66.8 % | 66.8 % | 20.0/s | 20.0/s | 30,000 ms |\n" +
					"| /upstream | 1,200 | 400 | 800 | 66.7 % | 66.7 % | 20.0/s | 20.0/s | 60,000 ms |\n"},
				{"csv", "endpoint,scheduled,ok,failed,failed share (%),failed share of the completed (%),target rate (/s),achieved rate (/s),client timeout (ms)\r\n" +
					"/fast,1200,399,801,66.8,66.8,20,20,30000\r\n" +
					"/upstream,1200,400,800,66.7,66.7,20,20,60000\r\n"},
			} {
				const box = `document.getElementById("latency-and-failures").parentElement.querySelector(".table")`
				browser.Eval[any](tab, box+`.querySelector("output").textContent = ""`)
				tab.Press(fmt.Sprintf(box+`.querySelector("button[data-copy=%s]")`, format.name), kb.Enter) // a browser lets nobody copy but its user
				tab.Until(box + `.querySelector("output").textContent !== ""`)
				got := browser.Eval[string](tab, box+`.querySelector("output").textContent + ": " + window.copied`)
				if want := "copied: " + format.want; got != want {
					t.Errorf("%s:\n%s\nwant\n%s", format.name, got, want)
				}
			}
		})
	}
}

// A spreadsheet takes for text what is more than a number: CSV has units, ranges and
// remarks in columns of their own.
func testCSVHasBareNumbers(t *testing.T, b *browser.Browser) {
	tab := b.Open(t, browser.FileURL(t, write(t, report.Comparison, reference(t, "*-compare-1"))))
	const words = `[...document.querySelectorAll("td.numeric")].map((cell) => cell.textContent.trim()).filter((text) => /\d/.test(text) && !Tables.figure(text))`
	if unread := browser.Eval[[]string](tab, words); len(unread) > 0 {
		t.Errorf("figures that CSV has as text: %q", unread)
	}
	for _, tt := range []struct{ name, cells, want string }{
		{"one unit, of which the head tells", `"1,501 ms|2.5 ms|–"`, "figure,x (ms)\r\na,1501\r\nb,2.5\r\nc,\r\n"},
		{"several units", `"1,501 ms|66.8 %|12"`, "figure,x,\"x, unit\"\r\na,1501,ms\r\nb,66.8,%\r\nc,12,\r\n"},
		{"ranges and remarks", `"66.7 % (66.0 to 67.2) lower|0.0 % ~|not in 45.0 s"`,
			"figure,x (%),\"x, from (%)\",\"x, to (%)\",\"x, note\"\r\na,66.7,66,67.2,lower\r\nb,0,,,~\r\nc,,,,not in 45.0 s\r\n"},
		{"a range in two units", `"900.0 MiB (800.0 MiB to 1.50 GiB)"`, "figure,x (MiB),\"x, from (MiB)\",\"x, to (MiB)\"\r\na,900,800,1536\r\n"},
		{"a wait and its share", `"12.0 ms, 40.0 %"`, "figure,x (ms),\"x, share (%)\"\r\na,12,40\r\n"},
		{"signs", `"± 1.5 points|-9.9 points|+3.0 points"`, "figure,x (points)\r\na,1.5\r\nb,-9.9\r\nc,3\r\n"},
	} {
		got := browser.Eval[string](tab, `(() => {
		  const table = document.createElement("table");
		  table.innerHTML = "<thead><tr><th>figure</th><th class=numeric>x</th></tr></thead><tbody></tbody>";
		  `+tt.cells+`.split("|").forEach((cell, i) => { table.tBodies[0].innerHTML += "<tr><td>" + "abc"[i] + "</td><td>" + cell + "</td></tr>"; });
		  return Tables.csv(table);
		})()`)
		if got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// Nothing of the bar of sections is out of sight, and a table that is wider than the
// page is reached by keyboard and has a shadow at its edge.
func testWhatIsWideIsNotCutOff(t *testing.T, b *browser.Browser) {
	tab := b.Open(t, browser.FileURL(t, write(t, report.Comparison, reference(t, "*-compare-1"))))
	for _, width := range []int64{1280, 800} {
		tab.Resize(width, 800)
		if hidden := browser.Eval[[]string](tab, `[...document.querySelectorAll("nav.sections a")].filter((a) => a.getBoundingClientRect().right > innerWidth || a.closest("ol").scrollWidth > a.closest("ol").clientWidth).map((a) => a.textContent)`); len(hidden) > 0 {
			t.Errorf("at %d pixels the bar hides %q", width, hidden)
		}
		covered := browser.Eval[bool](tab, `(() => {
		  const nav = document.querySelector("nav.sections");
		  return getComputedStyle(nav).position === "sticky" && nav.offsetHeight > parseFloat(getComputedStyle(document.documentElement).scrollPaddingTop);
		})()`)
		if covered {
			t.Errorf("at %d pixels the bar covers the heading that it leads to", width)
		}
	}
	wide := browser.Eval[[]bool](tab, `[...document.querySelectorAll(".scroll")].filter((box) => box.scrollWidth > box.clientWidth)
	  .map((box) => box.tabIndex === 0 && box.getAttribute("role") === "region" && /gradient/.test(getComputedStyle(box).backgroundImage))`)
	if len(wide) == 0 || slices.Contains(wide, false) {
		t.Errorf("wide tables: %v, want at least one and all with a shadow, by keyboard", wide)
	}
}

func testABarOpensTheStacksOfItsPlace(t *testing.T, b *browser.Browser) {
	tab := b.Open(t, browser.FileURL(t, runPage(t)))
	const isOpen = `(() => { const d = document.getElementById("dump-2-upstream_read"); return d.open && d.parentElement.open && d.querySelector("pre").checkVisibility(); })()`
	tab.Focus(`document.querySelector('.bars a[href="#dump-2-upstream_read"]')`)
	// The key is held until it repeats: it opens the stacks once, and does not fold them up
	// again from their summary, which has the focus when the key is let go.
	enter := kb.Encode('\r')
	down, char, up := enter[0], enter[1], enter[2]
	tab.Key(down)
	tab.Until(isOpen)
	for _, event := range []*input.DispatchKeyEventParams{char, down, char, up} {
		tab.Key(event)
		if !browser.Eval[bool](tab, isOpen) {
			t.Errorf("the key that opened the stacks has folded them up again, by a %s", event.Type)
		}
	}
	tab.Until(`document.activeElement === document.querySelector("#dump-2-upstream_read summary")`)
	if text := browser.Eval[string](tab, `document.getElementById("dump-2-upstream_read").innerText`); !strings.Contains(text, "internal/poll.runtime_pollWait") {
		t.Errorf("what has opened is %q, want a stack in the upstream read", text)
	}
}

func testColours(t *testing.T, b *browser.Browser) {
	tab := b.Open(t, browser.FileURL(t, runPage(t)))
	const paper = `getComputedStyle(document.body).backgroundColor`
	const picture = `document.querySelector("canvas").toDataURL()`
	light, dark := "rgb(255, 255, 255)", "rgb(20, 23, 28)"
	tab.Prefer("light")
	inLight := browser.Eval[string](tab, picture)
	tab.Prefer("dark")
	if got := browser.Eval[string](tab, paper); got != dark {
		t.Errorf("dark: %s, want %s", got, dark)
	}
	if browser.Eval[string](tab, picture) == inLight {
		t.Error("the charts did not follow to dark")
	}
	for _, want := range []string{"Colours: light", "Colours: dark", "Colours: auto"} { // from auto
		got := browser.Eval[string](tab, `(() => { document.querySelector("button.theme").click(); return document.querySelector("button.theme").textContent; })()`)
		tab.Settle()
		if got != want {
			t.Errorf("the button says %q, want %q", got, want)
		}
		if want == "Colours: light" && (browser.Eval[string](tab, paper) != light || browser.Eval[string](tab, picture) != inLight) {
			t.Error("the choice of light did not reach the paper and the charts")
		}
	}
}

// testPrint: on paper there are no controls, and the colours are the light ones whatever
// the screen has.
func testPrint(t *testing.T, b *browser.Browser) {
	tab := b.Open(t, browser.FileURL(t, runPage(t)))
	browser.Eval[any](tab, `(() => { document.documentElement.dataset.theme = "dark"; })()`)
	tab.Print(true)
	if got := browser.Eval[string](tab, `getComputedStyle(document.body).backgroundColor`); got != "rgb(255, 255, 255)" {
		t.Errorf("the paper is %s", got)
	}
	if n := browser.Eval[int](tab, `[...document.querySelectorAll("nav, .copy, button.theme")].filter((e) => e.checkVisibility()).length`); n > 0 {
		t.Errorf("%d controls are printed", n)
	}
	missing := browser.Eval[[]string](tab, undrawn)
	if red := browser.Eval[string](tab, `Theme.colour("g-upstream_read")`); red != "rgb(197, 48, 31)" || len(missing) > 0 {
		t.Errorf("the charts are printed in %s and without %q, want the light colours", red, missing)
	}
}

func testALegendHidesItsSeries(t *testing.T, b *browser.Browser) {
	tab := b.Open(t, browser.FileURL(t, runPage(t)))
	before := browser.Eval[string](tab, `document.querySelector("canvas").toDataURL()`)
	press := func() string {
		tab.Press(`document.querySelector(".legend button")`, kb.Enter)
		tab.Settle()
		return browser.Eval[string](tab, `document.querySelector(".legend button").getAttribute("aria-pressed")`)
	}
	if pressed := press(); pressed != "false" || browser.Eval[string](tab, `document.querySelector("canvas").toDataURL()`) == before {
		t.Errorf("pressed once: %s, and the chart has changed: want false, true", pressed)
	}
	if pressed := press(); pressed != "true" || browser.Eval[string](tab, `document.querySelector("canvas").toDataURL()`) != before {
		t.Errorf("pressed twice: %s, and the chart is as before: want true, true", pressed)
	}
}

// testAProfileIsHiddenInAllPanes: a name that several panes have is one thing.
func testAProfileIsHiddenInAllPanes(t *testing.T, b *browser.Browser) {
	tab := b.Open(t, browser.FileURL(t, write(t, report.Comparison, reference(t, "*-compare-1"))))
	browser.Eval[any](tab, `document.querySelector("figure.chart .legend button").click()`)
	got := browser.Eval[[]string](tab, `[...document.querySelector("figure.chart").querySelectorAll(".legend button")].map((b) => b.innerText.trim() + " " + b.getAttribute("aria-pressed"))`)
	if want := slices.Repeat([]string{"anti false", "fixed true"}, 4); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// testHostileText: what a file says is text wherever it ends up on the page.
func testHostileText(t *testing.T, b *browser.Browser) {
	dir := t.TempDir()
	summary, err := result.ReadSummary(reference(t, "*-anti-1"))
	if err != nil {
		t.Fatal(err)
	}
	const hostile = `"'><script>window.ran=1</script><img src=x onerror="window.ran=1">--><!--</script>`
	summary.Run.ID, summary.Run.Profile = hostile, hostile
	summary.Verdict.Checks[0].Got = hostile
	summary.Endpoints[hostile] = summary.Endpoints["fast"]
	summary.Dumps[1].Point, summary.Dumps[1].File = hostile, "javascript:window.ran=1"
	summary.Dumps[1].Groups[0].Where, summary.Dumps[1].Groups[0].Stack = hostile, hostile
	if err := result.WriteJSON(filepath.Join(dir, result.SummaryFile), summary); err != nil {
		t.Fatal(err)
	}
	rows := []result.TimelineRow{{AtS: 0, Phase: hostile}, {AtS: 1, Phase: hostile, Busy: 1, FastDone: 1, FastFailed: 1}}
	if err := result.WriteTimeline(filepath.Join(dir, result.TimelineFile), rows); err != nil {
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
	if title := browser.Eval[string](tab, "document.title"); title != "Exhaustion, profile "+hostile+": reproduced" {
		t.Errorf("the title is %q", title)
	}
	if missing := browser.Eval[[]string](tab, undrawn); len(missing) > 0 {
		t.Errorf("not drawn: %q", missing)
	}
	wantQuiet(t, tab, browser.FileURL(t, page))
}
