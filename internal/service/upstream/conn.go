package upstream

import (
	"bufio"
	"errors"
	"io"
	"net"
	"os"
	"strconv"
	"syscall"
	"time"

	"chokepoint/internal/adminapi"

	"github.com/valyala/fasthttp"
	"golang.org/x/sys/unix"
)

// maxRequestBody bounds a request's body; a larger one is answered 413.
const maxRequestBody = 4 << 20

// maxPartialBody bounds how much of the body a *_mid fault sends, so that it
// fits any socket buffer and a RST overtakes none of it.
const maxPartialBody = 4 << 10

// conn is one accepted connection and the goroutine that serves it.
//
// It reads and writes with fasthttp's messages but runs its own loop instead of
// fasthttp.Server's: the faults need the socket in the middle of an answer, and
// "answered" must mean that the write succeeded, which a handler never learns.
type conn struct {
	srv  *Server
	id   string // as adminapi.HeaderConnection has it
	tcp  *net.TCPConn
	raw  syscall.RawConn
	in   *bufio.Reader
	req  fasthttp.Request
	head fasthttp.ResponseHeader
	buf  []byte

	// Guarded by srv.mu.
	idle      bool      // waits for a request
	hung      bool      // is never spoken to
	answered  bool      // has carried an answer: the idle timeout holds for it
	idleSince time.Time // while idle
	closed    bool      // by closeConns
}

func (c *conn) serve() {
	defer c.tcp.Close()
	switch c.srv.behaviour.Load().Fault {
	case adminapi.FaultRefuse:
		// Accepted in the instant in which the listener was closed.
		c.reset()
		return
	case adminapi.FaultTLSHang:
		c.srv.counts.handshakeHung()
		if c.srv.setHung(c) {
			c.untilCallerLeaves()
		}
		return
	}
	for c.awaitRequest() {
		bodyBytes, ok := c.readRequest()
		if !ok || !c.handle(bodyBytes) {
			return
		}
	}
}

// awaitRequest waits for the first byte of the next request. False: the
// connection is at its end.
func (c *conn) awaitRequest() bool {
	if !c.srv.setIdle(c) {
		return false
	}
	_, err := c.in.Peek(1)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		c.endIdle()
		return false
	}
	return err == nil && c.srv.setBusy(c)
}

// endIdle ends a connection that has rested for too long. A request that arrives in
// this instant is lost: that is the race which a keep-alive client must live with.
func (c *conn) endIdle() {
	switch c.srv.behaviour.Load().IdleEnd {
	case adminapi.IdleEndRST:
		c.reset()
	case adminapi.IdleEndHalf:
		// Hung before the client can see the FIN: what ends idle connections is not for it.
		if c.srv.setHung(c) {
			c.tcp.CloseWrite()
			c.untilCallerLeaves()
		}
	}
}

// readRequest reads a request and drops its body, whose length it returns. False:
// there was none, or none that can be read; the caller has been told.
func (c *conn) readRequest() (bodyBytes int, ok bool) {
	c.req.Reset()
	err := c.req.Header.Read(c.in)
	if err == nil && c.req.MayContinue() {
		_, err = io.WriteString(c.tcp, "HTTP/1.1 100 Continue\r\n\r\n")
	}
	if err == nil {
		err = c.req.ContinueReadBody(c.in, maxRequestBody, false)
	}
	switch {
	case err == nil:
		// A request may wait for long, and its body has no use.
		bodyBytes = len(c.req.Body())
		c.req.ResetBody()
		return bodyBytes, true
	case errors.Is(err, fasthttp.ErrBodyTooLarge):
		c.answer(fasthttp.StatusRequestEntityTooLarge, errorBody(adminapi.CauseBadRequest,
			"the body is larger than "+strconv.Itoa(maxRequestBody)+" bytes"), 0, false)
	case !errors.Is(err, io.EOF):
		c.answer(fasthttp.StatusBadRequest, errorBody(adminapi.CauseBadRequest,
			"the request cannot be read as HTTP/1.1"), 0, false)
	}
	return 0, false
}

// handle does to the request what the behaviour of this moment, or the request
// itself, says. It returns whether the connection can take another one.
func (c *conn) handle(bodyBytes int) (keep bool) {
	arrived := time.Now()
	own, err := readOwn(&c.req.Header)
	if err != nil {
		keep = !c.req.Header.ConnectionClose() && c.srv.keeps()
		return c.answer(fasthttp.StatusBadRequest, errorBody(adminapi.CauseBadRequest, err.Error()), 0, keep) == nil && keep
	}
	b := c.srv.behaviour.Load()
	phase := phaseOf(c.req.Header.Peek(adminapi.HeaderPhase))
	run := c.srv.requests.begin(adminapi.StubRequest{
		Connection: c.id, ID: string(c.req.Header.Peek(adminapi.HeaderID)),
		IdempotencyKey: string(c.req.Header.Peek(adminapi.HeaderIdempotencyKey)),
		Phase:          phase, Method: string(c.req.Header.Method()), Path: string(c.req.URI().Path()),
		BodyBytes: bodyBytes, BeganAt: arrived,
	})
	c.srv.counts.arrived(phase)
	t := own.over(c.srv.draws.treat(b), run.Run)
	run.Fault = t.fault
	defer func() { c.srv.requests.end(run) }()

	if t.fault == adminapi.FaultHang {
		c.srv.counts.befell(phase, t.fault)
		c.untilCallerLeaves()
		c.srv.counts.left()
		run.End = c.srv.endOr(adminapi.EndClientGone)
		return false
	}
	if !c.srv.sleep(t.delay) {
		c.srv.counts.left()
		run.End = adminapi.EndCut
		return false
	}
	seen := time.Since(arrived)
	c.srv.counts.seen.Observe(seen.Seconds())
	o, status, keep := c.respond(b, t, seen)
	c.srv.counts.finished(phase, o)
	switch {
	case o == outcomeClientGone:
		// A write that failed since the stub closed the connection is the stub's doing.
		run.End = c.srv.endOr(adminapi.EndClientGone)
	case status > 0:
		run.End, run.Status = adminapi.EndAnswered, status
	default:
		run.End = adminapi.EndDied
	}
	return keep
}

// respond ends a request whose answer is due. The status is that of an answer that
// was written whole, and 0 if none was.
func (c *conn) respond(b *behaviour, t treatment, seen time.Duration) (o outcome, status int, keep bool) {
	if c.callerHasLeft() {
		return outcomeClientGone, 0, false
	}
	keep = !c.req.Header.ConnectionClose() && !t.close && c.srv.keeps()
	o = outcome(t.fault)
	var err error
	switch t.fault {
	case adminapi.FaultClose:
		return o, 0, false
	case adminapi.FaultReset:
		c.reset()
		return o, 0, false
	case adminapi.FaultCloseMid:
		keep = false
		err = c.answerHalf(b, seen)
	case adminapi.FaultResetMid:
		keep = false
		if err = c.answerHalf(b, seen); err == nil {
			c.reset()
		}
	case adminapi.FaultError, adminapi.FaultStatus:
		status = t.status
		err = c.answer(status, errorBody(adminapi.CauseInjected, "the stub was told to fail"), seen, keep)
	default:
		o, status = outcomeAnswered, fasthttp.StatusOK
		err = c.answer(status, b.body, seen, keep)
	}
	if err != nil {
		return outcomeClientGone, 0, false
	}
	return o, status, keep
}

// answer writes a whole answer.
func (c *conn) answer(status int, body []byte, seen time.Duration, keep bool) error {
	c.setHead(status, len(body), seen, keep)
	if c.req.Header.IsHead() {
		body = nil
	}
	whole := net.Buffers{c.buf, body}
	_, err := whole.WriteTo(c.tcp)
	return err
}

// answerHalf writes a good answer's head, which promises the whole body, and
// half of the body (4 KiB at the most); to a HEAD request, half of the head.
func (c *conn) answerHalf(b *behaviour, seen time.Duration) error {
	c.setHead(fasthttp.StatusOK, len(b.body), seen, true)
	half := append(c.buf, b.body[:min(len(b.body)/2, maxPartialBody)]...)
	if c.req.Header.IsHead() {
		half = c.buf[:len(c.buf)/2]
	}
	_, err := c.tcp.Write(half)
	return err
}

// setHead leaves the head of an answer in c.buf.
func (c *conn) setHead(status, bodyBytes int, seen time.Duration, keep bool) {
	c.head.Reset()
	c.head.SetStatusCode(status)
	c.head.SetServer("chokepoint-upstream")
	c.head.SetContentType("application/json")
	c.head.SetContentLength(bodyBytes)
	c.head.Set(adminapi.HeaderConnection, c.id)
	c.head.Set("Server-Timing", "delay;dur="+strconv.FormatFloat(float64(seen)/float64(time.Millisecond), 'f', 3, 64))
	switch {
	case !keep:
		c.head.SetConnectionClose()
	case !c.req.Header.IsHTTP11():
		// HTTP/1.0 closes unless told otherwise.
		c.head.Set(fasthttp.HeaderConnection, "keep-alive")
	}
	c.buf = c.head.AppendBytes(c.buf[:0])
}

// reset closes the connection with a RST instead of a FIN.
func (c *conn) reset() {
	c.tcp.SetLinger(0)
	c.tcp.Close()
}

// untilCallerLeaves says nothing until the caller closes, or the server does.
func (c *conn) untilCallerLeaves() {
	io.Copy(io.Discard, c.tcp)
}

// callerHasLeft looks whether a FIN or a RST has come. Like net/http's server,
// it takes a FIN for a caller that has gone, though a caller might have closed
// only its sending half. A caller whose next request is already here has not.
func (c *conn) callerHasLeft() bool {
	left := false
	err := c.raw.Control(func(fd uintptr) {
		var b [1]byte
		n, _, err := unix.Recvfrom(int(fd), b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		left = err == nil && n == 0 || err != nil && err != unix.EAGAIN && err != unix.EINTR
	})
	return left || err != nil
}

// phaseOf is the phase of a header value. Unknown ones are PhaseOther, so that
// a caller cannot make the stub count under any number of names.
func phaseOf(value []byte) string {
	switch p := string(value); p {
	case adminapi.PhaseReadiness, adminapi.PhaseBaseline, adminapi.PhaseWarmup, adminapi.PhaseLoad, adminapi.PhaseRecovery, adminapi.PhaseDose:
		return p
	}
	return adminapi.PhaseOther
}
