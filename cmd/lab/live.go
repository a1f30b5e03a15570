package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/term"

	"chokepoint/internal/cli"
	"chokepoint/internal/evidence/live"
	"chokepoint/internal/lab"
)

// liveFlags are those of a run that is shown while it goes.
type liveFlags struct {
	on      bool
	address string
}

func (f *liveFlags) bind(fs *flag.FlagSet) {
	fs.BoolVar(&f.on, "live", false, "show the run while it goes: a page for a browser on this machine, and a block of text on a terminal")
	fs.StringVar(&f.address, "live-addr", "", "`address` of the page of -live, of the loopback (default: 127.0.0.1 and a free port)")
}

func (f *liveFlags) validate() error {
	switch {
	case f.address == "":
		return nil
	case !f.on:
		return errors.New("-live-addr is the address of the page of -live, which is not given; give -live")
	}
	if err := live.CheckAddress(f.address); err != nil {
		return fmt.Errorf("-live-addr %w", err)
	}
	return nil
}

// open opens the show of so many runs; nil without -live. close ends it, and is told
// what the runs have failed of.
func (f *liveFlags) open(ctx context.Context, runs int, out *output) (show *lab.Show, close func(failure error), err error) {
	if !f.on {
		return nil, func(error) {}, nil
	}
	address := f.address
	if address == "" {
		address = "127.0.0.1:0"
	}
	if show, err = lab.OpenShow(ctx, address, runs); err != nil {
		return nil, nil, err
	}
	out.progress("live view: %s", show.URL())
	out.draw(show.View())
	return show, func(failure error) { out.stopDrawing(); show.Close(failure) }, nil
}

const (
	// drawEvery is the time between two drawings of the block.
	drawEvery = 200 * time.Millisecond
	// drawnSamples are as many as a wide terminal has columns.
	drawnSamples = 300
)

// output is where a command's progress goes. On a terminal a block of text may
// stand below it, which is drawn anew in its place, and lines break between words.
type output struct {
	stderr   io.Writer
	terminal *os.File // stderr, if it is one; else nil
	started  time.Time

	mu    sync.Mutex
	block []string // the lines of the block that stand there

	stopDrawing func() // removes the block for good; does nothing where there is none
}

// newOutput is that of a command without a block.
func newOutput(stderr io.Writer) *output {
	o := &output{stderr: stderr, started: time.Now(), stopDrawing: func() {}}
	if f, ok := stderr.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		o.terminal = f
	}
	return o
}

// size is that of the terminal as it is now.
func (o *output) size() (columns, rows int) {
	columns, rows, err := term.GetSize(int(o.terminal.Fd()))
	if err != nil || columns <= 0 || rows <= 0 {
		return 80, 24
	}
	return columns, rows
}

// afterBlock is a stdout on which nothing appears before the block has gone: both may
// be the same terminal.
type afterBlock struct {
	out    *output
	stdout io.Writer
}

func (a *afterBlock) Write(p []byte) (int, error) {
	a.out.stopDrawing()
	return a.stdout.Write(p)
}

// announceStop tells the user, once ctx is done, that the signal has arrived.
func (o *output) announceStop(ctx context.Context) (stop func() bool) {
	return context.AfterFunc(ctx, func() {
		o.progress("%v: stopping everything; once more kills", context.Cause(ctx))
	})
}

// progress prints one line to stderr, with the time since the start. Where a terminal
// is too narrow for it, it goes on below itself. It may quote what a service has
// answered.
func (o *output) progress(format string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	since := fmt.Sprintf("%6.1fs  ", time.Since(o.started).Seconds())
	text := cli.Printable(fmt.Sprintf(format, args...))
	if o.terminal != nil {
		columns, _ := o.size()
		text = strings.Join(wrapped(text, columns-1-len(since)), "\n"+strings.Repeat(" ", len(since)))
	}
	o.show(since+text+"\n", o.block)
}

// wrapped are the lines of a text, broken between words. A word that is longer than a
// line, such as a path, has one of its own and stays whole.
func wrapped(text string, columns int) []string {
	var lines []string
	var line string
	for _, word := range strings.Fields(text) {
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > columns {
			lines = append(lines, line)
			line = ""
		}
		line = strings.TrimPrefix(line+" "+word, " ")
	}
	return append(lines, line)
}

// show prints text where the block began, and then the new block. The caller holds
// the lock.
func (o *output) show(text string, block []string) {
	var b strings.Builder
	if len(o.block) > 0 {
		fmt.Fprintf(&b, "\033[%dA\r\033[J", len(o.block)) // up to its first line, and clear what is below
	}
	b.WriteString(text)
	for _, line := range block {
		b.WriteString(line + "\n")
	}
	o.block = block
	io.WriteString(o.stderr, b.String())
}

// draw keeps drawing the view where stderr is a terminal that can, until stopDrawing
// is called. Elsewhere the lines of the progress are all there is.
func (o *output) draw(view *live.View) {
	if o.terminal == nil || os.Getenv("TERM") == "dumb" {
		return
	}
	colour := os.Getenv("NO_COLOR") == ""
	done := make(chan struct{})
	var drawing sync.WaitGroup
	drawing.Go(func() {
		tick := time.NewTicker(drawEvery)
		defer tick.Stop()
		for {
			columns, rows := o.size()
			// A line that fills the terminal would break into the next.
			block := live.Text(view.Glance(drawnSamples), columns-1, colour)
			o.mu.Lock()
			o.show("", block[:min(len(block), rows-1)])
			o.mu.Unlock()
			select {
			case <-tick.C:
			case <-done:
				o.mu.Lock()
				o.show("", nil)
				o.mu.Unlock()
				return
			}
		}
	})
	o.stopDrawing = sync.OnceFunc(func() { close(done); drawing.Wait() })
}
