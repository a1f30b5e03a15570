package lab

import (
	"context"
	"encoding/json"
	"os"

	"chokepoint/internal/lab/balancer"
	"chokepoint/internal/lab/matrix"
	"chokepoint/internal/lab/scenario/drain"
	"chokepoint/internal/lab/world"
	"chokepoint/internal/result"
)

// Draining runs the cases of the drain scenario that the settings name. It returns the
// run's folder and its summary. An error means that there is no folder.
func (l *Lab) Draining(ctx context.Context, s drain.Settings, cases []matrix.Case) (string, result.Summary, error) {
	programs, hashes, err := l.DrainPrograms(ctx, s.BinDir)
	if err != nil {
		return "", result.Summary{}, err
	}
	s.Programs = programs
	settings, err := json.Marshal(s)
	if err != nil {
		return "", result.Summary{}, err
	}
	plan := matrix.Plan{Scenario: drain.Name, Settings: settings, Parallel: s.Parallel}
	effective := s.Effective()
	effective["nginx"], effective["haproxy"] = programs.Nginx.Version, programs.HAProxy.Version
	return l.matrix(ctx, s.ResultsDir, plan, cases, effective, hashes)
}

// DrainPrograms finds all that a world of the drain scenario is made of, a PostgreSQL too,
// before anything is started. The error is one line; of what is missing it says how to
// install it.
func (l *Lab) DrainPrograms(ctx context.Context, binDir string) (p drain.Programs, hashes map[string]string, err error) {
	paths, hashes, err := world.FindPrograms(binDir, "victim")
	if err != nil {
		return p, nil, err
	}
	p.Victim = paths["victim"]
	if p.Lab, err = os.Executable(); err != nil {
		return p, nil, err
	}
	if p.Nginx, err = balancer.Find(ctx, balancer.Nginx); err != nil {
		return p, nil, err
	}
	if p.HAProxy, err = balancer.Find(ctx, balancer.HAProxy); err != nil {
		return p, nil, err
	}
	return p, hashes, l.PreparePostgres(ctx)
}
