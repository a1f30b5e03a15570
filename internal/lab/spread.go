package lab

import (
	"context"

	"chokepoint/internal/lab/matrix"
	"chokepoint/internal/lab/scenario/spread"
	"chokepoint/internal/lab/world"
	"chokepoint/internal/result"
)

// Spread runs the cells of the scenario spread. It returns what Exhaustion does.
func (l *Lab) Spread(ctx context.Context, settings spread.Settings, cases []matrix.Case) (string, result.Summary, error) {
	run := spread.Run{Settings: settings, Cases: cases, Launcher: l.launcher, Progress: l.progress}
	return l.run(ctx, settings.ResultsDir, spread.Name, 1, run.Into, func(w world.Description) result.Manifest {
		return newManifest(settings.Seed, settings.Effective(), w)
	})
}
