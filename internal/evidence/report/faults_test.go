package report

import (
	"slices"
	"strings"
	"testing"

	"chokepoint/internal/result"
)

// underFault is a run of a comparison by fault.
func underFault(s result.Summary, fault string, rows ...result.PredictionRow) ComparedSummary {
	s.Run.Variant = "fault=" + fault
	s.Run.ID += "-" + fault
	s.Prediction.Rows = rows
	return ComparedSummary{Path: "../" + s.Run.ID, Summary: s}
}

func faultCell(fault, profile string, want result.Outcome) result.FaultCell {
	return result.FaultCell{Fault: fault, Does: "it does what " + fault + " does", Profile: profile, Label: profile + " fault=" + fault, Want: want, Why: "of a rule"}
}

// faultsFixture is a comparison of two faults in two rounds. What is wrong in it: one
// figure of anti under loss in the second round, and fixed under loss has no valid run.
func faultsFixture() (result.Comparison, []ComparedSummary) {
	connecting := func(n float64, ok bool) result.PredictionRow {
		return result.PredictionRow{Name: "dump.load_40s.upstream_connect", Unit: "count", Predicted: 190, Low: 190, High: 191, Measured: n, Tolerance: 4, OK: ok}
	}
	failed := func(v float64) result.PredictionRow {
		return result.PredictionRow{Name: "fast.failed_ratio", Unit: "ratio", Predicted: v, Low: v, High: v, Measured: v, OK: true}
	}
	recovery := result.PredictionRow{Name: "recovery.seconds", Unit: "s", Predicted: 600, Low: 600, High: 610, Measured: 45, OK: true, Note: "not recovered within the wait of 45 s, as predicted"}
	other := result.PredictionRow{Name: "upstream.scheduled", Unit: "count", Predicted: 1200, Low: 1200, High: 1200, Measured: 1200, OK: true}
	ended := result.PredictionRow{Name: "upstream.status_502", Unit: "count", Predicted: 1200, Low: 1200, High: 1200, Measured: 1200, OK: true}
	held := antiRun(1, 1)
	held.Recovery.PredictedSeconds = nil
	unharmed := antiRun(1, 0)
	unharmed.Verdict.Outcome = result.Protected
	runs := []ComparedSummary{
		underFault(held, "loss", failed(0.8333), connecting(190, true), recovery, other),
		underFault(invalidFixed(), "loss", failed(0)),
		underFault(unharmed, "refused", failed(0), ended),
		underFault(fixedRun(1, 0), "refused", failed(0), ended),
		underFault(antiRun(1, 1), "loss", failed(0.8333), connecting(120, false), recovery, other),
	}
	head := comparisonHead(1, 2, "anti fault=loss", "fixed fault=loss", "anti fault=refused", "fixed fault=refused")
	head.Faults = []result.FaultCell{
		faultCell("loss", "anti", result.Reproduced), faultCell("loss", "fixed", result.Protected),
		faultCell("refused", "anti", result.Protected), faultCell("refused", "fixed", result.Protected),
	}
	return head, runs
}

func TestFaultCells(t *testing.T) {
	head, runs := faultsFixture()
	c := BuildComparison(head, runs)
	for i, want := range []struct {
		got     []result.Outcome
		ok      bool
		figures []string
	}{
		{[]result.Outcome{result.Reproduced, result.Reproduced}, true, []string{"fast.failed_ratio", "dump.load_40s.upstream_connect", "recovery.seconds"}},
		{[]result.Outcome{}, false, nil}, // no valid run is not as expected
		{[]result.Outcome{result.Protected}, true, []string{"fast.failed_ratio", "upstream.status_502"}},
		{[]result.Outcome{result.Protected}, true, []string{"fast.failed_ratio", "upstream.status_502"}},
	} {
		cell := c.Faults[i]
		var names []string
		for _, f := range cell.Figures {
			names = append(names, f.Name)
		}
		if !slices.Equal(cell.Got, want.got) || cell.OK != want.ok || !slices.Equal(names, want.figures) {
			t.Errorf("%s: %v, ok %v, figures %v; want %v, %v, %v", cell.Label, cell.Got, cell.OK, names, want.got, want.ok, want.figures)
		}
	}
	figure := c.Faults[0].Figures[1]
	if want := (result.Spread{N: 2, Median: 155, Min: 120, Max: 190}); figure.Measured != want || figure.OK || figure.High != 191 {
		t.Errorf("%+v; want %+v, which does not agree with the model", figure, want)
	}
	if head.Faults[0].Got != nil {
		t.Error("the head was changed")
	}
}

func TestFaultsGolden(t *testing.T) {
	head, runs := faultsFixture()
	got, err := comparisonText(writeComparison(t, BuildComparison(head, runs), runs))
	if err != nil {
		t.Fatal(err)
	}
	_, section, ok := strings.Cut(got, "\n## Faults on the path to the upstream\n")
	if !ok || !strings.HasPrefix(got, "# Exhaustion: 2 faults on the path to the upstream, with anti and fixed\n") {
		t.Fatalf("no section, or another title:\n%.300s", got)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	golden(t, "faults.md", section)
	checkTables(t, section)
}
