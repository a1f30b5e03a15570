package lab

import (
	"context"
	"encoding/json"
	"os"

	"chokepoint/internal/lab/balancer"
	"chokepoint/internal/lab/matrix"
	"chokepoint/internal/lab/scenario/rolling"
	"chokepoint/internal/lab/world"
	"chokepoint/internal/result"
)

// Rolling runs the cases of the rolling deploy that the settings name, with the nginx of
// this machine. It returns the run's folder and its summary. An error means that there is
// no folder; a *balancer.Rejected is of the reader's configuration.
func (l *Lab) Rolling(ctx context.Context, s rolling.Settings, cases []matrix.Case) (string, result.Summary, error) {
	programs, hashes, err := world.FindPrograms(s.BinDir, "upstream")
	if err != nil {
		return "", result.Summary{}, err
	}
	s.Stub = programs["upstream"]
	if s.Nginx, err = balancer.Find(ctx, balancer.Nginx); err != nil {
		return "", result.Summary{}, err
	}
	hashes["nginx"] = s.Nginx.Version
	if err := l.checkConfig(ctx, s.Nginx, s.ForCheck()); err != nil {
		return "", result.Summary{}, err
	}
	l.progress("nginx %s accepts the configuration", s.Nginx.Version)
	settings, err := json.Marshal(s)
	if err != nil {
		return "", result.Summary{}, err
	}
	plan := matrix.Plan{Scenario: rolling.Name, Settings: settings, Parallel: s.Parallel}
	return l.matrix(ctx, s.ResultsDir, plan, cases, s.Effective(), hashes)
}

// checkConfig has a balancer check its configuration, in a folder that does not stay.
func (l *Lab) checkConfig(ctx context.Context, b balancer.Binary, config balancer.Config) error {
	folder, err := l.launcher.CreateFolder(os.TempDir(), sandboxFolderPrefix)
	if err != nil {
		return err
	}
	defer l.remove(ctx, folder)
	return b.Check(ctx, l.launcher, balancer.Options{Name: string(b.Kind), Folder: folder.Path(), Config: config})
}
