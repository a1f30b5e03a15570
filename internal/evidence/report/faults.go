package report

import (
	"fmt"
	"slices"
	"strings"

	"chokepoint/internal/evidence/stacks"
	"chokepoint/internal/result"
	"chokepoint/internal/stats"
)

// recoverySeconds is the figure of when the pool was free.
const recoverySeconds = "recovery.seconds"

// fillFaults fills the cells of a comparison by fault from its runs, of which only the
// valid ones count.
func fillFaults(cells []result.FaultCell, runs []ComparedSummary) []result.FaultCell {
	filled := slices.Clone(cells)
	for i := range filled {
		var valid []result.Summary
		for _, r := range runs {
			if compared(r.Summary.Run) == filled[i].Label && r.Summary.Validity.Valid {
				valid = append(valid, r.Summary)
			}
		}
		fillFault(&filled[i], valid)
	}
	return filled
}

func fillFault(cell *result.FaultCell, valid []result.Summary) {
	cell.Got, cell.Figures = []result.Outcome{}, []result.FaultFigure{}
	cell.OK = len(valid) > 0
	for _, s := range valid {
		cell.Got = append(cell.Got, s.Verdict.Outcome)
		cell.OK = cell.OK && s.Verdict.Outcome == cell.Want
	}
	for _, name := range distinct(valid,
		func(s result.Summary) []result.PredictionRow { return s.Prediction.Rows },
		func(r result.PredictionRow) string { return r.Name }) {
		if tellsOfFault(name) {
			cell.Figures = append(cell.Figures, faultFigure(name, valid))
		}
	}
}

// tellsOfFault picks the figures of the model that a fault shows in: who died, how the
// calls ended, where the workers stood, when they were free.
func tellsOfFault(name string) bool {
	switch name {
	case fastEndpoint + ".failed_ratio", "pool.max_busy", recoverySeconds:
		return true
	case upstreamEndpoint + ".scheduled", upstreamEndpoint + ".dropped", upstreamEndpoint + ".interrupted":
		return false
	}
	if rest, ok := strings.CutPrefix(name, "dump."); ok {
		point, where, _ := strings.Cut(rest, ".")
		return point != pointBefore && slices.Contains([]string{stacks.UpstreamConnect, stacks.UpstreamRead, stacks.PermitWait, stacks.Queued}, where)
	}
	return strings.HasPrefix(name, upstreamEndpoint+".")
}

// faultFigure puts what the runs measured beside the model's figure, which is that of
// the first run that has it: all have the same configuration.
func faultFigure(name string, runs []result.Summary) result.FaultFigure {
	f := result.FaultFigure{Name: name, OK: true}
	var measured []float64
	for _, s := range runs {
		i := slices.IndexFunc(s.Prediction.Rows, func(r result.PredictionRow) bool { return r.Name == name })
		if i < 0 {
			continue
		}
		row := s.Prediction.Rows[i]
		if measured == nil {
			f.Unit, f.Predicted, f.Low, f.High = row.Unit, row.Predicted, row.Low, row.High
			f.Never = name == recoverySeconds && s.Recovery.PredictedSeconds == nil
		}
		measured = append(measured, row.Measured)
		f.OK = f.OK && row.OK
		if row.Note != "" {
			f.Note = row.Note
		}
	}
	spread := stats.Summarize(measured)
	f.Measured = result.Spread{N: spread.N, Median: spread.Median, Min: spread.Min, Max: spread.Max}
	return f
}

// faultBlocks answer, fault by fault: who dies, where the workers stand, how the calls
// end, and when the pool is free.
func (c comparisonFolder) faultBlocks() []block {
	if len(c.Faults) == 0 {
		return nil
	}
	asExpected := 0
	for _, cell := range c.Faults {
		if cell.OK {
			asExpected++
		}
	}
	return []block{
		paragraph{plain(fmt.Sprintf("%d of %d cells came out as expected, which was fixed before the runs. A cell is one fault on the path to the upstream with one profile. Of every fault but slow the upstream would answer at once, so that nothing but the fault can hold a worker.", asExpected, len(c.Faults)))},
		c.faultVerdicts(),
		paragraph{plain("Measured, and what the model says of the configuration alone in brackets; ≠ where the two do not agree. Workers are those of the last dump under load:")},
		c.faultPlaces(),
		paragraph{plain("How the calls to /" + upstreamEndpoint + " ended, likewise:")},
		c.faultEnds(),
	}
}

func (c comparisonFolder) faultVerdicts() block {
	t := table{columns: []column{words("fault"), words("what befalls a call"), words("profile"), words("/fast was to"), words("and did"), words("as expected"), words("why")}}
	for _, cell := range c.Faults {
		t.rows = append(t.rows, []text{code(cell.Fault), plain(cell.Does), code(cell.Profile), plain(fate(cell.Want)), plain(fates(cell.Got)), yesNo(cell.OK), plain(cell.Why)})
	}
	return t
}

// fate is what an outcome means to /fast.
func fate(o result.Outcome) string {
	switch o {
	case result.Reproduced:
		return "die"
	case result.Protected:
		return "survive"
	case result.NotReproduced:
		return "not die as an exhausted pool has it"
	case result.NotProtected:
		return "not survive unharmed"
	}
	return outcomeInWords(o)
}

func fates(outcomes []result.Outcome) string {
	if len(outcomes) == 0 {
		return "no valid run"
	}
	var said []string
	for _, o := range outcomes {
		if f := fate(o); !slices.Contains(said, f) {
			said = append(said, f)
		}
	}
	return strings.Join(said, ", and ")
}

func (c comparisonFolder) faultPlaces() block {
	t := table{columns: []column{words("fault"), words("profile"), numbers("/fast failed"), numbers("connecting"), numbers("in the read"),
		numbers("before the bulkhead"), numbers("queued"), numbers("busy at most"), numbers("pool free after the load")}}
	for _, cell := range c.Faults {
		dump := lastUnderLoad(cell.Figures)
		t.rows = append(t.rows, []text{code(cell.Fault), code(cell.Profile), figureOf(cell, fastEndpoint+".failed_ratio"),
			figureOf(cell, dump+stacks.UpstreamConnect), figureOf(cell, dump+stacks.UpstreamRead), figureOf(cell, dump+stacks.PermitWait), figureOf(cell, dump+stacks.Queued),
			figureOf(cell, "pool.max_busy"), figureOf(cell, recoverySeconds)})
	}
	return t
}

// lastUnderLoad is the beginning of the names of the figures of that dump.
func lastUnderLoad(figures []result.FaultFigure) string {
	prefix := ""
	for _, f := range figures {
		if rest, ok := strings.CutPrefix(f.Name, "dump.load_"); ok {
			point, _, _ := strings.Cut(rest, ".")
			prefix = "dump.load_" + point + "."
		}
	}
	return prefix
}

func (c comparisonFolder) faultEnds() block {
	t := table{columns: []column{words("fault"), words("profile"), words("what")}}
	t.columns = append(t.columns, numbers("measured"), numbers("predicted"), words("agree"))
	for _, cell := range c.Faults {
		for _, f := range cell.Figures {
			what, ok := strings.CutPrefix(f.Name, upstreamEndpoint+".")
			if !ok || f.Unit == "count" && f.Measured.Max == 0 && f.High == 0 {
				continue
			}
			t.rows = append(t.rows, []text{code(cell.Fault), code(cell.Profile), code(what), plain(measuredFigure(f)), plain(predictedFigure(f)), yesNo(f.OK)})
		}
	}
	return t
}

// figureOf is one figure of a cell, with the model's in brackets.
func figureOf(cell result.FaultCell, name string) text {
	i := slices.IndexFunc(cell.Figures, func(f result.FaultFigure) bool { return f.Name == name })
	if i < 0 {
		return plain(none)
	}
	f := cell.Figures[i]
	said := plain(measuredFigure(f) + " [" + predictedFigure(f) + "]")
	if !f.OK {
		return join(said, strong(" ≠"))
	}
	return said
}

func measuredFigure(f result.FaultFigure) string {
	if strings.HasPrefix(f.Note, "not recovered") {
		return "not within " + inUnit(f.Measured.Max, f.Unit)
	}
	return inUnit(f.Measured.Median, f.Unit) + spread(f.Measured.Min, f.Measured.Median, f.Measured.Max, f.Unit)
}

func predictedFigure(f result.FaultFigure) string {
	if f.Never {
		return "never"
	}
	low, high := inUnit(f.Low, f.Unit), inUnit(f.High, f.Unit)
	if low == high {
		return low
	}
	return strings.TrimSuffix(low, unitOf(high)) + " to " + high
}
