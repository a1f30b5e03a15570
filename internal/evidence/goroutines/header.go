package goroutines

import (
	"bytes"
	"strconv"
	"strings"
)

// The header of a goroutine is printed by goroutineheader in the runtime's
// traceback.go. All its forms, optional parts in angle brackets:
//
//	goroutine ID< gp=0x.. m=N mp=0x..| gp=0x.. m=nil> [STATUS ATTRIBUTES]:
//	goroutine ID<...> [STATUS ATTRIBUTES labels:{"k": "v", ...}]:    Go 1.26
//	goroutine ID<...> [STATUS ATTRIBUTES] {k: v, "k k": "v v", ...}: Go 1.27
//
//	STATUS     = text< (leaked)>< (scan)>< (durable)>
//	ATTRIBUTES = <, N minutes><, locked to thread><, synctest bubble N>
const (
	headerPrefix   = "goroutine "
	labelsInside   = " labels:{"
	labelsAfter    = " {"
	maxIDDigits    = 19 // every such number fits a uint64
	markScan       = " (scan)"
	markLeaked     = " (leaked)"
	markDurable    = " (durable)"
	attrLocked     = "locked to thread"
	attrMinutes    = " minutes"
	attrBubble     = "synctest bubble "
	attrBubbleGo24 = "synctest group " // Go 1.24, GOEXPERIMENT=synctest
)

// splitHeader finds the id of a header line and what follows its opening
// bracket. ok is false for any other line.
func splitHeader(line []byte) (id uint64, rest []byte, ok bool) {
	rest, ok = bytes.CutPrefix(line, []byte(headerPrefix))
	if !ok {
		return 0, nil, false
	}
	n := 0
	for n < len(rest) && n < maxIDDigits && '0' <= rest[n] && rest[n] <= '9' {
		id = id*10 + uint64(rest[n]-'0')
		n++
	}
	if n == 0 {
		return 0, nil, false
	}
	rest = rest[n:]
	if bytes.HasPrefix(rest, []byte(" gp=")) {
		open := bytes.IndexByte(rest, '[')
		if open < 1 || rest[open-1] != ' ' {
			return 0, nil, false
		}
		rest = rest[open-1:]
	}
	rest, ok = bytes.CutPrefix(rest, []byte(" ["))
	return id, rest, ok
}

// beginsHeader says whether line, cut by the end of the text, may have been a
// header, though it stops before its bracket.
func beginsHeader(line []byte) bool {
	id, ok := bytes.CutPrefix(line, []byte(headerPrefix))
	if !ok {
		return bytes.HasPrefix([]byte(headerPrefix), line)
	}
	after := bytes.TrimLeft(id, "0123456789")
	if len(after) == 0 {
		return true
	}
	return len(after) < len(id) && (bytes.HasPrefix([]byte(" gp="), after) || bytes.HasPrefix(after, []byte(" gp=")))
}

// parseHeader reads a header line. With cut, the line is the beginning of a
// longer one that the text does not have; the goroutine is then Truncated.
func parseHeader(line []byte, cut bool) (Goroutine, bool) {
	id, rest, ok := splitHeader(line)
	if !ok {
		return Goroutine{}, false
	}
	g := Goroutine{ID: id}
	body, closed := bytes.CutSuffix(rest, []byte(":"))
	if closed {
		closed = bytes.HasSuffix(body, []byte("]")) || bytes.HasSuffix(body, []byte("}"))
	}
	if !closed {
		if !cut {
			return Goroutine{}, false
		}
		g.Truncated = true
		body = rest
	}

	// A status holds neither bracket nor brace, so the first of the two that
	// comes ends it; labels may hold anything, within quotes.
	text := string(body)
	status, tail := text, ""
	inside := strings.Index(text, labelsInside)
	end := strings.IndexByte(text, ']')
	switch {
	case inside >= 0 && (end < 0 || inside < end):
		status, tail = text[:inside], text[inside+len(labelsInside):]
		tail = g.takeLabels(tail)
		tail = strings.TrimPrefix(tail, "]")
	case end >= 0:
		status, tail = text[:end], text[end+1:]
	}
	if after, ok := strings.CutPrefix(tail, labelsAfter); ok {
		tail = g.takeLabels(after)
	}
	if tail != "" && !g.Truncated {
		g.note(tail)
	}
	g.takeStatus(status)
	return g, true
}

// takeStatus reads STATUS and ATTRIBUTES.
func (g *Goroutine) takeStatus(s string) {
	parts := strings.Split(s, ", ")
	state := parts[0]
	for {
		var ok bool
		if state, ok = strings.CutSuffix(state, markLeaked); ok {
			g.Leaked = true
		} else if state, ok = strings.CutSuffix(state, markDurable); ok {
			g.Durable = true
		} else if state, ok = strings.CutSuffix(state, markScan); !ok {
			break
		}
	}
	g.State = state
	for _, part := range parts[1:] {
		if part == attrLocked {
			g.Locked = true
			continue
		}
		if n, ok := strings.CutSuffix(part, attrMinutes); ok {
			if minutes, err := strconv.Atoi(n); err == nil && minutes >= 0 {
				g.WaitMinutes = minutes
				continue
			}
		}
		n, ok := strings.CutPrefix(part, attrBubble)
		if !ok {
			n, ok = strings.CutPrefix(part, attrBubbleGo24)
		}
		if ok {
			if bubble, err := strconv.ParseUint(n, 10, 64); err == nil {
				g.Bubble = bubble
				continue
			}
		}
		if !g.Truncated {
			g.note(part)
		}
	}
}

// takeLabels reads the pairs after an opening brace, the closing brace too, and
// returns what is left. Text that is no list of pairs is returned as it is.
func (g *Goroutine) takeLabels(s string) (rest string) {
	labels := map[string]string{}
	for at := s; ; {
		key, after, ok := labelToken(at)
		if !ok {
			return s
		}
		if after, ok = strings.CutPrefix(after, ": "); !ok {
			return s
		}
		value, after, ok := labelToken(after)
		if !ok {
			return s
		}
		labels[key] = value
		if rest, ok := strings.CutPrefix(after, "}"); ok {
			g.Labels = labels
			return rest
		}
		if at, ok = strings.CutPrefix(after, ", "); !ok {
			return s
		}
	}
}

// labelToken reads a key or a value: quoted with the escapes of a Go string, or,
// from Go 1.27 on, bare where it holds only letters, digits, '.', '/' and '_'
// (an empty one is bare too).
func labelToken(s string) (token, rest string, ok bool) {
	if strings.HasPrefix(s, `"`) {
		quoted, err := strconv.QuotedPrefix(s)
		if err != nil {
			return "", "", false
		}
		token, err = strconv.Unquote(quoted)
		return token, s[len(quoted):], err == nil
	}
	end := strings.IndexFunc(s, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' ||
			r == '.' || r == '/' || r == '_')
	})
	if end < 0 {
		end = len(s)
	}
	return s[:end], s[end:], true
}

// IsHeader says whether line, without its end, is the header of a goroutine.
func IsHeader(line []byte) bool {
	_, ok := parseHeader(line, false)
	return ok
}
