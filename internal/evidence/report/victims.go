package report

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"path"
	"slices"
	"strings"

	"chokepoint/internal/evidence/page"
	"chokepoint/internal/evidence/stacks"
	"chokepoint/internal/result"
)

// victimBlocks put both victims of each cell beside each other: what became of the share
// of each, and where its workers stood. There are none where no cell has several.
func (m matrixRun) victimBlocks() []block {
	t := table{columns: []column{words("cell"), words("victim"), words("its upstream"),
		numbers("/fast failed"), numbers("/upstream failed"), numbers("sent again to it"),
		numbers("busy at most"), numbers("in the upstream read"), numbers("queued at most"), numbers("pool idle after the load")}}
	for i, c := range m.cases {
		for _, v := range c.Victims {
			upstream := "well"
			if v.Slow {
				upstream = "slow"
			}
			idle := fmt.Sprintf("not within %s s", number(v.WatchedS, 1))
			if v.RecoveredS != nil {
				idle = number(*v.RecoveredS, 1) + " s"
			}
			t.rows = append(t.rows, []text{m.cellLink(i), plain(v.Name), plain(upstream),
				plain(failedOf(v.FastFailed, v.Fast)), plain(failedOf(v.UpstreamFailed, v.Upstream)), plain(count(v.Retried)),
				plain(count(v.MaxBusy)), plain(count(v.Where[stacks.UpstreamRead])), plain(count(v.MaxQueued)), plain(idle)})
		}
	}
	if len(t.rows) == 0 {
		return nil
	}
	return []block{paragraph{plain("A request is of the share of the victim that the balancer sent it to first, by the balancer's own log. " +
		"In the upstream read are the workers of the dump under load.")}, t}
}

func failedOf(failed, all int) string {
	if all == 0 {
		return none
	}
	return fmt.Sprintf("%s of %s", percent(float64(failed)/float64(all)), count(all))
}

// poolBlocks draw the pools of a cell over time, from its file of them.
func (m matrixRun) poolBlocks(c result.Case, in *inliner) []block {
	if len(c.Victims) == 0 || !slices.ContainsFunc(c.Files, func(f result.EvidenceFile) bool { return f.Name == result.PoolsFile }) {
		return nil
	}
	name := path.Join(c.Evidence, result.PoolsFile)
	content, err := in.readUpTo(name, result.MaxInput)
	var rows []result.PoolRow
	if err == nil {
		if rows, err = result.ParsePools(strings.NewReader(content)); err != nil {
			err = fmt.Errorf("%s is not what a run writes: %w", name, err)
		}
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return []block{sentence(plain(result.PoolsFile + " is missing."))}
	case err != nil:
		in.malformed = append(in.malformed, err)
		return []block{sentence(plain("Unreadable: " + relative(in.dir, err.Error()) + "."))}
	}
	return []block{poolChart(rows, m.summary.Run.Scale)}
}

// poolChart has a line for each victim. Victims are asked at moments of their own.
func poolChart(rows []result.PoolRow, scale float64) chart {
	moments := map[float64]int{}
	for _, r := range rows {
		moments[r.AtS] = 0
	}
	xs := slices.Sorted(maps.Keys(moments))
	for i, x := range xs {
		moments[x] = i
	}
	names := valuesOf(rows, func(r result.PoolRow) string { return r.Victim })
	line := func(name string, colour int, dashed bool, value func(result.PoolRow) int) page.Series {
		s := page.Series{Label: name, Colour: page.Numbered(colour), Dashed: dashed, Spans: true, Values: make(page.Values, len(xs))}
		for i := range s.Values {
			s.Values[i] = math.NaN()
		}
		for _, r := range rows {
			if r.Victim == name {
				s.Values[moments[r.AtS]] = float64(value(r))
			}
		}
		return s
	}
	busy := page.Pane{Title: "Busy workers", Unit: page.Count, Height: 130}
	queued := page.Pane{Title: "Requests that wait for a worker", Unit: page.Count, Height: 100}
	for i, name := range names {
		busy.Series = append(busy.Series, line(name, i, i > 0, func(r result.PoolRow) int { return r.Busy }))
		queued.Series = append(queued.Series, line(name, i, i > 0, func(r result.PoolRow) int { return r.Queued }))
	}
	t := table{columns: []column{numbers("at"), words("victim"), numbers("busy"), numbers("queued")}}
	for _, r := range rows {
		t.rows = append(t.rows, []text{plain(number(r.AtS, 2) + " s"), plain(r.Victim), plain(count(r.Busy)), plain(count(r.Queued))})
	}
	return chart{
		caption: plain("Both pools over time."),
		spec:    page.Chart{X: chartAxis(scale), Xs: xs, Panes: []page.Pane{busy, queued}},
		numbers: []block{t}, standIn: []block{paragraph{plain("Both pools over time are in " + result.PoolsFile + ".")}},
	}
}
