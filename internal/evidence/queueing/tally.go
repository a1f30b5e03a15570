package queueing

import (
	"math"
	"slices"
	"time"
)

// tally is what one case of the model counted.
type tally struct {
	ledgers    []ledger // by stream
	dumps      []snapshot
	maxBusy    int
	maxQueued  int
	maxWorkers int
	maxPermits int

	maxAcceptQueue int

	full      bool          // every worker was busy at some time
	fullAt    time.Duration // scenario time, from then on; 0 if they never were
	idleSince time.Duration // scenario time; the start if it was never busy
	stuck     bool          // workers are held for ever
}

// answer is what the victim answers; cause is empty for a good one.
type answer struct {
	status int
	cause  string
}

// ledger is the book of one stream; see DESIGN section 3.
type ledger struct {
	scheduled, dropped, timeout, interrupted int
	answers                                  map[answer]int
	responses                                []time.Duration // sorted when the case has ended
}

func (l *ledger) sum(counts func(answer) bool) int {
	n := 0
	for a, c := range l.answers {
		if counts(a) {
			n += c
		}
	}
	return n
}

func (l *ledger) ok() int        { return l.sum(func(a answer) bool { return a.status < 400 }) }
func (l *ledger) httpError() int { return l.sum(func(a answer) bool { return a.status >= 400 }) }

func (l *ledger) withStatus(status int) int {
	return l.sum(func(a answer) bool { return a.status == status })
}

func (l *ledger) withCause(cause string) int {
	return l.sum(func(a answer) bool { return a.cause == cause })
}

func (l *ledger) failedRatio() float64 { return ratio(l.scheduled-l.ok(), l.scheduled) }

func (l *ledger) completedFailedRatio() float64 {
	completed := l.scheduled - l.dropped - l.interrupted
	return ratio(completed-l.ok(), completed)
}

func ratio(part, whole int) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part) / float64(whole)
}

// percentile is the value at rank ceil(q*n); 0 where there is none.
func (l *ledger) percentile(q float64) time.Duration {
	n := len(l.responses)
	if n == 0 {
		return 0
	}
	// A product that is whole but for the last bit is that whole number.
	rank := int(math.Ceil(q*float64(n) - 1e-9))
	return l.responses[min(max(rank, 1), n)-1]
}

func (l *ledger) close() { slices.Sort(l.responses) }

// snapshot is what a dump sees.
type snapshot struct{ upstreamConnect, upstreamRead, permitWait, queued, serving int }
