package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"chokepoint/internal/cli"
	"chokepoint/internal/evidence/sizing"
	"chokepoint/internal/lab"
	"chokepoint/internal/lab/world"
	"chokepoint/internal/rate"
)

const sizeSynopsis = `Usage: lab size -latency p50=80ms,p99=400ms -rate 200/s [flags]

Chooses the timeout and the permits of the calls to one upstream, from its healthy
latency, the rate of the calls and the shared pool, and says why. -validate runs
the choice and two neighbours for real, healthy and in an outage.
Exit codes: 0 done, 1 failure, 2 usage, 3 a run of -validate is invalid, 4 a run
contradicts the model or misses a goal, 99 no pair meets the goals, 130 interrupted.`

// sizeFlags are the flags of lab size.
type sizeFlags struct {
	question          sizing.Question
	latency, endpoint string
	arrivals          string
	asJSON, validate  bool
	// of the validation
	scale                         float64
	duration, maxLag              time.Duration
	results, binDir, databaseText string
	shown                         liveFlags
}

func (f *sizeFlags) bind(fs *flag.FlagSet) {
	q := &f.question
	fs.StringVar(&f.latency, "latency", "", "how long the healthy upstream takes: p50=80ms,p99=400ms, any `distribution` of -delay, a .hlog of loadgen, or the folder of a run")
	fs.StringVar(&f.endpoint, "endpoint", "", "`name` of the endpoint in the .hlog (default: the only one, or upstream)")
	fs.Var(&q.Rate, "rate", "`rate` of the calls to the upstream at their peak")
	q.OtherRate = 20
	fs.Func("other-rate", "`rate` of the requests that share the pool and call nobody; 0 for none (default 20/s)", func(text string) error {
		if text == "0" {
			q.OtherRate = 0
			return nil
		}
		r, err := rate.Parse(text)
		q.OtherRate = r
		return err
	})
	fs.IntVar(&q.Workers, "max-workers", 200, "workers of the shared pool")
	fs.DurationVar(&q.PermitWait, "permit-wait", 100*time.Millisecond, "longest wait for a permit")
	fs.StringVar(&f.arrivals, "arrivals", "poisson", "poisson or constant")
	fs.Float64Var(&q.Goals.MaxRejected, "max-rejected", 0.005, "`share` of the healthy calls that may be refused a permit, or abandoned in the queue, with the headroom")
	fs.Float64Var(&q.Goals.Headroom, "headroom", 0.2, "`share` by which the rate may exceed -rate")
	fs.Float64Var(&q.Goals.MaxCut, "max-cut", 0.001, "`share` of the healthy answers that the timeout may cut off")
	fs.Float64Var(&q.Goals.MaxHeld, "max-held", 0.5, "`share` of the workers that may be busy in an outage")
	fs.Uint64Var(&q.Seed, "seed", 1, "seed of everything that is drawn")
	fs.BoolVar(&f.asJSON, "json", false, "print the advice as JSON")
	fs.BoolVar(&f.validate, "validate", false, "run the choice and two neighbours for real, and compare")
	f.shown.bind(fs)
	fs.Float64Var(&f.scale, "scale", 1, "`factor` on every duration of the runs, and divisor of every rate")
	fs.DurationVar(&f.duration, "duration", 30*time.Second, "length of the healthy load of each run")
	fs.DurationVar(&f.maxLag, "max-lag", 5*time.Millisecond, "lag p99 of the generator above which a run is invalid")
	f.results = "results"
	cli.FileVar(fs, &f.results, "results", "`folder` of the runs")
	fs.StringVar(&f.binDir, "bin-dir", "", "`folder` of the programs (default: beside this one)")
	fs.StringVar(&f.databaseText, "database-url", "", "PostgreSQL `URL` (default: $DATABASE_URL, else a throwaway server)")
}

// complete reads what the flags name, and refuses what makes no sense.
func (f *sizeFlags) complete(rest []string) error {
	switch {
	case len(rest) > 0:
		return fmt.Errorf("unexpected argument %q", rest[0])
	case f.latency == "":
		return errors.New("-latency is missing: how long the healthy upstream takes, such as p50=80ms,p99=400ms")
	case f.question.Rate == 0:
		return errors.New("-rate is missing: how many calls the upstream gets at their peak, such as 200/s")
	case f.arrivals != "constant" && f.arrivals != "poisson":
		return fmt.Errorf("-arrivals %q: want constant or poisson", f.arrivals)
	case f.shown.on && !f.validate:
		return errors.New("-live shows the runs of -validate, which is not given; give -validate")
	case f.validate && f.question.OtherRate == 0:
		return errors.New("-validate needs requests that share the pool, to see whether they are harmed: -other-rate above 0")
	}
	if err := f.shown.validate(); err != nil {
		return err
	}
	f.question.Poisson = f.arrivals == "poisson"
	if f.databaseText == "" {
		f.databaseText = os.Getenv("DATABASE_URL")
	}
	var err error
	if f.question.Latency, err = sizing.ReadLatency(f.latency, f.endpoint); err != nil {
		return fmt.Errorf("-latency: %w", err)
	}
	if f.validate { // the model takes seconds
		if err := f.runs(nil).Check(); err != nil {
			return fmt.Errorf("-validate: %w", err)
		}
	}
	return nil
}

// runs are those that validate an advice.
func (f *sizeFlags) runs(advice *sizing.Advice) *lab.SizeRuns {
	return &lab.SizeRuns{Question: f.question, Advice: advice, Duration: f.duration, Args: []string{
		"-scale=" + strconv.FormatFloat(f.scale, 'g', -1, 64), "-max-lag=" + f.maxLag.String(), "-results=" + f.results, "-bin-dir=" + f.binDir, "-database-url=" + f.databaseText,
	}}
}

func chooseSize(ctx context.Context, args []string, stdout, stderr io.Writer) (int, error) {
	var f sizeFlags
	fs := flag.NewFlagSet("lab size", flag.ContinueOnError)
	f.bind(fs)
	err := cli.Parse(fs, args, sizeSynopsis, stdout)
	if errors.Is(err, cli.ErrDone) {
		return cli.ExitUsage, err
	}
	usage := func(err error) (int, error) {
		return cli.ExitUsage, fmt.Errorf("%w (%s -h lists the flags)", err, fs.Name())
	}
	if err == nil {
		err = f.complete(fs.Args())
	}
	if err != nil {
		return usage(err)
	}
	if f.validate {
		if err := world.CheckPrograms(f.binDir); err != nil {
			return cli.ExitFailure, err
		}
	}
	advice, err := sizing.Advise(ctx, f.question)
	switch {
	case ctx.Err() != nil:
		return cli.ExitInterrupted, err
	case err != nil:
		return usage(err)
	}
	code := cli.ExitOK
	switch {
	case advice.Recommended == nil:
		code = cli.ExitThreshold
	case f.validate:
		if code, err = f.validateSize(ctx, &advice, stderr); err != nil {
			return code, err
		}
	}
	return code, printResult(stdout, f.asJSON, advice, "", printAdvice)
}

// validateSize makes the runs and adds them to the advice.
func (f *sizeFlags) validateSize(ctx context.Context, advice *sizing.Advice, stderr io.Writer) (int, error) {
	return withLab(ctx, f.results, f.shown, 2*len(advice.Neighbours()), io.Discard, stderr, func(l *lab.Lab, _ io.Writer) (int, error) {
		if err := lab.KeepLatency(&f.question.Latency, f.results); err != nil {
			return cli.ExitFailure, err
		}
		runs := f.runs(advice)
		if _, err := runs.Settings(); err != nil {
			return cli.ExitUsage, fmt.Errorf("-validate: %w", err)
		}
		err := l.ValidateSize(ctx, *runs)
		switch v := advice.Validation; {
		case ctx.Err() != nil && len(v.Runs) > 0:
			return cli.ExitInterrupted, nil
		case err != nil:
			return failureCode(ctx), err
		case !v.Valid:
			return cli.ExitInvalid, nil
		case !v.ModelRight || !v.GoalsMet:
			return cli.ExitUnexpected, nil
		}
		return cli.ExitOK, nil
	})
}
