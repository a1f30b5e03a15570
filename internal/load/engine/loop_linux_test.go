package engine

import (
	"testing"
	"time"
)

// loopAlone is a loop whose arrivals the test makes itself.
func loopAlone(t *testing.T, url, method string) *loop {
	t.Helper()
	c := plan(Endpoint{Name: "fast", URL: url, Method: method, Rate: 1, Workers: 4})
	c.Engine, c.KeepRequests = Loop, true
	c = c.WithDefaults()
	e, err := newLoopEngine(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	l := newLoop(e.(*loopEngine), newTallies(c))
	l.start = time.Now()
	l.next.leaves = forever
	return l
}

// do sends one request and waits for its outcome.
func (l *loop) do(index int, deadline time.Time) Exchange {
	l.turn(0) // as after any time of waiting
	j := job{index: index, due: l.now()}
	l.lanes[0].timeout = deadline.Sub(l.start.Add(j.due))
	l.begin(0, j)
	for l.busy > 0 {
		l.turn(l.idleTime())
	}
	r := l.lanes[0].tally.requests[index]
	began := l.start.Add(r.Due + r.Lag)
	return Exchange{Began: began, Done: began.Add(r.Service), Answer: r.Answer}
}

func loopClient(t *testing.T, url, method string) (Client, func()) {
	l := loopAlone(t, url, method)
	return l.do, l.hangUpIdle
}
