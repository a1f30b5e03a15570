package report

import (
	"fmt"
	"slices"
	"strings"

	"chokepoint/internal/evidence/page"
	"chokepoint/internal/result"
)

// Of a cell that sends many requests so many are shown, as rows and as marks.
const (
	maxRequests = 60
	maxMarks    = 400
)

// What became of a request, by joined ids.
const (
	neverReached      = "failed, never reached"
	failedButExecuted = "failed, but executed"
)

// sends says whether a cell is about several requests.
func sends(c result.Case) bool { return len(c.Requests) > 1 || sent(c) > 1 }

// sent is how many requests a cell counts.
func sent(c result.Case) int { return c.Counts.OK + c.Counts.NeverReached + c.Counts.FailedButExecuted }

// requestBlocks count the requests of the cells that send several.
func (m matrixRun) requestBlocks() []block {
	t := table{columns: []column{words("cell"), numbers("ok"), numbers(neverReached), numbers(failedButExecuted), numbers("executed twice")}}
	b := bars{caption: plain("Every request has an id, by which its outcome at the client is joined with what was executed. Executed twice are those that were done more than once, whatever the client saw."),
		keys: []barKey{{"ok", page.OK}, {neverReached, page.Numbered(2)}, {failedButExecuted, page.Numbered(0)}}}
	for i, c := range m.cases {
		if !sends(c) {
			continue
		}
		n := c.Counts
		sum := sent(c)
		t.rows = append(t.rows, []text{m.cellLink(i), plain(count(n.OK)), plain(count(n.NeverReached)), plain(count(n.FailedButExecuted)), plain(count(n.ExecutedTwice))})
		row := barRow{name: m.cellLink(i), full: float64(sum), end: plain(plural(sum, "request"))}
		for _, part := range []struct {
			n      int
			of     string
			colour page.Colour
		}{{n.OK, "ok", page.OK}, {n.NeverReached, neverReached, page.Numbered(2)}, {n.FailedButExecuted, failedButExecuted, page.Numbered(0)}} {
			row.parts = append(row.parts, barPart{label: fmt.Sprintf("%s of %s %s", count(part.n), count(sum), part.of), colour: part.colour,
				value: float64(part.n), href: "#" + m.anchors[i]})
		}
		b.rows = append(b.rows, row)
	}
	if len(t.rows) == 0 {
		return nil
	}
	b.numbers, b.standIn = []block{t}, []block{paragraph{b.caption}, t}
	return []block{b}
}

// requestTable lists the requests of a cell; of many, those that were not answered once
// are preferred.
func requestTable(c result.Case) []block {
	if len(c.Requests) == 0 {
		return nil
	}
	shown, rest := c.Requests, ""
	if len(shown) > maxRequests {
		shown = slices.DeleteFunc(slices.Clone(shown), ordinary)
		if len(shown) > maxRequests {
			shown = shown[:maxRequests]
		}
		rest = fmt.Sprintf("%s, of which %s are shown: those that failed or did not run just once. All are in summary.json.",
			plural(len(c.Requests), "request"), count(len(shown)))
	}
	t := table{columns: []column{words("request"), numbers("at"), words("got"), numbers("time"), words("server"), numbers("handler runs"), words("connection")}}
	for _, r := range shown {
		t.rows = append(t.rows, []text{code(r.ID), plain(number(r.AtS, 3) + " s"), plain(r.Got), plain(took(r.Seconds)), plain(r.Server), plain(count(r.Runs)), plain(r.Conn)})
	}
	var blocks []block
	if rest != "" {
		blocks = append(blocks, paragraph{plain(rest)})
	}
	if len(t.rows) > 0 {
		blocks = append(blocks, t)
	}
	return blocks
}

// ordinary is a request that was answered and executed once.
func ordinary(r result.CaseRequest) bool { return succeeded(r.Got) && r.Runs == 1 }

// drawn are n requests at the most: those that are not ordinary, and of the others every
// so many, so that none of the time is left out.
func drawn(requests []result.CaseRequest, n int) []result.CaseRequest {
	if len(requests) <= n {
		return requests
	}
	left := n
	for _, r := range requests {
		if !ordinary(r) && left > 0 {
			left--
		}
	}
	others := len(requests) - (n - left)
	var kept []result.CaseRequest
	special, passed := n-left, 0
	for _, r := range requests {
		if !ordinary(r) && special > 0 {
			special--
			kept = append(kept, r)
			continue
		}
		// The i-th of the others is kept where i*left/others reaches a whole number anew.
		if passed++; passed*left/others > (passed-1)*left/others {
			kept = append(kept, r)
		}
	}
	return kept
}

// succeeded says whether a request got an answer under 400.
func succeeded(got string) bool {
	outcome := outcomeOf(got)
	return outcome == "ok" || len(outcome) == 3 && (outcome[0] == '2' || outcome[0] == '3')
}

// timeline draws the requests of a cell, a lane for each outcome, over what happened
// on the path and to the servers, a lane for each place.
func timeline(c result.Case) []block {
	if len(c.Events) == 0 {
		return nil // single requests without moments are told by their table
	}
	s := strip{from: c.Events[0].AtS, to: c.Events[0].AtS}
	reach := func(from, to float64) { s.from, s.to = min(s.from, from), max(s.to, to) }
	colours := map[string]page.Colour{}
	colourOf := func(what string) page.Colour {
		if _, ok := colours[what]; !ok {
			colours[what] = page.Numbered(len(colours))
			s.keys = append(s.keys, barKey{what, colours[what]})
		}
		return colours[what]
	}
	lanes := map[string]int{}
	put := func(lane string, mark stripMark) {
		at, ok := lanes[lane]
		if !ok {
			at = len(s.lanes)
			lanes[lane] = at
			s.lanes = append(s.lanes, stripLane{name: plain(lane)})
		}
		s.lanes[at].marks = append(s.lanes[at].marks, mark)
	}
	events := c.Events[:min(len(c.Events), maxMarks/2)]
	requests := drawn(c.Requests, maxMarks-len(events))
	for _, r := range requests {
		reach(r.AtS, r.AtS+r.Seconds)
		outcome := outcomeOf(r.Got)
		colour := page.OK
		if !succeeded(r.Got) {
			colour = colourOf(outcome)
		}
		put("requests: "+outcome, stripMark{fmt.Sprintf("%s from %s s: %s in %s", r.ID, number(r.AtS, 3), r.Got, took(r.Seconds)), colour, r.AtS, r.AtS + r.Seconds})
	}
	t := table{columns: []column{numbers("at"), words("where"), words("what"), words("detail")}, small: true}
	for _, e := range events {
		reach(e.AtS, e.AtS)
		put(e.Where, stripMark{strings.TrimSpace(fmt.Sprintf("%s at %s s %s", e.What, number(e.AtS, 3), e.Detail)), colourOf(e.What), e.AtS, e.AtS})
		t.rows = append(t.rows, []text{plain(number(e.AtS, 3) + " s"), plain(e.Where), plain(e.What), plain(e.Detail)})
	}
	caption := fmt.Sprintf("From %s s to %s s: requests by their outcome, and what happened on the path and to the servers.", number(s.from, 3), number(s.to, 3))
	if shown, all := len(requests)+len(events), len(c.Requests)+len(c.Events); shown < all {
		caption += fmt.Sprintf(" Drawn are %s of %s, what failed or did not run just once first; all are in summary.json.", count(shown), count(all))
	}
	s.caption = plain(caption)
	s.numbers = []block{details{summary: plain("The moments: " + count(len(t.rows))), blocks: []block{t}}}
	return []block{s}
}
