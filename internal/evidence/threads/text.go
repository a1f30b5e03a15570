package threads

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"chokepoint/internal/evidence/stacks"
)

// Lines of a text that are not those of a thread.
const (
	preamble      = "Full thread dump "
	smrLength     = "_java_thread_list="
	jniPrefix     = "JNI global ref"
	deadlocks     = "Found "
	statePrefix   = "java.lang.Thread.State: "
	mountedPrefix = "Mounted virtual thread "
)

// attributes are what follows the name in the header of a thread:
//
//	"NAME" #ID< [NID]>< daemon> prio=5 os_prio=0 ... tid=0x.. nid=.. STATUS [0x..]    HotSpot; no #ID before Java 8
//	"NAME" os_prio=0 ... tid=0x.. nid=.. STATUS                                        its own threads
//	"NAME" - Thread t@ID                                                               Actuator, VisualVM
//	"NAME"< daemon> prio=5 Id=ID STATE< on LOCK< owned by "NAME" Id=ID>>               ThreadInfo.toString
//	#ID "NAME"< virtual>< STATE TIME>           jcmd Thread.dump_to_file as text; a state from Java 25 on
var (
	hotspot  = regexp.MustCompile(`^ (#\d+|daemon|prio=\d+|os_prio=-?\d+) .*\btid=0x[0-9a-f]+ nid=`)
	actuator = regexp.MustCompile(`^ - Thread t@\d+$`)
	mxbean   = regexp.MustCompile(`^( daemon)?( prio=\d+)? Id=\d+ ([A-Z_]+)`)
	toFile   = regexp.MustCompile(`^#\d+ "(.*)"( virtual)?( ([A-Z_]+) \d{4}-\d\d-\d\dT\S+)?$`)
	listSize = regexp.MustCompile(`\blength=(\d+)`)
	found    = regexp.MustCompile(`^Found (one|\d+) Java-level deadlocks?:$`)
)

// header is what the first line of a thread tells.
type header struct {
	name    string
	state   string // only where the header has it
	toFile  bool   // of jcmd Thread.dump_to_file: frames have no "at" before Java 25
	virtual bool
}

// headerOf reads the header of a thread.
func headerOf(line []byte) (header, bool) {
	if len(line) == 0 {
		return header{}, false
	}
	if line[0] == '#' {
		m := toFile.FindSubmatch(line)
		if m == nil {
			return header{}, false
		}
		return header{name: string(m[1]), state: string(m[4]), toFile: true, virtual: len(m[2]) > 0}, true
	}
	if line[0] != '"' {
		return header{}, false
	}
	// A name may hold anything, quotes too: the first end that attributes follow.
	for at, quotes := 1, 0; quotes < maxQuotes; at, quotes = at+1, quotes+1 {
		quote := bytes.IndexByte(line[at:], '"')
		if quote < 0 {
			return header{}, false
		}
		at += quote
		rest := line[at+1:]
		if hotspot.Match(rest) || actuator.Match(rest) {
			return header{name: string(line[1:at])}, true
		}
		if m := mxbean.FindSubmatch(rest); m != nil {
			return header{name: string(line[1:at]), state: string(m[3])}, true
		}
	}
	return header{}, false
}

// maxQuotes is how many quotes of a line are tried as the end of a name, so that
// the time for a line stays in proportion to its length.
const maxQuotes = 64

// IsTextHeader says whether line is the header of a thread, or the line before all
// of them.
func IsTextHeader(line []byte) bool {
	_, ok := headerOf(line)
	return ok || bytes.HasPrefix(line, []byte(preamble))
}

// Text reads the text of one thread dump, or of several that follow each other, as
// three times jstack into one file or the log of a JVM that got SIGQUIT. Its memory
// does not grow with the text.
type Text struct {
	r     *bufio.Reader
	err   error
	line  []byte
	ended bool // the current line's newline was there
	held  bool // the current line begins the next dump
	names names

	// Of the current dump.
	began, hotspot, closed bool
	expected, java         int // threads; 0 if the text does not tell
	internal, virtual      int
	onlyMounted            bool // the format has no other virtual threads
	deadlocks              string
	locks                  locks

	// Of the current thread.
	open   bool
	header header
	frames []stacks.Frame
	text   []byte
	torn   bool // its last line had no end
}

// NewText returns a reader of the text in r.
func NewText(r io.Reader) *Text {
	return &Text{r: bufio.NewReaderSize(r, maxLine), names: names{}}
}

// ErrNoThread is the error of a text, or of a part of it, without a thread.
var ErrNoThread = errors.New("no thread: want a dump as jstack or jcmd Thread.print prints it")

// Next reads the next dump to its end. more says that another follows, also after
// ErrNoThread. Any other error is of the reader, and comes with what was read
// before it.
func (t *Text) Next(each Each) (end stacks.End, more bool, err error) {
	t.began, t.hotspot, t.closed, t.onlyMounted = false, false, false, false
	t.expected, t.java, t.internal, t.virtual, t.deadlocks = 0, 0, 0, 0, ""
	t.header, t.locks = header{}, locks{}
	count := 0
	counted := func(s stacks.Stack, text []byte) {
		count++
		each(s, text)
	}
	for t.next() {
		if bytes.HasPrefix(t.line, []byte(preamble)) {
			if count > 0 || t.began {
				t.flush(counted)
				t.held, more = true, true
				break
			}
			t.began = true
			continue
		}
		t.take(counted)
	}
	t.flush(counted)
	if t.err != nil {
		return stacks.End{Truncated: true}, false, fmt.Errorf("read thread dump after %d threads: %w", count, t.err)
	}
	if count == 0 {
		return stacks.End{}, more, ErrNoThread
	}
	return t.end(), more, nil
}

// end is what is known of the dump that was read.
func (t *Text) end() stacks.End {
	// HotSpot counts its references last; a part that was pasted without the first
	// line need not have them.
	end := stacks.End{Truncated: t.torn || t.java < t.expected || (t.began && t.hotspot && !t.closed)}
	t.torn = false
	if t.java < t.expected {
		end.Notes = append(end.Notes, fmt.Sprintf("its header says %d threads", t.expected))
	}
	if t.internal > 0 {
		end.Notes = append(end.Notes, fmt.Sprintf("%d threads of the JVM that are no Java threads (VM, garbage collector) are left out", t.internal))
	}
	if t.virtual > 0 {
		note := fmt.Sprintf("%d of them are virtual", t.virtual)
		if t.onlyMounted {
			note += "; this format has only those that are mounted"
		}
		end.Notes = append(end.Notes, note)
	}
	if t.deadlocks != "" {
		end.Notes = append(end.Notes, "the JVM found a deadlock: "+t.deadlocks)
	}
	end.Notes = append(end.Notes, t.locks.notes()...)
	return end
}

// next makes the next line the current one, cut at maxLine.
func (t *Text) next() bool {
	if t.held {
		t.held = false
		return true
	}
	if t.err != nil {
		return false
	}
	raw, err := t.r.ReadSlice('\n')
	line := raw
	if errors.Is(err, bufio.ErrBufferFull) {
		line = bytes.Clone(raw)
		for errors.Is(err, bufio.ErrBufferFull) {
			_, err = t.r.ReadSlice('\n')
		}
	}
	if err != nil && err != io.EOF {
		t.err = err
	}
	t.line, t.ended = bytes.TrimRight(line, "\r\n"), err == nil
	return len(raw) > 0
}

// take reads the current line.
func (t *Text) take(each Each) {
	line := t.line
	trimmed := bytes.TrimLeft(line, " \t")
	switch {
	case len(trimmed) == 0:
		t.flush(each)
	case line[0] == '"', line[0] == '#':
		if h, ok := headerOf(line); ok {
			t.flush(each)
			t.begin(h)
			t.keep()
		} else if !t.ended {
			t.torn = true
		} else if bytes.HasSuffix(line, []byte(":")) {
			t.flush(each) // a thread of a deadlock, printed again
		}
	case bytes.HasPrefix(line, []byte(jniPrefix)):
		t.flush(each)
		t.closed, t.header = true, header{} // what locks stand below are of a deadlock, told before
	case bytes.HasPrefix(line, []byte(smrLength)):
		if m := listSize.FindSubmatch(line); m != nil {
			t.expected, _ = strconv.Atoi(string(m[1]))
		}
	case found.Match(line):
		t.flush(each)
		t.deadlocks = strings.TrimSuffix(strings.TrimPrefix(string(line), deadlocks), ":")
	case t.open:
		t.within(trimmed, each)
	case trimmed[0] == '-' && t.header.name != "":
		t.locks.take(trimmed, t.header.name) // an ownable synchronizer, below an empty line
	}
}

// begin opens a thread.
func (t *Text) begin(h header) {
	if h.virtual && h.name == "" {
		h.name = "virtual"
	}
	t.open, t.header = true, h
	t.locks.begin()
	t.frames, t.text, t.torn = t.frames[:0], t.text[:0], !t.ended
	t.hotspot = t.hotspot || bytes.Contains(t.line, []byte(" tid=0x"))
}

// within reads a line below a header.
func (t *Text) within(line []byte, each Each) {
	t.torn = !t.ended
	if state, ok := bytes.CutPrefix(line, []byte(statePrefix)); ok {
		word, _, _ := bytes.Cut(state, []byte(" "))
		t.header.state = t.names.of(word)
	} else if call, ok := bytes.CutPrefix(line, []byte("at ")); ok || (t.header.toFile && line[0] != '-') {
		f, ok := frame(string(call))
		if ok && len(t.frames) < maxFrames {
			f.Func, f.File = t.names.of([]byte(f.Func)), t.names.of([]byte(f.File))
			t.frames = append(t.frames, f)
		}
		t.torn = t.torn && !ok
	} else if _, ok := bytes.CutPrefix(line, []byte(mountedPrefix)); ok {
		t.flush(each)
		t.begin(header{virtual: true})
		t.onlyMounted = true
	} else if line[0] == '-' {
		t.locks.take(line, t.header.name)
	}
	t.keep()
}

// keep adds the current line to the text of the thread.
func (t *Text) keep() {
	if len(t.text)+len(t.line) < maxText {
		t.text = append(append(t.text, t.line...), '\n')
	}
}

// flush hands over the thread that was read. One of HotSpot without a state and a
// stack is the JVM's own.
func (t *Text) flush(each Each) {
	if !t.open {
		return
	}
	t.open = false
	h := t.header
	switch {
	case h.virtual:
		t.virtual++
	case h.state == "" && len(t.frames) == 0 && !h.toFile && !t.torn:
		t.internal++
		return
	default:
		t.java++
	}
	each(stacks.Stack{Name: family(h.name), State: h.state, Frames: slices.Clone(t.frames), Count: 1, Truncated: t.torn}, t.text)
}
