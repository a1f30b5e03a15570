package deadpg

import (
	"fmt"
	"strings"
	"time"
)

// outcome is what became of the query, in the eyes of who asked the victim.
type outcome string

// The outcomes.
const (
	got200    outcome = "200"
	noAnswer  outcome = "no answer"
	connReset outcome = "500 ECONNRESET"
	timedOut  outcome = "500 ETIMEDOUT"
)

// What carried the answer.
const (
	onReused = "reused"
	onNew    = "new"
)

// States of sockets and of the device's entry; nothing is that of what is not there.
const (
	established = "ESTABLISHED"
	nothing     = "none"
)

// Tolerances of a time: timers fire late, never early, but that the victim's clock
// starts a little after the asker's; a new connection makes its table.
const (
	early = 50 * time.Millisecond
	late  = 1200 * time.Millisecond
)

// ends are the states of the sockets on both sides and of the device's entry, each
// once; an empty one is not judged.
type ends struct{ client, server, conntrack string }

// expect is what a case wants. Zero fields are not judged, but for at.
type expect struct {
	outcome       outcome
	connection    string
	at            time.Duration // after which the answer came; of no answer the asker's timeout
	before, after ends
}

// seen is what a case got.
type seen struct {
	outcome       outcome
	connection    string
	took          time.Duration
	before, after ends
}

// in is the expectation of a run: an answer that would come after the asker has gone
// is none.
func (e expect) in(s Settings) expect {
	if e.at > s.Timeout {
		e.outcome, e.connection = noAnswer, ""
	}
	return e
}

// band is the time between which the query must end.
func (e expect) band(s Settings) (from, to time.Duration) {
	at := e.at
	if e.outcome == noAnswer {
		at = s.Timeout
	}
	return max(at-early, 0), at + late
}

// words are the parts of both a want and a got, of what the case judges.
func (e expect) words(what outcome, connection, took string, before, after ends) string {
	words := []string{string(what)}
	if e.connection != "" {
		words = append(words, connection+" connection")
	}
	words = append(words, took)
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

// inWords is the expectation as a case's want, in the words of got.
func (e expect) inWords(s Settings) string {
	from, to := e.band(s)
	return e.words(e.outcome, e.connection, fmt.Sprintf("%.2f to %.2f s", from.Seconds(), to.Seconds()), e.before, e.after)
}

// got is what was seen, in the words of want.
func (e expect) got(v seen) string {
	return e.words(v.outcome, v.connection, fmt.Sprintf("%.3f s", v.took.Seconds()), v.before, v.after)
}

// met says whether what was seen is what was wanted.
func (e expect) met(s Settings, v seen) bool {
	from, to := e.band(s)
	return v.outcome == e.outcome && v.took >= from && v.took <= to &&
		(e.connection == "" || v.connection == e.connection) && e.before.met(v.before) && e.after.met(v.after)
}

func (e ends) met(have ends) bool {
	return (e.client == "" || e.client == have.client) &&
		(e.server == "" || e.server == have.server) &&
		(e.conntrack == "" || e.conntrack == have.conntrack)
}
