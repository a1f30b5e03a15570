package lab

import (
	"context"

	"chokepoint/internal/lab/scenario/closerace"
	"chokepoint/internal/lab/world"
	"chokepoint/internal/result"
)

// CloseRace runs the scenario closerace once. It returns what Exhaustion does.
func (l *Lab) CloseRace(ctx context.Context, settings closerace.Settings) (string, result.Summary, error) {
	run := closerace.Run{Settings: settings, Launcher: l.launcher, Progress: l.progress}
	return l.run(ctx, settings.ResultsDir, closerace.Name, 1, run.Into, func(w world.Description) result.Manifest {
		return newManifest(settings.Seed, settings.Effective(), w)
	})
}
