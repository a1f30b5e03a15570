package rolling

import (
	"fmt"
	"strings"
	"time"
)

// counted is how often something is wanted: a number, or from one to another.
type counted struct{ least, most int }

func exactly(n int) counted { return counted{n, n} }

func (c counted) met(n int) bool { return n >= c.least && n <= c.most }

func (c counted) String() string {
	if c.least == c.most {
		return fmt.Sprint(c.least)
	}
	return fmt.Sprintf("%d to %d", c.least, c.most)
}

// How the connection ended that the balancer kept to the server that goes.
const (
	endedByServer   = "FIN of was1"   // first
	endedByBalancer = "FIN of lb"     // first
	endedByEither   = "FIN of either" // wanted where both end at the same moment
	endedByReset    = "RST"
	notEnded        = "nothing"
)

// What the server that has gone answered to the first new connection.
const (
	answerRST      = "RST"
	answerNothing  = "nothing"
	answerAccepted = "SYN-ACK"
	noneOpened     = "none was opened" // no SYN was sent
)

// expect is what a case wants.
type expect struct {
	// What became of the requests that were sent from the moment on at which the server
	// was told to end: answered under 400, given up by the client, and answered 502. slow
	// are those of the answered that took about a second or more.
	answered, timedOut, badGateway, slow counted
	// inFlight is what became of the two requests in flight, that of the server that goes
	// first; empty where there were none.
	inFlight string
	// By joined ids, those in flight included.
	neverReached, failedButExecuted, executedTwice counted
	// kept is how the kept connection to the server ended, fresh what the first new one met;
	// without kept neither is judged.
	kept, fresh string
	// out is when nginx takes the server out, where the case goes on until then.
	out *outAfter
}

// outAfter is that nginx takes the server out after so long, by no route to it.
type outAfter struct{ from, to time.Duration }

// seen is what a case got.
type seen struct {
	sent, answered, timedOut, badGateway, slow     int
	inFlight                                       string
	neverReached, failedButExecuted, executedTwice int
	kept, fresh                                    string
	usedAfterEnd                                   int // requests on the kept connection after it had ended

	// Where the case goes on until the server is out: when that was, why, how many of the
	// requests that the balancer had given to it before were not given up by the client
	// although they had the time, and how many after it were not answered.
	out                   time.Duration // 0: never
	why                   string
	answeredBefore, after int
}

// words are the parts of both a want and a got.
func (e expect) words(what string, timedOut, badGateway, slow, neverReached, failedButExecuted, executedTwice fmt.Stringer, inFlight, kept, fresh string) string {
	words := []string{what, timedOut.String() + " timed out", badGateway.String() + " got 502", slow.String() + " took 1 s or more"}
	if e.inFlight != "" {
		words = append(words, "in flight "+inFlight)
	}
	words = append(words, neverReached.String()+" never reached", failedButExecuted.String()+" failed but executed", executedTwice.String()+" executed twice")
	if e.kept != "" {
		words = append(words, "kept connection: "+kept, "new connection: "+fresh)
	}
	return strings.Join(words, ", ")
}

// want is the expectation in words.
func (e expect) want() string {
	if e.out != nil {
		return strings.Join([]string{
			"taken out", fmt.Sprintf("after %.0f to %.0f s", e.out.from.Seconds(), e.out.to.Seconds()), "because of " + noRoute,
			fmt.Sprintf("%d requests to was1 answered before that", 0), fmt.Sprintf("%d not answered after it", 0),
			e.failedButExecuted.String() + " failed but executed", "0 executed twice", "kept connection: " + e.kept, "new connection: " + e.fresh,
		}, ", ")
	}
	return e.words(fmt.Sprintf("%s of %d answered", e.answered, requests), e.timedOut, e.badGateway, e.slow,
		e.neverReached, e.failedButExecuted, e.executedTwice, e.inFlight, e.kept, e.fresh)
}

// noRoute is EHOSTUNREACH by its number on Linux: nginx logs the words of its C library,
// "No route to host" or "Host is unreachable".
const noRoute = "error 113"

// got is what was seen, in the words of want.
func (e expect) got(v seen) string {
	kept := v.kept
	if v.usedAfterEnd > 0 {
		kept += fmt.Sprintf(" and used %d times after that", v.usedAfterEnd)
	}
	if e.out != nil {
		what := "taken out"
		if v.out == 0 {
			what = "not taken out"
		}
		return strings.Join([]string{
			what, fmt.Sprintf("after %.1f s", v.out.Seconds()), "because of " + v.why,
			fmt.Sprintf("%d requests to was1 answered before that", v.answeredBefore), fmt.Sprintf("%d not answered after it", v.after),
			fmt.Sprintf("%d failed but executed", v.failedButExecuted), fmt.Sprintf("%d executed twice", v.executedTwice),
			"kept connection: " + kept, "new connection: " + v.fresh,
		}, ", ")
	}
	return e.words(fmt.Sprintf("%d of %d answered", v.answered, v.sent), exactly(v.timedOut), exactly(v.badGateway), exactly(v.slow),
		exactly(v.neverReached), exactly(v.failedButExecuted), exactly(v.executedTwice), v.inFlight, kept, v.fresh)
}

// met says whether what was seen is what was wanted.
func (e expect) met(v seen) bool {
	kept := v.kept == e.kept || e.kept == endedByEither && (v.kept == endedByServer || v.kept == endedByBalancer)
	if e.kept != "" && (!kept || v.usedAfterEnd > 0 || v.fresh != e.fresh) ||
		!e.failedButExecuted.met(v.failedButExecuted) || !e.executedTwice.met(v.executedTwice) {
		return false
	}
	if e.out != nil {
		return v.out >= e.out.from && v.out <= e.out.to && v.why == noRoute && v.answeredBefore == 0 && v.after == 0
	}
	return v.sent == requests && e.answered.met(v.answered) && e.timedOut.met(v.timedOut) && e.badGateway.met(v.badGateway) &&
		e.slow.met(v.slow) && v.inFlight == e.inFlight && e.neverReached.met(v.neverReached)
}
