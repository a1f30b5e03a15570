// Package threads reads Java thread dumps and says where each thread stands, in
// the words of evidence/stacks: the text of jstack, of jcmd Thread.print and of
// SIGQUIT, the JSON and the text of Spring Boot's Actuator, and both forms of jcmd
// Thread.dump_to_file, which have virtual threads.
//
// All of them come out alike: a state is that of java.lang.Thread.State, without
// jstack's "(parking)"; a function is CLASS.METHOD without class loader and module,
// and without the number that a JVM gives to a lambda or a generated accessor.
//
// It refuses to count what is no Java thread: the JVM's own threads (collector,
// compiler) have no stack, and are told in a note. It does not repeat the threads
// that jstack prints again under a deadlock.
package threads

import (
	"strconv"
	"strings"

	"chokepoint/internal/evidence/stacks"
)

// Limits that keep the memory of a reader bounded, whatever it reads. A JVM prints
// at most 1,024 frames (MaxJavaStackTraceDepth).
const (
	maxLine     = 256 << 10 // longer lines are cut
	maxText     = 256 << 10 // of one thread
	maxFrames   = 4096
	maxInterned = 1 << 16 // names shared between threads
	maxShared   = 1 << 10 // bytes of such a name
)

// Each is handed one thread after the other, with its text as printed (in JSON
// formats as jstack would), which is valid until the next.
type Each func(s stacks.Stack, text []byte)

// names shares strings between threads.
type names map[string]string

func (n names) of(b []byte) string {
	if name, ok := n[string(b)]; ok {
		return name
	}
	name := string(b)
	if len(n) < maxInterned && len(name) <= maxShared {
		n[name] = name
	}
	return name
}

// family is the name of a thread without its number in the pool, as
// "http-nio-8080-exec-*" for all workers of one Tomcat.
func family(name string) string {
	trimmed := strings.TrimRight(name, "0123456789")
	if trimmed == name || trimmed == "" {
		return name
	}
	return trimmed + "*"
}

// frame reads a frame as StackTraceElement.toString prints it, or as HotSpot does:
//
//	LOADER/MODULE@VERSION/CLASS.METHOD(FILE:LINE)
//	CLASS.METHOD(MODULE@VERSION/FILE:LINE)
//
// with any of loader, module and version missing, and "Native Method" or "Unknown
// Source" in place of the file.
func frame(s string) (f stacks.Frame, ok bool) {
	s, ok = strings.CutSuffix(s, ")")
	open := strings.LastIndexByte(s, '(')
	if !ok || open <= 0 {
		return stacks.Frame{}, false
	}
	f.Func = function(s[:open])
	place := s[open+1:]
	if slash := strings.LastIndexByte(place, '/'); slash >= 0 {
		place = place[slash+1:]
	}
	if file, line, found := strings.Cut(place, ":"); found {
		if n, err := strconv.Atoi(line); err == nil && n >= 0 {
			f.File, f.Line = file, n
		}
	} else if place != "Native Method" && place != "Unknown Source" {
		f.File = place
	}
	return f, strings.Contains(f.Func, ".")
}

// function is a function without what differs from JVM to JVM.
func function(s string) string {
	// A hidden class has its address in its name: C$$Lambda$14/0x00007f20.run.
	for {
		at := strings.Index(s, "/0x")
		if at < 0 {
			break
		}
		end := at + len("/0x")
		for end < len(s) && isHex(s[end]) {
			end++
		}
		s = s[:at] + s[end:]
	}
	if slash := strings.LastIndexByte(s, '/'); slash >= 0 {
		s = s[slash+1:]
	}
	s = withoutNumber(s, "$$Lambda", "$")
	return withoutNumber(s, "GeneratedMethodAccessor", "")
}

func isHex(c byte) bool { return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F' }

// withoutNumber takes the number, and what leads to it, from behind mark.
func withoutNumber(s, mark, lead string) string {
	at := strings.Index(s, mark)
	if at < 0 {
		return s
	}
	at += len(mark)
	rest, ok := strings.CutPrefix(s[at:], lead)
	if !ok {
		return s
	}
	return s[:at] + strings.TrimLeft(rest, "0123456789")
}
