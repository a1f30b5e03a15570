// Package dumps reads a dump of any format that it knows, from a file, a URL or a
// stream, and counts who stands where: Go goroutines (evidence/goroutines) or Java
// threads (evidence/threads). Several dumps make a timeline, and assertions hold
// counts to numbers.
//
// It detects a format and says which it found; it never guesses. A text in which
// no format is recognised is an error, and so is a binary profile.
package dumps

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"chokepoint/internal/evidence/goroutines"
	"chokepoint/internal/evidence/stacks"
	"chokepoint/internal/evidence/threads"
	"chokepoint/internal/result"
)

// Format is the form of a dump.
type Format string

// The formats, each with where it comes from.
const (
	GoText       Format = "go-text"       // runtime.Stack, pprof debug=2, SIGQUIT, a panic
	GoCounts     Format = "go-debug1"     // pprof debug=1
	JavaText     Format = "java-text"     // jstack, jcmd Thread.print, SIGQUIT, Actuator as text
	ActuatorJSON Format = "actuator-json" // Spring Boot's /actuator/threaddump
	JcmdJSON     Format = "jcmd-json"     // jcmd Thread.dump_to_file -format=json
)

// Unit is what the format has: goroutines or threads.
func (f Format) Unit() string {
	if f == GoText || f == GoCounts {
		return "goroutines"
	}
	return "threads"
}

// Dump is what was read of one dump.
type Dump struct {
	Name    string `json:"name"`
	Format  Format `json:"format"`
	Gzip    bool   `json:"gzip,omitempty"` // it was compressed
	Total   int    `json:"total"`          // goroutines or threads
	Workers int    `json:"workers"`        // those that run requests for a pool that the rules know
	Queued  int    `json:"queued"`         // connections that wait for one of them
	// Where has every word of stacks.Wheres. With a pool whose workers are known it
	// counts those, and the queued; without one, everyone.
	Where map[string]int `json:"where"`
	// Waits counts everyone by what they wait for: words of stacks.Waits, those of 0
	// left out.
	Waits map[string]int `json:"waits"`
	// Groups are along the axis that was asked for, the largest first.
	Groups []stacks.Group `json:"groups"`
	// Truncated says that the text ends before the dump does: counts are too low.
	Truncated bool     `json:"truncated,omitempty"`
	Notes     []string `json:"notes,omitempty"` // what a reader of the counts must know

	places *stacks.Tally
}

// Result is the dump as the files of a run have it, with groups by place, whatever
// axis was asked for.
func (d Dump) Result() result.Dump { return d.places.Dump() }

// cutOff says that the counts are too low.
func (d *Dump) cutOff() {
	d.Truncated = true
	d.places.End(stacks.End{Truncated: true})
}

// FormatError is a text that is no dump, or a dump that is broken.
type FormatError struct {
	Name string
	Err  error
}

func (e *FormatError) Error() string { return fmt.Sprintf("%s: %v", e.Name, e.Err) }
func (e *FormatError) Unwrap() error { return e.Err }

// counter counts one dump, by place and along another axis.
type counter struct{ places, groups *stacks.Tally }

func newCounter(rules *stacks.Rules, axis stacks.Axis) *counter {
	c := &counter{places: stacks.NewTally(rules, stacks.ByPlace)}
	c.groups = c.places
	if axis != stacks.ByPlace {
		c.groups = stacks.NewTally(rules, axis)
	}
	return c
}

func (c *counter) add(s stacks.Stack, text []byte) {
	c.places.Add(s, text)
	if c.groups != c.places {
		c.groups.Add(s, text)
	}
}

func (c *counter) dump(name string, format Format, end stacks.End) Dump {
	c.places.End(end)
	return Dump{
		Name: name, Format: format, Total: c.places.Total(), Workers: c.places.Workers(), Queued: c.places.Queued(),
		Where: c.places.Where(), Waits: c.places.Waits(), Groups: c.groups.Groups(),
		Truncated: c.places.Truncated(), Notes: end.Notes, places: c.places,
	}
}

// Read reads every dump in r, compressed with gzip or not, and groups each along
// axis. A Java text may hold several, which are then called NAME#1, NAME#2; any
// other format holds one. Memory grows with the different stacks, up to a limit,
// and not with the text.
//
// An error is a *FormatError, or that of r. A dump that the text cuts off is no
// error, but Truncated, and so is one of which the compressed text ends too early.
func Read(r io.Reader, name string, axis stacks.Axis) ([]Dump, error) {
	source := &remembering{r: r}
	all, err := read(source, name, axis)
	switch {
	case source.err != nil: // even if what came before it is a dump
		return nil, fmt.Errorf("%s: %w", name, source.err)
	case err != nil:
		return nil, &FormatError{Name: name, Err: err}
	}
	return all, nil
}

// remembering tells the errors of a source from those of what is read from it.
type remembering struct {
	r   io.Reader
	err error
}

func (m *remembering) Read(p []byte) (int, error) {
	n, err := m.r.Read(p)
	if err != nil && err != io.EOF {
		m.err = err
	}
	return n, err
}

func read(r io.Reader, name string, axis stacks.Axis) ([]Dump, error) {
	text, z, err := unzip(r)
	if err != nil {
		return nil, err
	}
	all, err := readText(text, name, axis)
	if z == nil {
		return all, err
	}
	if err != nil {
		if z.cutShort {
			err = brokenGzip(io.ErrUnexpectedEOF)
		}
		return nil, err
	}
	for i := range all {
		all[i].Gzip = true
	}
	if z.cutShort {
		all[len(all)-1].cutOff()
	}
	return all, nil
}

// readText reads what is not compressed. There is one dump at the least, or an error.
func readText(text *bufio.Reader, name string, axis stacks.Axis) ([]Dump, error) {
	kind, rest, err := detect(text)
	if err != nil {
		return nil, err
	}
	var all []Dump
	switch kind {
	case goText, goCounts:
		scan, format := goroutines.Scan, GoText
		if kind == goCounts {
			scan, format = goroutines.ScanCounts, GoCounts
		}
		c := newCounter(goroutines.Rules(), axis)
		end, scanErr := scan(rest, c.add)
		all, err = []Dump{c.dump(name, format, end)}, scanErr
	case javaText:
		all, err = readJavaText(rest, name, axis)
	case javaJSON:
		c := newCounter(threads.Rules(), axis)
		kind, end, scanErr := threads.ScanJSON(rest, c.add)
		format := ActuatorJSON
		if kind == threads.Jcmd {
			format = JcmdJSON
		}
		all, err = []Dump{c.dump(name, format, end)}, scanErr
	}
	if err != nil {
		return nil, err
	}
	return all, nil
}

// maxDumps is the most dumps that one text may hold.
const maxDumps = 1000

func readJavaText(r io.Reader, name string, axis stacks.Axis) ([]Dump, error) {
	var all []Dump
	text := threads.NewText(r)
	for more := true; more; {
		if len(all) == maxDumps {
			return nil, fmt.Errorf("more than %d dumps; split it", maxDumps)
		}
		c := newCounter(threads.Rules(), axis)
		var end stacks.End
		var err error
		end, more, err = text.Next(c.add)
		switch {
		case err == nil:
			all = append(all, c.dump(name, JavaText, end))
		case !errors.Is(err, threads.ErrNoThread):
			return nil, err
		}
	}
	if len(all) == 0 {
		return nil, threads.ErrNoThread
	}
	if len(all) > 1 {
		for i := range all {
			all[i].Name = fmt.Sprintf("%s#%d", name, i+1)
		}
	}
	return all, nil
}

// Timeline follows the groups of dumps, which were taken in this order and read
// along one axis. Groups of a Go and of a Java dump are not compared.
func Timeline(all []Dump) ([]stacks.Row, error) {
	var groups [][]stacks.Group
	for _, d := range all {
		if d.Format.Unit() != all[0].Format.Unit() {
			return nil, errors.New("goroutines and threads make no timeline: " + all[0].Name + " has " + all[0].Format.Unit() + ", " + d.Name + " " + d.Format.Unit())
		}
		groups = append(groups, d.Groups)
	}
	return stacks.Timeline(groups...), nil
}
