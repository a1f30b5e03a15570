package report

import (
	"fmt"
	"maps"
	"slices"

	"chokepoint/internal/result"
)

// drainMapBlocks are the map of pre-stop and drain: a row for each pre-stop, a column for
// each drain, and in each cell what was measured above what was predicted.
func (m matrixRun) drainMapBlocks() []block {
	type at struct{ preStop, drain float64 }
	cells := map[at]int{}
	preStops, drains := map[float64]bool{}, map[float64]bool{}
	for i, c := range m.cases {
		if c.Ending == nil {
			continue
		}
		cells[at{c.Ending.PreStopS, c.Ending.DrainS}] = i
		preStops[c.Ending.PreStopS], drains[c.Ending.DrainS] = true, true
	}
	if len(cells) == 0 {
		return []block{paragraph{plain("No cell of this run says how its gateway was ended.")}}
	}
	columns := slices.Sorted(maps.Keys(drains))
	t := table{columns: []column{words("pre-stop")}, small: true}
	for _, d := range columns {
		t.columns = append(t.columns, words("drain "+fmt.Sprintf("%g s", d)))
	}
	for _, p := range slices.Sorted(maps.Keys(preStops)) {
		row := []text{strong(fmt.Sprintf("%g s", p))}
		for _, d := range columns {
			i, ok := cells[at{p, d}]
			if !ok {
				row = append(row, plain(none))
				continue
			}
			row = append(row, m.drainMapCell(i))
		}
		t.rows = append(t.rows, row)
	}
	return []block{
		paragraph{plain("Each cell has the requests that were answered, those that never reached an application and those that failed but were executed; " +
			"in brackets is what was predicted. Downwards the gateway serves on for longer and fewer are refused; to the right it drains for longer and fewer are cut off.")},
		t,
	}
}

// drainMapCell is one cell of the map, which leads to its evidence.
func (m matrixRun) drainMapCell(i int) text {
	c := m.cases[i]
	p := c.Ending.Predicted
	predicted := plain(fmt.Sprintf(" (%s / %s / %s)", countRange(p.OK), countRange(p.NeverReached), countRange(p.FailedButExecuted)))
	if c.Failure != "" {
		return join(m.linkTo(i, "not carried out"), predicted)
	}
	n := c.Counts
	cell := join(m.linkTo(i, fmt.Sprintf("%s / %s / %s", count(n.OK), count(n.NeverReached), count(n.FailedButExecuted))), predicted)
	switch {
	case !c.OK:
		return join(cell, plain(" "), bad("not as predicted"))
	case n.NeverReached+n.FailedButExecuted == 0:
		return join(cell, plain(" "), strong("nothing lost"))
	}
	return cell
}

func countRange(r result.CountRange) string {
	if r.Low == r.High {
		return count(r.Low)
	}
	return count(r.Low) + " to " + count(r.High)
}
