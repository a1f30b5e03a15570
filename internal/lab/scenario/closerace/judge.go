package closerace

import (
	"fmt"
	"math"
	"strconv"

	"chokepoint/internal/result"
)

// pointWidthMS is how wide a point of the series is. A runtime's idle timer fires up to
// a millisecond late, so finer points would show the timer.
const pointWidthMS = 1

// minRequests is the fewest requests that a cell is judged on.
const minRequests = 10

// cells are the offsets that have a want, in milliseconds.
var cells = []float64{-20, -5, -2, 0, 2, 5, 20}

// series sorts the calls of a line into points, in the order of their offsets. Calls
// before which nothing had rested are in no point.
func (l line) series(calls []call, idle float64) []result.CloseRacePoint {
	reach := sweep[len(sweep)-1].offsetMS
	points := map[int]*result.CloseRacePoint{}
	for _, c := range calls {
		offset := int(math.Round(c.Rest.Seconds()*1000 - idle))
		if !c.Rested || offset < -reach || offset > reach {
			continue
		}
		p := points[offset]
		if p == nil {
			p = &result.CloseRacePoint{Client: l.client, Method: l.method, Defence: l.defence, OffsetMS: float64(offset), WidthMS: pointWidthMS}
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
	for offset := -reach; offset <= reach; offset++ {
		if p := points[offset]; p != nil {
			sorted = append(sorted, *p)
		}
	}
	return sorted
}

// cell is the cell of a line at an offset, before anything was measured.
func (l line) cell(offsetMS float64) result.Case {
	b := l.band(offsetMS)
	return result.Case{
		ID: cellID(offsetMS), Group: l.title, Title: cellTitle(offsetMS),
		Client: l.client, Method: l.method, Defence: l.defence,
		Want: b.String() + " fail, none of them executed, none twice", Why: l.why,
	}
}

// judge fills a cell from the points of its line.
func (l line) judge(c *result.Case, points []result.CloseRacePoint, offsetMS float64) {
	var p result.CloseRacePoint
	for _, candidate := range points {
		if candidate.OffsetMS == offsetMS {
			p = candidate
		}
	}
	if p.Requests < minRequests {
		c.Failure = fmt.Sprintf("%d requests rested so long, and %d are judged at the least; a longer -duration or more -callers gives more", p.Requests, minRequests)
		return
	}
	c.Counts = result.CaseCounts{
		OK: p.Requests - p.Failed, NeverReached: p.NeverReached(),
		FailedButExecuted: p.FailedButExecuted, ExecutedTwice: p.ExecutedTwice,
	}
	executed, twice := "none of them", "none"
	if p.FailedButExecuted > 0 {
		executed = fmt.Sprintf("%d of them", p.FailedButExecuted)
	}
	if p.ExecutedTwice > 0 {
		twice = strconv.Itoa(p.ExecutedTwice)
	}
	percent := 100 * p.FailedRatio()
	c.Got = fmt.Sprintf("%.1f %% of %d fail, %s executed, %s twice", percent, p.Requests, executed, twice)
	b := l.band(offsetMS)
	c.OK = percent >= b.low && percent <= b.high && p.FailedButExecuted == 0 && p.ExecutedTwice == 0
}

func (b band) String() string {
	if b.low == b.high {
		return fmt.Sprintf("%g %%", b.low)
	}
	return fmt.Sprintf("%g to %g %%", b.low, b.high)
}

// cellID is such as K-20, K+0 and K+5.
func cellID(offsetMS float64) string { return fmt.Sprintf("K%+g", offsetMS) }

func cellTitle(offsetMS float64) string {
	switch {
	case offsetMS < 0:
		return fmt.Sprintf("a think time %g ms shorter than the server's idle timeout", -offsetMS)
	case offsetMS > 0:
		return fmt.Sprintf("a think time %g ms longer than the server's idle timeout", offsetMS)
	}
	return "a think time as long as the server's idle timeout"
}
