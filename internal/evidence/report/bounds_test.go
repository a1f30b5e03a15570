package report

import (
	"strings"
	"testing"

	"chokepoint/internal/result"
)

// rendered is the report of a run that is this summary alone.
func rendered(t *testing.T, s result.Summary) Report {
	t.Helper()
	dir := t.TempDir()
	writeSummary(t, dir, s)
	got, err := Run(dir)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// A name may be as long as who sent it likes; a report is for reading.
func TestLongTextIsCutOff(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	s := antiRun(1, 1)
	usual := rendered(t, s)
	s.Validity.Warnings = []string{long}
	s.Verdict.Checks = []result.Check{{Name: long, Want: long, Got: long}}
	e := s.Endpoints["fast"]
	e.Causes, e.ErrorBodies = map[string]int{long: 1}, map[string]int{long: 1}
	s.Endpoints["fast"], s.Endpoints[long] = e, e
	d := &s.Dumps[1]
	d.Point, d.Where[long] = long, 3
	d.Groups = append(d.Groups,
		result.Group{Where: long, State: long, Frame: long, Count: 3, Stack: long},
		result.Group{Where: "upstream_read", Count: 9999, Stack: strings.Repeat("f()\n", 1<<18) + long})
	got := rendered(t, s)
	for name, sizes := range map[string][2]int{"report.md": {len(usual.Markdown), len(got.Markdown)}, "report.html": {len(usual.HTML), len(got.HTML)}} {
		if more := sizes[1] - sizes[0]; more > 200_000 {
			t.Errorf("%s: %d bytes more for a few names of 1 MB", name, more)
		}
	}
	cut := strings.Repeat("x", maxText) + "…"
	for _, want := range []string{"\n- " + cut + "\n", "| `" + cut + "` |", "\n```text\n" + strings.Repeat("f()\n", maxLines) + "…\n```\n"} {
		if !strings.Contains(got.Markdown, want) {
			t.Errorf("report.md does not hold %.40q, cut off", want)
		}
	}
	for _, want := range []string{"<li>" + cut + "</li>", "<code>" + cut + "</code>", `<pre tabindex="0">` + cut + "</pre>", "f()\n…</pre>"} {
		if !strings.Contains(got.HTML, want) {
			t.Errorf("report.html does not hold %.40q, cut off", want)
		}
	}
}

// What steers a terminal or turns a line around does so in a file too, once it is
// printed or opened.
func TestNoReportSteersATerminal(t *testing.T) {
	const nasty = "a\x1b[2J\u202eb\x00\xff"
	s := antiRun(1, 1)
	s.Validity.Warnings = []string{nasty}
	e := s.Endpoints["fast"]
	e.ErrorBodies = map[string]int{nasty: 1}
	s.Endpoints[nasty] = e
	d := &s.Dumps[1]
	d.Point = nasty
	d.Groups = append(d.Groups, result.Group{Where: "upstream_read", State: nasty, Frame: nasty, Count: 9999, Stack: nasty + "\r\n\tf()\r\n"})
	got := rendered(t, s)
	for name, text := range map[string]string{"report.md": got.Markdown, "report.html": got.HTML} {
		if i := strings.IndexAny(text, "\x1b\u202e\x00\r"); i >= 0 {
			t.Errorf("%s holds %q", name, text[max(0, i-40):i+10])
		}
		if want := "a\ufffd[2J\ufffdb\ufffd\ufffd\n\tf()"; !strings.Contains(text, want) {
			t.Errorf("%s: no stack %q", name, want)
		}
	}
}
