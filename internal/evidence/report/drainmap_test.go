package report

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"chokepoint/internal/result"
)

func TestTheDrainMap(t *testing.T) {
	cell := func(id string, preStop, drain float64, counts [3]int, predicted [3]result.CountRange) result.Case {
		return result.Case{
			ID: id, Client: "HTTP/1.1 haproxy", Method: "POST", Defence: result.DefenceNone, OK: true, Evidence: "cases/" + id + "/",
			Counts: result.CaseCounts{OK: counts[0], NeverReached: counts[1], FailedButExecuted: counts[2]},
			Ending: &result.CaseEnding{PreStopS: preStop, DrainS: drain, Predicted: result.PredictedCounts{OK: predicted[0], NeverReached: predicted[1], FailedButExecuted: predicted[2]}},
		}
	}
	short := cell("0s+1s", 0, 1, [3]int{38, 5, 2}, [3]result.CountRange{{Low: 36, High: 39}, {Low: 5, High: 6}, {Low: 1, High: 3}})
	long := cell("1.5s+3s", 1.5, 3, [3]int{45, 0, 0}, [3]result.CountRange{{Low: 45, High: 45}, {}, {}})
	wrong := cell("1.5s+1s", 1.5, 1, [3]int{40, 0, 5}, [3]result.CountRange{{Low: 43, High: 45}, {}, {Low: 0, High: 2}})
	wrong.OK = false
	for _, tt := range []struct {
		name  string
		cases []result.Case
		want  []string
	}{
		{"a whole map, and a cell that nobody tried", []result.Case{short, wrong, long}, []string{
			"| pre-stop | drain 1 s | drain 3 s |",
			"| **0 s** | [38 / 5 / 2](cases/0s+1s/) (36 to 39 / 5 to 6 / 1 to 3) | – |",
			"| **1.5 s** | [40 / 0 / 5](#cell-1-5s-1s-http-1-1-haproxy-post-none) (43 to 45 / 0 / 0 to 2) **not as predicted** | [45 / 0 / 0](cases/1.5s+3s/) (45 / 0 / 0) **nothing lost** |",
		}},
		{"cells without an ending", []result.Case{{ID: "x", Evidence: "cases/x/"}}, []string{"No cell of this run says how its gateway was ended."}},
	} {
		dir := t.TempDir()
		summary := result.Summary{
			Schema:   result.SummarySchema,
			Run:      result.Run{ID: "r", Scenario: result.ScenarioDrainMap, Scale: 1, StartedAt: time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)},
			Validity: result.Validity{Valid: true},
			Verdict:  result.Verdict{Outcome: result.Reproduced, Expected: result.Reproduced},
			Cases:    tt.cases,
		}
		if err := result.WriteJSON(filepath.Join(dir, result.SummaryFile), summary); err != nil {
			t.Fatal(err)
		}
		r, err := Run(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range tt.want {
			if !strings.Contains(r.Markdown, want) {
				_, section, _ := strings.Cut(r.Markdown, "## The map of pre-stop and drain")
				section, _, _ = strings.Cut(section, "\n## ")
				t.Errorf("%s: report.md has no %s in\n%s", tt.name, want, section)
			}
		}
		if !strings.Contains(r.HTML, "The map of pre-stop and drain") {
			t.Errorf("%s: report.html has no map", tt.name)
		}
	}
}
