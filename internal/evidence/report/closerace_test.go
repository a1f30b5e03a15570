package report

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"chokepoint/internal/result"
)

// closeRaceFolder is the folder of a run of the close race, with that series.
func closeRaceFolder(t *testing.T, points []result.CloseRacePoint) string {
	t.Helper()
	dir := t.TempDir()
	summary := result.Summary{
		Schema:   result.SummarySchema,
		Run:      result.Run{ID: "r", Scenario: result.ScenarioCloseRace, Scale: 1, StartedAt: time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)},
		Validity: result.Validity{Valid: true},
		Verdict:  result.Verdict{Outcome: result.Reproduced, Expected: result.Reproduced},
		Cases:    []result.Case{{ID: "K+0", Client: "net/http", Method: "POST", Defence: "none", OK: true}},
	}
	if err := result.WriteJSON(filepath.Join(dir, result.SummaryFile), summary); err != nil {
		t.Fatal(err)
	}
	if err := result.WriteCloseRace(filepath.Join(dir, result.CloseRaceFile), points); err != nil {
		t.Fatal(err)
	}
	return dir
}

func closeRacePoints() []result.CloseRacePoint {
	point := func(client, method, defence string, offset float64, requests, failed int) result.CloseRacePoint {
		return result.CloseRacePoint{Client: client, Method: method, Defence: defence, OffsetMS: offset, WidthMS: 1, Requests: requests, Failed: failed}
	}
	return []result.CloseRacePoint{
		point("net/http", "POST", "none", -2, 1200, 12),
		point("net/http", "POST", "none", 0, 200, 70),
		point("net/http", "POST", "evict", 0, 200, 0),
		point("net/http", "GET", "library_retry", 0, 100, 0),
		point("fasthttp", "POST", "none", 2, 50, 50),
		point("fasthttp", "POST", "none", 9, 4, 1), // too few to draw
	}
}

func TestCloseRaceIsDrawnForEachClient(t *testing.T) {
	r, err := Run(closeRaceFolder(t, closeRacePoints()))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| rest | POST none | POST evict | GET library_retry |",
		"| -2 ms | 1.0 % of 1,200 | – | – |",
		"| +0 ms | 35.0 % of 200 | 0.0 % of 200 | 0.0 % of 100 |",
		"| +2 ms | 100.0 % of 50 |",
		"| +9 ms | 25.0 % of 4 |",
	} {
		if !strings.Contains(r.Markdown, want) {
			t.Errorf("report.md has no row %s", want)
		}
	}
	for _, want := range []string{
		`"kind":"offset"`, `"xs":[-2,0]`, `"title":"POST, failed"`, `"title":"GET, failed"`,
		`"label":"evict"`, `"values":[1,35]`, `"values":[null,0]`, `"xs":[2,9]`, `"values":[100,null]`,
	} {
		if !strings.Contains(r.HTML, want) {
			t.Errorf("report.html has no %s", want)
		}
	}
	if len(r.Malformed) != 0 {
		t.Errorf("malformed: %v", r.Malformed)
	}
}

func TestCloseRaceWithoutItsSeriesSaysSo(t *testing.T) {
	dir := closeRaceFolder(t, closeRacePoints())
	path := filepath.Join(dir, result.CloseRaceFile)
	if err := os.WriteFile(path, []byte("client\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	r, err := Run(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Malformed) != 1 || !strings.Contains(r.Markdown, "Unreadable: closerace.csv is not what a run writes") {
		t.Errorf("malformed %v, and report.md does not say that the series is unreadable", r.Malformed)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if r, err = Run(dir); err != nil || len(r.Malformed) != 0 || !strings.Contains(r.Markdown, "closerace.csv is missing.") {
		t.Errorf("malformed %v, error %v, and report.md does not say that the series is missing", r.Malformed, err)
	}
}
