package spread

import (
	"fmt"
	"math"
	"strings"
)

// outcome is what became of /fast: where it died, if it did.
type outcome string

// The outcomes. A share is dead if at least a tenth of its /fast failed, as in the
// exhaustion scenario.
const (
	unharmed   outcome = "unharmed"        // nowhere
	stays      outcome = "stays"           // in the share of the victim with the slow upstream alone
	spreads    outcome = "spreads"         // in the share of a victim whose upstream is well, too
	everywhere outcome = "everywhere"      // in both shares, of which both upstreams are slow
	atBalancer outcome = "at the balancer" // nginx refused it without asking a victim
)

// deadRatio is the share of failures from which on a share is dead.
const deadRatio = 0.10

// figure is a number of a cell that can be wanted.
type figure int

// The figures. One is the victim whose upstream is slow in every cell.
const (
	fastFailed     figure = iota // of all /fast, in percent
	fastFailedOne                // of /fast in the share of victim one, in percent
	fastFailedTwo                // and of victim two
	fastLate                     // of all /fast, answered but only after patience, in percent
	unasked                      // of all /fast that nginx refused without asking a victim, in percent
	upstreamFailed               // of all /upstream, in percent
	shareOne                     // of all requests that were sent to victim one first, in percent
	readOne                      // workers of victim one in the upstream read at dumpAt
	readTwo                      // and of victim two
	idleOne                      // when the pool of victim one was idle, in scenario seconds after the load
	idleTwo                      // and of victim two
)

// never is when a pool was idle that was not idle at the end of the watch.
var never = math.Inf(1)

var figureWords = map[figure]struct{ name, unit string }{
	fastFailed:     {"/fast failed", " %"},
	fastFailedOne:  {"in the share of one", " %"},
	fastFailedTwo:  {"in the share of two", " %"},
	fastLate:       {"/fast answered late", " %"},
	unasked:        {"/fast refused by nginx", " %"},
	upstreamFailed: {"/upstream failed", " %"},
	shareOne:       {"sent to one first", " %"},
	readOne:        {"workers of one in the upstream read", ""},
	readTwo:        {"workers of two in the upstream read", ""},
	idleOne:        {"pool of one idle after", " s"},
	idleTwo:        {"pool of two idle after", " s"},
}

// bound is the range in which a figure must lie.
type bound struct {
	figure    figure
	low, high float64
}

// expect is what a cell wants. A figure without a bound is not judged.
type expect struct {
	outcome outcome
	bounds  []bound
}

// seen is what a cell got, in full.
type seen struct {
	outcome outcome
	figures map[figure]float64
}

// want is the expectation in words.
func (e expect) want() string {
	return e.words(e.outcome, func(b bound) string {
		if b.low == b.high {
			return number(b.low, figureWords[b.figure].unit)
		}
		return number(b.low, "") + " to " + number(b.high, figureWords[b.figure].unit)
	})
}

// got is what was seen, in the words of want.
func (e expect) got(v seen) string {
	return e.words(v.outcome, func(b bound) string {
		value := v.figures[b.figure]
		if !math.IsInf(value, 0) {
			value = math.Round(value*10) / 10
		}
		return number(value, figureWords[b.figure].unit)
	})
}

// words are the parts of both a want and a got.
func (e expect) words(what outcome, value func(bound) string) string {
	words := []string{string(what)}
	for _, b := range e.bounds {
		words = append(words, figureWords[b.figure].name+" "+value(b))
	}
	return strings.Join(words, ", ")
}

func number(v float64, unit string) string {
	if math.IsInf(v, 0) {
		return "never"
	}
	return fmt.Sprintf("%g%s", v, unit)
}

// met says whether what was seen is what was wanted.
func (e expect) met(v seen) bool {
	if v.outcome != e.outcome {
		return false
	}
	for _, b := range e.bounds {
		if value, ok := v.figures[b.figure]; !ok || !(value >= b.low && value <= b.high) {
			return false
		}
	}
	return true
}
