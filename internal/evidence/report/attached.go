package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"chokepoint/internal/result"
)

// protected is the endpoint that must survive.
func protected(s result.Summary) string { return cmp.Or(s.Run.Protect, fastEndpoint) }

// runTitle begins a report. A run against an attached service has a name where
// others have a profile.
func runTitle(s result.Summary) string {
	scenario, profile := capitalisedName(s.Run.Scenario), "profile "+compared(s.Run)
	if s.Attached != nil {
		profile = s.Run.Profile
	}
	if !s.Validity.Valid {
		return fmt.Sprintf("Invalid run: %s, %s", s.Run.Scenario, profile)
	}
	return fmt.Sprintf("%s, %s: %s", scenario, profile, outcomeInWords(s.Verdict.Outcome))
}

// attachedSentence is the verdict on an attached service, in figures that it and the
// generator gave.
func attachedSentence(s result.Summary) string {
	name := protected(s)
	endpoint := s.Endpoints[name]
	parts := []string{fmt.Sprintf("/%s lost %s%s%s", name, lost(endpoint), answeredWithin(endpoint), othersLost(s))}
	switch {
	case s.Knows(result.MetricBusy) && s.Knows(result.MetricLimit):
		parts = append(parts, "at most "+busyAtMost(s.Pool))
	case s.Knows(result.MetricBusy):
		parts = append(parts, "at most "+plural(s.Pool.MaxBusy, "worker")+" were busy")
	}
	if stood := mostHeld(s); stood != "" {
		parts = append(parts, stood)
	}
	return capitalised(outcomeInWords(s.Verdict.Outcome)) + ": " + strings.Join(parts, "; ") + "."
}

// mostHeld lists, of the dump in which most were held, the places in which they
// stood; empty if nobody was.
func mostHeld(s result.Summary) string {
	worst := ""
	most := 0
	for _, d := range s.Dumps {
		if d.Point == pointBefore {
			continue
		}
		held := 0
		var places []string
		for _, where := range whereColumns(d.Where) {
			if n := d.Where[where]; n > 0 && heldPlace(where) {
				held += n
				verb := ""
				if len(places) == 0 {
					verb = " stood"
				}
				places = append(places, fmt.Sprintf("%s%s in %s", count(n), verb, whereInWords(where)))
			}
		}
		if held > most {
			most = held
			worst = fmt.Sprintf("at %s, of %s %s", instant(d.AtS), counted(d), enumerate(places))
		}
	}
	return worst
}

// counted are those whom a dump counts by place: workers where it shows them, else
// its goroutines or threads.
func counted(d result.Dump) string {
	if d.Workers > 0 || d.Queued > 0 {
		return plural(d.Workers, "worker")
	}
	return plural(d.Goroutines, memberOf(d))
}

// memberOf is what a dump is of.
func memberOf(d result.Dump) string { return strings.TrimSuffix(cmp.Or(d.Unit, "goroutines"), "s") }

// membersOf is memberOf of several dumps, which are of one kind.
func membersOf(dumps []result.Dump) string {
	if len(dumps) == 0 {
		return "goroutines"
	}
	return memberOf(dumps[0]) + "s"
}

// whoStood says whom the dumps of a run count by place.
type whoStood struct {
	workers bool
	dumps   []result.Dump
}

// whoStoodIn tells a run whose pool the dumps show. The victim's always do: where it
// has no worker there is none.
func whoStoodIn(s result.Summary) whoStood {
	return whoStood{
		workers: s.Attached == nil || slices.ContainsFunc(s.Dumps, func(d result.Dump) bool { return d.Workers > 0 }),
		dumps:   s.Dumps,
	}
}

// title is the heading of the section.
func (w whoStood) title() string {
	if w.workers {
		return "Where the workers stood"
	}
	return "Where the " + membersOf(w.dumps) + " stood"
}

// caption is the first sentence below it.
func (w whoStood) caption() string {
	if w.workers {
		return "Request workers by the place in which they stand."
	}
	return fmt.Sprintf("All %s by the place in which they stand: the pool of this service is not one that the dump tells.", membersOf(w.dumps))
}

// of is of how many a dump's places are parts.
func (w whoStood) of(d result.Dump) int {
	if w.workers {
		return d.Workers
	}
	return d.Goroutines
}

// workersOf and queuedOf are a dump's counts, or a dash where it does not show them.
func (w whoStood) workersOf(d result.Dump) string {
	if !w.workers {
		return none
	}
	return count(d.Workers)
}

func (w whoStood) queuedOf(d result.Dump) string {
	if !w.workers || d.Unit != "" { // what waits for a worker of Tomcat is no thread
		return none
	}
	return count(d.Queued)
}

// total is whom a dump counts by place, in words.
func (w whoStood) total(d result.Dump) string {
	if !w.workers {
		return plural(d.Goroutines, memberOf(d))
	}
	total := plural(d.Workers, "worker")
	if queued := w.queuedOf(d); queued != none {
		total += ", " + queued + " queued"
	}
	return total
}

// attachedBlocks are the service's own metrics, or say that there are none.
func attachedBlocks(s result.Summary) []block {
	t := table{columns: []column{words("figure"), words("metric"), numbers("under load, at most"), numbers("mean")}}
	for _, row := range []struct {
		metric, figure, most, mean string
	}{
		{result.MetricBusy, "busy workers", count(s.Pool.MaxBusy), none},
		{result.MetricLimit, "limit of workers", count(s.Pool.WorkerLimit), none},
		{result.MetricQueued, "requests that wait for a worker", count(s.Pool.MaxQueued), none},
		{result.MetricCPU, "CPU; 100 % is one core", inUnit(s.Victim.CPUPercentMax, "percent"), inUnit(s.Victim.CPUPercentMean, "percent")},
		{result.MetricMemory, "memory", size(s.Victim.RSSBytesMax), none},
	} {
		if s.Knows(row.metric) {
			t.rows = append(t.rows, []text{plain(row.figure), code(s.Attached.Metrics[row.metric]), plain(row.most), plain(row.mean)})
		}
	}
	if len(t.rows) == 0 {
		return []block{paragraph{plain("The run has no metrics of the service.")}}
	}
	return []block{sentence(plain("What the service says of itself at "), code(s.Attached.MetricsURL), plain(", asked once a second: a shorter peak is not in it.")), t}
}

// attachedRecovery says when an attached service answered again.
func attachedRecovery(s result.Summary) []block {
	r := s.Recovery
	if !r.Recovered || r.Seconds == nil {
		return []block{sentence(strong("Not recovered"), plain(fmt.Sprintf(" in the %s s that the run waited after the end of the load.", number(r.WaitedS, 1))))}
	}
	busy := ""
	if s.Knows(result.MetricBusy) {
		busy = ", with no more workers busy than before the load,"
	}
	return []block{paragraph{plain(fmt.Sprintf("/%s answered as in its baseline%s %s s after the end of the load.", protected(s), busy, number(*r.Seconds, 1)))}}
}
