package report

import (
	"fmt"
	"strings"

	"chokepoint/internal/evidence/stacks"
	"chokepoint/internal/result"
)

// The endpoints of the exhaustion scenario: the one that calls the upstream, and
// the one that never does.
const (
	fastEndpoint     = "fast"
	upstreamEndpoint = "upstream"
)

// pointBefore is the dump point ahead of the load; the others lie in it or after.
const pointBefore = "before"

// whereInWords spells the words of evidence/goroutines for a sentence.
func whereInWords(where string) string {
	switch where {
	case stacks.UpstreamConnect:
		return "the connect to the upstream"
	case stacks.UpstreamRead:
		return "the upstream read"
	case stacks.PermitWait:
		return "the wait for a permit"
	case stacks.Database:
		return "the wait for the database"
	case stacks.Running:
		return "their own code"
	}
	return where
}

func outcomeInWords(o result.Outcome) string {
	s := strings.ReplaceAll(string(o), "_", " ")
	if s == "" {
		return "no verdict"
	}
	return s
}

// capitalised is for the first word of a sentence; s is ASCII.
func capitalised(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// verdictSentence says in one sentence what the run showed, in figures of its
// summary alone.
func verdictSentence(s result.Summary) string {
	fast, ok := s.Endpoints[protected(s)]
	outcome := capitalised(outcomeInWords(s.Verdict.Outcome))
	switch {
	case s.Verdict.Outcome == result.Invalid || !s.Validity.Valid:
		return "Invalid: there is no verdict, for the reasons above."
	case !ok:
		return outcome + "."
	case s.Attached != nil:
		return attachedSentence(s)
	case s.Verdict.Outcome == result.Reproduced:
		return fmt.Sprintf("%s: /%s, which never calls the upstream, lost %s while the victim used %s CPU%s.",
			outcome, fastEndpoint, lost(fast), inUnit(s.Victim.CPUPercentMean, "percent"), workersStood(s))
	case s.Verdict.Outcome == result.Protected:
		return fmt.Sprintf("%s: /%s lost %s%s%s, while at most %s.",
			outcome, fastEndpoint, lost(fast), answeredWithin(fast), othersLost(s), busyAtMost(s.Pool))
	}
	return fmt.Sprintf("%s: /%s lost %s%s; at most %s.", outcome, fastEndpoint, lost(fast), answeredWithin(fast), busyAtMost(s.Pool))
}

func lost(e result.Endpoint) string {
	if e.Scheduled == e.OK {
		return "none of its " + plural(e.Scheduled, "request")
	}
	return fmt.Sprintf("%s of its %s", percent(e.FailedRatio), plural(e.Scheduled, "request"))
}

func answeredWithin(e result.Endpoint) string {
	if e.OKResponse.Count == 0 {
		return ""
	}
	return fmt.Sprintf(" (p95 of its answers %s)", inUnit(e.OKResponse.P95, "ms"))
}

// othersLost is what every endpoint lost that is not the protected one.
func othersLost(s result.Summary) string {
	var text strings.Builder
	for _, name := range endpointNames(s) {
		if name != protected(s) {
			fmt.Fprintf(&text, " and /%s %s", name, lost(s.Endpoints[name]))
		}
	}
	return text.String()
}

func busyAtMost(p result.Pool) string {
	if p.WorkerLimit == 0 {
		return plural(p.MaxBusy, "request") + " were being worked on, without a limit"
	}
	return fmt.Sprintf("%s of %s workers were busy", count(p.MaxBusy), count(p.WorkerLimit))
}

// workersStood names the place of heldMost for the end of a sentence.
func workersStood(s result.Summary) string {
	place, most := heldMost(s)
	if most == 0 {
		return ""
	}
	of := ""
	if s.Pool.WorkerLimit > 0 {
		of = " of " + count(s.Pool.WorkerLimit)
	}
	return fmt.Sprintf(": %s%s workers stood in %s", count(most), of, whereInWords(place))
}

// heldMost is the place, in any dump under or after load, in which most workers
// were held, and their number.
func heldMost(s result.Summary) (place string, most int) {
	for _, d := range s.Dumps {
		if d.Point == pointBefore {
			continue
		}
		for _, where := range whereColumns(d.Where) {
			if n := d.Where[where]; heldPlace(where) && n > most {
				place, most = where, n
			}
		}
	}
	return place, most
}

// heldPlace tells the places in which a worker is held by something from those
// in which it is free or does not exist.
func heldPlace(where string) bool {
	return where != stacks.Idle && where != stacks.Queued && where != stacks.Other
}
