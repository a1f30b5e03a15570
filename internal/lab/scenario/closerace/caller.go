package closerace

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"chokepoint/internal/adminapi"
)

// answerWait bounds the wait for an answer of the victim.
const answerWait = 10 * time.Second

// What carried an answer, or the last attempt.
const (
	connectionReused = "reused"
	connectionNew    = "new"
)

// call is one request of a caller, and what became of it.
type call struct {
	ID    string
	First bool // of its caller
	// Rested is whether a connection to the server rested before it, as far as can be
	// told from outside: the call before was answered.
	Rested bool
	// Planned is the think time that was asked for. Rest is the one that was: from the
	// end of the call before to the beginning of this one at the victim's client, by the
	// victim's clock. While the calls go on it is what the caller can tell.
	Planned, Rest time.Duration
	Took          time.Duration // by the victim's clock: what its client was at it
	Status        int           // of the victim's answer
	Connection    string        // what carried the answer, or the last attempt
	Attempts      int           // connections that were taken, those that a defence refused as well
	Error, Socket string        // of the last attempt: the client's words, and the socket's own
	Runs          int           // of the server's handler, for this id
}

func (c call) ok() bool { return c.Status == http.StatusOK }

// caller calls the server through a victim that nobody else calls, one request at a
// time, so that the victim's client has one connection and each rest is that one's.
type caller struct {
	name   string // of its requests' ids
	method string
	key    bool   // send an Idempotency-Key
	victim string // host:port
	dial   func(ctx context.Context, address string) (net.Conn, error)
	idle   time.Duration
	deck   *deck

	conn net.Conn
	in   *bufio.Reader
	aim  aim
}

// run calls until end or the end of ctx, and returns the calls in their order, with
// those of an error as well.
func (c *caller) run(ctx context.Context, end time.Time) ([]call, error) {
	conn, err := c.dial(ctx, c.victim)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	c.conn, c.in = conn, bufio.NewReader(conn)

	// Callers that begin together would go on in step.
	if !sleepUntil(ctx, time.Now().Add(rand.N(c.idle))) {
		return nil, nil
	}
	var calls []call
	var before time.Time // when the answer to the last call was here
	for ctx.Err() == nil && time.Now().Before(end) {
		one := call{ID: c.name + "-" + strconv.Itoa(len(calls)+1), First: len(calls) == 0}
		if !one.First {
			one.Rested = calls[len(calls)-1].ok()
			one.Planned = c.idle + c.deck.deal()
			if !sleepUntil(ctx, before.Add(one.Planned-c.aim.late)) {
				break
			}
		}
		spent, err := c.exchange(&one)
		if err != nil {
			return calls, fmt.Errorf("call %s: %w", one.ID, err)
		}
		now := time.Now()
		if !one.First {
			// The answers' way back is in both moments, and cancels out but for its jitter.
			one.Rest = now.Sub(before) - spent
			c.aim.learn(one.Rest, one.Planned)
		}
		before = now
		calls = append(calls, one)
	}
	return calls, nil
}

// preciseLast is the end of a sleep that is left to pause, which cannot be given up.
const preciseLast = 5 * time.Millisecond

// sleepUntil reports whether the moment has come; if not, ctx has ended.
func sleepUntil(ctx context.Context, moment time.Time) bool {
	if coarse := time.Until(moment) - preciseLast; coarse > 0 {
		timer := time.NewTimer(coarse)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return false
		}
	}
	pause(time.Until(moment))
	return true
}

// exchange sends a request to the victim and reads its answer. It returns how long
// the victim's client was at it.
func (c *caller) exchange(one *call) (time.Duration, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "%s /upstream HTTP/1.1\r\nHost: victim\r\n%s: %s\r\n%s: %s\r\n",
		c.method, adminapi.HeaderPhase, adminapi.PhaseLoad, adminapi.HeaderID, one.ID)
	if c.key {
		fmt.Fprintf(&b, "%s: %s\r\n", adminapi.HeaderIdempotencyKey, one.ID)
	}
	body := ""
	if c.method == http.MethodPost {
		body = "order=" + one.ID
		fmt.Fprintf(&b, "Content-Length: %d\r\n", len(body))
	}
	b.WriteString("\r\n" + body)
	if err := c.conn.SetDeadline(time.Now().Add(answerWait)); err != nil {
		return 0, err
	}
	if _, err := io.WriteString(c.conn, b.String()); err != nil {
		return 0, err
	}
	resp, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return 0, fmt.Errorf("the victim's answer: %w", err)
	}
	defer resp.Body.Close()
	return c.read(resp, one)
}

// read takes what the victim says of the call.
func (c *caller) read(resp *http.Response, one *call) (time.Duration, error) {
	var answer adminapi.UpstreamAnswer
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return 0, fmt.Errorf("the victim's answer: %w", err)
	}
	// The decoder may stop before the end, and the connection is used again.
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return 0, fmt.Errorf("the victim's answer: %w", err)
	}
	if answer.Call == nil {
		return 0, fmt.Errorf("the victim made no call: %d %s %s", resp.StatusCode, answer.Error, answer.Detail)
	}
	one.Status, one.Attempts = resp.StatusCode, len(answer.Call.Attempts)
	one.Connection = connectionNew
	if answer.Call.Reused {
		one.Connection = connectionReused
	}
	if one.Attempts > 0 {
		last := answer.Call.Attempts[one.Attempts-1]
		one.Error, one.Socket = last.Error, last.Socket
	}
	return upstreamTime(resp.Header.Get("Server-Timing"))
}

// upstreamTime is the share of the upstream in a Server-Timing header.
func upstreamTime(header string) (time.Duration, error) {
	for part := range strings.SplitSeq(header, ",") {
		text, ok := strings.CutPrefix(strings.TrimSpace(part), "upstream;dur=")
		if !ok {
			continue
		}
		ms, err := strconv.ParseFloat(text, 64)
		return time.Duration(ms * float64(time.Millisecond)), err
	}
	return 0, fmt.Errorf("the victim's answer has no time of the upstream in Server-Timing %.80q", header)
}
