package drain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"chokepoint/internal/result"
)

// Outcomes of a case; those of the table are what the clients got.
const (
	executedFail = "requests fail that were executed"
	executedSafe = "no request fails that was executed"
	nothingFails = "nothing fails"
	somethingHas = "requests fail or are executed twice"
	workedTwice  = "requests are executed twice"
	sentAgain    = "requests are sent again"
	noneAgain    = "no request is sent again"
	staysOpen    = "does not converge"
	converges    = "converges"
	resetAndOpen = "the client is reset and the gateway's connection stays"
	noReset      = "no client is reset"
)

// closeRaces is how many requests may meet the close of the resting connection that they
// are put on: those never reach the application, as it was in the incident.
const closeRaces = 6

// band is how many requests are wanted. most is -1 where there is no bound.
type band struct{ least, most int }

func exactly(n int) band { return band{n, n} }
func atLeast(n int) band { return band{n, -1} }
func upTo(n int) band    { return band{0, n} }

// about is n by arithmetic, on a machine that has other things to do as well.
func about(n int) band { return band{n * 3 / 10, n * 2} }

func (b band) has(n int) bool { return n >= b.least && (b.most < 0 || n <= b.most) }

func (b band) String() string {
	switch {
	case b.most < 0:
		return fmt.Sprintf("at least %d", b.least)
	case b.least == b.most:
		return fmt.Sprint(b.least)
	}
	return fmt.Sprintf("%d to %d", b.least, b.most)
}

// want is what is wanted of a case. A class without a band must not come, but for ok.
type want struct {
	outcome                    string
	ok, never, executed, twice band
	// repeats says that the clients send again what fails; how many requests they sent
	// again is told, and wanted if again is a band.
	repeats bool
	again   band
	// left are the connections that are open when the gateway is killed.
	left int
	// failsFrom and failsUntil are when the requests fail, from when the gateway is told
	// to end: not before the drain is over, and before they would have been answered.
	failsFrom, failsUntil time.Duration
	// endsWithin is how long the gateway may take to end by itself.
	endsWithin time.Duration
}

func (w want) okBand() band {
	if w.ok == (band{}) {
		return atLeast(0)
	}
	return w.ok
}

func (w want) againInWords() string {
	if w.again == (band{}) {
		return "any number"
	}
	return w.again.String()
}

// in is the want in scaled time.
func (w want) in(scale float64) want {
	w.failsFrom, w.failsUntil, w.endsWithin = scaled(w.failsFrom, scale), scaled(w.failsUntil, scale), scaled(w.endsWithin, scale)
	return w
}

// inWords is the want in the words of got.
func (w want) inWords() string {
	parts := []string{w.outcome}
	if w.ok != (band{}) {
		parts = append(parts, "ok "+w.ok.String())
	}
	parts = append(parts, "never reached "+w.never.String(), "failed but executed "+w.executed.String(), "executed twice "+w.twice.String())
	if w.repeats {
		parts = append(parts, "sent again "+w.againInWords())
	}
	if w.left > 0 {
		parts = append(parts, fmt.Sprintf("connections left %d", w.left))
	}
	if w.failsFrom > 0 {
		parts = append(parts, fmt.Sprintf("fails at %.2f to %.2f s", w.failsFrom.Seconds(), w.failsUntil.Seconds()))
	}
	if w.endsWithin > 0 {
		parts = append(parts, fmt.Sprintf("ends within %.2f s", w.endsWithin.Seconds()))
	}
	return strings.Join(parts, ", ")
}

// early is how much earlier than it should a timer of another process seems to end.
const early = 20 * time.Millisecond

// judge says in the words of want what became of a setup, and whether it is as wanted.
func (w want) judge(out Outcome) (got string, ok bool) {
	c := out.Counts
	outcome := w.outcomeOf(out)
	parts := []string{outcome}
	if w.ok != (band{}) {
		parts = append(parts, fmt.Sprintf("ok %d", c.OK))
	}
	parts = append(parts, fmt.Sprintf("never reached %d", c.NeverReached), fmt.Sprintf("failed but executed %d", c.FailedButExecuted), fmt.Sprintf("executed twice %d", c.ExecutedTwice))
	ok = outcome == w.outcome && len(out.Ended) > 0 && w.okBand().has(c.OK) && w.never.has(c.NeverReached) && w.executed.has(c.FailedButExecuted) && w.twice.has(c.ExecutedTwice)
	if w.repeats {
		parts = append(parts, fmt.Sprintf("sent again %d", out.Repeated))
		ok = ok && (w.again == (band{}) || w.again.has(out.Repeated))
	}
	if w.left > 0 {
		left := out.left()
		parts = append(parts, fmt.Sprintf("connections left %d", len(left)))
		ok = ok && len(left) == w.left && keepersOnly(left)
		for _, c := range left {
			parts = append(parts, c.inWords())
		}
	}
	if w.failsFrom > 0 {
		first, last := failures(out.Requests)
		parts = append(parts, fmt.Sprintf("fails at %.2f to %.2f s", first.Seconds(), last.Seconds()))
		ok = ok && first >= w.failsFrom-early && last <= w.failsUntil
	}
	if w.endsWithin > 0 && len(out.Ended) > 0 {
		parts = append(parts, fmt.Sprintf("ends within %.2f s", out.Ended[0].At.Seconds()))
		ok = ok && !out.Ended[0].Killed && out.Ended[0].At <= w.endsWithin
	}
	return strings.Join(parts, ", "), ok
}

// outcomeOf answers the question that the wanted outcome is one answer to.
func (w want) outcomeOf(out Outcome) string {
	c := out.Counts
	either := func(is bool, yes, no string) string {
		if is {
			return yes
		}
		return no
	}
	switch w.outcome {
	case executedFail, executedSafe:
		return either(c.FailedButExecuted > 0, executedFail, executedSafe)
	case nothingFails:
		return either(c.NeverReached+c.FailedButExecuted+c.ExecutedTwice == 0, nothingFails, somethingHas)
	case workedTwice:
		return either(c.ExecutedTwice > 0, workedTwice, nothingFails)
	case sentAgain:
		return either(out.Repeated > 0, sentAgain, noneAgain)
	case staysOpen, converges:
		killed := slices.ContainsFunc(out.Ended, func(e Ended) bool { return e.Killed })
		return either(killed, staysOpen, converges)
	case resetAndOpen:
		reset := slices.ContainsFunc(out.Requests, func(r result.CaseRequest) bool { return r.Got == gotReset })
		return either(reset && len(out.left()) > 0, resetAndOpen, noReset)
	}
	var all []string
	for _, r := range out.Requests {
		all = append(all, r.Got)
	}
	slices.Sort(all)
	return strings.Join(slices.Compact(all), " or ")
}

// What a client got whose connection was closed before an answer came: reset, reset
// before all was written, or ended.
const (
	gotReset = "ECONNRESET"
	gotPipe  = "EPIPE"
	gotEOF   = "EOF"
)

func (o Outcome) left() []Connection {
	var all []Connection
	for _, e := range o.Ended {
		all = append(all, e.Left...)
	}
	return all
}

// keepersOnly says that all requests of the connections are those of keepers, and that
// each connection was traced to a client.
func keepersOnly(left []Connection) bool {
	for _, c := range left {
		if c.Client == "" || len(c.Requests) == 0 || slices.ContainsFunc(c.Requests, func(id string) bool { return !strings.HasPrefix(id, keeperPrefix) }) {
			return false
		}
	}
	return true
}

// keeperPrefix begins the ids of keepers' requests.
const keeperPrefix = "k"

// failures are when the first and the last request failed, from when the gateway was
// told to end; zero if none did.
func failures(requests []result.CaseRequest) (first, last time.Duration) {
	for _, r := range requests {
		if r.Got == "200" {
			continue
		}
		at := time.Duration((r.AtS + r.Seconds) * float64(time.Second))
		if first == 0 || at < first {
			first = at
		}
		last = max(last, at)
	}
	return first, last
}
