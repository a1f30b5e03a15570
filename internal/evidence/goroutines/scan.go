package goroutines

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Limits that keep the memory of a Scanner bounded, whatever it reads. A stack
// that the runtime prints has at most 100 Go frames, and a block some 15 kB.
const (
	maxLine     = 256 << 10 // longer lines are cut
	maxText     = 256 << 10 // of one block, kept for Scanner.Text
	maxRest     = 64 << 10
	maxFrames   = 4096 // more are counted as elided
	maxUnknown  = 16   // parts of a block
	maxNote     = 1 << 10
	maxInterned = 1 << 16 // names shared between goroutines
	maxShared   = 1 << 10 // bytes of such a name
)

// Scanner reads a dump goroutine by goroutine, in the manner of bufio.Scanner.
// Its memory does not grow with the text.
type Scanner struct {
	r    *bufio.Reader
	err  error
	rest strings.Builder
	size int64 // of the rest
	torn bool  // the text stopped in a header, before its bracket

	line  []byte // the current line, without its end
	raw   []byte // the same, as read
	ended bool   // its newline was there
	cut   bool   // it was longer than maxLine
	held  bool   // it belongs to the next block
	long  []byte // holds a line that was cut

	g        Goroutine
	text     []byte
	frames   []Frame
	pending  pending
	ancestor bool // the lines belong to an ancestor of the goroutine
	last     bool // the current line is the last that a block can have
	names    map[string]string
}

// pending is a line whose meaning the next line settles: a location makes it a
// frame.
type pending struct {
	kind  kind
	frame Frame
	id    uint64 // of the creator
	line  string // kept of a possible one
}

type kind uint8

const (
	none     kind = iota
	goCall        // "pkg.f(...)": a frame, with or without a location
	nonGo         // "non-Go function at pc=0x..": a frame that may have no location
	created       // "created by pkg.f"
	possible      // any other line: a frame (of C) only with a location
)

// NewScanner returns a Scanner that reads the text of a dump from r.
func NewScanner(r io.Reader) *Scanner {
	return &Scanner{r: bufio.NewReaderSize(r, maxLine), names: make(map[string]string)}
}

// Scan reads the next goroutine. It returns false at the end of the text and at
// a read error; Err tells which.
func (s *Scanner) Scan() bool {
	for {
		if !s.next() {
			return false
		}
		g, ok := s.header()
		if ok {
			s.g = g
			break
		}
		s.outside()
	}
	s.text, s.frames, s.pending, s.ancestor, s.last = s.text[:0], s.frames[:0], pending{}, false, false
	s.keep()
	closed := false
	for !closed && s.next() {
		if len(s.line) == 0 {
			closed = true
		} else if _, ok := s.header(); ok {
			closed, s.held = true, true
		} else {
			s.keep()
			s.body()
		}
	}
	if !closed && !s.complete() {
		s.g.Truncated = true
	}
	s.settle()
	s.g.Frames = slices.Clone(s.frames)
	return true
}

// Goroutine returns the goroutine that Scan read. It stays valid.
func (s *Scanner) Goroutine() Goroutine { return s.g }

// Text returns the block of that goroutine as printed, from its header to its
// last line, or the first 256 KiB of it. The next Scan overwrites it.
func (s *Scanner) Text() []byte { return s.text }

// Err returns the first read error; nil at the end of the text.
func (s *Scanner) Err() error { return s.err }

// Rest returns the text outside of all goroutines that was read so far.
func (s *Scanner) Rest() Rest {
	return Rest{Text: s.rest.String(), Bytes: s.size, Truncated: s.torn}
}

// next makes the next line the current one.
func (s *Scanner) next() bool {
	if s.held {
		s.held = false
		return true
	}
	if s.err != nil {
		return false
	}
	raw, err := s.r.ReadSlice('\n')
	s.cut = errors.Is(err, bufio.ErrBufferFull)
	if s.cut {
		s.long = append(s.long[:0], raw...)
		raw = s.long
		for errors.Is(err, bufio.ErrBufferFull) {
			_, err = s.r.ReadSlice('\n')
		}
	}
	if err != nil && err != io.EOF {
		s.err = err
	}
	if len(raw) == 0 {
		return false
	}
	s.raw, s.ended = raw, err == nil
	line := bytes.TrimSuffix(raw, []byte("\n"))
	s.line = bytes.TrimSuffix(line, []byte("\r"))
	return true
}

// header reads the current line as a header.
func (s *Scanner) header() (Goroutine, bool) {
	return parseHeader(s.line, s.cut || !s.ended)
}

// complete says whether a block that the end of the text closed is whole.
func (s *Scanner) complete() bool {
	if s.err != nil || s.pending.kind == goCall || s.pending.kind == created {
		return false // the runtime prints a location below every function of Go
	}
	if len(s.frames) == 0 && !s.g.Unavailable {
		return false
	}
	return s.ended || s.last
}

// keep adds the current line to the text of the block.
func (s *Scanner) keep() {
	s.text = append(s.text, s.raw[:min(len(s.raw), maxText-len(s.text))]...)
}

// outside adds the current line to the text that belongs to no goroutine.
func (s *Scanner) outside() {
	if len(s.line) == 0 {
		return
	}
	s.size += int64(len(s.line)) + 1
	s.torn = !s.ended && beginsHeader(s.line)
	if room := maxRest - s.rest.Len(); room > len(s.line) {
		s.rest.Write(s.line)
		s.rest.WriteByte('\n')
	}
}

// body reads the current line as one below a header.
func (s *Scanner) body() {
	line := s.line
	s.last = false
	if line[0] == '\t' || line[0] == ' ' {
		s.below(line)
		return
	}
	s.settle()
	if name, ok := bytes.CutPrefix(line, []byte(createdByPrefix)); ok {
		name, id := creator(name)
		s.pending = pending{kind: created, frame: Frame{Func: s.name(name)}, id: id}
	} else if name, ok := callName(line); ok {
		s.pending = pending{kind: goCall, frame: Frame{Func: s.name(name)}}
	} else if bytes.HasPrefix(line, []byte(nonGoPrefix)) {
		s.pending = pending{kind: nonGo, frame: Frame{Func: nonGoPrefix}}
	} else if n, ok := elided(line); ok {
		if !s.ancestor {
			s.elide(n)
		}
	} else if bytes.HasPrefix(line, []byte(ancestorPrefix)) {
		s.ancestor = true
	} else {
		s.pending = pending{kind: possible, line: string(line[:min(len(line), maxNote)])}
	}
}

// below reads an indented line, which locates the function above it.
func (s *Scanner) below(line []byte) {
	file, number, offset, ok := location(line)
	if ok && s.pending.kind != none {
		p := s.pending
		if p.kind == possible {
			p = pending{kind: goCall, frame: Frame{Func: p.line}}
		}
		p.frame.File, p.frame.Line = s.name(file), number
		s.pending = p
		s.last = p.kind == created && offset
		s.settle()
		return
	}
	s.settle()
	if string(bytes.TrimLeft(line, " \t")) == stackUnavailable {
		s.g.Unavailable = true
		return
	}
	s.g.note(string(line[:min(len(line), maxNote)]))
}

// settle ends what is pending.
func (s *Scanner) settle() {
	p := s.pending
	s.pending = pending{}
	switch {
	case p.kind == none:
	case p.kind == possible:
		s.g.note(p.line)
	case s.ancestor:
	case p.kind == created:
		s.g.CreatedBy, s.g.CreatorID = p.frame, p.id
	case len(s.frames) >= maxFrames:
		s.elide(1)
	default:
		s.frames = append(s.frames, p.frame)
	}
}

func (s *Scanner) elide(n int) {
	if n == ElidedUnknown || s.g.Elided == ElidedUnknown {
		s.g.Elided = ElidedUnknown
		return
	}
	s.g.Elided += n
}

// name returns b as a string that goroutines share.
func (s *Scanner) name(b []byte) string {
	if name, ok := s.names[string(b)]; ok {
		return name
	}
	name := string(b)
	if len(s.names) < maxInterned && len(name) <= maxShared {
		s.names[name] = name
	}
	return name
}

// note keeps a part of the block that is not understood.
func (g *Goroutine) note(text string) {
	if len(g.Unknown) < maxUnknown {
		g.Unknown = append(g.Unknown, text)
	}
}

// Parse reads a whole dump into memory. A dump of many goroutines is better read
// with a Scanner, or with Summarize. It returns an error if r fails or if there
// is no goroutine in its text, with what was read.
func Parse(r io.Reader) (Dump, error) {
	s := NewScanner(r)
	var d Dump
	for s.Scan() {
		d.Goroutines = append(d.Goroutines, s.Goroutine())
	}
	d.Rest = s.Rest()
	return d, s.finish(len(d.Goroutines))
}

// finish returns the error of a text that was read to its end.
func (s *Scanner) finish(goroutines int) error {
	if s.err != nil {
		return fmt.Errorf("read goroutine dump after %d goroutines: %w", goroutines, s.err)
	}
	if goroutines == 0 {
		return fmt.Errorf("no goroutine in %d bytes of text: want a dump as runtime.Stack or /debug/pprof/goroutine?debug=2 prints it", s.size)
	}
	return nil
}
