package wire

import "net/http"

// version is what every status line begins with; a digit, a space and the status
// follow.
const version = "HTTP/1."

// stepHead reads one byte of the status line, the header or the trailer.
func (r *Reader) stepHead(b byte) error {
	switch r.state {
	case inStatusLine:
		return r.stepStatus(b)
	case afterStatus:
		if b != ' ' && b != '\r' && b != '\n' {
			return errStatusLine
		}
		r.state = inReason
		return r.endOfLine(b, errStatusLine)
	case atLineStart:
		return r.startLine(b)
	case inList:
		return r.stepList(b)
	case atLineEnd:
		if b != '\n' {
			return errHeader
		}
		r.state = atLineStart
		return nil
	default: // atHeadEnd
		if b != '\n' {
			return errHeader
		}
		return r.endHead()
	}
}

func (r *Reader) stepStatus(b byte) error {
	at := int(r.digits)
	r.digits++
	digit := b - '0'
	switch {
	case at < len(version):
		if b != version[at] {
			return errStatusLine
		}
	case at == len(version):
		if digit > 9 {
			return errStatusLine
		}
		r.old = digit == 0
	case at == len(version)+1:
		if b != ' ' {
			return errStatusLine
		}
	default:
		if digit > 9 {
			return errStatusLine
		}
		r.status = 10*r.status + uint16(digit)
		if at == len(version)+4 {
			if r.status < 100 {
				return errStatusLine
			}
			r.state = afterStatus
		}
	}
	return nil
}

// endOfLine ends the line if b does, and lets pass what may stand in a value.
// A lone LF ends a line too (RFC 9112, section 2.2).
func (r *Reader) endOfLine(b byte, wrong error) error {
	switch {
	case b == '\n':
		r.state = atLineStart
	case b == '\r':
		r.state = atLineEnd
	case b < ' ' && b != '\t', b == 0x7f:
		return wrong
	}
	return nil
}

// startLine reads the first byte of a header line. A line that begins with a
// space, which once continued the one before, is refused: RFC 9112, section 5.2.
func (r *Reader) startLine(b byte) error {
	switch b {
	case '\r':
		r.state = atHeadEnd
		return nil
	case '\n':
		return r.endHead()
	}
	if !tokenBytes[b] {
		return errHeader
	}
	r.state, r.length = inName, 0
	r.collect(b)
	return nil
}

// readName reads p up to the colon, and says how much that is.
func (r *Reader) readName(p []byte) (int, error) {
	part, whole := r.room(p)
	for i, b := range part {
		if b == ':' {
			r.endName()
			r.line += int32(i + 1)
			return i + 1, nil
		}
		if !tokenBytes[b] {
			return i, errHeader
		}
		r.collect(b)
	}
	r.line += int32(len(part))
	return len(part), whole
}

// room is as much of p as the header may still have, and errLongHeader if that is
// not all of it.
func (r *Reader) room(p []byte) ([]byte, error) {
	if left := int(MaxHeader - r.line); len(p) > left {
		return p[:left], errLongHeader
	}
	return p, nil
}

// endName decides what the value of the header is read for.
func (r *Reader) endName() {
	r.header = other
	if !r.trailer && r.length <= longestToken {
		switch string(r.token[:r.length]) {
		case "content-length":
			r.header = contentLength
		case "transfer-encoding":
			r.header = transferEncoding
		case "connection":
			r.header = connection
		}
	}
	r.state = inValue
	if r.header != other {
		r.state, r.length, r.gap = inList, 0, false
	}
}

// collect adds a byte to the token, in lower case.
func (r *Reader) collect(b byte) {
	if 'A' <= b && b <= 'Z' {
		b += 'a' - 'A'
	}
	if r.length < longestToken {
		r.token[r.length] = b
		r.length++
	} else {
		r.length = longestToken + 1
	}
}

// skipText reads p up to the end of a reason or of a value that does not matter,
// and says how much that is.
func (r *Reader) skipText(p []byte) (int, error) {
	in, wrong := r.state, errHeader
	if in == inReason {
		wrong = errStatusLine
	}
	part, whole := r.room(p)
	for i, b := range part {
		if b >= ' ' && b != 0x7f {
			continue
		}
		if err := r.endOfLine(b, wrong); err != nil || r.state != in {
			r.line += int32(i + 1)
			return i + 1, err
		}
	}
	r.line += int32(len(part))
	return len(part), whole
}

// stepList reads a value that matters, element by element.
func (r *Reader) stepList(b byte) error {
	switch b {
	case ' ', '\t':
		r.gap = r.length > 0
		return nil
	case ',', '\r', '\n':
		if err := r.element(); err != nil {
			return err
		}
		r.length, r.gap = 0, false
	default:
		if r.gap {
			r.collect(' ')
			r.gap = false
		}
		r.collect(b)
	}
	return r.endOfLine(b, errHeader)
}

// element judges the list element in token.
func (r *Reader) element() error {
	token := r.token[:min(r.length, longestToken)]
	long := r.length > longestToken
	switch r.header {
	case contentLength:
		// Twice the same is refused too (RFC 9112, section 6.3, allows it): whoever
		// sends that has two minds about where the answer ends.
		if r.sized || long || len(token) == 0 {
			return errLength
		}
		r.sized = true
		for _, b := range token {
			if b < '0' || b > '9' {
				return errLength
			}
			// Far beyond MaxBody one is like the other.
			r.left = min(10*r.left+int64(b-'0'), 1<<50)
		}
	case transferEncoding:
		// Chunked comes last and once (RFC 9112, section 6.1). Other codings are
		// of no concern: the body is not looked into.
		if r.chunked || len(token) == 0 {
			return errEncoding
		}
		r.encoded = true
		r.chunked = !long && string(token) == "chunked"
	case connection:
		r.close = r.close || !long && string(token) == "close"
		r.keep = r.keep || !long && string(token) == "keep-alive"
	}
	return nil
}

// endHead decides what follows the header: RFC 9112, section 6.3.
func (r *Reader) endHead() error {
	if r.trailer {
		r.state = complete
		return nil
	}
	if r.sized && r.encoded {
		return errFraming
	}
	if r.encoded && r.old {
		return errEncoding
	}
	if r.status < http.StatusOK && r.status != http.StatusSwitchingProtocols {
		// An interim answer, such as 100 Continue; the answer proper follows.
		interim := r.interim + 1
		if interim > MaxInterim {
			return errInterim
		}
		r.Reset(r.head)
		r.interim = interim
		return nil
	}
	r.reusable = !r.close && (!r.old || r.keep) && r.status != http.StatusSwitchingProtocols
	switch {
	case r.head, r.status == http.StatusSwitchingProtocols, r.status == http.StatusNoContent, r.status == http.StatusNotModified:
		r.state = complete
	case r.chunked:
		r.state, r.left, r.digits, r.line = inChunkSize, 0, 0, 0
	case r.sized && r.left > MaxBody:
		return errLongBody
	case r.sized && r.left == 0:
		r.state = complete
	case r.sized:
		r.state = inBody
	default:
		r.state, r.reusable = untilClose, false
	}
	return nil
}

// tokenBytes are those of a header's name: RFC 9110, section 5.6.2.
var tokenBytes = func() (set [256]bool) {
	for b := range set {
		set[b] = '0' <= b && b <= '9' || 'A' <= b && b <= 'Z' || 'a' <= b && b <= 'z'
	}
	for _, b := range []byte("!#$%&'*+-.^_`|~") {
		set[b] = true
	}
	return set
}()
