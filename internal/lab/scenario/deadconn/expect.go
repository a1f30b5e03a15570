package deadconn

import (
	"fmt"
	"strings"
	"time"
)

// outcome is what became of the judged request, in the caller's eyes.
type outcome string

// The outcomes. Statuses are those of the server, as the client handed them over; the
// others are how a request without an answer failed. What a client hides stays hidden:
// closed is fasthttp's word for an EOF and for an ECONNRESET.
const (
	got200          outcome = "200"
	got429          outcome = "429"
	got503          outcome = "503"
	responseTimeout outcome = "response timeout"
	connReset       outcome = "ECONNRESET"
	timedOut        outcome = "ETIMEDOUT"
	eof             outcome = "EOF"
	cutShort        outcome = "unexpected EOF"
	refused         outcome = "ECONNREFUSED"
	closed          outcome = "ErrConnectionClosed"
)

// nothing is the state of what is not there.
const nothing = "none"

// Tolerances of a time. Timers fire late, never early, but that the victim's clock
// starts a little after the lab's.
const (
	early = 50 * time.Millisecond
	late  = 700 * time.Millisecond
)

// expect is what a cell wants. Zero fields are not judged, but for runs.
type expect struct {
	outcome    outcome
	or         outcome       // as good, where a tie decides
	connection string        // "reused" or "new": of the last attempt
	attempts   int           // as the client tells
	runs       int           // how often the server's handler ran
	at         span          // after which the request ended, give or take
	late       time.Duration // more than it may always be late
	before     ends          // after the rest, right before the request
	after      ends          // when it has ended
}

// ends are the states of the sockets on both sides, and the entry of the device.
type ends struct{ client, server, conntrack string }

// seen is what a cell got, in full.
type seen struct {
	outcome       outcome
	connection    string
	attempts      int
	runs          int
	took          time.Duration
	before, after ends
}

// band is the time between which the request must end.
func (e expect) band(s Settings) (from, to time.Duration) {
	at := e.at.in(s)
	return max(at-early, 0), at + max(e.late, late)
}

// words are the parts of both a want and a got, of what the cell judges.
func (e expect) words(what outcome, connection string, attempts, runs int, took string, before, after ends) string {
	words := []string{string(what)}
	if e.connection != "" {
		words = append(words, connection+" connection")
	}
	if e.attempts > 0 {
		words = append(words, count(attempts, "attempt"))
	}
	words = append(words, count(runs, "handler run"), took)
	for _, at := range []struct {
		when       string
		want, have ends
	}{{"before", e.before, before}, {"after", e.after, after}} {
		for _, end := range []struct{ name, want, have string }{
			{"client", at.want.client, at.have.client}, {"server", at.want.server, at.have.server}, {"conntrack", at.want.conntrack, at.have.conntrack},
		} {
			if end.want != "" {
				words = append(words, at.when+" "+end.name+" "+end.have)
			}
		}
	}
	return strings.Join(words, ", ")
}

// want is the expectation in words.
func (e expect) want(s Settings) string {
	from, to := e.band(s)
	took := fmt.Sprintf("%.2f to %.2f s", from.Seconds(), to.Seconds())
	what := e.outcome
	if e.or != "" {
		what += " or " + e.or
	}
	return e.words(what, e.connection, e.attempts, e.runs, took, e.before, e.after)
}

// got is what was seen, in the words of want.
func (e expect) got(v seen) string {
	return e.words(v.outcome, v.connection, v.attempts, v.runs, fmt.Sprintf("%.3f s", v.took.Seconds()), v.before, v.after)
}

// met says whether what was seen is what was wanted.
func (e expect) met(s Settings, v seen) bool {
	from, to := e.band(s)
	switch {
	case v.outcome != e.outcome && (e.or == "" || v.outcome != e.or), v.runs != e.runs, v.took < from, v.took > to:
		return false
	case e.connection != "" && v.connection != e.connection, e.attempts > 0 && v.attempts != e.attempts:
		return false
	}
	return e.before.met(v.before) && e.after.met(v.after)
}

func (e ends) met(have ends) bool {
	return (e.client == "" || e.client == have.client) &&
		(e.server == "" || e.server == have.server) &&
		(e.conntrack == "" || e.conntrack == have.conntrack)
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
