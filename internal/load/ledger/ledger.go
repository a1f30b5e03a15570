// Package ledger counts what became of every arrival of one endpoint and holds
// the identities that the counts must obey.
//
// The two sides are counted apart: whoever schedules counts scheduled, started
// and dropped; whoever waits for the answers counts outcomes. Check compares the
// two, so a request that gets lost between them cannot go unnoticed. The package
// refuses to repair a ledger that does not balance.
package ledger

import (
	"fmt"
	"strconv"

	"chokepoint/internal/result"
)

// Outcome is what became of an arrival. Each has exactly one.
type Outcome uint8

// The outcomes; docs/terminology.md defines them.
const (
	Dropped        Outcome = iota // no preallocated worker was free when it fell due
	OK                            // answered with a status under 400
	HTTPError                     // answered with a status of 400 or above
	Timeout                       // the client's deadline passed, connecting or waiting
	ConnectError                  // refused, unreachable, TLS
	TransportError                // EOF, RST, malformed or oversized answer
	Interrupted                   // unanswered when the generator stopped waiting
	outcomes
)

// Outcomes counts started requests by their outcome, which is the index.
type Outcomes [outcomes]int

// Finished is how many have an outcome.
func (o Outcomes) Finished() int {
	n := 0
	for _, c := range o {
		n += c
	}
	return n
}

// Failed is how many have an outcome other than OK; the interrupted are among
// them.
func (o Outcomes) Failed() int { return o.Finished() - o[OK] }

// Since is what has been added to before.
func (o Outcomes) Since(before Outcomes) Outcomes {
	for i, n := range before {
		o[i] -= n
	}
	return o
}

var names = [outcomes]string{"dropped", "ok", "http_error", "timeout", "connect_error", "transport_error", "interrupted"}

// String is the outcome's name in files and reports.
func (o Outcome) String() string {
	if o < outcomes {
		return names[o]
	}
	return "outcome(" + strconv.Itoa(int(o)) + ")"
}

// Answered says whether the server answered in full.
func (o Outcome) Answered() bool { return o == OK || o == HTTPError }

// Completed says whether the outcome has a response time: everything but
// dropped and interrupted.
func (o Outcome) Completed() bool { return o != Dropped && o != Interrupted }

// Answer is an outcome with what explains it.
type Answer struct {
	Outcome Outcome
	Status  int // HTTP status; 0 unless the server answered
	// Cause splits timeouts by phase and errors by kind; empty for answers and
	// for interrupted requests.
	Cause string
	// ErrorBody is the "error" field of a JSON error body; empty if there is none.
	ErrorBody string
}

// A server may send any text as its error: the ledger keeps this many distinct
// ones and counts the rest under OtherErrorBody, so that its memory is bounded.
const (
	maxErrorBodies = 100
	OtherErrorBody = "(other)"
)

// Ledger is the account of one endpoint. The zero value is ready to use. It is
// not safe for concurrent use.
type Ledger struct {
	// Counted by whoever schedules.
	Planned, Scheduled, Started, Dropped int
	// Counted by whoever waits for answers.
	outcomes    Outcomes
	causes      map[string]int
	status      map[int]int
	errorBodies map[string]int
}

// Finish counts the outcome of one started request.
func (l *Ledger) Finish(a Answer) {
	l.outcomes[a.Outcome]++
	if a.Cause != "" {
		count(&l.causes, a.Cause)
	}
	if a.Status != 0 {
		count(&l.status, a.Status)
	}
	if a.ErrorBody != "" {
		if _, known := l.errorBodies[a.ErrorBody]; !known && len(l.errorBodies) >= maxErrorBodies {
			a.ErrorBody = OtherErrorBody
		}
		count(&l.errorBodies, a.ErrorBody)
	}
}

func count[K comparable](m *map[K]int, key K) {
	if *m == nil {
		*m = make(map[K]int)
	}
	(*m)[key]++
}

// Count is how many started requests had the outcome so far; for Dropped it is
// Dropped.
func (l *Ledger) Count(o Outcome) int {
	if o == Dropped {
		return l.Dropped
	}
	return l.outcomes[o]
}

// Outcomes is how many started requests had each outcome so far.
func (l *Ledger) Outcomes() Outcomes { return l.outcomes }

// Finished is how many started requests have an outcome so far.
func (l *Ledger) Finished() int { return l.outcomes.Finished() }

// Cause is how many requests had the cause.
func (l *Ledger) Cause(cause string) int { return l.causes[cause] }

// Check verifies the identities of a finished run:
//
//	planned   >= scheduled
//	scheduled  = started + dropped
//	started    = ok + http_error + timeout + connect_error + transport_error + interrupted
//	ok + http_error = answers by status
//	timeout + connect_error + transport_error = failures by cause
//
// The error names the first that does not hold, with its figures.
func (l *Ledger) Check() error {
	answered := l.outcomes[OK] + l.outcomes[HTTPError]
	failed := l.outcomes[Timeout] + l.outcomes[ConnectError] + l.outcomes[TransportError]
	switch {
	case l.Scheduled > l.Planned:
		return fmt.Errorf("ledger: %d scheduled, but only %d planned", l.Scheduled, l.Planned)
	case l.Scheduled != l.Started+l.Dropped:
		return fmt.Errorf("ledger: %d scheduled, but %d started + %d dropped", l.Scheduled, l.Started, l.Dropped)
	case l.outcomes[Dropped] != 0:
		return fmt.Errorf("ledger: %d started requests were counted as dropped", l.outcomes[Dropped])
	case l.Started != l.Finished():
		return fmt.Errorf("ledger: %d started, but %d have an outcome", l.Started, l.Finished())
	case answered != sum(l.status):
		return fmt.Errorf("ledger: %d answered, but %d have a status", answered, sum(l.status))
	case failed != sum(l.causes):
		return fmt.Errorf("ledger: %d failed without an answer, but %d have a cause", failed, sum(l.causes))
	}
	return nil
}

func sum[K comparable](m map[K]int) int {
	n := 0
	for _, c := range m {
		n += c
	}
	return n
}

// FailedRatio is (scheduled - ok) / scheduled, and 0 where nothing was scheduled.
func (l *Ledger) FailedRatio() float64 {
	return ratio(l.Scheduled-l.outcomes[OK], l.Scheduled)
}

// CompletedFailedRatio is FailedRatio without dropped and interrupted requests.
func (l *Ledger) CompletedFailedRatio() float64 {
	completed := l.Started - l.outcomes[Interrupted]
	return ratio(completed-l.outcomes[OK], completed)
}

func ratio(part, whole int) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part) / float64(whole)
}

// Fill writes the counts and ratios into e and leaves its other fields alone.
func (l *Ledger) Fill(e *result.Endpoint) {
	e.Planned, e.Scheduled, e.Started, e.Dropped = l.Planned, l.Scheduled, l.Started, l.Dropped
	e.OK, e.HTTPError, e.Timeout = l.outcomes[OK], l.outcomes[HTTPError], l.outcomes[Timeout]
	e.ConnectError, e.TransportError, e.Interrupted = l.outcomes[ConnectError], l.outcomes[TransportError], l.outcomes[Interrupted]
	e.FailedRatio, e.CompletedFailedRatio = l.FailedRatio(), l.CompletedFailedRatio()
	e.Causes = make(map[string]int)
	for cause, n := range l.causes {
		e.Causes[cause] = n
	}
	e.Status = make(map[string]int)
	for status, n := range l.status {
		e.Status[strconv.Itoa(status)] = n
	}
	for body, n := range l.errorBodies {
		if e.ErrorBodies == nil {
			e.ErrorBodies = make(map[string]int)
		}
		e.ErrorBodies[body] = n
	}
}
