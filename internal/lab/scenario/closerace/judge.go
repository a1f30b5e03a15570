package closerace

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"chokepoint/internal/result"
)

// pointWidthMS is how wide a point of the series is. A runtime's idle timer fires up to
// a millisecond late, so finer points would show the timer.
const pointWidthMS = 1

// minRequests is the fewest requests that a cell is judged on: one of them is then 5 %.
const minRequests = 20

// disturbedBeyond is how far a think time may be from the planned one. Beyond it the
// machine did something else, and the server's timer was as late as the client.
const disturbedBeyond = 2 * time.Millisecond

// maxDisturbed is the share of such think times above which a run is invalid.
const maxDisturbed = 0.5

// cell is a range of offsets that is judged, in milliseconds: the points from first to
// last.
type cell struct {
	id          string
	first, last int
}

var cells = []cell{
	{"K-20", -22, -12}, {"K-5", -6, -4}, {"K-2", -3, -2},
	{"K+0", 0, 1},
	{"K+2", 2, 3}, {"K+5", 4, 6}, {"K+20", 12, 22},
}

// reach is how far the series goes to both sides, in milliseconds.
const reach = 22

func (c call) disturbed() bool { return (c.Rest - c.Planned).Abs() > disturbedBeyond }

// series sorts the calls of a line into points, in the order of their offsets. Calls
// before which nothing had rested are in no point, and neither are disturbed ones.
func (l line) series(calls []call, idle time.Duration) []result.CloseRacePoint {
	points := map[int]*result.CloseRacePoint{}
	for _, c := range calls {
		offset := int(math.Round((c.Rest - idle).Seconds() * 1000 / pointWidthMS))
		if !c.Rested || c.disturbed() || offset < -reach || offset > reach {
			continue
		}
		p := points[offset]
		if p == nil {
			p = &result.CloseRacePoint{Client: l.client, Method: l.method, Defence: l.defence, OffsetMS: float64(offset) * pointWidthMS, WidthMS: pointWidthMS}
			points[offset] = p
		}
		p.Requests++
		if !c.ok() {
			p.Failed++
			if c.Runs > 0 {
				p.FailedButExecuted++
			}
		} else if c.Connection == connectionNew {
			p.Renewed++
		}
		if c.Runs > 1 {
			p.ExecutedTwice++
		}
	}
	var sorted []result.CloseRacePoint
	for _, offset := range slices.Sorted(maps.Keys(points)) {
		sorted = append(sorted, *points[offset])
	}
	return sorted
}

// wanted is a cell of a line before anything was measured.
func (l line) wanted(c cell) result.Case {
	return result.Case{
		ID: c.id, Group: l.title, Title: c.title(),
		Client: l.client, Method: l.method, Defence: l.defence,
		Want: l.band(c).String() + " fail, none of them executed, none twice", Why: l.why,
	}
}

// judge fills a cell from the points of its line.
func (l line) judge(c cell, points []result.CloseRacePoint, of *result.Case) {
	var sum result.CloseRacePoint
	for _, p := range points {
		if p.OffsetMS < float64(c.first) || p.OffsetMS > float64(c.last) {
			continue
		}
		sum.Requests += p.Requests
		sum.Failed += p.Failed
		sum.FailedButExecuted += p.FailedButExecuted
		sum.ExecutedTwice += p.ExecutedTwice
	}
	if sum.Requests < minRequests {
		of.Failure = fmt.Sprintf("%d requests rested so long, and at least %d are needed; a longer -duration or more -callers gives more", sum.Requests, minRequests)
		return
	}
	of.Counts = result.CaseCounts{
		OK: sum.Requests - sum.Failed, NeverReached: sum.NeverReached(),
		FailedButExecuted: sum.FailedButExecuted, ExecutedTwice: sum.ExecutedTwice,
	}
	executed, twice := "none of them", "none"
	if sum.FailedButExecuted > 0 {
		executed = fmt.Sprintf("%d of them", sum.FailedButExecuted)
	}
	if sum.ExecutedTwice > 0 {
		twice = strconv.Itoa(sum.ExecutedTwice)
	}
	percent := 100 * sum.FailedRatio()
	of.Got = fmt.Sprintf("%.1f %% of %d fail, %s executed, %s twice", percent, sum.Requests, executed, twice)
	b := l.band(c)
	of.OK = percent >= b.low && percent <= b.high && sum.FailedButExecuted == 0 && sum.ExecutedTwice == 0
}

func (b band) String() string {
	if b.low == b.high {
		return fmt.Sprintf("%g %%", b.low)
	}
	return fmt.Sprintf("%g to %g %%", b.low, b.high)
}

// title says which think times the cell is of, with half a millisecond around each.
func (c cell) title() string {
	return fmt.Sprintf("rested for the server's idle timeout %+g to %+g ms", float64(c.first)-pointWidthMS/2., float64(c.last)+pointWidthMS/2.)
}
