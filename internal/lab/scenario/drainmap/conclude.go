package drainmap

import (
	"fmt"
	"time"

	"chokepoint/internal/evidence/draining"
	"chokepoint/internal/result"
)

// Conclude adds to the summary of a run what its cells say together.
func Conclude(s Settings, summary *result.Summary) error {
	w, err := newWorld(s)
	if err != nil {
		return err
	}
	rule, found := draining.Rule(w.traffic, draining.CloseIdle), w.smallest()
	checks := []result.Check{
		{
			Name: "smallest", Want: fmt.Sprintf("%s: the pre-stop covers the propagation, the drain the slowest response", setting(rule)),
			Got: fmt.Sprintf("%s, searched with the model", setting(found)), OK: found == rule,
		},
		measured(rule, summary.Cases),
		smallestMeasured(summary.Cases),
	}
	summary.Verdict.Checks = append(summary.Verdict.Checks, checks...)
	for _, c := range checks {
		if !c.OK && !c.Informative && summary.Verdict.Outcome == result.Reproduced {
			summary.Verdict.Outcome = result.NotReproduced
		}
	}
	return nil
}

func setting(s draining.Stop) string {
	return fmt.Sprintf("pre-stop %s, drain %s", s.PreStop, s.Drain)
}

func stopOf(c result.Case) draining.Stop {
	seconds := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)).Round(time.Millisecond) }
	return draining.Stop{PreStop: seconds(c.Ending.PreStopS), Drain: seconds(c.Ending.DrainS)}
}

func lostIn(c result.Case) int { return c.Counts.NeverReached + c.Counts.FailedButExecuted }

// measured holds the rule against the cells: who keeps it, with slack, loses nothing.
func measured(rule draining.Stop, cases []result.Case) result.Check {
	kept, lost := 0, 0
	for _, c := range cases {
		if s := stopOf(c); c.Failure == "" && s.PreStop >= rule.PreStop+slack && s.Drain >= rule.Drain+slack {
			kept++
			lost += lostIn(c)
		}
	}
	return result.Check{
		Name: "rule", Want: fmt.Sprintf("nothing is lost in a cell whose pre-stop and drain are %s longer", slack),
		Got: fmt.Sprintf("%d lost in %d such cells", lost, kept), OK: lost == 0, Informative: kept == 0,
	}
}

// smallestMeasured is the quickest end of a gateway that lost nothing.
func smallestMeasured(cases []result.Case) result.Check {
	check := result.Check{Name: "smallest_measured", Want: "the quickest of the cells without a loss", Got: "none was without one", Informative: true}
	var best draining.Stop
	for _, c := range cases {
		s := stopOf(c)
		if c.Failure != "" || lostIn(c) > 0 || check.OK && s.PreStop+s.Drain >= best.PreStop+best.Drain {
			continue
		}
		best, check.OK, check.Got = s, true, setting(s)
	}
	return check
}
