package goroutines

import (
	"bytes"
	"strconv"
)

// Lines of a block that are not part of a frame.
const (
	createdByPrefix  = "created by "
	creatorInfix     = " in goroutine " // from Go 1.21 on
	ancestorPrefix   = "[originating from goroutine "
	elidedUnknown    = "...additional frames elided..." // up to Go 1.20, and of ancestors
	elidedPrefix     = "..."
	elidedSuffix     = " frames elided..."
	stackUnavailable = "goroutine running on other thread; stack unavailable"
	nonGoPrefix      = "non-Go function"
)

// callName returns the function of a line such as "main.(*T).m(0x1, {0x2, ...})".
// Arguments hold no parentheses, so the last opening one begins them.
func callName(line []byte) (name []byte, ok bool) {
	if !bytes.HasSuffix(line, []byte(")")) {
		return nil, false
	}
	open := bytes.LastIndexByte(line, '(')
	if open <= 0 {
		return nil, false
	}
	return line[:open], true
}

// location reads the indented line below a function:
//
//	FILE:LINE< +0x..>< fp=0x.. sp=0x.. pc=0x..>   Go
//	<FILE:LINE >pc=0x..                           C, through a cgo symbolizer
//
// FILE may hold spaces and colons. offset says that the line has its "+0x..".
func location(line []byte) (file []byte, number int, offset, ok bool) {
	b := bytes.TrimLeft(line, " \t")
	for {
		space := bytes.LastIndexByte(b, ' ')
		last := b[space+1:]
		if bytes.HasPrefix(last, []byte("+0x")) {
			offset = true
		} else if !bytes.HasPrefix(last, []byte("fp=0x")) && !bytes.HasPrefix(last, []byte("sp=0x")) &&
			!bytes.HasPrefix(last, []byte("pc=0x")) {
			break
		}
		if space < 0 {
			return nil, 0, false, !offset
		}
		b = b[:space]
	}
	colon := bytes.LastIndexByte(b, ':')
	if colon <= 0 {
		return nil, 0, false, false
	}
	number, err := strconv.Atoi(string(b[colon+1:]))
	if err != nil || number < 0 {
		return nil, 0, false, false
	}
	return b[:colon], number, offset, true
}

// elided reads the line that stands for frames left out.
func elided(line []byte) (n int, ok bool) {
	if string(line) == elidedUnknown {
		return ElidedUnknown, true
	}
	b, ok := bytes.CutPrefix(line, []byte(elidedPrefix))
	if !ok {
		return 0, false
	}
	if b, ok = bytes.CutSuffix(b, []byte(elidedSuffix)); !ok {
		return 0, false
	}
	n, err := strconv.Atoi(string(b))
	return n, err == nil && n > 0
}

// creator splits "pkg.f in goroutine 7" after "created by ".
func creator(b []byte) (name []byte, id uint64) {
	at := bytes.LastIndex(b, []byte(creatorInfix))
	if at < 0 {
		return b, 0
	}
	id, err := strconv.ParseUint(string(b[at+len(creatorInfix):]), 10, 64)
	if err != nil {
		return b, 0
	}
	return b[:at], id
}
