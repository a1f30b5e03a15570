package report

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"chokepoint/internal/evidence/page"
	"chokepoint/internal/result"
)

// leastDrawn is the fewest requests of a point that is drawn: of fewer one is a peak. The
// table has all.
const leastDrawn = 10

// closeRaceBlocks draw how many requests fail over the think time, a chart for each
// client with a pane for each method and a line for each defence.
func closeRaceBlocks(r runFolder) []block {
	points := r.closeRace
	if missing, ok := r.unread[result.CloseRaceFile]; ok {
		return []block{paragraph{plain(missing)}}
	}
	blocks := []block{paragraph{plain("How many of the requests fail before which a connection had rested, over that rest less the server's idle timeout. " +
		"Each request stands where its own rest was, to the nearest millisecond. Of fewer than " + count(leastDrawn) + " requests nothing is drawn.")}}
	for _, client := range valuesOf(points, func(p result.CloseRacePoint) string { return p.Client }) {
		of := slices.DeleteFunc(slices.Clone(points), func(p result.CloseRacePoint) bool { return p.Client != client })
		blocks = append(blocks, closeRaceChart(client, of))
	}
	return append(blocks, sentence(plain("Every point, with its requests: "), rawFile(r.dir, ".", result.CloseRaceFile), plain(".")))
}

// closeRaceChart is of the points of one client.
func closeRaceChart(client string, points []result.CloseRacePoint) chart {
	type key struct {
		method, defence string
		offset          float64
	}
	at := map[key]result.CloseRacePoint{}
	offsets := map[float64]bool{}
	for _, p := range points {
		at[key{p.Method, p.Defence, p.OffsetMS}] = p
		offsets[p.OffsetMS] = true
	}
	xs := slices.Sorted(maps.Keys(offsets))
	defences := valuesOf(points, func(p result.CloseRacePoint) string { return p.Defence })
	spec := page.Chart{
		X: page.XAxis{Kind: page.Offset, Label: "milliseconds that the connection had rested beyond the server's idle timeout"}, Xs: xs,
		Marks: []page.Mark{{At: 0, Label: "the server closes"}},
	}
	t := table{columns: []column{numbers("rest")}}
	rows := make([][]text, len(xs))
	for i, x := range xs {
		rows[i] = []text{plain(fmt.Sprintf("%+g ms", x))}
	}
	for _, method := range valuesOf(points, func(p result.CloseRacePoint) string { return p.Method }) {
		pane := page.Pane{Title: method + ", failed", Unit: page.Percent, Top: 100, Height: 220}
		for i, defence := range defences {
			values := make([]float64, len(xs))
			found := false
			for j, x := range xs {
				values[j] = math.NaN()
				if p, ok := at[key{method, defence, x}]; ok && p.Requests > 0 {
					found = true
					if p.Requests >= leastDrawn {
						values[j] = 100 * p.FailedRatio()
					}
				}
			}
			if !found {
				continue
			}
			pane.Series = append(pane.Series, page.Series{Label: defence, Colour: page.Numbered(i), Dashed: i >= 4, Spans: true, Values: values})
			t.columns = append(t.columns, numbers(method+" "+defence))
			for j, x := range xs {
				cell := plain(none)
				if p, ok := at[key{method, defence, x}]; ok && p.Requests > 0 {
					cell = plain(fmt.Sprintf("%s of %s", percent(p.FailedRatio()), count(p.Requests)))
				}
				rows[j] = append(rows[j], cell)
			}
		}
		spec.Panes = append(spec.Panes, pane)
	}
	t.rows = rows
	return chart{
		caption: join(code(client), plain(": share of the requests that fail")), spec: spec,
		numbers: []block{t}, standIn: []block{paragraph{join(code(client), plain(": share of the requests that fail, by method and defence"))}, t},
	}
}
