package main

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"chokepoint/internal/cli"
	"chokepoint/internal/evidence/live"
)

// terminal is what a terminal shows of what has been written to it: enough of one
// for the three sequences that the lab uses.
func terminal(t *testing.T, text string) []string {
	t.Helper()
	lines := []string{""}
	for len(text) > 0 {
		var up int
		switch {
		case strings.HasPrefix(text, "\033["):
			sequence := text[:strings.IndexFunc(text[2:], func(r rune) bool { return r >= '@' })+3]
			switch final := sequence[len(sequence)-1]; final {
			case 'A':
				if _, err := fmt.Sscanf(sequence, "\033[%dA", &up); err != nil || up >= len(lines) {
					t.Fatalf("up by %q with %d lines above", sequence, len(lines)-1)
				}
				// What follows clears from there on.
				lines = append(lines[:len(lines)-1-up], "")
			case 'J', 'm':
			default:
				t.Fatalf("sequence %q", sequence)
			}
			text = text[len(sequence):]
		case text[0] == '\n':
			lines, text = append(lines, ""), text[1:]
		case text[0] == '\r':
			text = text[1:]
		default:
			lines[len(lines)-1] += text[:1]
			text = text[1:]
		}
	}
	return lines
}

// The block stays below the lines of the progress, in its place, and goes at the end.
func TestTheBlockStaysBelowTheProgress(t *testing.T) {
	var stderr bytes.Buffer
	o := newOutput(&stderr)
	o.progress("first")
	o.show("", []string{"a", "b"})
	o.show("", []string{"a", "b", "c"})
	o.progress("second")
	want := []string{"   0.0s  first", "   0.0s  second", "a", "b", "c", ""}
	if got := terminal(t, stderr.String()); !slices.Equal(got, want) {
		t.Errorf("the terminal shows %q, want %q", got, want)
	}
	o.show("", []string{"d"})
	o.show("", nil)
	o.progress("third")
	want = []string{"   0.0s  first", "   0.0s  second", "   0.0s  third", ""}
	if got := terminal(t, stderr.String()); !slices.Equal(got, want) {
		t.Errorf("in the end the terminal shows %q, want %q", got, want)
	}
}

// pseudoTerminal is both sides of one, of 60 columns.
func pseudoTerminal(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("no pseudo terminal: %v", err)
	}
	fd := int(master.Fd())
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 60})
	}
	if err == nil {
		slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	return master, slave
}

// On a terminal the view is drawn, with colour unless NO_COLOR is set; elsewhere
// nothing is.
func TestTheViewIsDrawnOnATerminal(t *testing.T) {
	view := live.NewView(1)
	view.Begin(live.Run{Scenario: "exhaustion", Profile: "anti", Workers: 3})
	view.Sample(live.Sample{Where: "uui"})
	for _, tc := range []struct{ noColour, term, want, not string }{
		{"", "xterm", "\033[31m■■\033[90m■\033[0m", "uui"},
		{"1", "xterm", "uui", "\033[31m"},
		{"", "dumb", "", "exhaustion"},
	} {
		t.Setenv("NO_COLOR", tc.noColour)
		t.Setenv("TERM", tc.term)
		master, slave := pseudoTerminal(t)
		var reading sync.WaitGroup
		var written bytes.Buffer
		reading.Go(func() { written.ReadFrom(master) }) // until the slave is closed
		o := newOutput(slave)
		o.draw(view)
		fmt.Fprint(&afterBlock{o, slave}, "the verdict")
		slave.Close()
		reading.Wait()
		master.Close()
		if shown := terminal(t, written.String()); tc.want != "" && !slices.Equal(shown, []string{"the verdict"}) {
			t.Errorf("in the end the terminal shows %q", shown)
		}
		if got := written.String(); !strings.Contains(got, tc.want) || strings.Contains(got, tc.not) {
			t.Errorf("NO_COLOR=%q TERM=%q: %q; want %q and not %q", tc.noColour, tc.term, got, tc.want, tc.not)
		}
	}
	var plain bytes.Buffer
	o := newOutput(&plain)
	o.draw(view)
	o.stopDrawing()
	if plain.Len() > 0 {
		t.Errorf("where nothing can be drawn: %q", &plain)
	}
}

// A line of the progress breaks between words on a terminal, and the sentence of a
// phase stands in it alone, not in the block as well.
func TestProgressOnATerminal(t *testing.T) {
	t.Setenv("TERM", "xterm")
	const sentence = "Nothing bounds the calls, and each holds its worker until the stub answers: the model has all workers busy."
	view := live.NewView(1)
	view.Begin(live.Run{Scenario: "exhaustion", Profile: "anti", Workers: 3})
	view.Say(live.Phase{Sentence: sentence})
	view.Event(live.Event{Text: "load on"})
	view.Sample(live.Sample{Where: "uui"})
	master, slave := pseudoTerminal(t)
	defer master.Close()
	var reading sync.WaitGroup
	var written bytes.Buffer
	reading.Go(func() { written.ReadFrom(master) }) // until the slave is closed
	o := newOutput(slave)
	o.progress("%s", sentence)
	path := "results/" + strings.Repeat("x", 60)
	o.progress("see %s now", path)
	o.draw(view)
	o.stopDrawing()
	slave.Close()
	reading.Wait()
	want := []string{
		"   0.0s  Nothing bounds the calls, and each holds its",
		"         worker until the stub answers: the model has all",
		"         workers busy.",
		"   0.0s  see",
		"         " + path,
		"         now",
		"",
	}
	text := written.String()
	if got := terminal(t, text); !slices.Equal(got, want) {
		t.Errorf("the terminal shows %q, want %q", got, want)
	}
	if !strings.Contains(text, "exhaustion, profile anti") {
		t.Errorf("no block in %q", text)
	}
	if n := strings.Count(text, "Nothing bounds"); n != 1 || strings.Contains(text, "load on") {
		t.Errorf("the sentence is there %d times in %q", n, text)
	}
}

func TestLiveFlags(t *testing.T) {
	for _, tc := range []struct {
		flags liveFlags
		want  string // the beginning of the error; empty for none
	}{
		{liveFlags{}, ""}, {liveFlags{on: true}, ""}, {liveFlags{on: true, address: "127.0.0.1:0"}, ""}, {liveFlags{on: true, address: "localhost:8090"}, ""},
		{liveFlags{address: "127.0.0.1:0"}, "-live-addr is the address of the page of -live, which is not given"},
		{liveFlags{on: true, address: "0.0.0.0:80"}, `-live-addr "0.0.0.0:80": want a loopback address`},
		{liveFlags{on: true, address: "8090"}, `-live-addr "8090": want a loopback address`},
	} {
		err := tc.flags.validate()
		if (err == nil) != (tc.want == "") || err != nil && !strings.HasPrefix(err.Error(), tc.want) {
			t.Errorf("%+v: %v, want %q", tc.flags, err, tc.want)
		}
	}
}

// What is wrong with the address is said before anything is started.
func TestLiveAddressIsRefused(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	results := "-results=" + filepath.Join(t.TempDir(), "results")
	programs := t.TempDir() // that they are there is said even before
	for _, name := range []string{"loadgen", "victim", "upstream"} {
		if err := os.WriteFile(filepath.Join(programs, name), nil, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, tc := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"run", "exhaustion", "-live-addr=127.0.0.1:0", results}, cli.ExitUsage, "lab: -live-addr is the address of the page of -live"},
		{[]string{"compare", "exhaustion", "-live", "-live-addr=0.0.0.0:0", results}, cli.ExitUsage, `lab: -live-addr "0.0.0.0:0": want a loopback address`},
		{[]string{"run", "exhaustion", "-live", "-live-addr=" + taken.Addr().String(), results, "-bin-dir=" + programs}, cli.ExitFailure, "lab: -live-addr: cannot listen on " + taken.Addr().String()},
	} {
		var stdout, stderr bytes.Buffer
		if code := run(t.Context(), tc.args, &stdout, &stderr); code != tc.code || strings.Count(stderr.String(), "\n") != 1 || !strings.HasPrefix(stderr.String(), tc.want) {
			t.Errorf("lab %s: exit %d, %q; want %d, %q", strings.Join(tc.args, " "), code, &stderr, tc.code, tc.want)
		}
	}
}
