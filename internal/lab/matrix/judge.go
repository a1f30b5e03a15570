package matrix

import (
	"fmt"
	"time"

	"chokepoint/internal/result"
)

// maxReasons bounds how many cases a run's validity names.
const maxReasons = 5

// Summarise is the summary of a run of so many cases, but for its id. endedEarly says
// why it was cut short; empty if it was not. Every case as wanted is "reproduced"; one
// that is not makes it "not_reproduced", and one that could not be carried out makes
// the run invalid.
func Summarise(scenario string, started time.Time, cases []result.Case, endedEarly string) result.Summary {
	validity := result.Validity{Valid: true, Reasons: []string{}}
	asWanted, failed := 0, 0
	for _, c := range cases {
		switch {
		case c.Failure != "":
			failed++
			if failed <= maxReasons {
				validity.Reasons = append(validity.Reasons, fmt.Sprintf("case %s: %s", Key(c), c.Failure))
			}
		case c.OK:
			asWanted++
		}
	}
	if failed > maxReasons {
		validity.Reasons = append(validity.Reasons, fmt.Sprintf("and %d more cases that could not be carried out", failed-maxReasons))
	}
	if endedEarly != "" {
		validity.Reasons = append(validity.Reasons, endedEarly)
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
