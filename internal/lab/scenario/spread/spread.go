// Package spread asks whether the exhaustion of a service spreads to another instance
// of it behind the same balancer, or stays. Two victims stand behind a real nginx, each
// with a stub of its own; one stub is slow, or both are. Each victim is meant to get the
// load of the exhaustion scenario. A cell is a way to choose a victim (round robin,
// least_conn), what nginx does with a request that a victim did not answer, and the
// profile of both victims.
//
// Whose share a request is of is nginx's word: the server that it was sent to first, by
// the request's id. What became of it is the client's, how often it ran the victims', and
// where their workers stood a dump's. What is wanted of a cell is arithmetic, and is
// data in cells.go with the reason.
//
// Arrivals are Poisson. Constant ones to two endpoints come in pairs, and round robin
// would send all of one endpoint to one victim.
//
// The package refuses to measure nginx's own limits: its connections, its time to wait
// and its counting of failures are out of the way, but in the cells that are about them.
// It says nothing about several nginx workers, of which each has counts of its own.
package spread

import (
	"context"
	"errors"
	"fmt"
	"time"

	"chokepoint/internal/lab/balancer"
	"chokepoint/internal/lab/matrix"
	"chokepoint/internal/lab/pgserver"
	"chokepoint/internal/lab/proc"
	"chokepoint/internal/lab/scenario"
	"chokepoint/internal/lab/world"
	"chokepoint/internal/result"
)

// Name is the scenario's.
const Name = "spread"

// mostOpenFiles is room for what nginx has open at most: two connections for each of
// the 3,600 requests that the clients' patience keeps in flight, and the kept ones.
const mostOpenFiles = 8192

// Run is a run that may begin.
type Run struct {
	Settings Settings
	// Cases are those to carry out, out of Cases().
	Cases    []matrix.Case
	Launcher *proc.Launcher
	Progress func(format string, args ...any)
}

// programs are what every cell is made of.
type programs struct {
	launcher *proc.Launcher
	paths    map[string]string
	nginx    balancer.Binary
	database *pgserver.Server
}

// Into runs the cells one after the other with dir as the run's folder and fills it, but
// for summary, manifest and report. When the run is cut short the summary has the cells
// that had ended, and is invalid. The error is of what kept the run from being one at all.
func (r *Run) Into(ctx context.Context, dir string) (_ scenario.Outcome, err error) {
	started := time.Now()
	p := programs{launcher: r.Launcher}
	var hashes map[string]string
	if p.paths, hashes, err = world.FindPrograms(r.Settings.BinDir, "victim", "upstream", "loadgen"); err != nil {
		return scenario.Outcome{}, err
	}
	if p.nginx, err = balancer.Find(ctx, balancer.Nginx); err != nil {
		return scenario.Outcome{}, err
	}
	if err := scenario.NeedFiles(mostOpenFiles); err != nil {
		return scenario.Outcome{}, err
	}
	if p.database, err = pgserver.Open(ctx, pgserver.Config{Launcher: r.Launcher, DatabaseURL: r.Settings.DatabaseURL}); err != nil {
		return scenario.Outcome{}, err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
		defer cancel()
		err = errors.Join(err, p.database.Close(closing))
	}()
	r.Progress("nginx %s; PostgreSQL %s from %s; %d cells", p.nginx.Version, p.database.Version(), p.database.Source(), len(r.Cases))
	cases, err := matrix.Run(ctx, r.carriedOutBy(p), matrix.Options{Dir: dir, Parallel: 1, Progress: r.Progress}, nil)
	if err != nil {
		return scenario.Outcome{}, err
	}
	ended := ""
	if ctx.Err() != nil {
		ended = fmt.Sprintf("%v (%v)", scenario.ErrInterrupted, context.Cause(ctx))
		if !anyMeasured(cases) {
			return scenario.Outcome{}, fmt.Errorf("%s before the first cell had ended: nothing was measured", ended)
		}
	}
	summary := matrix.Summarise(Name, started, cases, ended)
	summary.Run.Scale = r.Settings.Scale
	return scenario.Outcome{Summary: summary, World: world.Description{
		Runtime: "native", Programs: hashes, Postgres: p.database.Version() + " (" + p.database.Source() + ")",
		Limits: map[string]string{"GOMAXPROCS": victimProcs, "nginx": p.nginx.Version},
	}}, nil
}

func anyMeasured(cases []result.Case) bool {
	for _, c := range cases {
		if c.Failure == "" {
			return true
		}
	}
	return false
}

// carriedOutBy gives each case to the cell that it is of.
func (r *Run) carriedOutBy(p programs) []matrix.Case {
	byKey := map[string]cell{}
	for _, c := range cells {
		byKey[matrix.Key(c.describe())] = c
	}
	var cases []matrix.Case
	for _, described := range r.Cases {
		c := byKey[matrix.Key(described.Case)]
		cases = append(cases, matrix.Case{Case: described.Case, Run: func(ctx context.Context, folder string, to *result.Case) error {
			m := &measurement{cell: c, settings: r.Settings, programs: p, folder: folder}
			return m.run(ctx, to)
		}})
	}
	return cases
}
