package scenario

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"time"

	"chokepoint/internal/result"
)

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// write turns the evidence into the files of a run's folder, but for the manifest
// and the reports. It returns the summary, whose id is still empty.
func (e *attachEvidence) write() (result.Summary, error) {
	e.events = append(e.events, e.breaking()...)
	sort.SliceStable(e.events, func(i, j int) bool { return e.events[i].AtS < e.events[j].AtS })
	summary := e.summary()
	rows := e.timeline()
	addRequests(rows, e.requests, e.protect.Name, 1)
	addMarks(rows, e.events)
	if err := result.WriteTimeline(filepath.Join(e.dir, result.TimelineFile), rows); err != nil {
		return summary, err
	}
	return summary, result.WriteEvents(filepath.Join(e.dir, result.EventsFile), e.events)
}

// sinceLoad is a moment in seconds from the start of the load.
func (e *attachEvidence) sinceLoad(at time.Time) float64 { return at.Sub(e.loadOn).Seconds() }

// breaking are the moments at which the service broke.
func (e *attachEvidence) breaking() []result.Event {
	var events []result.Event
	for _, r := range e.readings.all {
		busy, limit := r.values[result.MetricBusy], r.values[result.MetricLimit]
		if at := e.sinceLoad(r.at); at >= 0 && limit > 0 && busy >= limit {
			events = append(events, result.Event{AtS: at, Name: "pool_full"})
			break
		}
	}
	return append(events, failures(e.requests, e.protect.Name, time.Duration.Seconds)...)
}

// summary puts the evidence together and judges it.
func (e *attachEvidence) summary() result.Summary {
	s := e.settings
	sum := result.Summary{
		Schema: result.SummarySchema,
		Run: result.Run{
			Scenario: AttachName, Profile: s.Name, Scale: 1, StartedAt: e.startedAt, Protect: e.protect.Name,
		},
		Endpoints: map[string]result.Endpoint{},
		Baselines: e.baselines, Dumps: e.dumps, Recovery: e.recovery,
		Attached: &result.Attached{DumpURL: withoutSecrets(s.DumpURL), Metrics: e.found()},
	}
	if s.MetricsURL != "" {
		sum.Attached.MetricsURL = withoutSecrets(s.MetricsURL)
	}
	if e.ended != nil {
		sum.Run.EndedEarly = e.ended.Error()
	}
	if e.load != nil {
		for name, endpoint := range e.load.Endpoints {
			endpoint.QuietResponse = dumpWindows{e.loadOn, e.windows}.quiet(e.requests, name)
			sum.Endpoints[name] = endpoint
		}
		sum.Children = []result.Child{e.load.Generator}
	}
	sum.Pool, sum.Victim = e.pool(), e.process()
	sum.Validity = e.validity()
	sum.Verdict = e.judge(sum)
	return sum
}

// found are the metrics that some reading had. A limit below 1 is Tomcat's way to say
// that it does not know.
func (e *attachEvidence) found() map[string]string {
	found := map[string]string{}
	for _, r := range e.readings.all {
		for metric, v := range r.values {
			if metric == result.MetricLimit && v < 1 {
				continue
			}
			found[metric] = e.settings.metrics[metric].String()
		}
	}
	return found
}

// underLoad are the readings between the start and the end of the load.
func (e *attachEvidence) underLoad() []reading {
	return slices.DeleteFunc(slices.Clone(e.readings.all), func(r reading) bool {
		at := r.at.Sub(e.loadOn)
		return at < 0 || at > e.plan.duration()
	})
}

// pool has the extremes of the readings from the start of the load on.
func (e *attachEvidence) pool() result.Pool {
	var p result.Pool
	for _, r := range e.readings.all {
		p.WorkerLimit = max(p.WorkerLimit, int(r.values[result.MetricLimit]))
		if !r.at.Before(e.loadOn) {
			p.MaxBusy = max(p.MaxBusy, int(r.values[result.MetricBusy]))
			p.MaxQueued = max(p.MaxQueued, int(r.values[result.MetricQueued]))
		}
	}
	return p
}

// process is the service's use of its machine while the load was on.
func (e *attachEvidence) process() result.Process {
	var p result.Process
	under := e.underLoad()
	sum, n := 0.0, 0
	for i, r := range under {
		p.RSSBytesMax = max(p.RSSBytesMax, int64(r.values[result.MetricMemory]))
		if i == 0 {
			continue
		}
		if cpu, ok := e.cpuPercent(under[i-1], r); ok {
			p.CPUPercentMax = max(p.CPUPercentMax, cpu)
			sum, n = sum+cpu, n+1
		}
	}
	if n > 0 {
		p.CPUPercentMean = sum / float64(n)
	}
	return p
}

// cpuPercent is the use of CPU between two readings; 100 is one core. A counter is
// of seconds or, as Micrometer's, of nanoseconds; a gauge is a share of all CPUs.
func (e *attachEvidence) cpuPercent(a, b reading) (float64, bool) {
	from, known := a.values[result.MetricCPU]
	to, ok := b.values[result.MetricCPU]
	name := e.settings.metrics[result.MetricCPU].Name()
	elapsed := b.at.Sub(a.at).Seconds()
	switch {
	case !ok:
		return 0, false
	case !strings.HasSuffix(name, "_total"):
		return 100 * to * b.cpuCount, true
	case !known || elapsed <= 0 || to < from: // it was restarted
		return 0, false
	case strings.HasSuffix(name, "_ns_total"):
		return 100 * (to - from) / 1e9 / elapsed, true
	}
	return 100 * (to - from) / elapsed, true
}

// timeline is a row for every reading. What no metric tells is 0 there, and the
// summary says which those are.
func (e *attachEvidence) timeline() []result.TimelineRow {
	var rows []result.TimelineRow
	for i, r := range e.readings.all {
		row := result.TimelineRow{
			AtS: e.sinceLoad(r.at), Phase: "load", Breaker: "none",
			Busy: int(r.values[result.MetricBusy]), Queued: int(r.values[result.MetricQueued]), RSSBytes: int64(r.values[result.MetricMemory]),
		}
		switch at := r.at.Sub(e.loadOn); {
		case at < 0:
			row.Phase = "before"
		case at > e.plan.duration():
			row.Phase = "recovery"
		}
		if i > 0 {
			row.CPUPercent, _ = e.cpuPercent(e.readings.all[i-1], r)
		}
		rows = append(rows, row)
	}
	return rows
}

// validity says whether the run may be believed: by the rules of every run, less
// what only the server could tell.
func (e *attachEvidence) validity() result.Validity {
	v := result.Validity{Reasons: e.reasons(), Warnings: slices.Concat(e.warnings, e.missingMetrics())}
	if e.load != nil {
		v.Warnings = append(v.Warnings, e.load.Validity.Warnings...)
	}
	for _, texts := range [][]string{v.Reasons, v.Warnings} {
		for i, text := range texts {
			texts[i] = strings.ReplaceAll(text, e.dir+string(filepath.Separator), "")
		}
	}
	v.Valid = len(v.Reasons) == 0
	return v
}

func (e *attachEvidence) reasons() []string {
	var reasons []string
	if e.ended != nil {
		reasons = append(reasons, "the run ended early: "+e.ended.Error())
	}
	reasons = append(reasons, e.faults...)
	if e.load == nil {
		return append(reasons, "no load was measured")
	}
	reasons = append(reasons, e.load.Validity.Reasons...)
	reasons = append(reasons, imbalances(e.load, e.requests, e.plan.names(), e.ended == nil)...)
	if len(e.dumps) < len(e.points) && e.ended == nil {
		reasons = append(reasons, fmt.Sprintf("%d of %d dumps were taken", len(e.dumps), len(e.points)))
	}
	return reasons
}

// missingMetrics are warnings: the verdict stands on the load alone.
func (e *attachEvidence) missingMetrics() []string {
	var warnings []string
	if r := e.readings; r.failed > 0 {
		warnings = append(warnings, fmt.Sprintf("metrics: %d of %d questions got no answer, the last: %v", r.failed, r.failed+len(r.all), r.failure))
	}
	if len(e.readings.all) == 0 {
		return warnings
	}
	found := e.found()
	for _, m := range metricFlags {
		if selector, asked := e.settings.metrics[m.metric]; asked && found[m.metric] == "" {
			warnings = append(warnings, fmt.Sprintf("metrics: no answer had %s (-%s); see the names at %s", selector, m.flag, withoutSecrets(e.settings.MetricsURL)))
		}
	}
	return warnings
}

// bound is the p95 that the protected endpoint may have.
func (s *AttachSettings) bound(baselines []result.Baseline) time.Duration {
	if s.MaxP95.given {
		return s.MaxP95.Duration
	}
	return unharmed(baselines)
}

// judge holds the run to the stated conditions.
func (e *attachEvidence) judge(sum result.Summary) result.Verdict {
	v := result.Verdict{Outcome: result.Protected, Expected: result.Protected, Checks: e.protectChecks(sum)}
	if e.load != nil {
		for _, t := range e.load.Thresholds {
			v.Checks = append(v.Checks, thresholdCheck(t))
		}
	}
	v.Checks = append(v.Checks, e.recoveredCheck(sum))
	for _, check := range v.Checks {
		if !check.OK && !check.Informative {
			v.Outcome = result.NotProtected
		}
	}
	if !sum.Validity.Valid {
		v.Outcome = result.Invalid
	}
	return v
}

func (e *attachEvidence) protectChecks(sum result.Summary) []result.Check {
	s, name := e.settings, e.protect.Name
	got := sum.Endpoints[name]
	bound := s.bound(e.baselines).Seconds() * 1000
	source := "as stated"
	if !s.MaxP95.given {
		baseline := e.baselines[0]
		source = fmt.Sprintf("2x its baseline of %.1f ms, at the least 25 ms", baseline.Response.P95)
		if baseline.Disturbed {
			source = fmt.Sprintf("its baseline of %.1f ms was disturbed", baseline.Response.P95)
		}
	}
	return []result.Check{
		{
			Name: "protected_failed", Want: fmt.Sprintf("at most %s %% of /%s failed", formatFloat(100*s.MaxFailed), name),
			Got: fmt.Sprintf("%d of %d failed", failed(got), got.Scheduled) + interruptedNote(got), OK: got.OK > 0 && failedShare(got) <= s.MaxFailed,
		},
		{
			Name: "protected_p95", Want: fmt.Sprintf("p95 of /%s within %.1f ms (%s)", name, bound, source),
			Got: fmt.Sprintf("%.1f ms", got.Response.P95), OK: got.Response.Count > 0 && got.Response.P95 <= bound,
		},
	}
}

// CheckThreshold is the name of the checks that are thresholds of the load.
const CheckThreshold = "threshold"

func thresholdCheck(t result.Threshold) result.Check {
	c := result.Check{Name: CheckThreshold, Want: t.Text, Got: "nothing was measured", OK: t.OK}
	if t.Got != nil {
		switch t.Unit {
		case "ratio":
			c.Got = fmt.Sprintf("%.2f %%", 100**t.Got)
		case "ms":
			c.Got = fmt.Sprintf("%.1f ms", *t.Got)
		default:
			c.Got = formatFloat(*t.Got)
		}
	}
	return c
}

func (e *attachEvidence) recoveredCheck(sum result.Summary) result.Check {
	wait := e.settings.RecoveryWait.Seconds()
	c := result.Check{
		Name: "recovered", Want: fmt.Sprintf("/%s as in its baseline within %s s", e.protect.Name, formatFloat(wait)),
		Got: "not within " + formatFloat(wait) + " s", OK: sum.Recovery.Recovered, Informative: true,
	}
	switch {
	case sum.Recovery.Seconds != nil:
		c.Got = fmt.Sprintf("after %.1f s", *sum.Recovery.Seconds)
	case sum.Run.EndedEarly != "" && sum.Recovery.WaitedS < wait:
		c.Got = fmt.Sprintf("not within %.1f s, when the run was stopped", sum.Recovery.WaitedS)
	}
	return c
}
