package live

import (
	"fmt"
	"strings"
)

// Glance is the state as it is now, with no more than the newest samples: what a
// viewer needs who draws all of it each time. It has no events.
func (v *View) Glance(samples int) State {
	v.mu.Lock()
	defer v.mu.Unlock()
	s := v.state
	s.Events = nil
	s.History = append([]Sample(nil), v.history.samples[max(0, len(v.history.samples)-samples):]...)
	return s
}

// textCellRows are the lines of cells at most.
const textCellRows = 4

// Text is a state as a block of lines for a terminal of so many columns: what changes
// all the time. What is said once, the sentence of a phase and the events, stands in
// the lines of the progress above the block. Without colour a worker is the letter of
// its place.
func Text(s State, columns int, colour bool) []string {
	b := &block{columns: columns, colour: colour}
	if s.Run.Number > 0 {
		b.line("%s, profile %s: run %d of %d", s.Run.Scenario, s.Run.Profile, s.Run.Number, s.Run.Of)
	}
	if s.Last != nil {
		b.cells(s)
		b.figures(s)
		b.queue(s)
	}
	return b.lines
}

type block struct {
	columns int
	colour  bool
	lines   []string
}

// line adds a line, cut to the width of the terminal.
func (b *block) line(format string, args ...any) {
	text := []rune(fmt.Sprintf(format, args...))
	b.lines = append(b.lines, string(text[:min(len(text), max(b.columns, 0))]))
}

// sgr are the colours of the places, in the codes of a terminal (ECMA-48, SGR).
var sgr = map[string]string{"u": "31", "p": "33", "d": "34", "r": "32", "i": "90"}

const (
	cell    = "■"
	noLine  = "▁▂▃▄▅▆▇█"
	allOver = "\033[0m"
)

// cells adds the workers, one cell each, and how many stand where.
func (b *block) cells(s State) {
	where := s.Last.Where
	perRow := max(b.columns, 1)
	for row := 0; row < textCellRows && row*perRow < len(where); row++ {
		part := where[row*perRow : min((row+1)*perRow, len(where))]
		if row == textCellRows-1 && len(where) > textCellRows*perRow {
			b.line("and %d more", len(where)-row*perRow)
			break
		}
		if !b.colour {
			b.lines = append(b.lines, part)
			continue
		}
		var line strings.Builder
		for i, letter := range strings.Split(part, "") {
			if i == 0 || part[i] != part[i-1] {
				line.WriteString("\033[" + sgr[letter] + "m")
			}
			line.WriteString(cell)
		}
		b.lines = append(b.lines, line.String()+allOver)
	}
	var counts []string
	for _, p := range places() {
		counts = append(counts, fmt.Sprintf("%s %s %d", p.Letter, p.Words, strings.Count(where, p.Letter)))
	}
	b.line("%s", strings.Join(counts, "  "))
}

// figures adds the numbers of the newest sample.
func (b *block) figures(s State) {
	last := s.Last
	busy := fmt.Sprintf("busy %d", last.Busy)
	if s.Run.Workers > 0 {
		busy += fmt.Sprintf(" of %d", s.Run.Workers)
	}
	permits := "no bulkhead"
	if s.Run.Permits > 0 {
		permits = fmt.Sprintf("permits %d of %d", last.Permits, s.Run.Permits)
	}
	b.line("%s  queued %d  %s  CPU %.1f %%", busy, last.Queued, permits, last.CPUPercent)
	b.line("/fast %s, %d wait", fastText(s), last.Fast.Waiting)
}

// fastText is the newest answer of /fast, or for how long there has been none
// though somebody waits.
func fastText(s State) string {
	i := len(s.History) - 1
	for i >= 0 && s.History[i].Fast.Count == 0 && s.History[i].Fast.Waiting > 0 {
		i--
	}
	if i+1 < len(s.History) {
		if silent := s.Last.AtS - s.History[i+1].AtS; silent > 1 {
			return fmt.Sprintf("no answer for %.1f s", silent)
		}
	}
	for ; i >= 0; i-- {
		if h := s.History[i]; h.Fast.Count > 0 {
			return fmt.Sprintf("p50 %.1f ms, slowest %.1f ms", h.Fast.P50MS, h.Fast.MaxMS)
		}
	}
	return "no answer"
}

// queue adds the queue as a line that grows.
func (b *block) queue(s State) {
	most := 0
	for _, h := range s.History {
		most = max(most, h.Queued)
	}
	if most == 0 {
		return
	}
	title := fmt.Sprintf("queue, at most %d: ", most)
	levels := []rune(noLine)
	room := max(b.columns-len(title), 0)
	var line []rune
	for _, h := range s.History[max(0, len(s.History)-room):] {
		line = append(line, levels[h.Queued*(len(levels)-1)/most])
	}
	b.line("%s%s", title, string(line))
}
