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
// The way to the server is the loopback's, or, in a sandbox of package netlab, that of a
// router which holds every packet.
//
// It does not judge a request before which no connection had rested, and it makes no
// statement about a point with too few requests.
package closerace

import (
	"context"
	"fmt"
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
	where := loopback(r.Launcher)
	if r.Settings.RoundTrip > 0 {
		if where, err = distant(r.Settings.RoundTrip); err != nil {
			return scenario.Outcome{}, err
		}
	}
	defer func() {
		if err := where.close(); err != nil {
			r.Progress("%v", err)
		}
	}()
	all := lines(r.Settings.IdleTimeout, r.Settings.RoundTrip)
	r.Progress("%d lines with %d callers each; the server closes what has rested for %s", len(all), r.Settings.Callers, r.Settings.IdleTimeout)
	measured, err := matrix.Run(ctx, r.measurements(all, programs, where), matrix.Options{Dir: dir, Parallel: len(all), Progress: r.Progress}, nil)
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
func (r *Run) measurements(all []line, programs map[string]string, where place) []matrix.Case {
	crowd := newCrowd(len(all), func() { r.Progress("every program runs; the callers call for %s", r.Settings.Duration) })
	var cases []matrix.Case
	for i, l := range all {
		cases = append(cases, matrix.Case{
			Case: result.Case{ID: lineID, Client: l.client, Method: l.method, Defence: l.defence},
			Run: func(ctx context.Context, folder string, c *result.Case) error {
				m := &measurement{line: l, number: i, settings: r.Settings, programs: programs, place: where, folder: folder}
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
		series := l.series(of, s.IdleTimeout)
		points = append(points, series...)
		for _, c := range cells {
			one := l.wanted(c)
			one.Evidence = measured[i].Evidence
			one.Files = []result.EvidenceFile{{Name: callsFile, What: "every call of " + l.title}}
			if one.Failure = measured[i].Failure; one.Failure == "" {
				l.judge(c, series, &one)
			}
			judged = append(judged, one)
		}
	}
	if ended != "" && len(calls) == 0 {
		return result.Summary{}, fmt.Errorf("%s before the first call: nothing was measured", ended)
	}
	if err := result.WriteCloseRace(filepath.Join(dir, result.CloseRaceFile), points); err != nil {
		return result.Summary{}, err
	}
	summary := matrix.Summarise(Name, started, judged, ended)
	fresh := nothingRested(calls)
	if !fresh.OK && summary.Verdict.Outcome == result.Reproduced {
		summary.Verdict.Outcome = result.NotReproduced
	}
	think, tooBusy := thinkTimes(calls)
	way, tooSlow := exchanges(calls, s.RoundTrip)
	summary.Verdict.Checks = append(summary.Verdict.Checks, fresh, think, way)
	for _, reason := range []string{tooBusy, tooSlow} {
		if reason != "" {
			summary.Validity.Valid, summary.Validity.Reasons = false, append(summary.Validity.Reasons, reason)
			summary.Verdict.Outcome = result.Invalid
		}
	}
	return summary, nil
}

// nothingRested is the check of what a close cannot befall.
func nothingRested(calls []call) result.Check {
	fresh, failed := 0, 0
	for _, one := range calls {
		if one.Rested {
			continue
		}
		fresh++
		if !one.ok() {
			failed++
		}
	}
	return result.Check{
		Name: "nothing_rested", Want: "no request fails before which no connection had rested",
		Got: fmt.Sprintf("%d of %d", failed, fresh), OK: failed == 0,
	}
}

// thinkTimes says how far the think times were from the planned ones, and why a run
// must not be believed in which too many were.
func thinkTimes(calls []call) (check result.Check, reason string) {
	var off []float64 // milliseconds
	disturbed := 0
	for _, one := range calls {
		if !one.Rested {
			continue
		}
		off = append(off, (one.Rest-one.Planned).Abs().Seconds()*1000)
		if one.disturbed() {
			disturbed++
		}
	}
	check = result.Check{Name: "think_time", Want: fmt.Sprintf("at most %.0f %% of them more than %s off, which are not counted", 100*maxDisturbed, disturbedBeyond), Informative: true}
	if len(off) == 0 {
		check.Got = "there were none"
		return check, ""
	}
	slices.Sort(off)
	share := float64(disturbed) / float64(len(off))
	check.Got = fmt.Sprintf("%.1f %% of %d; the median is %.2f ms off", 100*share, len(off), off[len(off)/2])
	if check.OK = share <= maxDisturbed; !check.OK {
		reason = fmt.Sprintf("the machine was too busy: %.1f %% of the think times were more than %s off, and at most %.0f %% may be", 100*share, disturbedBeyond, 100*maxDisturbed)
	}
	return check, reason
}

// exchanges says how long the way was, as the calls on kept connections had it, and why
// a run must not be believed in which it was longer than asked.
func exchanges(calls []call, roundTrip time.Duration) (check result.Check, reason string) {
	var took []time.Duration
	for _, one := range calls {
		if one.ok() && one.Connection == connectionReused && one.Attempts == 1 {
			took = append(took, one.Took)
		}
	}
	// A router that is a program holds packets for longer than it was told, too.
	most, rarely := roundTrip+roundTrip/4+disturbedBeyond, 2*roundTrip+5*time.Millisecond
	check = result.Check{Name: "exchange", Want: fmt.Sprintf("at most %s at the median, %s at the 95th percentile", most, rarely), Informative: true}
	if len(took) == 0 {
		check.Got = "there were none"
		return check, ""
	}
	slices.Sort(took)
	median, high := took[len(took)/2].Round(time.Microsecond), took[len(took)*95/100].Round(time.Microsecond)
	check.Got = fmt.Sprintf("%s at the median, %s at the 95th percentile, on kept connections", median, high)
	if check.OK = median <= most && high <= rarely; !check.OK {
		reason = fmt.Sprintf("the machine was too busy: an exchange took %s; with a round trip of %s it may take %s", check.Got, roundTrip, check.Want)
	}
	return check, reason
}
