package lab

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"chokepoint/internal/lab/matrix"
	"chokepoint/internal/lab/netlab"
	"chokepoint/internal/lab/scenario"
	"chokepoint/internal/lab/scenario/deadconn"
	"chokepoint/internal/lab/scenario/drain"
	"chokepoint/internal/lab/scenario/drainmap"
	"chokepoint/internal/lab/scenario/rolling"
	"chokepoint/internal/lab/world"
	"chokepoint/internal/result"
)

// CasesCommand is the command that carries out the cases of a matrix within a sandbox. It
// is the lab's own: a plan comes on standard input.
const CasesCommand = "sandbox-cases"

// builders make the cases of the scenarios whose cases have hosts of their own.
var builders = map[string]matrix.Builder{
	deadconn.Name: deadconn.Build, drain.Name: drain.Build, rolling.Name: rolling.Build,
	drainmap.Name: drainmap.Build,
}

// ServeCases is CasesCommand. It returns the exit code.
func ServeCases(ctx context.Context, stdin io.Reader, stdout, stderr io.Writer) int {
	return matrix.Serve(ctx, stdin, stdout, stderr, builders)
}

// DeadConnections runs the cases of the dead-connection matrix that the settings name.
// It returns the run's folder and its summary. An error means that there is no folder.
func (l *Lab) DeadConnections(ctx context.Context, s deadconn.Settings, cases []matrix.Case) (string, result.Summary, error) {
	programs, hashes, err := world.FindPrograms(s.BinDir, "victim", "upstream")
	if err != nil {
		return "", result.Summary{}, err
	}
	if slices.ContainsFunc(cases, func(c matrix.Case) bool { return c.Client == result.ClientPgx }) {
		if err := l.PreparePostgres(ctx); err != nil {
			return "", result.Summary{}, fmt.Errorf("%w, or leave the database's cases out with -no-database", err)
		}
	}
	s.Victim, s.Stub = programs["victim"], programs["upstream"]
	settings, err := json.Marshal(s)
	if err != nil {
		return "", result.Summary{}, err
	}
	plan := matrix.Plan{Scenario: deadconn.Name, Settings: settings, Parallel: s.Parallel}
	return l.matrix(ctx, s.ResultsDir, plan, cases, s.Effective(), hashes)
}

// matrix has the cases of a plan carried out in a sandbox, and publishes what came of
// them. programs are the hashes of what ran.
func (l *Lab) matrix(ctx context.Context, resultsDir string, plan matrix.Plan, cases []matrix.Case, effective, programs map[string]string) (string, result.Summary, error) {
	return l.matrixConcluded(ctx, resultsDir, plan, cases, effective, programs, func(*result.Summary) error { return nil })
}

// matrixConcluded is matrix for cases that say something together: conclude adds that.
func (l *Lab) matrixConcluded(ctx context.Context, resultsDir string, plan matrix.Plan, cases []matrix.Case, effective, programs map[string]string, conclude func(*result.Summary) error) (string, result.Summary, error) {
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		return "", result.Summary{}, fmt.Errorf("the limit of open files: %w", err)
	}
	parallel, err := matrix.Within(plan.Parallel, files.Cur)
	if err != nil {
		return "", result.Summary{}, err
	}
	if parallel < plan.Parallel {
		l.progress("no more than %d cases at a time, since the limit of open files is %d (ulimit -n)", parallel, files.Cur)
		plan.Parallel = parallel
	}
	into := func(ctx context.Context, dir string) (scenario.Outcome, error) {
		started := time.Now()
		plan.Dir = dir
		l.progress("%d cases, up to %d at a time", len(cases), plan.Parallel)
		done, err := matrix.Drive(ctx, plan, cases, sandbox, l.progress)
		if err != nil {
			return scenario.Outcome{}, err
		}
		endedEarly := ""
		if ctx.Err() != nil {
			endedEarly = context.Cause(ctx).Error()
		}
		summary := matrix.Summarise(plan.Scenario, started, done, endedEarly)
		err = conclude(&summary)
		return scenario.Outcome{Summary: summary, World: world.Description{Runtime: "netlab", Programs: programs}}, err
	}
	return l.run(ctx, resultsDir, plan.Scenario, 1, into, func(w world.Description) result.Manifest {
		return newManifest(0, effective, w)
	})
}

// sandbox runs this program again in a sandbox, for the cases of a matrix.
func sandbox(ctx context.Context, stdin io.Reader, stdout, stderr io.Writer) (int, error) {
	return netlab.RunIn(ctx, netlab.Spec{Args: []string{CasesCommand}, Env: withoutPostgres(os.Environ()), Stdin: stdin, Stdout: stdout, Stderr: stderr})
}

// withoutPostgres is an environment without libpq's variables: they are about a server
// that a sandbox does not reach, and change what is asked of its own.
func withoutPostgres(env []string) []string {
	return slices.DeleteFunc(env, func(variable string) bool { return strings.HasPrefix(variable, "PG") })
}
