// Package closerace measures the keep-alive close race: a server closes a connection
// that has rested for as long as its idle timeout, while a client sends a request on
// it. It draws the share of requests that fail over the think time less that timeout,
// for both clients of the victim, for POST and GET, without a defence and with each
// that could help, and holds each point of interest against a band that is committed.
//
// Every line has a real stub and, for each caller, a real victim, whose client so has
// one connection, which rests exactly from one call to the next. The think time is
// measured for each request, not assumed: what the victim says of its upstream's share
// of an answer takes the way to the victim and back out of it. Whether a request that
// failed was executed is read from the stub, by the request's id.
//
// It measures on the loopback, where the way from end to end takes some ten
// microseconds: what a longer way adds is not in its figures. It does not judge a
// request before which no connection had rested, and it makes no statement about a
// point with too few requests.
package closerace

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"time"

	"chokepoint/internal/lab/matrix"
	"chokepoint/internal/lab/proc"
	"chokepoint/internal/lab/scenario"
	"chokepoint/internal/lab/world"
	"chokepoint/internal/result"
)

// Name is the scenario's.
const Name = result.ScenarioCloseRace

// joinWait bounds what follows the calls when the run was cut short.
const joinWait = 15 * time.Second

// Run is a run that may begin.
type Run struct {
	Settings Settings
	Launcher *proc.Launcher
	Progress func(format string, args ...any)
}

// Into runs the scenario with dir as its folder and fills it, but for summary,
// manifest and report. The summary is complete also when the run was cut short: then
// it is invalid and says why. The error is of what kept the run from being one at all;
// it is scenario.ErrInterrupted if that was ctx.
func (r *Run) Into(ctx context.Context, dir string) (scenario.Outcome, error) {
	started := time.Now()
	programs, hashes, err := world.FindPrograms(r.Settings.BinDir, "victim", "upstream")
	if err != nil {
		return scenario.Outcome{}, err
	}
	m := &measurement{
		settings: r.Settings, launcher: r.Launcher, programs: programs,
		logs: filepath.Join(dir, result.LogsDir), group: proc.NewGroup(),
	}
	defer func() {
		stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), 4*stopGrace)
		defer cancel()
		if err := m.group.Stop(stopping, stopGrace); err != nil {
			r.Progress("%v", err)
		}
	}()
	r.Progress("the server closes what has rested for %s", r.Settings.IdleTimeout)
	if err := m.start(ctx); err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("%w before the first call: nothing was measured", scenario.ErrInterrupted)
		}
		return scenario.Outcome{}, err
	}
	r.Progress("%d lines with %d callers each, for %s", len(m.crews), r.Settings.Callers, r.Settings.Duration)

	ended := m.watched(ctx)
	usage := m.usage()
	after, cancel := context.WithTimeout(context.WithoutCancel(ctx), joinWait)
	defer cancel()
	if err := m.join(after); err != nil && ended == nil {
		ended = err
	}
	summary, err := m.summary(dir, started, ended)
	summary.Children = usage
	return scenario.Outcome{Summary: summary, World: world.Description{
		Runtime: "native", Programs: hashes, Limits: map[string]string{"GOMAXPROCS": victimProcs},
	}}, err
}

// watched has the callers call for as long as every program lives. It returns why that
// ended early; nil if it did not.
func (m *measurement) watched(ctx context.Context) error {
	calling, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	done := make(chan struct{})
	defer close(done)
	go func() {
		select {
		case child := <-m.group.Died():
			cancel(errors.New(world.Death{Name: child.Name(), Status: child.Status(), Log: child.LastLog(5)}.String()))
		case <-ctx.Done():
			cancel(fmt.Errorf("%w (%w)", scenario.ErrInterrupted, context.Cause(ctx)))
		case <-done:
		}
	}()
	err := m.call(calling)
	if cause := context.Cause(calling); cause != nil {
		return cause
	}
	return err
}

// summary writes the series and the calls, and judges every cell.
func (m *measurement) summary(dir string, started time.Time, ended error) (result.Summary, error) {
	idle := m.settings.IdleTimeout.Seconds() * 1000
	var points []result.CloseRacePoint
	var judged []result.Case
	for _, c := range m.crews {
		series := c.series(c.calls, idle)
		points = append(points, series...)
		evidence := result.CasesDir + "/" + c.name() + "/"
		if err := writeCalls(filepath.Join(dir, evidence, callsFile), c.calls); err != nil {
			return result.Summary{}, err
		}
		for _, offset := range cells {
			cell := c.cell(offset)
			cell.Evidence = evidence
			cell.Files = []result.EvidenceFile{{Name: callsFile, What: "every call of " + c.title}}
			c.judge(&cell, series, offset)
			judged = append(judged, cell)
		}
	}
	if err := result.WriteCloseRace(filepath.Join(dir, result.CloseRaceFile), points); err != nil {
		return result.Summary{}, err
	}
	why := ""
	if ended != nil {
		why = ended.Error()
	}
	summary := matrix.Summarise(Name, started, judged, why)
	summary.Verdict.Checks = append(summary.Verdict.Checks, m.checks()...)
	if summary.Verdict.Outcome == result.Reproduced && slices.ContainsFunc(summary.Verdict.Checks, failed) {
		summary.Verdict.Outcome = result.NotReproduced
	}
	return summary, nil
}

func failed(c result.Check) bool { return !c.OK && !c.Informative }

// checks are of all lines together.
func (m *measurement) checks() []result.Check {
	var fresh, freshFailed int
	var deviations []float64
	for _, c := range m.crews {
		for _, one := range c.calls {
			if one.Rested {
				deviations = append(deviations, math.Abs(one.Rest.Seconds()-one.Planned.Seconds())*1000)
				continue
			}
			fresh++
			if !one.ok() {
				freshFailed++
			}
		}
	}
	checks := []result.Check{{
		Name: "no_rest_no_failure", Want: "none of the requests before which no connection had rested fails",
		Got: fmt.Sprintf("%d of %d", freshFailed, fresh), OK: freshFailed == 0,
	}}
	if len(deviations) > 0 {
		slices.Sort(deviations)
		at := func(share float64) float64 { return deviations[int(share*float64(len(deviations)-1))] }
		checks = append(checks, result.Check{
			Name: "think_time", Want: "as planned; each request counts where its own was", OK: true, Informative: true,
			Got: fmt.Sprintf("%.2f ms off at the median, %.2f ms at the 95th percentile", at(0.5), at(0.95)),
		})
	}
	return checks
}
