// Package compare says what differs between two sets of load runs, by the rules of
// package stats: medians, ranges and intervals, "~" for noise, "?" for too few runs.
//
// It refuses to compare what may not be believed: invalid runs are named and left
// out. It has no mean.
package compare

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"chokepoint/internal/load/ledger"
	"chokepoint/internal/result"
	"chokepoint/internal/stats"
)

// Run is the result of one run and where it came from.
type Run struct {
	Path string
	Load result.Load
}

// The resolution of the times, in milliseconds: two medians closer than that are
// not told apart by three runs. The engine's schedule error is below 0.1 ms at the
// median and about a millisecond at p99 on a busy machine.
const (
	floorMS     = 0.1
	floorTailMS = 1
)

// metric is one figure of an endpoint.
type metric struct {
	name string
	unit string
	kind stats.Kind
	// moreIsBetter turns the direction of a regression.
	moreIsBetter bool
	// value says false where the run has no such figure.
	value func(result.Endpoint) (float64, bool)
}

// metrics are the figures of an endpoint. Good answers are looked at apart only where
// there were others: the same figure twice would raise the bar for both.
func metrics(failures bool) []metric {
	all := []metric{
		{"failed_ratio", "ratio", stats.Ratio(), false, func(e result.Endpoint) (float64, bool) { return e.FailedRatio, e.Scheduled > 0 }},
		{"achieved_rate", "rate", stats.Quantity(0), true, func(e result.Endpoint) (float64, bool) { return e.AchievedRate, true }},
	}
	type distribution struct {
		name string
		of   func(result.Endpoint) result.Percentiles
	}
	distributions := []distribution{{"response_ms", func(e result.Endpoint) result.Percentiles { return e.Response }}}
	if failures {
		distributions = append(distributions, distribution{"ok_response_ms", func(e result.Endpoint) result.Percentiles { return e.OKResponse }})
	}
	for _, of := range distributions {
		times := func(percentile string, floor float64, value func(result.Percentiles) (float64, bool)) {
			all = append(all, metric{of.name + "." + percentile, "ms", stats.Quantity(floor), false, func(e result.Endpoint) (float64, bool) {
				p := of.of(e)
				v, ok := value(p)
				return v, ok && p.Count > 0
			}})
		}
		times("p50", floorMS, func(p result.Percentiles) (float64, bool) { return p.P50, true })
		times("p90", floorMS, func(p result.Percentiles) (float64, bool) { return p.P90, true })
		times("p99", floorTailMS, func(p result.Percentiles) (float64, bool) { return p.P99, true })
		times("p99_9", floorTailMS, func(p result.Percentiles) (float64, bool) {
			if p.P999 == nil {
				return 0, false
			}
			return *p.P999, true
		})
	}
	return all
}

// CheckModel refuses to compare runs of an open model with those of a closed one:
// only the first has response times that include the wait outside.
func CheckModel(base, other []Run) error {
	all := slices.Concat(base, other)
	for _, r := range all {
		if first := all[0]; r.Load.Model != first.Load.Model {
			return fmt.Errorf("%s is of model %q and %s of model %q: their times do not mean the same; compare runs of one model",
				first.Path, first.Load.Model, r.Path, r.Load.Model)
		}
	}
	return nil
}

// CheckWhole refuses shards: each is a part of one run, and counted by itself it
// would pass for a run.
func CheckWhole(base, other []Run) error {
	for _, r := range slices.Concat(base, other) {
		if s := r.Load.Shard; s != nil && s.Of > 1 {
			return fmt.Errorf("%s is shard %d of %d, a part of a run; merge the shards first, with loadgen report -json", r.Path, s.Index, s.Of)
		}
	}
	return nil
}

// Loads compares the runs of both sets, endpoint by endpoint. A figure that a run
// does not have, such as the p99.9 of few requests, is left out for all of them.
func Loads(base, other []Run) result.LoadDiff {
	d := result.LoadDiff{Schema: result.LoadDiffSchema, Base: paths(base), New: paths(other), Metrics: []result.LoadMetric{}}
	warn := func(format string, args ...any) { d.Warnings = append(d.Warnings, fmt.Sprintf(format, args...)) }
	base, other = valid(base, warn), valid(other, warn)
	var pairs []stats.Pair
	var better []bool
	for _, name := range endpoints(base, other, warn) {
		if len(base) > 0 && len(other) > 0 {
			warnOfSettings(base, other, name, warn)
		}
		for _, m := range metrics(failed(base, name) || failed(other, name)) {
			p := stats.Pair{Base: values(base, name, m), Other: values(other, name, m), Kind: m.kind}
			if p.Base == nil || p.Other == nil {
				continue
			}
			pairs, better = append(pairs, p), append(better, m.moreIsBetter)
			d.Metrics = append(d.Metrics, result.LoadMetric{
				Name: name + "." + m.name, Unit: m.unit, Base: spread(p.Base), New: spread(p.Other), Change: change(m.unit, p),
			})
		}
	}
	for i, v := range stats.CompareAll(pairs) {
		m := &d.Metrics[i]
		m.Differs, m.Warning, m.Shift = string(v.Direction), v.Warning, shift(v.Shift)
		worse := stats.Higher
		if better[i] {
			worse = stats.Lower
		}
		m.Regression = v.Direction == worse
		d.Regressed = d.Regressed || m.Regression
	}
	warnOfFewRuns(len(base), len(other), warn)
	return d
}

// warnOfFewRuns says what so many valid runs cannot carry, and how many would.
func warnOfFewRuns(base, other int, warn func(string, ...any)) {
	for _, set := range []struct {
		name string
		runs int
	}{{"base", base}, {"new", other}} {
		switch {
		case set.runs < stats.MinRuns:
			are := "runs are"
			if set.runs == 1 {
				are = "run is"
			}
			warn("%s: %d valid %s too few to claim a difference; at least %d are needed", set.name, set.runs, are, stats.MinRuns)
		case set.runs < stats.MedianIntervalRuns:
			warn("%s: %d valid runs give no interval of a median (± ∞); need >= %d runs for a confidence interval at level %v",
				set.name, set.runs, stats.MedianIntervalRuns, 1-stats.Alpha)
		}
	}
	if fewer := min(base, other); fewer >= stats.MinRuns && fewer < stats.RankTestRuns {
		warn("%d runs a side carry no rank test: a difference is claimed where the ranges are disjoint and the medians are far apart (ADR 0009)", fewer)
	}
}

func paths(runs []Run) []string {
	all := []string{}
	for _, r := range runs {
		all = append(all, r.Path)
	}
	return all
}

// valid leaves out the runs that may not be believed.
func valid(runs []Run, warn func(string, ...any)) []Run {
	var kept []Run
	for _, r := range runs {
		if reason := Disbelief(r.Load); reason != "" {
			warn("%s is invalid and left out: %s", r.Path, reason)
			continue
		}
		kept = append(kept, r)
	}
	return kept
}

// Disbelief is why a run may not be compared; empty if it may. A file can claim to be
// valid, and its ledger tells otherwise.
func Disbelief(l result.Load) string {
	if !l.Validity.Valid {
		return cmp.Or(strings.Join(l.Validity.Reasons[:min(1, len(l.Validity.Reasons))], ""), "it does not say why")
	}
	for _, name := range slices.Sorted(maps.Keys(l.Endpoints)) {
		account, err := ledger.Of(l.Endpoints[name], l.Model)
		if err == nil {
			err = account.Check()
		}
		if err != nil {
			return fmt.Sprintf("%s: %v", name, err)
		}
	}
	return ""
}

// endpoints are those that every run has, sorted; the others are named.
func endpoints(base, other []Run, warn func(string, ...any)) []string {
	runs := slices.Concat(base, other)
	counts := map[string]int{}
	for _, r := range runs {
		for name := range r.Load.Endpoints {
			counts[name]++
		}
	}
	var all []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		if counts[name] < len(runs) {
			warn("endpoint %s is in %d of %d runs and left out", name, counts[name], len(runs))
			continue
		}
		all = append(all, name)
	}
	return all
}

// failed says whether an endpoint had responses that were no good answers.
func failed(runs []Run, name string) bool {
	return slices.ContainsFunc(runs, func(r Run) bool {
		e := r.Load.Endpoints[name]
		return e.Response.Count != e.OKResponse.Count
	})
}

// values of a metric in every run; nil if one has none.
func values(runs []Run, name string, m metric) []float64 {
	var all []float64
	for _, r := range runs {
		v, ok := m.value(r.Load.Endpoints[name])
		if !ok {
			return nil
		}
		all = append(all, v)
	}
	return all
}

func spread(values []float64) result.LoadSpread {
	s := stats.Summarize(values)
	spread := result.LoadSpread{Spread: result.Spread{N: s.N, Median: s.Median, Min: s.Min, Max: s.Max}}
	if i, ok := stats.MedianInterval(values); ok {
		spread.Interval = &result.Interval{Low: i.Low, High: i.High, Confidence: i.Confidence}
	}
	return spread
}

// shift is s as the file has it; a bound that is not finite bounds nothing, and has
// no number in JSON.
func shift(s *stats.Shift) *result.Shift {
	if s == nil || math.IsInf(s.Low, 0) || math.IsInf(s.High, 0) {
		return nil
	}
	return &result.Shift{Estimate: s.Estimate, Interval: result.Interval{Low: s.Low, High: s.High, Confidence: s.Confidence}}
}

func change(unit string, p stats.Pair) *float64 {
	before, after := stats.Median(p.Base), stats.Median(p.Other)
	c := after - before
	if unit != "ratio" {
		c /= before
	}
	if math.IsNaN(c) || math.IsInf(c, 0) {
		return nil
	}
	return &c
}
