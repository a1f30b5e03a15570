package threads

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"chokepoint/internal/evidence/stacks"
)

// Kind is the origin of a JSON text.
type Kind string

const (
	// Actuator is Spring Boot's /actuator/threaddump: {"threads": [ThreadInfo, ...]},
	// each as java.lang.management.ThreadInfo; in Boot 1 the array alone.
	Actuator Kind = "actuator"
	// Jcmd is jcmd Thread.dump_to_file -format=json, in both versions of its
	// format: {"threadDump": {"threadContainers": [{"threads": [...]}, ...]}}.
	Jcmd Kind = "jcmd"
)

// maxThread is the most bytes of JSON that one thread, or anything else in the
// text, may take: the decoder holds it whole.
const maxThread = 16 << 20

// errTooLarge stops a decoder that would hold more.
var errTooLarge = fmt.Errorf("a part of more than %d MB, which no thread has", maxThread>>20)

// element is a StackTraceElement of an Actuator thread.
type element struct {
	ClassName  string `json:"className"`
	MethodName string `json:"methodName"`
	FileName   string `json:"fileName"`
	LineNumber int    `json:"lineNumber"`
}

// thread is one of either kind. Fields that are not read are left out.
type thread struct {
	// Actuator.
	ThreadName  *string   `json:"threadName"`
	ThreadState string    `json:"threadState"`
	StackTrace  []element `json:"stackTrace"`
	LockName    string    `json:"lockName"` // CLASS@HASH
	LockOwner   string    `json:"lockOwnerName"`
	// Jcmd; state and virtual from Java 25 on.
	Name    *string  `json:"name"`
	State   string   `json:"state"`
	Virtual *bool    `json:"virtual"`
	Stack   []string `json:"stack"`
	// From Java 25 on.
	BlockedOn     string `json:"blockedOn"`
	ParkBlocker   object `json:"parkBlocker"`
	MonitorsOwned []struct {
		Locks []*string `json:"locks"` // null: it was optimized away
	} `json:"monitorsOwned"`
}

// object is what a thread parks on.
type object struct {
	Object string `json:"object"` // CLASS@HASH
}

// ScanJSON reads a thread dump in JSON and hands each thread to each. Its memory
// does not grow with the text. An error says at which byte the text is no such
// dump; a text that stops early is Truncated instead, once it has a thread.
func ScanJSON(r io.Reader, each Each) (Kind, stacks.End, error) {
	limited := &limitedReader{r: r, left: maxThread}
	s := scanJSON{limited: limited, dec: json.NewDecoder(limited), each: each, names: names{}}
	err := s.document()
	var end stacks.End
	if err == nil {
		s.limited.left = maxThread
		if _, after := s.dec.Token(); after != io.EOF {
			end.Notes = append(end.Notes, "text follows the end of the dump and was not read; give each dump by itself")
		}
	}
	if err != nil && s.count > 0 && (errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF)) {
		end.Truncated, err = true, nil
	}
	switch {
	case limited.err != nil:
		return s.kind, stacks.End{Truncated: true}, fmt.Errorf("read thread dump after %d threads: %w", s.count, limited.err)
	case err != nil:
		return s.kind, end, fmt.Errorf("no thread dump in this JSON, at byte %d: %w", s.dec.InputOffset(), plain(err))
	case s.count == 0:
		return s.kind, end, errors.New(`no thread in this JSON: want {"threads": ...} as Actuator gives it, or {"threadDump": ...} as jcmd Thread.dump_to_file does`)
	}
	if s.virtual > 0 {
		end.Notes = append(end.Notes, fmt.Sprintf("%d of them are virtual", s.virtual))
	}
	if s.missing > 0 {
		end.Notes = append(end.Notes, fmt.Sprintf("the JVM left out %d virtual threads", s.missing))
	}
	if s.stateless {
		end.Notes = append(end.Notes, "this format tells no states (from Java 25 on it does)")
	}
	end.Notes = append(end.Notes, s.locks.notes()...)
	return s.kind, end, nil
}

// plain names the end of the text as a user would.
func plain(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return errors.New("the text ends")
	}
	return err
}

// limitedReader fails when more than left bytes are read before it is renewed.
type limitedReader struct {
	r    io.Reader
	left int
	err  error // of r
}

func (l *limitedReader) Read(p []byte) (int, error) {
	if l.left <= 0 {
		return 0, errTooLarge
	}
	n, err := l.r.Read(p[:min(len(p), l.left)])
	l.left -= n
	if err != nil && err != io.EOF {
		l.err = err
	}
	return n, err
}

// scanJSON walks the text token by token, down to the threads.
type scanJSON struct {
	limited *limitedReader
	dec     *json.Decoder
	each    Each
	names   names
	kind    Kind
	text    []byte

	count, virtual, missing int
	stateless               bool
	locks                   locks
}

func (s *scanJSON) document() error {
	token, err := s.dec.Token()
	switch {
	case err != nil:
		return err
	case token == json.Delim('['):
		s.kind = Actuator
		return s.list(func() error { _, err := s.thread(); return err })
	case token == json.Delim('{'):
		return s.members(map[string]func() error{
			"threads":    func() error { s.kind = Actuator; _, err := s.threads(); return err },
			"threadDump": func() error { s.kind = Jcmd; return s.threadDump() },
		})
	}
	return fmt.Errorf("%v is neither an object nor an array", token)
}

func (s *scanJSON) threadDump() error {
	if err := s.expect('{'); err != nil {
		return err
	}
	return s.members(map[string]func() error{"threadContainers": func() error {
		if err := s.expect('['); err != nil {
			return err
		}
		return s.list(s.container)
	}})
}

func (s *scanJSON) container() error {
	if err := s.expect('{'); err != nil {
		return err
	}
	listed, told := 0, json.RawMessage(nil)
	err := s.members(map[string]func() error{
		"threads":     func() (err error) { listed, err = s.threads(); return err },
		"threadCount": func() error { return s.dec.Decode(&told) },
	})
	var n int
	// A number in version 2 of the format, a string before.
	if json.Unmarshal(bytes.Trim(told, `"`), &n) == nil && n > listed {
		s.missing += n - listed
	}
	return err
}

func (s *scanJSON) threads() (n int, err error) {
	if err := s.expect('['); err != nil {
		return 0, err
	}
	err = s.list(func() error {
		ok, err := s.thread()
		if ok {
			n++
		}
		return err
	})
	return n, err
}

// thread reads one thread.
func (s *scanJSON) thread() (ok bool, err error) {
	s.limited.left = maxThread
	var t thread
	if err := s.dec.Decode(&t); err != nil {
		return false, err
	}
	one := stacks.Stack{Count: 1}
	var name string
	switch {
	case s.kind == Actuator && t.ThreadName != nil:
		name, one.State = *t.ThreadName, t.ThreadState
		for _, e := range t.StackTrace {
			f := stacks.Frame{Func: function(e.ClassName) + "." + e.MethodName, File: e.FileName, Line: max(0, e.LineNumber)}
			if f.Line == 0 {
				f.File = ""
			}
			one.Frames = append(one.Frames, f)
		}
	case s.kind == Jcmd && t.Name != nil:
		name, one.State = *t.Name, t.State
		for _, line := range t.Stack {
			if f, ok := frame(line); ok {
				one.Frames = append(one.Frames, f)
			}
		}
		if s.isVirtual(t, one.Frames) {
			s.virtual++
			if name == "" {
				name = "virtual"
			}
		}
	default:
		return false, errors.New("an element of the threads is no thread")
	}
	if len(one.Frames) > maxFrames {
		one.Frames = one.Frames[:maxFrames]
	}
	for i := range one.Frames {
		f := &one.Frames[i]
		f.Func, f.File = s.names.of([]byte(f.Func)), s.names.of([]byte(f.File))
	}
	s.stateless = s.stateless || one.State == ""
	one.Name = family(name)
	s.take(t, name)
	s.count++
	s.print(name, one)
	s.each(one, s.text)
	return true, nil
}

// take notes the locks that t waits for and holds.
func (s *scanJSON) take(t thread, name string) {
	if t.LockOwner != "" {
		class, _, _ := strings.Cut(t.LockName, "@")
		s.locks.wait(t.LockName, class, t.LockOwner)
	}
	for _, lock := range []string{t.BlockedOn, t.ParkBlocker.Object} {
		if lock != "" {
			class, _, _ := strings.Cut(lock, "@")
			s.locks.wait(lock, class, "")
		}
	}
	for _, owned := range t.MonitorsOwned {
		for _, lock := range owned.Locks {
			if lock != nil && t.State != "WAITING" && t.State != "TIMED_WAITING" {
				s.locks.hold(*lock, name)
			}
		}
	}
}

func (s *scanJSON) isVirtual(t thread, frames []stacks.Frame) bool {
	if t.Virtual != nil {
		return *t.Virtual
	}
	return slices.ContainsFunc(frames, func(f stacks.Frame) bool { return f.Func == "java.lang.VirtualThread.run" })
}

// print makes the text of a thread as jstack has it.
func (s *scanJSON) print(name string, one stacks.Stack) {
	b := append(strconv.AppendQuote(s.text[:0], name), '\n')
	if one.State != "" {
		b = append(append(append(b, "   "+statePrefix...), one.State...), '\n')
	}
	for _, f := range one.Frames {
		if len(b) >= maxText {
			break
		}
		b = append(append(append(b, "\tat "...), f.Func...), '(')
		if f.File == "" {
			b = append(b, "Unknown Source"...)
		} else {
			b = strconv.AppendInt(append(append(b, f.File...), ':'), int64(f.Line), 10)
		}
		b = append(b, ")\n"...)
	}
	s.text = b
}

// members reads the rest of an object; members that are not in read are skipped.
func (s *scanJSON) members(read map[string]func() error) error {
	for s.dec.More() {
		s.limited.left = maxThread
		token, err := s.dec.Token()
		if err != nil {
			return err
		}
		name, _ := token.(string)
		if take := read[name]; take != nil {
			err = take()
		} else {
			var skipped json.RawMessage
			err = s.dec.Decode(&skipped)
		}
		if err != nil {
			return err
		}
	}
	_, err := s.dec.Token()
	return err
}

// list reads the rest of an array, an element a call.
func (s *scanJSON) list(read func() error) error {
	for s.dec.More() {
		if err := read(); err != nil {
			return err
		}
	}
	_, err := s.dec.Token()
	return err
}

func (s *scanJSON) expect(want json.Delim) error {
	token, err := s.dec.Token()
	if err == nil && token != want {
		return fmt.Errorf("%.40q in place of %q", strings.TrimSpace(fmt.Sprint(token)), want.String())
	}
	return err
}
