package ledger

import (
	"fmt"
	"strconv"

	"chokepoint/internal/result"
)

// Of is the ledger of an endpoint as a file has it, of a load of that model: the
// opposite of Fill. A closed model plans nothing, so that what it scheduled counts as
// its plan. The error is that of a status which is not a number.
func Of(e result.Endpoint, model string) (*Ledger, error) {
	l := &Ledger{Planned: e.Planned, Scheduled: e.Scheduled, Started: e.Started, Dropped: e.Dropped}
	if model == result.ModelClosed {
		l.Planned = l.Scheduled
	}
	l.outcomes[OK], l.outcomes[HTTPError], l.outcomes[Timeout] = e.OK, e.HTTPError, e.Timeout
	l.outcomes[ConnectError], l.outcomes[TransportError], l.outcomes[Interrupted] = e.ConnectError, e.TransportError, e.Interrupted
	for text, n := range e.Status {
		status, err := strconv.Atoi(text)
		if err != nil {
			return nil, fmt.Errorf("ledger: status %q is not a number", text)
		}
		add(&l.status, status, n)
	}
	for cause, n := range e.Causes {
		add(&l.causes, cause, n)
	}
	for body, n := range e.ErrorBodies {
		add(&l.errorBodies, body, n)
	}
	return l, nil
}

// Add counts everything that other has counted.
func (l *Ledger) Add(other *Ledger) {
	l.Planned += other.Planned
	l.Scheduled += other.Scheduled
	l.Started += other.Started
	l.Dropped += other.Dropped
	for o, n := range other.outcomes {
		l.outcomes[o] += n
	}
	for cause, n := range other.causes {
		add(&l.causes, cause, n)
	}
	for status, n := range other.status {
		add(&l.status, status, n)
	}
	for body, n := range other.errorBodies {
		add(&l.errorBodies, body, n)
	}
}

func add[K comparable](m *map[K]int, key K, n int) {
	if *m == nil {
		*m = make(map[K]int)
	}
	(*m)[key] += n
}
