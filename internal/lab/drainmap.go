package lab

import (
	"context"
	"encoding/json"

	"chokepoint/internal/lab/matrix"
	"chokepoint/internal/lab/scenario/drainmap"
	"chokepoint/internal/result"
)

// DrainMap runs the cells of the map of pre-stop and drain that the settings name. It
// returns what Draining does.
func (l *Lab) DrainMap(ctx context.Context, s drainmap.Settings, cases []matrix.Case) (string, result.Summary, error) {
	programs, hashes, err := l.DrainPrograms(ctx, s.BinDir)
	if err != nil {
		return "", result.Summary{}, err
	}
	s.Programs = programs
	settings, err := json.Marshal(s)
	if err != nil {
		return "", result.Summary{}, err
	}
	plan := matrix.Plan{Scenario: drainmap.Name, Settings: settings, Parallel: s.Parallel}
	effective := s.Effective()
	effective["nginx"], effective["haproxy"] = programs.Nginx.Version, programs.HAProxy.Version
	return l.matrixConcluded(ctx, s.ResultsDir, plan, cases, effective, hashes, func(summary *result.Summary) error {
		return drainmap.Conclude(s, summary)
	})
}
