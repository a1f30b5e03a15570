package deadconn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"chokepoint/internal/lab/netlab"
	"chokepoint/internal/result"
)

// run carries the cell out: hosts and programs are made, the pool is filled, it rests,
// and then the judged request is sent through it.
func (c cell) run(ctx context.Context, folder string, into *result.Case) (err error) {
	var n *network
	var w *world
	defer func() {
		// The programs end before their hosts do.
		if w != nil {
			if ended := w.ended(c.row.kill); ended != nil {
				err = ended // whatever it was, this is why
			}
			err = errors.Join(err, w.stop(ctx))
		}
		if n != nil {
			err = errors.Join(err, n.close())
		}
	}()
	err = c.gate.Through(ctx, func() (err error) {
		device := netlab.Device{Mode: c.row.mode, NewPort: c.row.newPort, Idle: c.s.DeviceIdle}
		if n, err = newNetwork(ctx, device); err != nil {
			return err
		}
		if w, err = c.start(ctx, n, folder); err != nil {
			return err
		}
		if err = w.fill(ctx, c.row.connections()); err != nil || c.row.defence.settings.UserTimeout == 0 {
			return err
		}
		return w.settle(ctx)
	})
	if err != nil {
		return err
	}
	if err := rest(ctx, c.row.restIn(c.s)); err != nil {
		return err
	}
	before, err := n.observe()
	if err != nil {
		return err
	}
	asked := time.Now()
	answer, err := c.ask(ctx, n, w)
	if err != nil {
		return err
	}
	after, err := n.observe()
	if err != nil {
		return err
	}
	runs, err := w.runs()
	if err != nil {
		return err
	}
	packets, atStub := n.atCaller.Stop(), n.atStub.Stop()
	v := seen{
		outcome: outcomeOf(*answer.Call), connection: connectionOf(*answer.Call), attempts: attemptsOf(*answer.Call),
		runs: len(runs), took: time.Duration(answer.Call.MS * float64(time.Millisecond)),
		before: before.ends(), after: after.ends(),
	}
	into.Got, into.OK = c.want.got(v), c.want.met(c.s, v)
	into.Seconds, into.HandlerRuns = v.took.Seconds(), v.runs
	into.Counts = countsOf(v)
	into.Error, into.Connection, into.Attempts = errorOf(*answer.Call), v.connection, v.attempts
	into.Before, into.After = before.observed(), after.observed()
	into.Events = append(events("caller", packets, asked), events("upstream", atStub, asked)...)
	slices.SortStableFunc(into.Events, func(a, b result.CaseEvent) int { return cmp.Compare(a.AtS, b.AtS) })
	into.Retransmits = retransmitsSince(packets, asked)
	into.Files, err = writeEvidence(folder, evidence{
		asked: asked, atCaller: packets, atStub: atStub, before: before, after: after, answer: answer, runs: runs,
	})
	return errors.Join(err, n.atCaller.Err(), n.atStub.Err())
}

// ask sends the judged request, and does to the path and to the server what the case
// says while it is on its way.
func (c cell) ask(ctx context.Context, n *network, w *world) (answer, error) {
	answers := make(chan answer, 1)
	failures := make(chan error, 1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		a, err := w.call(ctx, c.judged())
		if err != nil {
			failures <- err
			return
		}
		answers <- a
	}()
	meanwhile := func() error {
		if !c.row.forget && !c.row.kill {
			return nil
		}
		if err := w.awaitRun(ctx); err != nil {
			return err
		}
		if c.row.kill {
			return w.killStub()
		}
		if err := n.awaitAcknowledgement(ctx); err != nil {
			return err
		}
		_, err := n.device.Forget(nil)
		return err
	}
	if err := meanwhile(); err != nil {
		return answer{}, err
	}
	select {
	case a := <-answers:
		if a.Call == nil {
			return a, fmt.Errorf("the victim made no call: %s", a.text)
		}
		return a, nil
	case err := <-failures:
		return answer{}, fmt.Errorf("ask the victim: %w", err)
	}
}

// rest waits while the connections do nothing.
func rest(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// requestLog is where the stub writes down its handler's runs.
func requestLog(folder string) string { return filepath.Join(folder, "requests.jsonl") }
