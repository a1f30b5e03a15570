package wire

// stepChunk reads one byte of what stands around chunks: RFC 9112, section 7.1.
// Here a lone LF ends no line: it is where parsers differ.
func (r *Reader) stepChunk(b byte) error {
	if r.line++; r.line > MaxHeader {
		return errLongHeader
	}
	switch r.state {
	case inChunkSize:
		return r.stepChunkSize(b)
	case inChunkExtension:
		if b == '\r' {
			r.state = atChunkSizeEnd
		} else if b < ' ' && b != '\t' || b == 0x7f {
			return errChunk
		}
	case atChunkSizeEnd:
		if b != '\n' {
			return errChunk
		}
		r.line = 0
		if r.left > 0 {
			r.state = inChunk
		} else {
			r.state, r.trailer = atLineStart, true
		}
	case afterChunk:
		if b != '\r' {
			return errChunk
		}
		r.state = atChunkEnd
	default: // atChunkEnd
		if b != '\n' {
			return errChunk
		}
		r.state, r.digits, r.line = inChunkSize, 0, 0
	}
	return nil
}

func (r *Reader) stepChunkSize(b byte) error {
	if digit, ok := hexadecimal(b); ok {
		r.digits = 1
		r.left = r.left<<4 | int64(digit)
		if r.size+r.left > MaxBody {
			return errLongBody
		}
		return nil
	}
	if r.digits == 0 {
		return errChunk
	}
	switch b {
	case '\r':
		r.state = atChunkSizeEnd
	case ';', ' ', '\t':
		r.state = inChunkExtension
	default:
		return errChunk
	}
	return nil
}

func hexadecimal(b byte) (digit byte, ok bool) {
	switch {
	case '0' <= b && b <= '9':
		return b - '0', true
	case 'a' <= b && b <= 'f':
		return b - 'a' + 10, true
	case 'A' <= b && b <= 'F':
		return b - 'A' + 10, true
	}
	return 0, false
}
