// Loadgen is an open-model HTTP load generator: requests are sent when they fall
// due, whatever has become of those before, and every one of them is accounted
// for. See internal/load/engine for what it measures and refuses.
package main

import (
	"context"
	"errors"
	"io"
	"os"
	"slices"

	"chokepoint/internal/cli"
	"chokepoint/internal/load/engine"
	"chokepoint/internal/load/latency"
	"chokepoint/internal/load/threshold"
	"chokepoint/internal/result"
)

func main() {
	engine.SpareProcessor()
	os.Exit(run(cli.Context(), os.Args[1:], os.Stdout, os.Stderr))
}

// run is the program: it returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return cli.CheckStdout(ctx, "loadgen", stdout, stderr, func(stdout io.Writer) int {
		return dispatch(ctx, args, stdout, stderr)
	})
}

// dispatch runs the load or the subcommand.
func dispatch(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) > 0 {
		switch args[0] {
		case "report":
			return report(ctx, args[1:], stdout, stderr)
		case "diff":
			return diff(ctx, args[1:], stdout, stderr)
		case "plan":
			return showPlan(ctx, args[1:], stdout, stderr)
		}
	}
	o, err := parse(args, stdout)
	switch {
	case errors.Is(err, cli.ErrDone):
		return cli.ExitOK
	case err != nil:
		return cli.Fail(stderr, "loadgen", cli.ExitUsage, withHint(err, "loadgen"))
	}
	code, err := load(ctx, o, stdout, stderr)
	if err != nil {
		return cli.Fail(stderr, "loadgen", code, err)
	}
	return code
}

// load runs the plan and writes its result.
func load(ctx context.Context, o options, stdout, stderr io.Writer) (int, error) {
	needs, err := engine.Preflight(o.plan)
	if err != nil {
		// The plan asks for more than there is, as loadgen plan -check says too.
		return cli.ExitUsage, err
	}
	release, err := o.settleShard()
	if err != nil {
		return cli.ExitFailure, err
	}
	defer release()
	// The number of a shard may have made one file of two.
	if err := o.checkOutputs(); err != nil {
		return cli.ExitUsage, err
	}
	out, err := openOutputs(ctx, o)
	switch {
	case errors.Is(err, cli.ErrUnread):
		return cli.ExitInterrupted, err
	case err != nil:
		return cli.ExitFailure, err
	}
	defer out.discard()
	plan := o.plan
	plan.Log = out.log(ctx)
	var watch watchers
	plan.EachSecond = watch.second
	player, err := engine.New(ctx, plan)
	switch {
	case err != nil && ctx.Err() != nil:
		return cli.ExitInterrupted, errors.New("interrupted before the load; nothing was sent")
	case err != nil:
		return cli.ExitFailure, err
	}
	defer player.Close()
	if err := watch.start(o, needs, out, stderr); err != nil {
		return cli.ExitFailure, err
	}
	defer watch.end(ctx, o.linger)
	defer context.AfterFunc(ctx, watch.interrupted)()
	report, err := player.Run(ctx)
	watch.endProgress()
	report.Load.Thresholds = threshold.EvaluateAll(o.thresholds, report.Load.Endpoints, responses(report))
	err = out.commit(ctx, report, err)
	printSummary(stdout, runHeading(o.plan, report.Load), endpointNames(o.plan), report.Load)
	switch {
	case report.StoppedEarly:
		return cli.ExitInterrupted, err
	case err != nil:
		return cli.ExitFailure, err
	case !report.Load.Validity.Valid:
		return cli.ExitInvalid, nil
	case !met(report.Load.Thresholds):
		return cli.ExitThreshold, nil
	}
	return cli.ExitOK, nil
}

// responses are the histograms that thresholds look at.
func responses(r *engine.Report) map[string]latency.Responses {
	all := make(map[string]latency.Responses, len(r.Timings))
	for name, t := range r.Timings {
		all[name] = latency.Responses{All: t.Response, OK: t.OKResponse, Failed: t.FailedResponse}
	}
	return all
}

// met says whether every threshold is.
func met(all []result.Threshold) bool {
	return !slices.ContainsFunc(all, func(t result.Threshold) bool { return !t.OK })
}
