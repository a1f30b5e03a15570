package goroutines

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"

	"chokepoint/internal/evidence/stacks"
)

// The text of the goroutine profile with debug=1, as printCountProfile and
// printStackRecord of runtime/pprof print it; fields are parted by tabs:
//
//	goroutine profile: total N           or goroutineleak profile: total N
//	COUNT @ 0xPC 0xPC ...
//	# labels: {"k":"v", ...}
//	#	0xPC	FUNC+0xOFFSET	FILE:LINE    a line a frame, innermost first
//	(an empty line)
//
// Frames of the runtime at the innermost end are left out, and so is runtime.goexit.
const (
	countsInfix = " profile: total "
	countsFrame = "#\t0x"
	maxCount    = 1 << 31
)

// CountsHeader reads the first line of a debug=1 text.
func CountsHeader(line []byte) (total int, ok bool) {
	for _, name := range []string{"goroutine", "goroutineleak"} {
		if digits, found := bytes.CutPrefix(line, []byte(name+countsInfix)); found {
			total, err := strconv.Atoi(string(digits))
			return total, err == nil && total >= 0 && total < maxCount
		}
	}
	return 0, false
}

// ScanCounts reads the text of the goroutine profile with debug=1 and hands each
// of its stacks to each, with its count and its text, which is valid until the
// next. It has no states: a rule that asks for one takes every stack that has its
// frames. An error is of r, or says that there is no such profile in the text.
func ScanCounts(r io.Reader, each func(s stacks.Stack, text []byte)) (stacks.End, error) {
	c := counts{r: bufio.NewReaderSize(r, maxLine), names: make(map[string]string), total: -1}
	for c.next() {
		c.take(each)
	}
	c.flush(each)
	if c.err != nil {
		return stacks.End{Truncated: true}, fmt.Errorf("read goroutine profile after %d goroutines: %w", c.seen, c.err)
	}
	if c.total < 0 || (c.seen == 0 && c.total > 0) {
		return stacks.End{}, errors.New("no goroutine: want a profile as /debug/pprof/goroutine?debug=1 prints it")
	}
	end := stacks.End{Truncated: c.seen < c.total || c.cut, Notes: []string{"this format tells no states and no creators"}}
	if c.seen != c.total {
		end.Notes = append(end.Notes, fmt.Sprintf("its header says %d goroutines", c.total))
	}
	return end, nil
}

// counts is the state of ScanCounts.
type counts struct {
	r    *bufio.Reader
	err  error
	line []byte
	torn bool // the current line has no end
	cut  bool // so has the last, and it is no whole frame

	total, seen int // total is -1 before the header
	open        bool
	count       int
	frames      []Frame
	text        []byte
	names       map[string]string
}

// next makes the next line the current one, cut at maxLine.
func (c *counts) next() bool {
	raw, err := c.r.ReadSlice('\n')
	line := bytes.TrimRight(raw, "\r\n")
	if errors.Is(err, bufio.ErrBufferFull) {
		line = bytes.Clone(raw)
		for errors.Is(err, bufio.ErrBufferFull) {
			_, err = c.r.ReadSlice('\n')
		}
	}
	if err != nil && err != io.EOF {
		c.err = err
	}
	c.line, c.torn = line, err != nil && len(raw) > 0
	return len(raw) > 0
}

// take reads the current line.
func (c *counts) take(each func(stacks.Stack, []byte)) {
	if c.total < 0 {
		if total, ok := CountsHeader(c.line); ok {
			c.total = total
		}
		return
	}
	if n, ok := countOf(c.line); ok {
		c.flush(each)
		c.open, c.count = true, n
	}
	if !c.open {
		return
	}
	if len(c.line) == 0 {
		c.flush(each)
		return
	}
	if len(c.text)+len(c.line) < maxText {
		c.text = append(append(c.text, c.line...), '\n')
	}
	f, ok := Frame{}, false
	if bytes.HasPrefix(c.line, []byte(countsFrame)) && len(c.frames) < maxFrames {
		if f, ok = c.frame(c.line); ok {
			c.frames = append(c.frames, f)
		}
	}
	c.cut = c.torn && f.Line == 0
}

// flush hands over the stack that was read.
func (c *counts) flush(each func(stacks.Stack, []byte)) {
	if !c.open {
		return
	}
	each(stacks.Stack{Frames: append([]Frame(nil), c.frames...), Count: c.count}, c.text)
	c.seen += c.count
	c.open, c.frames, c.text = false, c.frames[:0], c.text[:0]
}

// countOf reads "COUNT @ 0xPC ...".
func countOf(line []byte) (int, bool) {
	digits, rest, ok := bytes.Cut(line, []byte(" @"))
	if !ok || len(digits) == 0 || digits[0] < '0' || digits[0] > '9' || (len(rest) > 0 && !bytes.HasPrefix(rest, []byte(" 0x"))) {
		return 0, false
	}
	n, err := strconv.Atoi(string(digits))
	return n, err == nil && n > 0 && n < maxCount
}

// frame reads "#	0xPC	FUNC+0xOFFSET	FILE:LINE", or the address alone.
func (c *counts) frame(line []byte) (Frame, bool) {
	fields := bytes.FieldsFunc(line, func(r rune) bool { return r == '\t' })
	switch {
	case len(fields) == 2:
		return Frame{Func: c.name(fields[1])}, true
	case len(fields) < 4:
		return Frame{}, false
	}
	f := Frame{Func: c.name(fields[2])}
	if plus := bytes.LastIndex(fields[2], []byte("+0x")); plus > 0 {
		f.Func = c.name(fields[2][:plus])
	}
	place := bytes.Join(fields[3:], []byte("\t"))
	if colon := bytes.LastIndexByte(place, ':'); colon > 0 {
		if n, err := strconv.Atoi(string(place[colon+1:])); err == nil {
			f.File, f.Line = c.name(place[:colon]), n
		}
	}
	return f, true
}

// name returns b as a string that stacks share.
func (c *counts) name(b []byte) string {
	if name, ok := c.names[string(b)]; ok {
		return name
	}
	name := string(b)
	if len(c.names) < maxInterned && len(name) <= maxShared {
		c.names[name] = name
	}
	return name
}
