package report

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chokepoint/internal/result"
)

func comparisonHead(scale float64, planned int, profiles ...string) result.Comparison {
	return result.Comparison{ID: "20261130T020000Z-exhaustion-compare", Scenario: "exhaustion", Scale: scale,
		StartedAt: time.Date(2026, 11, 30, 2, 0, 0, 0, time.UTC), Profiles: profiles, Planned: planned}
}

// alternated makes runs anti, fixed, anti, fixed, ...
func alternated(scale float64, each int) []ComparedSummary {
	var runs []ComparedSummary
	for n := range each {
		for _, s := range []result.Summary{antiRun(scale, n), fixedRun(scale, n)} {
			runs = append(runs, ComparedSummary{Path: "../" + s.Run.ID, Summary: s})
		}
	}
	return runs
}

func writeComparison(t *testing.T, c result.Comparison, runs []ComparedSummary) string {
	t.Helper()
	results := t.TempDir()
	dir := filepath.Join(results, c.ID)
	if err := result.WriteJSON(filepath.Join(dir, result.ComparisonFile), c); err != nil {
		t.Fatal(err)
	}
	for _, r := range runs {
		writeRun(t, filepath.Join(dir, filepath.FromSlash(r.Path)), r.Summary)
	}
	return dir
}

func TestComparisonGolden(t *testing.T) {
	withInvalid := func() []ComparedSummary {
		runs := alternated(1, 3)
		dropped := droppedRun(3)
		return append(runs, ComparedSummary{Path: "../" + dropped.Run.ID, Summary: dropped})
	}
	for _, tt := range []struct {
		golden string
		head   result.Comparison
		runs   []ComparedSummary
	}{
		{"comparison.md", comparisonHead(1, 3, "anti", "fixed"), withInvalid()},
		{"comparison-too-few.md", comparisonHead(0.05, 3, "anti", "fixed"), alternated(0.05, 2)},
		{"comparison-invalid.md", comparisonHead(1, 2, "anti", "fixed"), []ComparedSummary{{Path: "../a", Summary: droppedRun(1)}, {Path: "../b", Summary: invalidFixed()}}},
	} {
		t.Run(tt.golden, func(t *testing.T) {
			dir := writeComparison(t, BuildComparison(tt.head, tt.runs), tt.runs)
			got, err := comparisonText(dir)
			if err != nil {
				t.Fatal(err)
			}
			golden(t, tt.golden, got)
			checkTables(t, got)
		})
	}
}

func TestAComparisonOutlivesItsRuns(t *testing.T) {
	runs := alternated(1, 3)
	dir := writeComparison(t, BuildComparison(comparisonHead(1, 3, "anti", "fixed"), runs), nil)
	got, err := comparisonText(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"The first valid run of anti, fixed cannot be read: its frames are not shown.",
		"No run has a readable manifest.json. The conditions are not known.", "| `anti` | `/fast` | 66.7 % |"} {
		if !strings.Contains(got, want) {
			t.Errorf("the report does not hold %q", want)
		}
	}
}

func TestAComparisonNamesTheDamagedFilesOfItsRuns(t *testing.T) {
	runs := alternated(1, 3)
	comparison := BuildComparison(comparisonHead(1, 3, "anti", "fixed"), runs)
	dir := writeComparison(t, comparison, runs)
	damaged := filepath.Join(dir, filepath.FromSlash(comparison.Runs[0].Path), result.SummaryFile)
	if err := os.WriteFile(damaged, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	r, err := Comparison(dir)
	if err != nil || len(r.Malformed) != 1 || !strings.HasPrefix(r.Malformed[0].Error(), damaged+" is not what a run writes") {
		t.Errorf("malformed %v, error %v; want one, of %s", r.Malformed, err, damaged)
	}
}

func TestComparisonErrors(t *testing.T) {
	_, err := comparisonText(t.TempDir())
	if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "holds no comparison.json: give the folder of a comparison") {
		t.Errorf("no comparison: %v", err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, result.ComparisonFile), []byte("[]"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := comparisonText(dir); err == nil || !strings.Contains(err.Error(), "is not what a run writes") {
		t.Errorf("corrupt comparison: %v", err)
	}
}

func metric(t *testing.T, c result.Comparison, name string) result.ComparedMetric {
	t.Helper()
	for _, m := range c.Metrics {
		if m.Name == name {
			return m
		}
	}
	t.Fatalf("the comparison has no metric %q", name)
	return result.ComparedMetric{}
}

func TestBuildComparison(t *testing.T) {
	runs := alternated(1, 3)
	dropped := droppedRun(3)
	runs = append(runs, ComparedSummary{Path: "../x", Summary: dropped})
	c := BuildComparison(comparisonHead(1, 3, "anti", "fixed"), runs)

	if c.Schema != result.ComparisonSchema || len(c.Runs) != 7 {
		t.Fatalf("schema %q, %d runs", c.Schema, len(c.Runs))
	}
	wantRun := result.ComparedRun{Profile: "anti", Path: "../x", Outcome: result.Invalid, Reasons: dropped.Validity.Reasons}
	if diff := cmp.Diff(wantRun, c.Runs[6]); diff != "" {
		t.Errorf("the invalid run (-want +got)\n%s", diff)
	}
	for _, want := range []result.ComparedMetric{
		{Name: "fast.failed_ratio", Unit: "ratio", Differs: map[string]string{"fixed": "lower"}, Values: map[string]result.Spread{
			"anti": {N: 3, Median: 800. / 1200, Min: 800. / 1200, Max: 800. / 1200}, "fixed": {N: 3}}},
		{Name: "fast.p50_ms", Unit: "ms", Differs: map[string]string{"fixed": "lower"}, Values: map[string]result.Spread{
			"anti": {N: 3, Median: 30000, Min: 30000, Max: 30000}, "fixed": {N: 3, Median: 3, Min: 2.9, Max: 3.1}}},
		{Name: "fast.scheduled", Unit: "count", Differs: map[string]string{"fixed": "~"}, Values: map[string]result.Spread{
			"anti": {N: 3, Median: 1200, Min: 1200, Max: 1200}, "fixed": {N: 3, Median: 1200, Min: 1200, Max: 1200}}},
		{Name: "upstream.status_503", Unit: "count", Differs: map[string]string{"fixed": "higher"}, Values: map[string]result.Spread{
			"anti": {N: 3}, "fixed": {N: 3, Median: 601, Min: 600, Max: 602}}}, // a status that a run never saw is 0
		{Name: "upstream.ok_p50_ms", Unit: "ms", Differs: map[string]string{"fixed": "?"}, Values: map[string]result.Spread{
			"anti": {N: 3, Median: 39900.1, Min: 39900, Max: 39900.2}, "fixed": {}}, // there is no good answer to take the time of
			Warnings: map[string]string{"fixed": "too few values: 0, at least 3 are needed"}},
		{Name: "dump.load_40s.upstream_read", Unit: "count", Differs: map[string]string{"fixed": "lower"}, Values: map[string]result.Spread{
			"anti": {N: 3, Median: 200, Min: 200, Max: 200}, "fixed": {N: 3, Median: 20, Min: 20, Max: 20}}},
		// 2.1 to 2.3 % against 3.4 to 3.6 %: disjoint, and not 5 points apart.
		{Name: "victim.cpu_percent_mean", Unit: "percent", Differs: map[string]string{"fixed": "~"}, Values: map[string]result.Spread{
			"anti": {N: 3, Median: 2.2, Min: 2.1, Max: 2.3}, "fixed": {N: 3, Median: 3.5, Min: 3.4, Max: 3.6}}},
		{Name: "recovery.recovered", Unit: "ratio", Differs: map[string]string{"fixed": "higher"}, Values: map[string]result.Spread{
			"anti": {N: 3}, "fixed": {N: 3, Median: 1, Min: 1, Max: 1}}},
		{Name: "recovery.seconds", Unit: "s", Differs: map[string]string{"fixed": "?"}, Values: map[string]result.Spread{
			"anti": {}, "fixed": {N: 3, Median: 2.2, Min: 2.1, Max: 2.3}},
			Warnings: map[string]string{"fixed": "too few values: 0, at least 3 are needed"}},
	} {
		close := cmp.Comparer(func(a, b float64) bool { return a-b < 1e-9 && b-a < 1e-9 })
		if diff := cmp.Diff(want, metric(t, c, want.Name), close); diff != "" {
			t.Errorf("%s (-want +got)\n%s", want.Name, diff)
		}
	}
	wantWarnings := []string{"anti: none of the 3 valid runs had recovered when the wait ended; they have no recovery time"}
	if diff := cmp.Diff(wantWarnings, c.Warnings); diff != "" {
		t.Errorf("warnings (-want +got)\n%s", diff)
	}
}

// TestAAComparison holds profiles against themselves, with the fixtures' noise
// in another order.
func TestAAComparison(t *testing.T) {
	for _, each := range []int{3, 4, 8} {
		for _, make := range []func(float64, int) result.Summary{antiRun, fixedRun} {
			var runs []ComparedSummary
			for n := range each {
				a, b := make(1, n), make(1, n+1)
				a.Run.Profile, b.Run.Profile = "a", "b"
				runs = append(runs, ComparedSummary{Path: "a", Summary: a}, ComparedSummary{Path: "b", Summary: b})
			}
			c := BuildComparison(comparisonHead(1, each, "a", "b"), runs)
			for _, m := range c.Metrics {
				if d := m.Differs["b"]; d != "~" && !(d == "?" && m.Values["b"].N == 0) {
					t.Errorf("%d runs: %s is said to be %q: %+v", each, m.Name, d, m.Values)
				}
			}
		}
	}
}

func TestComparisonWarnings(t *testing.T) {
	runs := alternated(1, 2)
	runs[3].Summary.Verdict.Outcome = result.NotProtected
	c := BuildComparison(comparisonHead(1, 3, "anti", "fixed", "shed"), runs)
	want := []string{
		"anti: 2 runs made of 3 planned",
		"anti: too few valid runs: 2, at least 3 are needed for a claim",
		"anti: none of the 2 valid runs had recovered when the wait ended; they have no recovery time",
		"fixed: 2 runs made of 3 planned",
		"fixed: too few valid runs: 2, at least 3 are needed for a claim",
		"fixed: the valid runs do not agree on the outcome: 1 × not protected, 1 × protected",
		"shed: 0 runs made of 3 planned",
		"shed: too few valid runs: 0, at least 3 are needed for a claim",
	}
	if diff := cmp.Diff(want, c.Warnings); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	for _, m := range c.Metrics {
		for _, p := range []string{"fixed", "shed"} {
			if m.Differs[p] != "?" {
				t.Errorf("%s of %s is said to be %q with two runs", m.Name, p, m.Differs[p])
			}
		}
	}
}

func TestTooFewRunsAreSaidOnceAndNotInEveryCell(t *testing.T) {
	three, one := alternated(1, 3), alternated(1, 1)
	noOwnTimes := alternated(1, 3)
	noOwnTimes[1].Summary.Upstream.DelaySeenMS = nil
	for _, tt := range []struct {
		name                string
		runs                []ComparedSummary
		warning             string
		warnings, doubtful  int // times that the warning stands, cells that end in "?"
		small               int // cells with "(n = "
		onlyRun, comparison bool
	}{
		{"one run each", one, "\n- too few valid runs, one each: nothing is claimed; at least 3 are needed for a claim\n", 1, 0, 0, true, false},
		{"one run of a profile", append(three[:5:5], one[0]), "\n- fixed: too few valid runs: 2, at least 3 are needed for a claim\n", 1, 0, 0, false, false},
		{"three runs, one without a figure", noOwnTimes, "needed for a claim", 0, 2, 1, false, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := BuildComparison(comparisonHead(1, 0, "anti", "fixed"), tt.runs)
			got, err := comparisonText(writeComparison(t, c, tt.runs))
			if err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(got, tt.warning); n != tt.warnings {
				t.Errorf("%q stands %d times, want %d", tt.warning, n, tt.warnings)
			}
			if n := strings.Count(got, " ? |"); n != tt.doubtful {
				t.Errorf("%d cells are marked ?, want %d", n, tt.doubtful)
			}
			if n := strings.Count(got, "(n = "); n != tt.small {
				t.Errorf("%d cells name their number of runs, want %d", n, tt.small)
			}
			if has := strings.Contains(got, "A figure is that of the only valid run of its profile."); has != tt.onlyRun {
				t.Errorf("says that there is one run of each: %v", has)
			}
			if has := strings.Contains(got, "The word behind it compares with anti"); has != tt.comparison {
				t.Errorf("explains the words of a comparison: %v", has)
			}
		})
	}
}

func TestTheWarningAboutRecoveryCounts(t *testing.T) {
	for _, tt := range []struct {
		recovered []bool
		want      string // empty for no warning
	}{
		{[]bool{true, true, true}, ""},
		{[]bool{false}, "anti: the valid run had not recovered when the wait ended; it has no recovery time"},
		{[]bool{false, false, false}, "anti: none of the 3 valid runs had recovered when the wait ended; they have no recovery time"},
		{[]bool{false, true, true}, "anti: 1 of 3 valid runs had not recovered when the wait ended; recovery times are of the others alone"},
	} {
		var runs []ComparedSummary
		for n, ok := range tt.recovered {
			s := antiRun(1, n)
			s.Recovery.Recovered = ok
			runs = append(runs, ComparedSummary{Path: "../" + s.Run.ID, Summary: s})
		}
		got := ""
		for _, w := range BuildComparison(comparisonHead(1, 0, "anti"), runs).Warnings {
			if strings.Contains(w, "recovered") {
				got += w
			}
		}
		if got != tt.want {
			t.Errorf("%v: %q, want %q", tt.recovered, got, tt.want)
		}
	}
}

func TestRanksThatCannotDecideWarnOnce(t *testing.T) {
	runs := alternated(1, 4)
	dir := writeComparison(t, BuildComparison(comparisonHead(1, 4, "anti", "fixed"), runs), runs)
	got, err := comparisonText(dir)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(got, "values cannot decide"); n != 1 {
		t.Errorf("the warning stands %d times in the report, want once", n)
	}
	if !strings.Contains(got, "**lower**") {
		t.Error("no difference is claimed between anti and fixed")
	}
}

func TestAComparisonWithoutValidRuns(t *testing.T) {
	runs := []ComparedSummary{{Path: "../a", Summary: droppedRun(1)}}
	for _, head := range []result.Comparison{comparisonHead(1, 3, "anti"), comparisonHead(1, 3)} {
		c := BuildComparison(head, runs)
		if len(c.Metrics) != 0 {
			// server figures exist for every run, and there is none
			t.Errorf("%d metrics without a valid run", len(c.Metrics))
		}
		got, err := comparisonText(writeComparison(t, c, runs))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(got, "No run is valid, so that there is no median") {
			t.Error("the report does not say that no run is valid")
		}
	}
}
