// Package closerace measures the keep-alive close race: a server closes a connection
// that has rested for as long as its idle timeout, while a client sends a request on
// it. It draws the share of requests that fail over the think time less that timeout,
// for both clients of the victim, for POST and GET, without a defence and with each
// that could help, and holds each point of interest against a band that is committed.
//
// Every line of the drawing has a real stub and, for each caller, a real victim, whose
// client so has one connection, which rests exactly from one call to the next. The
// think time is measured for each request, not assumed: the victim says how long its
// client was at it, which takes the way to the victim and back out. Whether a request
// that failed was executed is read from the stub, by the request's id.
//
// It does not judge a request before which no connection had rested, and it makes no
// statement about a point with too few requests.
package closerace

import (
	"context"
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

// Run is a run that may begin.
type Run struct {
	Settings Settings
	Launcher *proc.Launcher
	Progress func(format string, args ...any)
}

// Into runs the scenario with dir as its folder and fills it, but for summary,
// manifest and report. The summary is complete also when the run was cut short: then
// it is invalid and says why. The error is of what kept the run from being one at all.
func (r *Run) Into(ctx context.Context, dir string) (scenario.Outcome, error) {
	started := time.Now()
	programs, hashes, err := world.FindPrograms(r.Settings.BinDir, "victim", "upstream")
	if err != nil {
		return scenario.Outcome{}, err
	}
	all := lines(r.Settings.IdleTimeout)
	r.Progress("%d lines with %d callers each, for %s; the server closes what has rested for %s", len(all), r.Settings.Callers, r.Settings.Duration, r.Settings.IdleTimeout)
	measured, err := matrix.Run(ctx, r.measurements(all, programs), matrix.Options{Dir: dir, Parallel: len(all), Progress: r.Progress}, nil)
	if err != nil {
		return scenario.Outcome{}, err
	}
	ended := ""
	if ctx.Err() != nil {
		ended = fmt.Sprintf("%v (%v)", scenario.ErrInterrupted, context.Cause(ctx))
	}
	summary, err := summarise(dir, r.Settings, started, all, measured, ended)
	return scenario.Outcome{Summary: summary, World: world.Description{
		Runtime: "native", Programs: hashes, Limits: map[string]string{"GOMAXPROCS": victimProcs},
	}}, err
}

// measurements are a case for each line, which measures all its cells at once.
func (r *Run) measurements(all []line, programs map[string]string) []matrix.Case {
	crowd := newCrowd(len(all))
	var cases []matrix.Case
	for i, l := range all {
		cases = append(cases, matrix.Case{
			Case: result.Case{ID: lineID, Client: l.client, Method: l.method, Defence: l.defence},
			Run: func(ctx context.Context, folder string, c *result.Case) error {
				m := &measurement{line: l, number: i, settings: r.Settings, programs: programs, place: loopback(r.Launcher), folder: folder}
				return m.run(ctx, crowd, c)
			},
		})
	}
	return cases
}

// lineID is the id of a line as a case: the K of its cells.
const lineID = "K"

// summarise writes the series and judges every cell by what was measured of its line.
func summarise(dir string, s Settings, started time.Time, all []line, measured []result.Case, ended string) (result.Summary, error) {
	var points []result.CloseRacePoint
	var judged []result.Case
	var calls []call
	for i, l := range all {
		of, err := readCalls(filepath.Join(dir, measured[i].Evidence, callsFile))
		if err != nil && measured[i].Failure == "" {
			return result.Summary{}, err
		}
		calls = append(calls, of...)
		series := l.series(of, s.IdleTimeout.Seconds()*1000)
		points = append(points, series...)
		for _, offset := range cells {
			cell := l.cell(offset)
			cell.Evidence = measured[i].Evidence
			cell.Files = []result.EvidenceFile{{Name: callsFile, What: "every call of " + l.title}}
			if cell.Failure = measured[i].Failure; cell.Failure == "" {
				l.judge(&cell, series, offset)
			}
			judged = append(judged, cell)
		}
	}
	if ended != "" && len(calls) == 0 {
		return result.Summary{}, fmt.Errorf("%s before the first call: nothing was measured", ended)
	}
	if err := result.WriteCloseRace(filepath.Join(dir, result.CloseRaceFile), points); err != nil {
		return result.Summary{}, err
	}
	summary := matrix.Summarise(Name, started, judged, ended)
	summary.Verdict.Checks = append(summary.Verdict.Checks, checks(calls)...)
	if summary.Verdict.Outcome == result.Reproduced && slices.ContainsFunc(summary.Verdict.Checks, func(c result.Check) bool { return !c.OK && !c.Informative }) {
		summary.Verdict.Outcome = result.NotReproduced
	}
	return summary, nil
}

// checks are of the calls of all lines together.
func checks(calls []call) []result.Check {
	fresh, failed := 0, 0
	var deviations []float64
	for _, one := range calls {
		if one.Rested {
			deviations = append(deviations, math.Abs(one.Rest.Seconds()-one.Planned.Seconds())*1000)
			continue
		}
		fresh++
		if !one.ok() {
			failed++
		}
	}
	found := []result.Check{{
		Name: "nothing_rested", Want: "no request fails before which no connection had rested",
		Got: fmt.Sprintf("%d of %d", failed, fresh), OK: failed == 0,
	}}
	if len(deviations) > 0 {
		slices.Sort(deviations)
		at := func(share float64) float64 { return deviations[int(share*float64(len(deviations)-1))] }
		found = append(found, result.Check{
			Name: "think_time", Want: "as planned; a request counts where its own was", OK: true, Informative: true,
			Got: fmt.Sprintf("%.2f ms off at the median, %.2f ms at the 95th percentile", at(0.5), at(0.95)),
		})
	}
	return found
}
