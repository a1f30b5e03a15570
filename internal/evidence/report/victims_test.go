package report

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"chokepoint/internal/result"
)

// victimsFolder is the folder of a run with one cell of two victims.
func victimsFolder(t *testing.T) (dir, pools string) {
	t.Helper()
	dir = t.TempDir()
	seconds := 1.96
	summary := result.Summary{
		Schema:   result.SummarySchema,
		Run:      result.Run{ID: "r", Scenario: "spread", Scale: 0.1, StartedAt: time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)},
		Validity: result.Validity{Valid: true},
		Verdict:  result.Verdict{Outcome: result.Reproduced, Expected: result.Reproduced},
		Cases: []result.Case{{
			ID: "rr-one", Client: "loadgen", Method: "GET", Defence: "anti", Got: "stays, /fast failed 33 %", Want: "stays, /fast failed 30 to 37 %", OK: true,
			Counts: result.CaseCounts{OK: 3224, NeverReached: 759, FailedButExecuted: 779}, HandlerRuns: 4003, Evidence: "cases/rr-one/",
			Files: []result.EvidenceFile{{Name: result.PoolsFile, What: "both pools over time"}},
			Victims: []result.CaseVictim{
				{Name: "one", Slow: true, Fast: 1200, FastFailed: 800, Upstream: 1190, UpstreamFailed: 774, MaxBusy: 200, MaxQueued: 990, Where: map[string]int{"upstream_read": 198}, WatchedS: 60},
				{Name: "two", Upstream: 1191, Retried: 7, MaxBusy: 12, Where: map[string]int{}, RecoveredS: &seconds, WatchedS: 60},
			},
		}},
	}
	if err := result.WriteJSON(filepath.Join(dir, result.SummaryFile), summary); err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(dir, "cases", "rr-one")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	pools = filepath.Join(folder, result.PoolsFile)
	err := result.WritePools(pools, []result.PoolRow{
		{AtS: 1, Victim: "one", Busy: 20}, {AtS: 15, Victim: "one", Busy: 200, Queued: 200},
		{AtS: 1.2, Victim: "two", Busy: 1}, {AtS: 15, Victim: "two", Busy: 2},
	})
	if err != nil {
		t.Fatal(err)
	}
	return dir, pools
}

func TestBothVictimsAreBesideEachOther(t *testing.T) {
	dir, _ := victimsFolder(t)
	r, err := Run(dir)
	if err != nil || len(r.Malformed) != 0 {
		t.Fatal(err, r.Malformed)
	}
	for _, want := range []string{
		"| one | slow | 66.7 % of 1,200 | 65.0 % of 1,190 | 0 | 200 | 198 | 990 | not within 60.0 s |",
		"| two | well | – | 0.0 % of 1,191 | 7 | 12 | 0 | 0 | 2.0 s |",
		"[stays](cases/rr-one/), ok",
	} {
		if !strings.Contains(r.Markdown, want) {
			t.Errorf("report.md has no %s:\n%s", want, r.Markdown)
		}
	}
	for _, want := range []string{`"values":[20,null,200]`, `"values":[null,1,2]`, "Both pools over time."} {
		if !strings.Contains(r.HTML, want) {
			t.Errorf("report.html has no %s", want)
		}
	}
}

func TestPoolsThatCannotBeDrawn(t *testing.T) {
	dir, pools := victimsFolder(t)
	if err := os.WriteFile(pools, []byte("nonsense\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	r, err := Run(dir)
	if err != nil || len(r.Malformed) != 1 || !strings.Contains(r.HTML, "Unreadable: cases/rr-one/pools.csv is not what a run writes") {
		t.Errorf("%v, malformed %v", err, r.Malformed)
	}
	if err := os.Remove(pools); err != nil {
		t.Fatal(err)
	}
	if r, err = Run(dir); err != nil || len(r.Malformed) != 0 || !strings.Contains(r.HTML, "pools.csv is missing.") {
		t.Errorf("%v, malformed %v", err, r.Malformed)
	}
}
