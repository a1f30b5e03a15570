package engine

import (
	"fmt"
	"io"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"chokepoint/internal/load/ledger"
)

// changing answers at once, with every outcome in turn and a text that is new each
// time.
type changing struct{}

func (changing) NewClient(int, bool) Client {
	return func(index int, _ time.Time) Exchange {
		now := time.Now()
		answers := []ledger.Answer{
			{Outcome: ledger.OK, Status: 200}, {Outcome: ledger.HTTPError, Status: 500 + index%100, ErrorBody: fmt.Sprintf("error %d", index)},
			{Outcome: ledger.Timeout, Cause: CauseResponse}, {Outcome: ledger.ConnectError, Cause: CauseRefused}, {Outcome: ledger.TransportError, Cause: CauseEOF},
		}
		return Exchange{Began: now, Done: now.Add(time.Duration(index%10_000) * time.Microsecond), Answer: answers[index%len(answers)]}
	}
}

func (changing) Interrupt() {}

// heapInUse is what is left of the heap in bytes, after two collections: a sync.Pool
// outlives the first.
func heapInUse() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestMemoryStaysFlat plays 100 seconds at 5,000/s in fake time, with an interval
// log. Nothing but the seconds with drops may grow, by some 32 bytes each.
func TestMemoryStaysFlat(t *testing.T) {
	const (
		perSecond, seconds = 5000, 100
		bound              = 256 << 10
	)
	synctest.Test(t, func(t *testing.T) {
		c := plan(Endpoint{Name: "fast", Rate: perSecond, Workers: 64})
		c.Duration = seconds * time.Second
		c.Log = io.Discard
		c.Quantum = 4 * time.Millisecond // fewer wake-ups: the test would take ten times as long
		var quarter, end int64
		c.EachSecond = func(s Second) {
			switch s.To {
			case seconds / 4 * time.Second:
				quarter = heapInUse()
			case (seconds - 1) * time.Second:
				end = heapInUse()
			}
		}
		r := play(t, t.Context(), c, changing{})
		if e := r.Load.Endpoints["fast"]; e.Started+e.Dropped != perSecond*seconds || e.OK == 0 || len(e.ErrorBodies) != 101 {
			t.Errorf("%d started, %d dropped, %d ok, %d error bodies", e.Started, e.Dropped, e.OK, len(e.ErrorBodies))
		}
		if grown := end - quarter; quarter == 0 || end == 0 || grown > bound {
			t.Errorf("the heap went from %d to %d bytes in three quarters of the run, by more than %d", quarter, end, bound)
		}
		t.Logf("heap %d bytes after a quarter, %d at the end", quarter, end)
	})
}
