package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"chokepoint/internal/result"
	"chokepoint/internal/stats"
)

// ComparedSummary is a run that takes part in a comparison, with the path of
// its folder relative to the comparison's, in slashes.
type ComparedSummary struct {
	Path    string
	Summary result.Summary
}

// BuildComparison condenses runs, given in the order in which they ran, into a
// comparison. Of head it takes ID, Scenario, Scale, StartedAt, Profiles, Planned and Faults;
// the first profile is the one that the others are compared with. Only valid runs
// enter the metrics; all are listed. Runs of a profile that head does not name are
// left out of the metrics too.
func BuildComparison(head result.Comparison, runs []ComparedSummary) result.Comparison {
	c := head
	c.Schema = result.ComparisonSchema
	c.Runs, c.Metrics, c.Warnings = []result.ComparedRun{}, []result.ComparedMetric{}, nil
	valid := map[string][]result.Summary{}
	var all []result.Summary
	for _, r := range runs {
		s := r.Summary
		name := compared(s.Run)
		c.Runs = append(c.Runs, result.ComparedRun{Profile: name, Path: r.Path, Valid: s.Validity.Valid,
			Outcome: s.Verdict.Outcome, Reasons: s.Validity.Reasons})
		if s.Validity.Valid && slices.Contains(c.Profiles, name) {
			valid[name] = append(valid[name], s)
			all = append(all, s)
		}
	}
	figures := figuresOf(all)
	c.Metrics = append(c.Metrics, condense(figures, c.Profiles, valid)...)
	c.Warnings = comparisonWarnings(c, valid)
	c.Faults = fillFaults(head.Faults, runs)
	return c
}

// compared is what a run is called in a comparison: its profile, with what was varied.
func compared(r result.Run) string { return strings.TrimSpace(r.Profile + " " + r.Variant) }

// condense computes the metrics and judges them as one family.
func condense(figures []figure, profiles []string, valid map[string][]result.Summary) []result.ComparedMetric {
	metrics := make([]result.ComparedMetric, len(figures))
	type place struct {
		metric  int
		profile string
	}
	var pairs []stats.Pair
	var places []place
	for i, f := range figures {
		m := result.ComparedMetric{Name: f.name, Unit: f.unit, Values: map[string]result.Spread{}, Differs: map[string]string{}}
		values := map[string][]float64{}
		for _, p := range profiles {
			for _, s := range valid[p] {
				if v, ok := f.value(s); ok {
					values[p] = append(values[p], v)
				}
			}
			spread := stats.Summarize(values[p])
			m.Values[p] = result.Spread{N: spread.N, Median: spread.Median, Min: spread.Min, Max: spread.Max}
		}
		for j, p := range profiles {
			if j > 0 {
				pairs = append(pairs, f.pair(values[profiles[0]], values[p]))
				places = append(places, place{i, p})
			}
		}
		metrics[i] = m
	}
	for i, v := range stats.CompareAll(pairs) {
		m := &metrics[places[i].metric]
		m.Differs[places[i].profile] = string(v.Direction)
		if v.Warning != "" {
			if m.Warnings == nil {
				m.Warnings = map[string]string{}
			}
			m.Warnings[places[i].profile] = v.Warning
		}
	}
	return metrics
}

func comparisonWarnings(c result.Comparison, valid map[string][]result.Summary) []string {
	var warnings []string
	each, same := sameFew(c.Profiles, valid)
	if same {
		warnings = append(warnings, fmt.Sprintf("too few valid runs, %s: nothing is claimed; at least %d are needed for a claim", runsEach(each), stats.MinRuns))
	}
	for _, p := range c.Profiles {
		made, outcomes := 0, map[result.Outcome]int{}
		for _, r := range c.Runs {
			if r.Profile == p {
				made++
			}
		}
		for _, s := range valid[p] {
			outcomes[s.Verdict.Outcome]++
		}
		if made < c.Planned {
			warnings = append(warnings, fmt.Sprintf("%s: %s made of %s planned", p, plural(made, "run"), count(c.Planned)))
		}
		if n := len(valid[p]); n < stats.MinRuns && !same {
			warnings = append(warnings, fmt.Sprintf("%s: too few valid runs: %s, at least %s are needed for a claim", p, count(n), count(stats.MinRuns)))
		}
		if len(outcomes) > 1 {
			text := p + ": the valid runs do not agree on the outcome:"
			for _, o := range slices.Sorted(maps.Keys(outcomes)) {
				text += fmt.Sprintf(" %s × %s,", count(outcomes[o]), outcomeInWords(o))
			}
			warnings = append(warnings, text[:len(text)-1])
		}
		switch n, open := len(valid[p]), unrecovered(valid[p]); {
		case open == 0:
		case n == 1:
			warnings = append(warnings, p+": the valid run had not recovered when the wait ended; it has no recovery time")
		case open == n:
			warnings = append(warnings, fmt.Sprintf("%s: none of the %d valid runs had recovered when the wait ended; they have no recovery time", p, n))
		default:
			warnings = append(warnings, fmt.Sprintf("%s: %d of %d valid runs had not recovered when the wait ended; recovery times are of the others alone", p, open, n))
		}
	}
	return warnings
}

// sameFew is the number of valid runs of each of several profiles, if it is the
// same and too small for a claim, so that one sentence says it for all.
func sameFew(profiles []string, valid map[string][]result.Summary) (each int, same bool) {
	if len(profiles) < 2 {
		return 0, false
	}
	each = len(valid[profiles[0]])
	for _, p := range profiles {
		if len(valid[p]) != each {
			return 0, false
		}
	}
	return each, each < stats.MinRuns
}

func runsEach(n int) string {
	switch n {
	case 0:
		return "none"
	case 1:
		return "one each"
	}
	return count(n) + " each"
}

func unrecovered(runs []result.Summary) (n int) {
	for _, s := range runs {
		if !s.Recovery.Recovered {
			n++
		}
	}
	return n
}
