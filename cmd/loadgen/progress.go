package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"chokepoint/internal/load/engine"
	"chokepoint/internal/load/latency"
)

const (
	// plainEvery is how many seconds lie between two lines where a line cannot be
	// redrawn.
	plainEvery = 5
	// lastLine is how long the end of a run waits for a stderr that does not take
	// what is written.
	lastLine = 100 * time.Millisecond
	// defaultWidth is that of a terminal which does not tell its own.
	defaultWidth = 80
)

// screen is where progress is shown.
type screen struct {
	w io.Writer
	// redraw says that w is a terminal, where one line is drawn again and again.
	redraw bool
	color  bool
	width  func() int // of a terminal, in columns
}

// newScreen finds out what w can do. NO_COLOR is that of no-color.org: anything
// but empty switches colour off.
func newScreen(w io.Writer) screen {
	s := screen{w: w, width: func() int { return defaultWidth }}
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) || os.Getenv("TERM") == "dumb" {
		return s
	}
	s.redraw, s.color = true, os.Getenv("NO_COLOR") == ""
	s.width = func() int {
		if columns, _, err := term.GetSize(int(f.Fd())); err == nil && columns > 0 {
			return columns
		}
		return defaultWidth
	}
	return s
}

// progress shows a run while it goes on. What is written is written by a
// goroutine of its own: a stderr that nobody reads costs lines and no arrival.
type progress struct {
	screen  screen
	latest  chan moment // one place: a moment that was not shown makes room for the next
	notes   chan string // one place: what is said once, between two moments
	done    chan struct{}
	all     *latency.Histogram // of the last second, all endpoints
	dropped int
	failed  int
}

// moment is where a run stands at the end of a second.
type moment struct {
	at, window                time.Duration
	planned, started          int // in the last second
	inFlight, dropped, failed int // the last two since the start
	p50, p99                  time.Duration
	answered                  bool // in the last second; else there are no percentiles
}

// showProgress begins with the notes, a line each.
func showProgress(s screen, notes []string) *progress {
	p := &progress{screen: s, latest: make(chan moment, 1), notes: make(chan string, 1), done: make(chan struct{}), all: latency.New()}
	go p.show(notes)
	return p
}

// second takes what happened in a second, and never waits. The last one, cut short
// by the last answer, is left to the summary: its rates would not be those of a
// second.
func (p *progress) second(s engine.Second) {
	if s.To-s.From < time.Second {
		return
	}
	m := moment{at: s.To, window: s.Window}
	p.all.Reset()
	for _, e := range s.Endpoints {
		m.planned += e.Planned
		m.started += e.Started
		m.inFlight += e.InFlight
		p.dropped += e.Dropped
		p.failed += e.Outcomes.Failed()
		p.all.Merge(e.Timings.Response)
	}
	m.dropped, m.failed = p.dropped, p.failed
	m.answered = p.all.Count() > 0
	m.p50, m.p99 = p.all.Quantile(0.50), p.all.Quantile(0.99)
	select {
	case <-p.latest:
	default:
	}
	p.latest <- m
}

// note says text in a line of its own. It is to be called once, and never waits.
func (p *progress) note(text string) { p.notes <- text }

// end shows no more, and leaves the line of a terminal empty.
func (p *progress) end() {
	close(p.latest)
	select {
	case <-p.done:
	case <-time.After(lastLine):
	}
}

func (p *progress) show(notes []string) {
	defer close(p.done)
	for _, note := range notes {
		fmt.Fprintf(p.screen.w, "loadgen: %s\n", note)
	}
	drawn, last := false, time.Duration(0)
	erase := func() {
		if drawn {
			fmt.Fprint(p.screen.w, "\r\033[K")
			drawn = false
		}
	}
	defer erase()
	for {
		select {
		case note := <-p.notes:
			erase()
			fmt.Fprintf(p.screen.w, "loadgen: %s\n", note)
		case m, more := <-p.latest:
			switch {
			case !more:
				return
			case p.screen.redraw:
				fmt.Fprint(p.screen.w, "\r\033[K"+m.line(p.screen))
				drawn = true
			case m.at-last >= plainEvery*time.Second:
				fmt.Fprintln(p.screen.w, m.line(p.screen))
				last = m.at
			}
		}
	}
}

// line is the moment in one line. Drops come first, since they make the run invalid,
// and failures before latencies: neither may be cut off by a narrow terminal.
func (m moment) line(s screen) string {
	parts := []string{fmt.Sprintf("%v/%v", m.at.Round(time.Second), m.window)}
	loud := ""
	if m.dropped > 0 {
		loud = fmt.Sprintf("DROPPED %d", m.dropped)
		parts = append(parts, loud)
	}
	switch {
	case m.planned > 0:
		parts = append(parts, fmt.Sprintf("%d of %d/s", m.started, m.planned))
	case m.at <= m.window, m.started > 0: // a closed model; or sent late
		parts = append(parts, fmt.Sprintf("%d/s", m.started))
	default:
		parts = append(parts, "waiting for answers")
	}
	parts = append(parts, fmt.Sprintf("%d failed", m.failed), fmt.Sprintf("%d in flight", m.inFlight))
	if m.answered {
		parts = append(parts, fmt.Sprintf("p50 %s, p99 %s ms", milliseconds(m.p50), milliseconds(m.p99)))
	} else {
		parts = append(parts, "no answers")
	}
	text := strings.Join(parts, "  ")
	if !s.redraw {
		return text
	}
	// A line that fills the terminal would break into the next.
	if room := max(0, s.width()-1); len(text) > room {
		text = text[:room]
	}
	if loud != "" && s.color {
		text = strings.Replace(text, loud, "\033[1;31m"+loud+"\033[0m", 1)
	}
	return text
}

func milliseconds(d time.Duration) string {
	return fmt.Sprintf("%.1f", float64(d)/float64(time.Millisecond))
}
