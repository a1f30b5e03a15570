//go:build browser

package pages

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"chokepoint/internal/evidence/live"
	"chokepoint/internal/result"
	"chokepoint/test/browser"
)

// TestLive is the live view without a run: what a page makes of what it is sent.
func TestLive(t *testing.T) {
	b := browser.Start(t)
	for _, tt := range []struct {
		name string
		test func(*testing.T, *browser.Browser, *live.View, *live.Server)
	}{
		{"a cell is a worker", testACellIsAWorker},
		{"without a bound", testCellsWithoutABound},
		{"a page that was cut off", testAPageThatWasCutOff},
		{"several runs and viewers", testSeveralRunsAndViewers},
		{"the end", testTheEnd},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v := live.NewView(2)
			s, err := live.Listen(t.Context(), "127.0.0.1:0", v)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { s.Close(0) })
			tt.test(t, b, v, s)
		})
	}
}

// checkQuiet fails if the page complained, or asked anyone but its server.
func checkQuiet(t *testing.T, tab *browser.Tab, s *live.Server) {
	t.Helper()
	if errors := tab.Errors(); len(errors) > 0 {
		t.Errorf("the console says %q", errors)
	}
	for _, request := range tab.Requests() {
		if !strings.HasPrefix(request, s.URL()) {
			t.Errorf("a request to %s", request)
		}
	}
}

func text(tab *browser.Tab, selector string) string {
	return browser.Eval[string](tab, fmt.Sprintf("document.querySelector(%q).innerText.replace(/\\s+/g, ' ')", selector))
}

func testACellIsAWorker(t *testing.T, b *browser.Browser, v *live.View, s *live.Server) {
	tab := b.Open(t, s.URL())
	tab.Until("typeof Live === 'object' && Live.state !== null")
	if got := text(tab, "#sentence"); got != "Nothing has begun yet." {
		t.Errorf("before a run: %q", got)
	}
	v.Begin(live.Run{Scenario: "exhaustion", Profile: "bulkhead", Summary: "20 permits", Scale: 0.1, Workers: 8, Permits: 20})
	v.Say(live.Phase{Name: "load", Sentence: "It begins, <b>now</b>."})
	v.Sample(live.Sample{AtS: 1, Where: "uudrip", Busy: 5, Queued: 3, Permits: 2, CPUPercent: 12.34, Fast: live.Answers{Count: 2, P50MS: 1.25, MaxMS: 2500, Waiting: 4, Gone: 6}})
	v.Event(live.Event{AtS: 1.26, Name: "pool_full", Mark: "full", Text: "all are <busy>"})
	tab.Until("Live.state.events?.length === 1 && document.querySelectorAll('canvas').length === 3")
	for selector, want := range map[string]string{
		"#title": "exhaustion, profile bulkhead", "#run": "Run 1 of 2, at scale 0.1: 20 permits.", "#sentence": "It begins, <b>now</b>.",
		"#keys":      "upstream read 2 permit wait 1 database 1 running 1 idle 1",
		"#tile-busy": "Workers busy 5 of 8", "#tile-queued": "Queued for a worker 3", "#tile-permits": "Permits held 2 of 20",
		"#tile-cpu": "CPU of the victim 12.3 % of one core", "#tile-fast": "/fast, newest answers 1.3 ms slowest 2.5 s; 4 wait",
		"#tile-gone": "Answers nobody waits for 6 their clients had left", "#log": "1.3 s all are <busy>", "#link": "live",
	} {
		if got := text(tab, selector); got != want {
			t.Errorf("%s is %q, want %q", selector, got, want)
		}
	}
	got := browser.Eval[string](tab, "[...document.querySelectorAll('#cells i')].map((c) => c.className).join(' ')")
	if want := "f-upstream_read f-upstream_read f-database f-running f-idle f-permit_wait absent absent"; got != want {
		t.Errorf("cells %q, want %q", got, want)
	}
	if got, want := browser.Eval[string](tab, "document.getElementById('cells').getAttribute('aria-label')"), "6 workers: 2 upstream read, 1 permit wait, 1 database, 1 running, 1 idle"; got != want {
		t.Errorf("the cells are called %q, want %q", got, want)
	}
	// Somebody waits, and nobody is answered.
	for i := range 3 {
		v.Sample(live.Sample{AtS: 2 + float64(i), Where: "uuuuuuuu", Busy: 8, Fast: live.Answers{Waiting: 9}})
	}
	tab.Until("Live.state.history.length === 4 && document.querySelectorAll('#cells .f-upstream_read').length === 8")
	if got, want := text(tab, "#tile-fast"), "/fast, newest answers no answer for 2.0 s; 9 wait"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	checkQuiet(t, tab, s)
}

func testCellsWithoutABound(t *testing.T, b *browser.Browser, v *live.View, s *live.Server) {
	v.Begin(live.Run{Profile: "unbounded"})
	tab := b.Open(t, s.URL())
	for i, n := range []int{0, 300, 7} {
		v.Sample(live.Sample{AtS: float64(i), Where: strings.Repeat("u", n), Busy: n})
		tab.Until(fmt.Sprintf("Live.state?.last?.busy === %d && document.querySelectorAll('#cells i').length === %[1]d", n))
	}
	if got := text(tab, "#tile-busy"); got != "Workers busy 7 no bound" {
		t.Errorf("%q", got)
	}
	checkQuiet(t, tab, s)
}

// A page that does not keep up is let go, and comes back to the whole state.
func testAPageThatWasCutOff(t *testing.T, b *browser.Browser, v *live.View, s *live.Server) {
	v.Begin(live.Run{Workers: 200})
	tab := b.Open(t, s.URL())
	tab.Until("Live.state !== null")
	for i := range 2000 { // far faster than anyone reads
		v.Sample(live.Sample{AtS: float64(i), Where: strings.Repeat("u", 200), Busy: i})
	}
	tab.Until("Live.state.history.length === 2000 && Live.state.last.busy === 1999")
	v.Sample(live.Sample{AtS: 2000, Busy: 2000})
	tab.Until("Live.state.history.length === 2001 && document.getElementById('link').textContent === 'live'")
	if arrived := browser.Eval[int](tab, "Live.arrived"); arrived >= 2001 {
		t.Errorf("%d samples came one by one: the page was not cut off, and this test shows nothing", arrived)
	}
}

func testSeveralRunsAndViewers(t *testing.T, b *browser.Browser, v *live.View, s *live.Server) {
	v.Begin(live.Run{Profile: "anti", Workers: 4})
	v.Sample(live.Sample{AtS: 1, Where: "uuuu", Busy: 4})
	tabs := []*browser.Tab{b.Open(t, s.URL()), b.Open(t, s.URL())}
	for _, tab := range tabs {
		tab.Until("document.querySelectorAll('#cells .f-upstream_read').length === 4")
	}
	v.Report(live.Report{Title: "Profile anti", Outcome: "reproduced", Path: "/results/x/report.html"})
	v.Begin(live.Run{Profile: "fixed", Workers: 4})
	v.Sample(live.Sample{AtS: 1, Where: "iiuu", Busy: 2})
	for _, tab := range tabs {
		tab.Until("Live.state.run.number === 2 && document.querySelectorAll('#cells .f-idle').length === 2")
		if n := browser.Eval[int](tab, "Live.state.history.length"); n != 1 {
			t.Errorf("the second run has %d samples, want 1", n)
		}
		if got := text(tab, "#reports"); got != "Profile anti: reproduced (report)" {
			t.Errorf("the run that is over: %q", got)
		}
		checkQuiet(t, tab, s)
	}
}

// Where there is no page, it ends as the text.
func testTheEnd(t *testing.T, b *browser.Browser, v *live.View, s *live.Server) {
	dir := filepath.Join(t.TempDir(), "run-1")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, result.ReportFile), []byte("# What came of it"), 0o644); err != nil {
		t.Fatal(err)
	}
	path, err := s.Publish(dir)
	if err != nil {
		t.Fatal(err)
	}
	v.Begin(live.Run{})
	tab := b.Open(t, s.URL())
	tab.Until("Live.state !== null")
	v.End(live.Report{Title: "All", Outcome: "done", Path: path})
	tab.Until("location.pathname === '/results/run-1/report.md' && document.body?.innerText === '# What came of it'")
	checkQuiet(t, tab, s)
}
