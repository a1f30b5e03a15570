package matrix

import (
	"fmt"
	"time"

	"chokepoint/internal/result"
)

// maxReasons bounds how many reasons a run's validity has of its cases.
const maxReasons = 5

// Summarise is the summary of a run of so many cases, but for its id. endedEarly says
// why it was cut short; empty if it was not. Every case as wanted is "reproduced"; one
// that is not makes it "not_reproduced", and one that could not be carried out makes
// the run invalid.
func Summarise(scenario string, started time.Time, cases []result.Case, endedEarly string) result.Summary {
	validity := result.Validity{Valid: true, Reasons: []string{}}
	asWanted := 0
	for _, c := range cases {
		if c.OK && c.Failure == "" {
			asWanted++
		}
	}
	validity.Reasons = append(validity.Reasons, failures(cases)...)
	if endedEarly != "" {
		validity.Reasons = append(validity.Reasons, "the run ended early: "+endedEarly)
	}
	validity.Valid = len(validity.Reasons) == 0
	verdict := result.Verdict{Outcome: result.Reproduced, Expected: result.Reproduced, Checks: []result.Check{{
		Name: "cases", Want: fmt.Sprintf("all %d as wanted", len(cases)),
		Got: fmt.Sprintf("%d of %d", asWanted, len(cases)), OK: asWanted == len(cases),
	}}}
	switch {
	case !validity.Valid:
		verdict.Outcome = result.Invalid
	case asWanted < len(cases):
		verdict.Outcome = result.NotReproduced
	}
	return result.Summary{
		Schema:    result.SummarySchema,
		Run:       result.Run{Scenario: scenario, Profile: "matrix", Scale: 1, StartedAt: started.UTC(), EndedEarly: endedEarly},
		Validity:  validity,
		Verdict:   verdict,
		Endpoints: map[string]result.Endpoint{}, Baselines: []result.Baseline{}, Dumps: []result.Dump{}, Children: []result.Child{},
		Cases: cases,
	}
}

// failures says why cases could not be carried out: each reason once, with the first of
// its cases and how many more it kept back.
func failures(cases []result.Case) []string {
	first := map[string]result.Case{}
	kept := map[string]int{}
	var inOrder []string
	for _, c := range cases {
		if c.Failure == "" {
			continue
		}
		if kept[c.Failure] == 0 {
			first[c.Failure] = c
			inOrder = append(inOrder, c.Failure)
		}
		kept[c.Failure]++
	}
	var reasons []string
	for i, failure := range inOrder {
		if i == maxReasons {
			more := 0
			for _, failure := range inOrder[i:] {
				more += kept[failure]
			}
			return append(reasons, fmt.Sprintf("and %d more cases that could not be carried out", more))
		}
		of := "case " + Key(first[failure])
		if more := kept[failure] - 1; more > 0 {
			of += fmt.Sprintf(" and %d more", more)
		}
		reasons = append(reasons, of+": "+failure)
	}
	return reasons
}
