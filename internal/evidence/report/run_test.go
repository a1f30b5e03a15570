package report

import (
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"chokepoint/internal/result"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := result.WriteFile(path, []byte(got)); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got), go test -update accepts it\n%s", path, diff)
	}
}

func TestRunGolden(t *testing.T) {
	for _, tt := range []struct {
		golden  string
		summary result.Summary
		prepare func(t *testing.T, dir string)
	}{
		{"run-anti.md", antiRun(0.05, 1), nil},
		{"run-fixed.md", fixedRun(1, 2), nil},
		{"run-invalid.md", droppedRun(3), func(t *testing.T, dir string) {
			for _, name := range []string{result.ManifestFile, result.TimelineFile, result.EventsFile, result.DumpsDir} {
				if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
					t.Fatal(err)
				}
			}
			load := result.Load{Schema: result.LoadSchema, Drops: map[string][]int{"fast": {0, 0, 5, 20, 0, 7}}}
			if err := result.WriteJSON(filepath.Join(dir, result.LoadFile), load); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(tt.golden, func(t *testing.T) {
			dir := t.TempDir()
			writeRun(t, dir, tt.summary)
			if tt.prepare != nil {
				tt.prepare(t, dir)
			}
			got, err := runText(dir)
			if err != nil {
				t.Fatal(err)
			}
			golden(t, tt.golden, got)
			checkTables(t, got)
			again, err := runText(dir + string(filepath.Separator))
			if err != nil || again != got {
				t.Errorf("a second report of the same folder differs (error %v)", err)
			}
		})
	}
}

// checkTables holds that every row of every table has as many cells as its
// header, outside fenced text.
func checkTables(t *testing.T, report string) {
	t.Helper()
	cells, fenced := 0, false
	for i, line := range strings.Split(report, "\n") {
		if strings.HasPrefix(line, "```") {
			fenced = !fenced
		}
		if fenced || !strings.HasPrefix(line, "|") {
			cells = 0
			continue
		}
		n := strings.Count(strings.ReplaceAll(strings.ReplaceAll(line, `\\`, ""), `\|`, ""), "|")
		if cells != 0 && n != cells {
			t.Errorf("line %d has %d bars, the table %d: %s", i+1, n, cells, line)
		}
		cells = n
	}
	if fenced {
		t.Error("a fence is not closed")
	}
}

func TestAnInvalidRunSaysSoInItsFirstLineAndShowsEverything(t *testing.T) {
	valid, invalid := t.TempDir(), t.TempDir()
	s := antiRun(1, 1)
	writeRun(t, valid, s)
	s.Validity = result.Validity{Reasons: []string{"fast: 3 dropped"}}
	s.Verdict.Outcome = result.Invalid
	writeRun(t, invalid, s)
	good, err := runText(valid)
	if err != nil {
		t.Fatal(err)
	}
	bad, err := runText(invalid)
	if err != nil {
		t.Fatal(err)
	}
	if first, _, _ := strings.Cut(bad, "\n"); first != "# Invalid run: exhaustion, profile anti" {
		t.Errorf("first line %q", first)
	}
	if !strings.Contains(bad, "- fast: 3 dropped\n") {
		t.Error("the reason is missing")
	}
	if diff := cmp.Diff(headings(good), headings(bad)); diff != "" {
		t.Errorf("sections (-valid +invalid)\n%s", diff)
	}
}

func headings(report string) (found []string) {
	for line := range strings.Lines(report) {
		if strings.HasPrefix(line, "## ") {
			found = append(found, line)
		}
	}
	return found
}

func TestRunErrors(t *testing.T) {
	empty := t.TempDir()
	_, err := runText(empty)
	if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "holds no summary.json: give the folder of a run") {
		t.Errorf("no summary: %v", err)
	}
	for _, tt := range []struct{ name, content, want string }{
		{"corrupt", `{"schema": "chokep`, "is not what a run writes"},
		{"foreign", `{"schema": "chokepoint/summary/v9"}`, `has schema "chokepoint/summary/v9", this program reads "chokepoint/summary/v1"`},
		{"empty", ``, "is not what a run writes"},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, result.SummaryFile), []byte(tt.content), 0o644); err != nil {
			t.Fatal(err)
		}
		text, err := runText(dir)
		if err == nil || text != "" || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: text %q, error %v, want one line with %q", tt.name, text, err, tt.want)
		}
	}
}

func TestABareSummaryIsReported(t *testing.T) {
	dir := t.TempDir()
	writeSummary(t, dir, result.Summary{Schema: result.SummarySchema})
	got, err := runText(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"timeline.csv is missing.", "The summary holds no endpoints.", "manifest.json is missing. The conditions are not known.",
		"The summary holds no dumps.", "The summary holds no prediction.", "The summary gives no reason."} {
		if !strings.Contains(got, want) {
			t.Errorf("the report does not say %q", want)
		}
	}
	checkTables(t, got)
}

func TestUnreadableOptionalFilesAreNamed(t *testing.T) {
	dir := t.TempDir()
	writeRun(t, dir, antiRun(1, 1))
	for _, name := range []string{result.ManifestFile, result.TimelineFile, result.EventsFile} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("{"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := runText(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Unreadable: manifest.json is not what a run writes", "Unreadable: timeline.csv has no column"} {
		if !strings.Contains(got, want) {
			t.Errorf("the report does not say %q", want)
		}
	}
	if strings.Contains(got, dir) {
		t.Error("the report names the folder in which it was made")
	}
}

func TestHostileTextStaysInItsCell(t *testing.T) {
	nasty := "a|b\r\n| c | `d` ~~e~~ <script>\n# heading"
	s := antiRun(1, 1)
	s.Validity.Warnings = []string{nasty, "# not a heading", "1. not a list"}
	s.Verdict.Checks = []result.Check{{Name: nasty, Want: nasty, Got: nasty}}
	s.Dumps[1].Groups[0].Frame = nasty
	s.Dumps[1].Groups[1].Stack = "```\n" + nasty
	s.Dumps[1].Groups[1].Count = 9999
	s.Dumps[1].Point = "</summary>\n\n# heading"
	e := s.Endpoints["fast"]
	e.Causes = map[string]int{nasty: 1}
	s.Endpoints["fast"] = e
	dir := t.TempDir()
	writeSummary(t, dir, s)
	got, err := runText(dir)
	if err != nil {
		t.Fatal(err)
	}
	const escaped = "a\\|b \\| c \\| \\`d\\` \\~\\~e\\~\\~ \\<script\\> # heading"
	for _, want := range []string{
		"\n- " + escaped + "\n", "\n- \\# not a heading\n", "\n- 1\\. not a list\n",
		"| " + escaped + " | " + escaped + " | " + escaped + " | **no** |",
		"| ``a\\|b \\| c \\| `d` ~~e~~ <script> # heading`` |",
		"\n````text\n```\na|b",
		"at <code>&lt;/summary&gt; # heading</code>, as printed</summary>\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the report does not hold %q", want)
		}
	}
	if diff := cmp.Diff(headings(mustRun(t, antiRun(1, 1))), headings(got)); diff != "" {
		t.Errorf("the text made or broke a heading\n%s", diff)
	}
}

func mustRun(t *testing.T, s result.Summary) string {
	t.Helper()
	dir := t.TempDir()
	writeSummary(t, dir, s)
	got, err := runText(dir)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestVerdictSentence(t *testing.T) {
	notReproduced, notProtected, unbounded := antiRun(1, 1), fixedRun(1, 1), fixedRun(1, 1)
	notReproduced.Verdict.Outcome = result.NotReproduced
	e := notReproduced.Endpoints["fast"]
	e.OK, e.Timeout, e.FailedRatio = 1196, 4, 4./1200
	notReproduced.Endpoints = map[string]result.Endpoint{"fast": e}
	notProtected.Verdict.Outcome = result.NotProtected
	unbounded.Pool = result.Pool{MaxWorkers: 603, MaxBusy: 603}
	generic := result.Summary{Validity: result.Validity{Valid: true}, Verdict: result.Verdict{Outcome: result.NotProtected}}

	for _, tt := range []struct {
		name    string
		summary result.Summary
		want    string
	}{
		{"reproduced", antiRun(1, 0), "Reproduced: /fast, which never calls the upstream, lost 66.7 % of its 1,200 requests while the victim used 2.1 % CPU: 200 of 200 workers stood in the upstream read."},
		{"protected", fixedRun(1, 0), "Protected: /fast lost none of its 1,200 requests (p95 of its answers 11.8 ms) and /upstream 100.0 % of its 1,200 requests, while at most 24 of 200 workers were busy."},
		{"unbounded", unbounded, "Protected: /fast lost none of its 1,200 requests (p95 of its answers 11.9 ms) and /upstream 100.0 % of its 1,200 requests, while at most 603 requests were being worked on, without a limit."},
		{"not reproduced", notReproduced, "Not reproduced: /fast lost 0.3 % of its 1,200 requests (p95 of its answers 27,900 ms); at most 200 of 200 workers were busy."},
		{"not protected", notProtected, "Not protected: /fast lost none of its 1,200 requests (p95 of its answers 11.9 ms); at most 25 of 200 workers were busy."},
		{"invalid", droppedRun(0), "Invalid: there is no verdict, for the reasons above."},
		{"another scenario", generic, "Not protected."},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, verdictSentence(tt.summary)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestALedgerThatDoesNotBalanceIsShown(t *testing.T) {
	s := antiRun(1, 1)
	e := s.Endpoints["fast"]
	e.OK--
	s.Endpoints["fast"] = e
	got := mustRun(t, s)
	want := "| `/fast` | started = ok + http_error + timeout + connect_error + transport_error + interrupted | 1,200 = 399 + 0 + 800 + 0 + 0 + 0 | **no** |"
	if !strings.Contains(got, want) {
		t.Errorf("the report does not hold %q", want)
	}
	if n := strings.Count(got[strings.Index(got, "## Ledger"):strings.Index(got, "## Upstream")], "**no**"); n != 1 {
		t.Errorf("%d identities are said not to hold, want 1", n)
	}
}

func TestADumpThatIsCutOffSaysSo(t *testing.T) {
	s := antiRun(1, 1)
	s.Dumps[2].Truncated = true
	if n := strings.Count(mustRun(t, s), "dumps/03-load_40s.txt (missing) **cut off: the counts are too low** |"); n != 1 {
		t.Errorf("%d dumps are said to be cut off, want 1", n)
	}
}

func TestCPUIsSetBesideTheBusiestMoment(t *testing.T) {
	unbounded := fixedRun(1, 1)
	unbounded.Pool = result.Pool{MaxWorkers: 603, MaxBusy: 603}
	for _, tt := range []struct {
		summary result.Summary
		want    string
	}{
		{antiRun(1, 0), "**CPU 2.1 % on average while the load was on; at most 200 of 200 workers were busy at one time.**"},
		{unbounded, "**CPU 3.5 % on average while the load was on; at most 603 requests were being worked on at one time, and there was no limit.**"},
	} {
		if !strings.Contains(mustRun(t, tt.summary), tt.want) {
			t.Errorf("the report does not hold %q", tt.want)
		}
	}
}

func TestRestOfTheLoad(t *testing.T) {
	whole, unseen, refused, recovered := antiRun(1, 1), antiRun(1, 1), antiRun(1, 1), antiRun(1, 1)
	change := func(s result.Summary, f func(*result.Endpoint)) {
		e := s.Endpoints["upstream"]
		e.Unseen = ptr(0)
		f(&e)
		s.Endpoints["upstream"] = e
	}
	change(whole, func(*result.Endpoint) {})
	change(unseen, func(e *result.Endpoint) { e.Unseen = ptr(2) })
	change(refused, func(e *result.Endpoint) { e.HTTPError = 7 })
	recovered.Recovery.Recovered = true
	skips := manifest(whole)
	skips.Config["skip-abandoned"] = "true"
	all := whole
	all.Upstream.Received = 1200
	known := manifest(whole)
	const queued = "The rest, 301 requests, were still queued in the victim when the run ended"
	for _, tt := range []struct {
		name string
		run  runFolder
		want string
	}{
		{"queued", runFolder{summary: whole, manifest: &known}, queued + "."},
		{"some were never read", runFolder{summary: unseen, manifest: &known}, queued + ", or had ended before their turn."},
		{"some were refused", runFolder{summary: refused, manifest: &known}, queued + ", or had ended before their turn."},
		{"the dead are skipped", runFolder{summary: whole, manifest: &skips}, queued + ", or had ended before their turn."},
		{"no manifest", runFolder{summary: whole}, queued + ", or had ended before their turn."},
		{"recovered", runFolder{summary: recovered, manifest: &known}, ""},
		{"all arrived", runFolder{summary: all, manifest: &known}, ""},
	} {
		if got := restOfTheLoad(tt.run); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestABlankColumnIsExplained(t *testing.T) {
	s := antiRun(1, 1)
	for _, tt := range []struct {
		rows []result.TimelineRow
		want int
	}{
		{timelineOf(s, 0, 9), 0},
		{append(timelineOf(s, 0, 4), timelineOf(s, 6, 9)...), 1},
	} {
		d := document{lead: timelineBlocks(runFolder{summary: s, timeline: tt.rows})}
		if said := strings.Count(markdown(d), "A blank is a column"); said != tt.want {
			t.Errorf("%d rows: explained %d times, want %d", len(tt.rows), said, tt.want)
		}
	}
}

func TestSparkline(t *testing.T) {
	busy := func(r result.TimelineRow) float64 { return float64(r.Busy) }
	var rows []result.TimelineRow
	for i, v := range []int{0, 1, 25, 100, 200} {
		rows = append(rows, result.TimelineRow{AtS: float64(i), Busy: v})
	}
	rows = append(rows, result.TimelineRow{AtS: 6, Busy: 199})
	axis := axisOver(0, 6)
	if got, want := axis.sparkline(rows, busy, 200), "·▁▂▅█ █"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for _, length := range []float64{0, 1, 71, 72, 200, 86_400} {
		axis := axisOver(-15, -15+length)
		if axis.columns < 1 || axis.columns > sparklineColumns {
			t.Errorf("%v seconds take %d columns", length, axis.columns)
		}
		if first, last := axis.column(-15), axis.column(-15+length); first != 0 || last != axis.columns-1 {
			t.Errorf("%v seconds reach from column %d to %d of %d", length, first, last, axis.columns)
		}
	}
}

func TestNumbers(t *testing.T) {
	for _, tt := range []struct{ got, want string }{
		{count(0), "0"}, {count(999), "999"}, {count(1000), "1,000"}, {count(1234567), "1,234,567"}, {count(-1234), "-1,234"},
		{number(-0.04, 1), "0.0"}, {number(1999.96, 1), "2,000.0"},
		{milliseconds(0), "0"}, {milliseconds(0.0812), "0.081"}, {milliseconds(2.94), "2.9"}, {milliseconds(30000.4), "30,000"},
		{percent(2. / 3), "66.7 %"}, {size(3 << 19), "1.5 MiB"}, {size(3 << 30), "3.00 GiB"},
		{inUnit(400.5, "count"), "400.5"}, {inUnit(400, "count"), "400"}, {inUnit(130, "s"), "130.0 s"}, {inUnit(3, "apples"), "3 apples"},
		{spread(2.1, 2.2, 2.3, "percent"), " (2.1 to 2.3)"}, {spread(0.5, 2, 3, "ms"), " (0.500 to 3.0)"}, {spread(39900.1, 39900.2, 39900.3, "ms"), ""},
		{spread(1<<20, 2<<20, 1<<30, "bytes"), " (1.0 MiB to 1.00 GiB)"}, {spread(1, 2, 3, "count"), " (1 to 3)"},
		{plural(1, "run"), "1 run"}, {plural(1200, "request"), "1,200 requests"},
	} {
		if tt.got != tt.want {
			t.Errorf("got %q, want %q", tt.got, tt.want)
		}
	}
}
