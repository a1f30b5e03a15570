package report

import (
	"maps"
	"slices"

	"chokepoint/internal/result"
	"chokepoint/internal/stats"
)

// figure is one number that every run of a comparison may have.
type figure struct {
	name  string
	unit  string // "count", "ratio", "ms", "s", "percent" or "bytes"
	floor float64
	// value is false where a run has no such number; that is not the same as 0.
	value func(result.Summary) (float64, bool)
}

// Gaps up to these are no difference under the three-run rule: the lab does not
// resolve them. They are the tolerances that DESIGN section 5 grants the model,
// and for tails the 25 ms under which a verdict calls an answer unharmed. A p99
// rests on a hundredth of the requests and wanders from run to run.
const (
	requestsFloor = 2
	medianFloorMS = 5
	tailFloorMS   = 25
	// recoveryFloorS is in real seconds: how finely the lab looks for recovery.
	recoveryFloorS = 0.25
)

// workersFloor is the number of workers that a dump may miss in a hand-over.
func workersFloor(scale float64) float64 {
	if scale < 0.2 {
		return 5
	}
	return 2
}

// pair makes the two sides of a comparison. Percentages are compared as shares.
func (f figure) pair(base, other []float64) stats.Pair {
	switch f.unit {
	case "ratio":
		return stats.Pair{Base: base, Other: other, Kind: stats.Ratio()}
	case "percent":
		return stats.Pair{Base: hundredths(base), Other: hundredths(other), Kind: stats.Ratio()}
	}
	return stats.Pair{Base: base, Other: other, Kind: stats.Quantity(f.floor)}
}

func hundredths(values []float64) []float64 {
	scaled := make([]float64, len(values))
	for i, v := range values {
		scaled[i] = v / 100
	}
	return scaled
}

// figuresOf lists the figures of a comparison: whatever any of the runs has, in
// the order of the reports.
func figuresOf(runs []result.Summary) []figure {
	if len(runs) == 0 {
		return nil
	}
	var figures []figure
	for _, name := range keysOf(runs, func(s result.Summary) map[string]result.Endpoint { return s.Endpoints }) {
		figures = append(figures, endpointFigures(name, runs)...)
	}
	for _, point := range pointsOf(runs) {
		figures = append(figures, dumpFigures(point, runs)...)
	}
	return append(figures, serverFigures(runs)...)
}

// keysOf lists the keys that a map has in any run, sorted.
func keysOf[V any](runs []result.Summary, of func(result.Summary) map[string]V) []string {
	keys := map[string]bool{}
	for _, s := range runs {
		for k := range of(s) {
			keys[k] = true
		}
	}
	return slices.Sorted(maps.Keys(keys))
}

// pointsOf lists the dump points in the order in which they were first taken.
func pointsOf(runs []result.Summary) []string {
	return distinct(runs,
		func(s result.Summary) []result.Dump { return s.Dumps },
		func(d result.Dump) string { return d.Point })
}

// distinct lists what the items of the runs are called, each name once, in the
// order in which they first appear.
func distinct[T any](runs []result.Summary, items func(result.Summary) []T, name func(T) string) []string {
	var names []string
	for _, s := range runs {
		for _, item := range items(s) {
			if n := name(item); !slices.Contains(names, n) {
				names = append(names, n)
			}
		}
	}
	return names
}

func endpointFigures(name string, runs []result.Summary) []figure {
	var figures []figure
	add := func(suffix, unit string, floor float64, value func(result.Endpoint) (float64, bool)) {
		figures = append(figures, figure{name + "." + suffix, unit, floor, func(s result.Summary) (float64, bool) {
			e, ok := s.Endpoints[name]
			if !ok {
				return 0, false
			}
			return value(e)
		}})
	}
	addCount := func(suffix string, value func(result.Endpoint) int) {
		add(suffix, "count", requestsFloor, func(e result.Endpoint) (float64, bool) { return float64(value(e)), true })
	}
	addCount("scheduled", func(e result.Endpoint) int { return e.Scheduled })
	addCount("ok", func(e result.Endpoint) int { return e.OK })
	addCount("http_error", func(e result.Endpoint) int { return e.HTTPError })
	addCount("timeout", func(e result.Endpoint) int { return e.Timeout })
	addCount("connect_error", func(e result.Endpoint) int { return e.ConnectError })
	addCount("transport_error", func(e result.Endpoint) int { return e.TransportError })
	addCount("dropped", func(e result.Endpoint) int { return e.Dropped })
	addCount("interrupted", func(e result.Endpoint) int { return e.Interrupted })
	add("failed_ratio", "ratio", 0, func(e result.Endpoint) (float64, bool) { return e.FailedRatio, true })
	add("completed_failed_ratio", "ratio", 0, func(e result.Endpoint) (float64, bool) { return e.CompletedFailedRatio, true })
	for _, set := range []struct {
		prefix string
		of     func(result.Endpoint) result.Percentiles
	}{
		{"", func(e result.Endpoint) result.Percentiles { return e.Response }},
		{"ok_", func(e result.Endpoint) result.Percentiles { return e.OKResponse }},
		{"lag_", func(e result.Endpoint) result.Percentiles { return e.Lag }},
	} {
		add(set.prefix+"p50_ms", "ms", medianFloorMS, func(e result.Endpoint) (float64, bool) { return set.of(e).P50, set.of(e).Count > 0 })
		add(set.prefix+"p95_ms", "ms", medianFloorMS, func(e result.Endpoint) (float64, bool) { return set.of(e).P95, set.of(e).Count > 0 })
		add(set.prefix+"p99_ms", "ms", tailFloorMS, func(e result.Endpoint) (float64, bool) { return set.of(e).P99, set.of(e).Count > 0 })
	}
	for _, set := range []struct {
		prefix string
		of     func(result.Endpoint) map[string]int
	}{
		{"status_", func(e result.Endpoint) map[string]int { return e.Status }},
		{"", func(e result.Endpoint) map[string]int { return e.ErrorBodies }},
		{"client_", func(e result.Endpoint) map[string]int { return e.Causes }},
	} {
		for _, key := range keysOf(runs, func(s result.Summary) map[string]int { return set.of(s.Endpoints[name]) }) {
			addCount(set.prefix+key, func(e result.Endpoint) int { return set.of(e)[key] })
		}
	}
	return figures
}

func dumpFigures(point string, runs []result.Summary) []figure {
	dump := func(s result.Summary) (result.Dump, bool) {
		i := slices.IndexFunc(s.Dumps, func(d result.Dump) bool { return d.Point == point })
		if i < 0 {
			return result.Dump{}, false
		}
		return s.Dumps[i], true
	}
	floor := requestsFloor + 0.0
	if len(runs) > 0 {
		floor = workersFloor(runs[0].Run.Scale)
	}
	var figures []figure
	add := func(suffix string, value func(result.Dump) int) {
		figures = append(figures, figure{"dump." + point + "." + suffix, "count", floor, func(s result.Summary) (float64, bool) {
			d, ok := dump(s)
			return float64(value(d)), ok
		}})
	}
	add("goroutines", func(d result.Dump) int { return d.Goroutines })
	add("workers", func(d result.Dump) int { return d.Workers })
	add("queued", func(d result.Dump) int { return d.Queued })
	places := map[string]int{}
	for _, s := range runs {
		d, _ := dump(s)
		maps.Copy(places, d.Where)
	}
	for _, where := range whereColumns(places) {
		add(where, func(d result.Dump) int { return d.Where[where] })
	}
	return figures
}

func serverFigures(runs []result.Summary) []figure {
	var figures []figure
	add := func(name, unit string, floor float64, value func(result.Summary) float64) {
		figures = append(figures, figure{name, unit, floor, func(s result.Summary) (float64, bool) { return value(s), true }})
	}
	add("pool.max_workers", "count", requestsFloor, func(s result.Summary) float64 { return float64(s.Pool.MaxWorkers) })
	add("pool.max_busy", "count", requestsFloor, func(s result.Summary) float64 { return float64(s.Pool.MaxBusy) })
	add("pool.max_queued", "count", requestsFloor, func(s result.Summary) float64 { return float64(s.Pool.MaxQueued) })
	add("pool.max_permits", "count", requestsFloor, func(s result.Summary) float64 { return float64(s.Pool.MaxPermits) })
	add("pool.max_accept_queue", "count", requestsFloor, func(s result.Summary) float64 { return float64(s.Pool.MaxAcceptQueue) })
	add("pool.abandoned_by_client", "count", requestsFloor, func(s result.Summary) float64 { return float64(s.Pool.Abandoned) })
	add("victim.cpu_percent_mean", "percent", 0, func(s result.Summary) float64 { return s.Victim.CPUPercentMean })
	add("victim.cpu_percent_max", "percent", 0, func(s result.Summary) float64 { return s.Victim.CPUPercentMax })
	add("victim.rss_bytes_max", "bytes", 0, func(s result.Summary) float64 { return float64(s.Victim.RSSBytesMax) })
	add("victim.goroutines_max", "count", requestsFloor, func(s result.Summary) float64 { return float64(s.Victim.GoroutinesMax) })
	add("recovery.recovered", "ratio", 0, func(s result.Summary) float64 { return float64(order(s.Recovery.Recovered)) })
	scale := 1.0
	if len(runs) > 0 && runs[0].Run.Scale > 0 {
		scale = runs[0].Run.Scale
	}
	figures = append(figures,
		figure{"recovery.seconds", "s", recoveryFloorS / scale, func(s result.Summary) (float64, bool) {
			if s.Recovery.Seconds == nil {
				return 0, false
			}
			return *s.Recovery.Seconds, true
		}},
		figure{"dose.delay_seen_ms", "ms", medianFloorMS, func(s result.Summary) (float64, bool) {
			if s.Upstream.DelaySeenMS == nil {
				return 0, false
			}
			return *s.Upstream.DelaySeenMS, true
		}})
	for _, name := range baselinesOf(runs) {
		for _, p := range []struct {
			suffix string
			floor  float64
			of     func(result.Percentiles) float64
		}{
			{"p50_ms", medianFloorMS, func(p result.Percentiles) float64 { return p.P50 }},
			{"p95_ms", medianFloorMS, func(p result.Percentiles) float64 { return p.P95 }},
			{"p99_ms", tailFloorMS, func(p result.Percentiles) float64 { return p.P99 }},
		} {
			figures = append(figures, figure{"baseline." + name + "." + p.suffix, "ms", p.floor, func(s result.Summary) (float64, bool) {
				i := slices.IndexFunc(s.Baselines, func(b result.Baseline) bool { return b.Name == name })
				if i < 0 || s.Baselines[i].Response.Count == 0 {
					return 0, false
				}
				return p.of(s.Baselines[i].Response), true
			}})
		}
	}
	return figures
}

func baselinesOf(runs []result.Summary) []string {
	return distinct(runs,
		func(s result.Summary) []result.Baseline { return s.Baselines },
		func(b result.Baseline) string { return b.Name })
}
