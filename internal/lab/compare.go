package lab

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"chokepoint/internal/evidence/report"
	"chokepoint/internal/lab/proc"
	"chokepoint/internal/lab/scenario"
	"chokepoint/internal/result"
)

const comparisonFolderPrefix = ".chokepoint-compare-"

// Compare runs the profiles in turn, round after round: what the machine does
// meanwhile then meets all of them alike. It returns the comparison's folder. When ctx
// ends in the middle, what ran before is compared, and ctx's cause is the error
// beside the folder.
func (l *Lab) Compare(ctx context.Context, settings []scenario.Settings, rounds int) (string, result.Comparison, error) {
	base := settings[0]
	head := result.Comparison{
		Scenario: scenario.Exhaustion, Scale: base.Scale, StartedAt: time.Now().UTC(), Planned: rounds,
	}
	for _, s := range settings {
		head.Profiles = append(head.Profiles, s.Label())
		if cell := s.Cell(); cell != nil {
			head.Faults = append(head.Faults, *cell)
		}
	}
	var runs []report.ComparedSummary
	var ended error
	for round := 1; round <= rounds && ended == nil; round++ {
		for _, s := range settings {
			l.progress("round %d of %d: %s", round, rounds, s.Label())
			dir, summary, err := l.Exhaustion(ctx, s, round)
			if err != nil {
				ended = err
				break
			}
			l.progress("%s: %s", dir, summary.Verdict.Outcome)
			runs = append(runs, report.ComparedSummary{Path: "../" + filepath.Base(dir), Summary: summary})
			if ctx.Err() != nil {
				ended = context.Cause(ctx)
				break
			}
		}
	}
	if len(runs) == 0 {
		return "", result.Comparison{}, ended
	}
	dir, comparison, err := l.writeComparison(ctx, base.ResultsDir, head, runs)
	if err == nil {
		err = ended
	}
	if dir != "" {
		l.show.compared(dir, comparison)
	}
	return dir, comparison, err
}

func (l *Lab) writeComparison(ctx context.Context, resultsDir string, head result.Comparison, runs []report.ComparedSummary) (string, result.Comparison, error) {
	folder, err := l.launcher.CreateFolder(scratch(resultsDir), comparisonFolderPrefix)
	if err != nil {
		return "", head, err
	}
	prefix := fmt.Sprintf("%s-%s-compare", head.StartedAt.Format(timestamp), head.Scenario)
	var comparison result.Comparison
	dir, err := publish(folder, resultsDir, prefix, 1, func(id string) error {
		head.ID = id
		comparison = report.BuildComparison(head, runs)
		if err := result.WriteJSON(filepath.Join(folder.Path(), result.ComparisonFile), comparison); err != nil {
			return err
		}
		return writeReport(folder.Path())
	})
	if err != nil {
		removing, cancel := context.WithTimeout(context.WithoutCancel(ctx), proc.RemoveWait)
		defer cancel()
		_ = folder.Remove(removing) // the reaper will, if this does not
	}
	return dir, comparison, err
}
