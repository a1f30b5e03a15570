package report

import (
	"encoding/json"
	"html"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"chokepoint/internal/evidence/page"
	"chokepoint/internal/load/latency"
	"chokepoint/internal/result"
)

// matches lists what matches in a report, unescaped.
func matches(pattern, report string) []string {
	var all []string
	for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(report, -1) {
		all = append(all, html.UnescapeString(m[1]))
	}
	return all
}

func runReport(t *testing.T, s result.Summary) Report {
	t.Helper()
	dir := t.TempDir()
	writeRun(t, dir, s)
	r, err := Run(dir)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestBothFormatsHaveTheSameSections(t *testing.T) {
	comparison := writeComparison(t, BuildComparison(comparisonHead(1, 3, "anti", "fixed"), alternated(1, 3)), nil)
	compared, err := Comparison(comparison)
	if err != nil {
		t.Fatal(err)
	}
	for name, r := range map[string]Report{"run": runReport(t, antiRun(0.05, 1)), "invalid run": runReport(t, droppedRun(1)), "comparison": compared} {
		text, page := matches(`(?m)^## (.*)$`, r.Markdown), matches(`<h2 [^>]*>(.*)</h2>`, r.HTML)
		if len(text) < 8 || !slices.Equal(text, page) {
			t.Errorf("%s: sections %q, on the page %q", name, text, page)
		}
		if title := matches(`<h1>(.*)</h1>`, r.HTML); len(title) != 1 || !strings.HasPrefix(r.Markdown, "# "+title[0]+"\n") {
			t.Errorf("%s: the page is called %q", name, title)
		}
	}
}

func TestTheSamePageForTheSameFiles(t *testing.T) {
	dir := t.TempDir()
	writeRun(t, dir, antiRun(1, 1))
	first, err := Run(dir)
	if err != nil {
		t.Fatal(err)
	}
	again, err := Run(dir)
	if err != nil || again.HTML != first.HTML {
		t.Errorf("a second page of the same folder differs (error %v)", err)
	}
}

// TestTheFirstSectionsAreInTheOrderOfAReader holds what a reader meets first.
func TestTheFirstSectionsAreInTheOrderOfAReader(t *testing.T) {
	want := []string{"May this run be believed?", "Verdict", "Latency and failures", "Predicted beside measured", "Timeline",
		"Status codes and causes of errors", "Where the workers stood", "Dumps", "Where the wait went", "Percentiles", "Ledger"}
	if got := matches(`<h2 [^>]*>(.*)</h2>`, runReport(t, antiRun(1, 1)).HTML); !slices.Equal(got[:len(want)], want) {
		t.Errorf("%q", got)
	}
}

func TestMissingAndUnreadableFilesAreNamedOnThePage(t *testing.T) {
	for _, file := range []string{result.ManifestFile, result.LoadFile, result.TimelineFile, result.EventsFile, result.RequestsFile, result.HistogramFile} {
		t.Run(file, func(t *testing.T) {
			dir := t.TempDir()
			writeRun(t, dir, antiRun(1, 1))
			path := filepath.Join(dir, file)
			for _, tt := range []struct {
				spoil     func() error
				want      string
				malformed int
			}{
				{func() error { return os.WriteFile(path, []byte("{\x00"), 0o644) }, "Unreadable: " + file, 1},
				{func() error { return os.Remove(path) }, file + " is missing.", 0},
			} {
				if err := tt.spoil(); err != nil {
					t.Fatal(err)
				}
				r, err := Run(dir)
				if err != nil {
					t.Fatal(err)
				}
				if !strings.Contains(html.UnescapeString(r.HTML), tt.want) {
					t.Errorf("the page does not say %q", tt.want)
				}
				if len(r.Malformed) != tt.malformed || tt.malformed > 0 && !strings.Contains(r.Malformed[0].Error(), path) {
					t.Errorf("malformed: %v, want %d", r.Malformed, tt.malformed)
				}
			}
		})
	}
}

// charts decodes every chart of a page.
func charts(t *testing.T, r Report) []page.Chart {
	t.Helper()
	var all []page.Chart
	for _, m := range regexp.MustCompile(`(?s)<script type="application/json" id="chart-\d+">(.*?)</script>`).FindAllStringSubmatch(r.HTML, -1) {
		var c page.Chart
		if err := json.Unmarshal([]byte(strings.ReplaceAll(m[1], "null", "-1")), &c); err != nil {
			t.Fatal(err)
		}
		for _, p := range c.Panes {
			for _, s := range p.Series {
				if len(s.Values) != len(c.Xs) {
					t.Errorf("%s: %s has %d values for %d xs", p.Title, s.Label, len(s.Values), len(c.Xs))
				}
			}
		}
		all = append(all, c)
	}
	return all
}

func TestTheChartsOfARun(t *testing.T) {
	s := antiRun(1, 1)
	all := charts(t, runReport(t, s))
	if len(all) != 3 {
		t.Fatalf("%d charts, want timeline, endings, percentiles", len(all))
	}
	timeline, endings := all[0], all[1]
	if len(timeline.Marks) != len(s.Dumps) || timeline.Marks[1] != (page.Mark{At: 15, Label: "load_15s"}) {
		t.Errorf("marks %v, want the dumps", timeline.Marks)
	}
	if want := []page.Band{{From: 0, To: 60, Label: "load"}}; !slices.Equal(timeline.Bands, want) {
		t.Errorf("bands %v, want %v", timeline.Bands, want)
	}
	if top := timeline.Panes[0].Top; top != 200 {
		t.Errorf("the workers' axis goes to %v at least, want their limit", top)
	}
	// The first 400 of 20 a second are answered at once, and a
	// timeout of 30 s ends 30 s after its due time.
	fast := endings.Panes[0].Series
	if len(fast) != 2 || fast[0].Label != "200" || fast[1].Label != "timeout" {
		t.Fatalf("endings %+v", fast)
	}
	for at, want := range map[int][2]float64{0: {20, 0}, 19: {20, 0}, 20: {0, 0}, 49: {0, 0}, 50: {0, 20}, 89: {0, 20}, 90: {0, 0}} {
		if got := [2]float64{fast[0].Values[at], fast[1].Values[at]}; got != want {
			t.Errorf("ended from %d s on: %v, want %v", at, got, want)
		}
	}
}

func TestThinned(t *testing.T) {
	few := []float64{1, 2, 3}
	if xs, series, every := thinned(few, few); every != 0 || !slices.Equal(xs, few) || !slices.Equal(series[0], few) {
		t.Errorf("few points became %v, %v", xs, series)
	}
	xs, values := make([]float64, 36_000), make([]float64, 36_000)
	for i := range xs {
		xs[i], values[i] = float64(i)/10, 5
	}
	values[777], values[23_456], values[10_000] = 100, -3, math.NaN()
	thinXs, thin, every := thinned(xs, values)
	if every != 5 || len(thinXs) != 1440 || len(thin[0]) != len(thinXs) {
		t.Errorf("%d points of %v s each, want 1440 of 5", len(thinXs), every)
	}
	if !slices.IsSorted(thinXs) || thinXs[0] != 0 || thinXs[len(thinXs)-1] != 3599.9 {
		t.Errorf("from %v to %v, in order %v", thinXs[0], thinXs[len(thinXs)-1], slices.IsSorted(thinXs))
	}
	if slices.Max(thin[0]) != 100 || slices.Index(thin[0], -3) < 0 {
		t.Error("a peak is lost")
	}
	gaps := slices.Repeat([]float64{math.NaN()}, len(xs))
	if _, thin, _ := thinned(xs, gaps); !math.IsNaN(thin[0][0]) {
		t.Errorf("a gap became %v", thin[0][0])
	}
}

// TestAnHour: the page of a long run is no larger than its charts are wide.
func TestAnHour(t *testing.T) {
	dir := t.TempDir()
	s := antiRun(1, 1)
	fast := s.Endpoints["fast"]
	fast.Scheduled, fast.Started, fast.OK = 72_000, 72_000, 71_200
	s.Endpoints = map[string]result.Endpoint{"fast": fast}
	writeRun(t, dir, s)
	if err := result.WriteTimeline(filepath.Join(dir, result.TimelineFile), timelineOf(s, 0, 3600)); err != nil {
		t.Fatal(err)
	}
	r, err := Run(dir)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range charts(t, r) {
		if len(c.Xs) > 2*chartColumns {
			t.Errorf("chart %d has %d points", i+1, len(c.Xs))
		}
	}
	if len(r.HTML) > 1<<20 {
		t.Errorf("the page has %d bytes", len(r.HTML))
	}
	if !strings.Contains(r.HTML, "One row in 10 of ") {
		t.Error("the page does not say that its table leaves rows out")
	}
}

func TestWaitsOf(t *testing.T) {
	r := runFolder{summary: antiRun(0.1, 1), requests: &requestTally{map[string]*endpointTally{"fast": {lag: 3 * time.Second, started: 1200}}}}
	// Two connections in the accept queue for five scenario seconds, which are a half.
	for at := range 11 {
		row := result.TimelineRow{AtS: float64(at)}
		if at > 2 && at <= 7 {
			row.AcceptQueue = 2
		}
		r.timeline = append(r.timeline, row)
	}
	got := r.waitsOf("fast")
	if got[0].ms != 2.5 || !got[0].known {
		t.Errorf("the mean lag is %v, want 3 s over 1200", got[0])
	}
	if want := 2 * 5 * 0.1 * 1000 / 2400; math.Abs(got[1].ms-want) > 1e-9 {
		t.Errorf("in the accept queue %v, want %v ms of each of 2400", got[1], want)
	}
	if got := r.waitsOf("upstream"); got[0].known {
		t.Errorf("the lag of an endpoint without requests is %v", got[0])
	}
}

// TestProtection: the sentences follow the figures, whatever the profile is called.
func TestProtection(t *testing.T) {
	outage := protection{failed: 0.667, fastP95: 30_000, callP99: 60_000, delay: 30_000, held: 200, busy: 200, queued: 1600, limit: 200, upstreamFailed: 0.667, recovered: true, recovery: 130}
	timeout := protection{fastP95: 3, callP99: 2010, delay: 30_000, held: 41, busy: 45, limit: 200, upstreamFailed: 1, recovered: true, recovery: 2}
	bulkhead := protection{fastP95: 3, callP99: 30_010, delay: 30_000, held: 20, permits: 20, busy: 25, limit: 200, upstreamFailed: 0.966, recovered: true, recovery: 30}
	unbounded := protection{fastP95: 3, callP99: 30_010, delay: 30_000, held: 601, busy: 610, recovered: true, recovery: 30}
	for _, tt := range []struct {
		name      string
		is        protection
		does, not []string // how each begins
	}{
		{"outage", outage, []string{"free the pool by itself: 130.0 s"},
			[]string{"keep /fast alive: 66.7 % of it failed", "bound how long", "bound how many calls are held: 200", "keep the queue empty: 1,600", "answer /upstream: 66.7 %"}},
		{"timeout", timeout, []string{"keep /fast alive: none", "bound how long a call takes: 2,010 ms", "keep the queue", "free the pool"}, []string{"bound how many calls are held: 41", "answer /upstream: 100.0 %"}},
		{"bulkhead", bulkhead, []string{"keep /fast", "bound how many calls are held: 20 at most", "keep the queue", "free the pool"}, []string{"bound how long a call takes: up to 30,010 ms", "answer /upstream: 96.6 %"}},
		{"unbounded", unbounded, []string{"keep /fast", "keep the queue", "answer /upstream: 100.0 %", "free the pool"}, []string{"bound how long", "bound how many calls are held: 601"}},
	} {
		does, not := tt.is.sentences()
		begins := func(got, want []string) bool {
			return slices.EqualFunc(got, want, func(g, w string) bool { return strings.HasPrefix(g, w) })
		}
		if !begins(does, tt.does) || !begins(not, tt.not) {
			t.Errorf("%s does %q\nand does not %q", tt.name, does, not)
		}
	}
}

func TestPercentileChart(t *testing.T) {
	h := latency.New()
	for i := range 1000 {
		h.Record(time.Duration(i+1) * time.Millisecond)
	}
	c := percentileChart(nil, []namedHistogram{{"all", h, page.Numbered(0), false}, {"none", latency.New(), page.Numbered(1), false}})
	if last := c.spec.Xs[len(c.spec.Xs)-1]; math.Abs(last-3) > 1e-9 {
		t.Errorf("the axis goes to %v, want three nines for a thousand requests", last)
	}
	values := c.spec.Panes[0].Series[0].Values
	for x, want := range map[int]float64{0: 1, 20: 900, 40: 990, 60: 999} { // in steps of a twentieth
		if math.Abs(values[x]-want) > want/500 {
			t.Errorf("at %v: %v ms, want %v", c.spec.Xs[x], values[x], want)
		}
	}
}

// TestFiguresThatNoRunWrites: a file that was edited may say anything. There is a
// report of it all the same.
func TestFiguresThatNoRunWrites(t *testing.T) {
	s := antiRun(1, 1)
	s.Endpoints["fast"] = result.Endpoint{Scheduled: -3, OK: 7, Started: -1}
	s.Pool, s.Dumps[0].Workers, s.Dumps[0].Where = result.Pool{MaxBusy: -1, WorkerLimit: -5}, -4, map[string]int{"idle": -4, "nowhere": 3}
	dir := t.TempDir()
	writeRun(t, dir, s)
	late := 24 * time.Hour
	requests := []result.Request{{Endpoint: "fast", Outcome: "ok"}, {Endpoint: "fast", Due: late, Response: late, Outcome: "timeout"}, {Endpoint: "", Due: late, Outcome: ""}}
	rows := []result.TimelineRow{{AtS: 1e5, Busy: -1}, {AtS: -1e5, FastDone: -1, FastP99MS: ptr(-1.0)}, {AtS: 3, CPUPercent: 1e300}}
	for _, err := range []error{os.Remove(filepath.Join(dir, result.LoadFile)), result.WriteRequests(filepath.Join(dir, result.RequestsFile), requests), result.WriteTimeline(filepath.Join(dir, result.TimelineFile), rows)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	r, err := Run(dir)
	if err != nil || len(r.Malformed) > 0 {
		t.Fatalf("error %v, malformed %v", err, r.Malformed)
	}
	if n := len(charts(t, r)); n != 3 {
		t.Errorf("%d charts, want 3", n)
	}
	if err := result.WriteTimeline(filepath.Join(dir, result.TimelineFile), append(rows, result.TimelineRow{AtS: math.MaxFloat64})); err != nil {
		t.Fatal(err)
	}
	if r, err := Run(dir); err != nil || len(r.Malformed) != 1 || !strings.Contains(r.Malformed[0].Error(), "timeline.csv: row 4 has ") || !strings.HasSuffix(r.Malformed[0].Error(), " as at_s, which is out of range") {
		t.Errorf("error %v, malformed %v", err, r.Malformed)
	}
}

// TestAComparisonNamesWhatItCannotDraw: a run may lose a file.
func TestAComparisonNamesWhatItCannotDraw(t *testing.T) {
	runs := alternated(1, 3)
	dir := writeComparison(t, BuildComparison(comparisonHead(1, 3, "anti", "fixed"), runs), runs)
	folder := filepath.Join(dir, filepath.FromSlash(runs[0].Path))
	for _, name := range []string{result.TimelineFile, result.HistogramFile} {
		if err := os.Remove(filepath.Join(folder, name)); err != nil {
			t.Fatal(err)
		}
	}
	got, err := comparisonText(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"`anti` is not drawn: its first valid run has no readable timeline.csv.", "`anti`: 1 valid run without a readable load.hlog."} {
		if !strings.Contains(got, want) {
			t.Errorf("the report does not say %q", want)
		}
	}
}
