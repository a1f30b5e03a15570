package report

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"chokepoint/internal/evidence/page"
	"chokepoint/internal/evidence/stacks"
	"chokepoint/internal/result"
)

// requestTally is what a report needs of requests.csv, which may have millions of
// rows.
type requestTally struct {
	endpoints map[string]*endpointTally
}

type endpointTally struct {
	// ends counts by ending and by the real second in which it came, from the start
	// of the load. An ending is a status, or the outcome of a request without one.
	ends map[string]map[int]int
	// lag is the sum over the started ones.
	lag     time.Duration
	started int
}

func tallyRequests(path string) (*requestTally, error) {
	t := &requestTally{map[string]*endpointTally{}}
	err := result.EachRequest(path, func(r result.Request) {
		e := t.endpoints[r.Endpoint]
		if e == nil {
			e = &endpointTally{ends: map[string]map[int]int{}}
			t.endpoints[strings.Clone(r.Endpoint)] = e
		}
		ending := strings.Clone(r.Outcome)
		if r.Status != 0 {
			ending = strconv.Itoa(r.Status)
		}
		if e.ends[ending] == nil {
			e.ends[ending] = map[int]int{}
		}
		// One that was dropped has no end but its due time.
		e.ends[ending][int(max(0, r.Due+r.Response)/tick)]++
		if r.Outcome != "dropped" {
			e.lag += r.Lag
			e.started++
		}
	})
	if err != nil {
		return nil, err
	}
	return t, nil
}

// tick is the resolution of a tally, in real time: a scenario second at the smallest
// scale.
const tick = 50 * time.Millisecond

// endings lists the endings of an endpoint: statuses first.
func (e *endpointTally) endings() []string {
	return slices.SortedFunc(maps.Keys(e.ends), func(a, b string) int {
		return cmp.Or(cmp.Compare(isStatus(b), isStatus(a)), cmp.Compare(a, b))
	})
}

func isStatus(ending string) int {
	if _, err := strconv.Atoi(ending); err == nil {
		return 1
	}
	return 0
}

// total is how many requests ended so.
func (e *endpointTally) total(ending string) (n int) {
	for _, c := range e.ends[ending] {
		n += c
	}
	return n
}

// statusChart shows when the requests of each endpoint ended, and how.
func statusChart(r runFolder) (chart, bool) {
	if r.requests == nil || len(r.requests.endpoints) == 0 {
		return chart{}, false
	}
	scale := r.summary.Run.Scale
	if scale <= 0 {
		scale = 1
	}
	last := 0
	for _, e := range r.requests.endpoints {
		for _, ends := range e.ends {
			for at := range ends {
				last = max(last, at)
			}
		}
	}
	perTick := tick.Seconds() / scale // scenario seconds
	width := 1.0
	if seconds := float64(last+1) * perTick; seconds > chartColumns {
		width = niceWidth(seconds / chartColumns)
	}
	columnOf := func(at int) int { return int(math.Floor(float64(at)*perTick/width + 1e-9)) }
	xs := make([]float64, columnOf(last)+2) // the last column needs an end
	for i := range xs {
		xs[i] = float64(i) * width
	}
	spec := page.Chart{X: chartAxis(r.summary.Run.Scale), Xs: xs, Sync: timelineSync,
		Bands: loadBands(r), Marks: dumpLines(r.summary.Dumps)}
	numbersTable := table{columns: []column{words("endpoint"), words("ending"), numbers("requests"), numbers("first at"), numbers("last at"), numbers("most in a column")}}
	for _, name := range slices.Sorted(maps.Keys(r.requests.endpoints)) {
		e := r.requests.endpoints[name]
		pane := page.Pane{Title: "/" + name, Unit: page.Count, Stacked: true, Height: 120}
		for i, ending := range e.endings() {
			values := make([]float64, len(xs))
			first, latest := math.MaxInt, 0
			for at, n := range e.ends[ending] {
				values[columnOf(at)] += float64(n)
				first, latest = min(first, at), max(latest, at)
			}
			pane.Series = append(pane.Series, page.Series{Label: endingInWords(ending), Colour: endingColour(ending, i), Style: page.Step, Values: values})
			numbersTable.rows = append(numbersTable.rows, []text{endpoint(name), plain(endingInWords(ending)), plain(count(e.total(ending))),
				plain(instant(float64(first) * perTick)), plain(instant(float64(latest) * perTick)), plain(count(int(slices.Max(values))))})
		}
		spec.Panes = append(spec.Panes, pane)
	}
	caption := plain(fmt.Sprintf("When the requests of the load ended, and how, in columns of %s scenario s. A timeout ends when the client gives up.", shortest(width)))
	return chart{caption: caption, spec: spec, numbers: []block{numbersTable}}, true
}

func endingInWords(ending string) string {
	if isStatus(ending) == 1 {
		return ending
	}
	return strings.ReplaceAll(ending, "_", " ")
}

func endingColour(ending string, i int) page.Colour {
	status, err := strconv.Atoi(ending)
	switch {
	case err == nil && status < 400:
		return page.OK
	case ending == "timeout":
		return stacks.UpstreamRead
	case ending == "dropped":
		return stacks.Other
	case ending == "interrupted":
		return stacks.Idle
	case status == 503:
		return stacks.PermitWait
	case status == 504:
		return stacks.Queued
	}
	return page.Numbered(i)
}
