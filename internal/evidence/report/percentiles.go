package report

import (
	"fmt"
	"math"

	"chokepoint/internal/evidence/page"
	"chokepoint/internal/load/latency"
	"chokepoint/internal/result"
)

// A percentile curve is drawn over log10(1/(1-p)), as HdrHistogram's plotters do: each
// further nine takes the same room.
const curveStep = 0.05

// curveLabel says what the x axis is.
const curveLabel = "share of the requests that took no longer"

// namedHistogram is one line of a chart of percentiles.
type namedHistogram struct {
	name   string
	h      *latency.Histogram
	colour page.Colour
	dashed bool
}

// percentileChart draws the histograms up to the percentile that the largest of them
// resolves.
func percentileChart(caption text, histograms []namedHistogram) chart {
	last := 0.0
	for _, h := range histograms {
		last = max(last, resolved(h.h))
	}
	var xs []float64
	for i := 0; float64(i)*curveStep <= last+1e-9; i++ {
		xs = append(xs, float64(i)*curveStep)
	}
	pane := page.Pane{Title: "Response time", Unit: page.Milliseconds, Log: true, Height: 260}
	t := table{columns: []column{words("requests of"), numbers("count"), numbers("p50"), numbers("p75"), numbers("p90"), numbers("p95"), numbers("p99"), numbers("p99.9"), numbers("max")}}
	for _, h := range histograms {
		values := make([]float64, len(xs))
		for j, x := range xs {
			values[j] = math.NaN()
			if x <= resolved(h.h)+1e-9 {
				values[j] = h.h.Quantile(1-math.Pow(10, -x)).Seconds() * 1000
			}
		}
		pane.Series = append(pane.Series, page.Series{Label: h.name, Colour: h.colour, Dashed: h.dashed, Values: values})
		row := []text{plain(h.name), plain(count(h.h.Count()))}
		for _, q := range []float64{0.5, 0.75, 0.9, 0.95, 0.99, 0.999} {
			if q == 0.999 && h.h.Count() < 1000 {
				row = append(row, plain(none))
				continue
			}
			row = append(row, plain(inUnit(h.h.Quantile(q).Seconds()*1000, "ms")))
		}
		t.rows = append(t.rows, append(row, plain(inUnit(h.h.Max().Seconds()*1000, "ms"))))
	}
	return chart{caption: caption, spec: page.Chart{X: page.XAxis{Kind: page.Percentile, Label: curveLabel}, Xs: xs, Panes: []page.Pane{pane}}, numbers: []block{t}}
}

// resolved is how far to the right a histogram has anything to say: beyond, the curve
// would be its maximum drawn on.
func resolved(h *latency.Histogram) float64 {
	return math.Log10(float64(max(h.Count(), 1)))
}

func percentileBlocks(r runFolder) []block {
	if missing, ok := r.unread[result.HistogramFile]; ok {
		return []block{paragraph{plain(missing + " There is no curve of percentiles.")}}
	}
	var lines []namedHistogram
	for i, name := range endpointNames(r.summary) {
		all, ok := r.totals[name+"/"+latency.Response], r.totals[name+"/"+latency.OKResponse]
		if all == nil || all.Count() == 0 {
			continue
		}
		lines = append(lines, namedHistogram{"/" + name + ", all", all, page.Numbered(i), false})
		if ok != nil && ok.Count() > 0 && ok.Count() != all.Count() {
			lines = append(lines, namedHistogram{"/" + name + ", ok", ok, page.Numbered(i), true})
		}
	}
	if len(lines) == 0 {
		return []block{paragraph{plain(result.HistogramFile + " holds no response time.")}}
	}
	caption := plain(fmt.Sprintf("Response times from %s. The axis below is logarithmic towards 100 %%: each further nine takes the same room. A curve ends where the requests are too few to tell.", result.HistogramFile))
	c := percentileChart(caption, lines)
	c.standIn = []block{paragraph{plain("Response times from " + result.HistogramFile + ":")}, c.numbers[0]}
	return []block{c}
}
