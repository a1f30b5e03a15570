// Package wire reads HTTP/1.1 answers from a byte stream that comes in pieces of
// any size, as an event loop gets it. Its Reader is a state machine that keeps no
// input: some 170 bytes for an answer under way, and nothing allocated for one
// that is not an error with a body.
//
// It reads what framing needs (RFC 9112: status, Content-Length,
// Transfer-Encoding, Connection) and skips the rest. It refuses to guess: an
// answer whose end two parsers could put in two places is malformed.
package wire

import (
	"errors"
	"fmt"
	"io"
	"net/http"
)

// Bounds of one answer.
const (
	// MaxHeader is the largest status line and header, the largest trailer, and
	// the largest line before a chunk, in bytes.
	MaxHeader = 8 << 10
	// MaxInterim is how many interim answers, such as 100 Continue, may come before
	// the answer. A server could send them without an end.
	MaxInterim = 16
	// MaxBody is the largest body, in bytes.
	MaxBody = 16 << 20
	// MaxErrorBody is how much is kept of the body of an answer with a status of
	// 400 or above, in bytes.
	MaxErrorBody = 64 << 10
	// keptCapacity is the largest buffer of an error body that a Reader keeps for
	// its next answer.
	keptCapacity = 512
)

// The kinds of error that Feed returns; errors.Is tells them apart.
var (
	ErrMalformed = errors.New("malformed answer")
	ErrOversized = errors.New("oversized answer")
)

var (
	errStatusLine = fmt.Errorf("%w: the status line", ErrMalformed)
	errHeader     = fmt.Errorf("%w: a header line", ErrMalformed)
	errLength     = fmt.Errorf("%w: Content-Length is no number, or given twice", ErrMalformed)
	errEncoding   = fmt.Errorf("%w: Transfer-Encoding", ErrMalformed)
	errFraming    = fmt.Errorf("%w: both Content-Length and Transfer-Encoding", ErrMalformed)
	errChunk      = fmt.Errorf("%w: a chunk", ErrMalformed)

	errLongHeader = fmt.Errorf("%w: over %d bytes of header", ErrOversized, MaxHeader)
	errInterim    = fmt.Errorf("%w: over %d interim answers", ErrOversized, MaxInterim)
	errLongBody   = fmt.Errorf("%w: over %d bytes of body", ErrOversized, MaxBody)
)

// state is where in an answer the next byte belongs.
type state uint8

const (
	inStatusLine state = iota // up to the status code's last digit
	afterStatus               // the space before the reason, or the line's end
	inReason
	atLineStart // of a header or trailer line
	inName
	inValue // of a header that framing does not depend on
	inList  // of a header that it depends on: a comma-separated list
	atLineEnd
	atHeadEnd
	inBody
	untilClose
	inChunkSize
	inChunkExtension
	atChunkSizeEnd
	inChunk
	afterChunk
	atChunkEnd
	complete
	failed
)

// header is one whose value matters for framing.
type header uint8

const (
	other header = iota
	contentLength
	transferEncoding
	connection
)

// longestToken is the longest name or list element that matters:
// "transfer-encoding" has 17 bytes, a Content-Length of MaxBody 8.
const longestToken = 20

// Reader reads one answer at a time. The zero value is ready to read the answer
// to a request that is not HEAD; Reset makes it ready for the next. It is not
// safe for concurrent use.
type Reader struct {
	state    state
	header   header
	head     bool // the request was HEAD
	trailer  bool // header lines belong to the trailer
	old      bool // the answer is HTTP/1.0
	close    bool // Connection: close
	keep     bool // Connection: keep-alive
	encoded  bool // a Transfer-Encoding was given
	chunked  bool // and its last coding is chunked
	sized    bool // a Content-Length was given
	reusable bool
	gap      bool  // whitespace since the token's last byte
	interim  uint8 // answers before this one
	length   uint8 // of token; longestToken+1 if it is longer
	token    [longestToken]byte
	digits   uint8  // read of the status line, or of a chunk's size
	status   uint16 // 0 until it has been read
	line     int32  // bytes read of the header, trailer or chunk line
	left     int64  // bytes to come of the body or chunk
	size     int64  // bytes of body so far
	received int64  // bytes used so far, of head and body
	err      error
	kept     []byte
}

// Reset makes r ready for the answer to the next request; head says that it is a
// HEAD request, whose answer has no body.
func (r *Reader) Reset(head bool) {
	kept := r.kept
	if cap(kept) > keptCapacity {
		kept = nil
	}
	*r = Reader{head: head, kept: kept[:0]}
}

// Status is the answer's status once Feed or End has said that it is complete.
func (r *Reader) Status() int { return int(r.status) }

// Received is how many bytes of the answer have been read so far, its head and
// interim answers among them.
func (r *Reader) Received() int64 { return r.received }

// Reusable says, of a complete answer, whether the server will answer another
// request on the connection.
func (r *Reader) Reusable() bool { return r.reusable }

// ErrorBody is the body of a complete answer whose status is 400 or above, and
// empty if it is longer than MaxErrorBody. It is valid until the next Reset.
func (r *Reader) ErrorBody() []byte {
	if r.size > MaxErrorBody {
		return nil
	}
	return r.kept
}

// Feed reads on in p, and no further than the end of the answer: it used n bytes
// of it, and done says that the answer is complete. The error is an ErrMalformed
// or an ErrOversized, and final.
func (r *Reader) Feed(p []byte) (n int, done bool, err error) {
	n, err = r.read(p)
	r.received += int64(n)
	return n, r.state == complete, err
}

// read is Feed without its count.
func (r *Reader) read(p []byte) (n int, err error) {
	for n < len(p) && r.state < complete {
		switch r.state {
		case inBody, inChunk, untilClose:
			n += r.body(p[n:])
		case inValue, inReason:
			used, err := r.skipText(p[n:])
			n += used
			if err != nil {
				return n, r.fail(err)
			}
		case inName:
			used, err := r.readName(p[n:])
			n += used
			if err != nil {
				return n, r.fail(err)
			}
		default:
			if err := r.step(p[n]); err != nil {
				return n, r.fail(err)
			}
			n++
		}
	}
	return n, r.err
}

// End says what it means that the stream has ended: nil if the answer is
// complete, io.ErrUnexpectedEOF if not.
func (r *Reader) End() error {
	switch r.state {
	case untilClose:
		r.state = complete
		return nil
	case complete:
		return nil
	case failed:
		return r.err
	}
	return r.fail(io.ErrUnexpectedEOF)
}

func (r *Reader) fail(err error) error {
	r.state, r.err = failed, err
	return err
}

// step reads one byte of anything but a body.
func (r *Reader) step(b byte) error {
	if r.state >= inChunkSize {
		return r.stepChunk(b)
	}
	if r.line++; r.line > MaxHeader {
		return errLongHeader
	}
	return r.stepHead(b)
}

// body takes what p holds of the body, and says how much that is.
func (r *Reader) body(p []byte) int {
	if r.state != untilClose && int64(len(p)) > r.left {
		p = p[:r.left]
	}
	r.size += int64(len(p))
	if r.size > MaxBody {
		// Only a body without a length in advance comes here.
		r.fail(errLongBody)
		return len(p)
	}
	if r.status >= http.StatusBadRequest && len(r.kept) < MaxErrorBody {
		r.kept = append(r.kept, p[:min(len(p), MaxErrorBody-len(r.kept))]...)
	}
	if r.state == untilClose {
		return len(p)
	}
	if r.left -= int64(len(p)); r.left == 0 {
		if r.state == inChunk {
			r.state = afterChunk
		} else {
			r.state = complete
		}
	}
	return len(p)
}
