package rolling

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"chokepoint/internal/result"
)

const (
	inFlightPrefix = "in-flight-"
	requestPrefix  = "request-"
	// logWait bounds the wait for nginx's line of a request whose client has gone.
	logWait = 2 * time.Second
	// outSlack is how much later than wanted a case waits for nginx to take the server out.
	outSlack = 10 * time.Second
)

func isInFlight(id string) bool { return strings.HasPrefix(id, inFlightPrefix) }

// record is what a case has seen, before it is judged.
type record struct {
	ended         time.Time // when the server was told to end: 0 of every time
	before, after observation
	inFlight      []answer
	answers       []answer
	out           time.Time // when nginx took the server out; zero: never
	why           string
	moments       []moment
}

// run carries the cell out: hosts and programs are made, the balancer gets a connection
// to each server, the first server is ended, and requests go on.
func (c cell) run(ctx context.Context, folder string, into *result.Case) (err error) {
	var n *network
	var w *world
	defer func() {
		// The programs end before their hosts do.
		if w != nil {
			err = errors.Join(err, w.stop(ctx))
		}
		if n != nil {
			err = errors.Join(err, n.close())
		}
	}()
	err = c.gate.Through(ctx, func() (err error) {
		if n, err = newNetwork(ctx); err != nil {
			return err
		}
		if w, err = c.start(ctx, n, folder); err != nil {
			return err
		}
		if err := w.warmUp(ctx); err != nil {
			return w.because(err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	going, endEarly := context.WithCancelCause(ctx)
	defer endEarly(nil)
	go w.watch(going, endEarly)
	r, err := w.carryOut(going)
	if going.Err() != nil {
		return context.Cause(going)
	}
	if err != nil {
		return err
	}
	if err := w.awaitLog(ctx, r); err != nil {
		return err
	}
	return c.judge(w, r, into)
}

// carryOut ends the server and sends the requests.
func (w *world) carryOut(ctx context.Context) (r record, err error) {
	if r.before, err = w.n.observe(); err != nil {
		return r, err
	}
	var inFlight []<-chan answer
	if w.c.row.inFlight {
		if inFlight, err = w.sendInFlight(ctx); err != nil {
			return r, err
		}
	}
	o := newObserver(w)
	observing, stop := context.WithCancel(ctx)
	var observes sync.WaitGroup
	observes.Go(func() { o.run(observing) })
	defer func() {
		stop()
		observes.Wait()
		r.moments, r.why, r.out = o.moments, o.why, o.outAt
		err = errors.Join(err, o.err)
	}()
	if w.c.row.defence.drainFirst {
		o.told("lb", "reload", "was1 is taken out of the configuration")
		if err := w.lb.Reload(ctx, w.c.config(true)); err != nil {
			return r, err
		}
		o.told("lb", "reloaded", "the new worker serves")
	}
	r.ended = time.Now()
	ends := make(chan error, 1)
	go func() {
		ends <- w.end(ctx, func(what, detail string) { o.told(was1, what, detail) })
	}()
	if !w.c.row.endsLate() {
		// The first request meets a server that has gone, however busy the machine is.
		if err := <-ends; err != nil {
			return r, err
		}
		ends <- nil
	}
	if w.c.row.untilOut {
		r.answers, err = w.sendUntilOut(ctx, r.ended, o)
	} else {
		r.answers, err = w.sendInTurn(ctx, requests, 1)
	}
	if err != nil {
		return r, err
	}
	for _, one := range inFlight {
		r.inFlight = append(r.inFlight, <-one)
	}
	if err := <-ends; err != nil {
		return r, err
	}
	r.after, err = w.n.observe()
	return r, err
}

// sendInFlight puts a request to each server, and lets them be at it for an interval.
func (w *world) sendInFlight(ctx context.Context) ([]<-chan answer, error) {
	var all []<-chan answer
	for i := range w.was {
		one := make(chan answer, 1)
		all = append(all, one)
		go func() {
			one <- w.caller.send(ctx, call{
				id: fmt.Sprintf("%s%d", inFlightPrefix, i+1), work: w.c.s.InFlight,
				timeout: 2*w.c.s.InFlight + w.c.s.Timeout, // it may be sent to the other server as well
			})
		}()
		if err := w.awaitRuns(ctx, i+1); err != nil {
			return nil, err
		}
	}
	return all, pause(ctx, interval)
}

// sendInTurn sends so many requests, each an interval after the answer to the one before.
// The first has the number first.
func (w *world) sendInTurn(ctx context.Context, n, first int) ([]answer, error) {
	var all []answer
	for i := range n {
		if err := pause(ctx, interval); err != nil {
			return all, err
		}
		all = append(all, w.caller.send(ctx, call{id: fmt.Sprintf("%s%d", requestPrefix, first+i), timeout: w.c.s.Timeout}))
	}
	return all, nil
}

// sendUntilOut sends a request every interval until nginx has taken the server out, and
// then some in turn.
func (w *world) sendUntilOut(ctx context.Context, since time.Time, o *observer) ([]answer, error) {
	most := int((w.c.want.out.to + outSlack) / interval)
	all := make([]answer, 0, most)
	var mu sync.Mutex
	var sending sync.WaitGroup
	next := 1
	for ; next <= most; next++ {
		i := next
		timer := time.NewTimer(time.Until(since.Add(time.Duration(i) * interval)))
		select {
		case <-timer.C:
			sending.Go(func() {
				a := w.caller.send(ctx, call{id: fmt.Sprintf("%s%d", requestPrefix, i), timeout: w.c.s.Timeout})
				mu.Lock()
				defer mu.Unlock()
				all = append(all, a)
			})
			continue
		case <-o.out:
		case <-ctx.Done():
		}
		timer.Stop()
		break
	}
	after, err := w.sendInTurn(ctx, requests, next)
	sending.Wait()
	return append(all, after...), err
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// awaitLog waits until nginx has a line for each request; one whose client has gone may
// have none for as long as the configuration makes nginx go on without it.
func (w *world) awaitLog(ctx context.Context, r record) error {
	ctx, cancel := context.WithTimeout(ctx, logWait)
	defer cancel()
	for {
		lines, err := w.lb.AccessLog()
		if err != nil {
			return err
		}
		have := map[string]bool{}
		for _, line := range lines {
			have[line.ID] = true
		}
		missing := false
		for _, a := range append(r.inFlight, r.answers...) {
			missing = missing || !have[a.id]
		}
		if !missing || pause(ctx, observed) != nil {
			return nil
		}
	}
}
