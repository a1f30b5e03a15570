package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"slices"

	"chokepoint/internal/cli"
	"chokepoint/internal/load/merge"
	"chokepoint/internal/load/threshold"
	"chokepoint/internal/result"
)

const reportSynopsis = `Usage: loadgen report [flags] load.json ...

Merges results, each with its interval log beside it (load.json and load.hlog),
and prints them as one run. A quoted pattern such as 'shard-*.json' stands for the
files that it matches. Histograms are added bucket by bucket. The rates of
runs at the same time add up, those of runs one after the other do not. What is
missing (a shard, too) or does not fit makes the result incomplete, and so
invalid; nothing is scaled up for it. Shards of two plans, or of two starts, are
refused.

Exit codes: 0 done, 1 failure, 2 usage, 3 invalid or incomplete, 99 a threshold is
not met.`

// report is the subcommand: it returns the exit code.
func report(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var all []threshold.Threshold
	fs := flag.NewFlagSet("loadgen report", flag.ContinueOnError)
	out := outputFile{flag: "json"}
	cli.FileVar(fs, &out.path, "json", "write the merged result to this `file`")
	expected := fs.Int("expect", 0, "how many results there must be; another number is incomplete (default: as many as are given)")
	threshold.AddFlag(fs, &all)
	err := cli.Parse(fs, args, reportSynopsis, stdout)
	switch {
	case errors.Is(err, cli.ErrDone):
		return cli.ExitOK
	case err == nil && fs.NArg() == 0:
		err = errors.New("no result: give the files that loadgen -json wrote")
	case err == nil && *expected < 0:
		err = fmt.Errorf("-expect %d is negative", *expected)
	}
	if err != nil {
		return cli.Fail(stderr, "loadgen", cli.ExitUsage, fmt.Errorf("%w (loadgen report -h lists the flags)", err))
	}
	var paths []string
	for _, arg := range fs.Args() {
		found, err := matching(arg)
		if err != nil {
			return cli.Fail(stderr, "loadgen", cli.ExitFailure, err)
		}
		paths = append(paths, found...)
	}
	if err := out.overwrites(paths); err != nil {
		return cli.Fail(stderr, "loadgen", cli.ExitUsage, err)
	}
	merged, err := merge.Files(paths, *expected)
	switch {
	case errors.Is(err, merge.ErrApart):
		return cli.Fail(stderr, "loadgen", cli.ExitUsage, err)
	case err != nil:
		return cli.Fail(stderr, "loadgen", cli.ExitFailure, err)
	}
	load := merged.Load
	names := slices.Sorted(maps.Keys(load.Endpoints))
	if err := threshold.CheckEndpoints(all, names); err != nil {
		return cli.Fail(stderr, "loadgen", cli.ExitUsage, err)
	}
	load.Thresholds = threshold.EvaluateAll(all, load.Endpoints, merged.Responses)
	if out.path != "" {
		if err := out.write(ctx, func() error { return result.WriteJSON(out.path, load) }); err != nil {
			return cli.Fail(stderr, "loadgen", cli.ExitFailure, out.unwritable(err))
		}
	}
	printSummary(stdout, mergedHeading(load), names, load)
	switch {
	case !load.Validity.Valid:
		return cli.ExitInvalid
	case !met(load.Thresholds):
		return cli.ExitThreshold
	}
	return cli.ExitOK
}

// mergedHeading says how the runs lay in time, and so what the rates are.
func mergedHeading(l result.Load) string {
	rates := map[string]string{
		merge.Parallel: "in parallel: their rates add up",
		merge.Sequence: "in sequence: their rates do not add up",
		merge.Mixed:    "in rounds: rates add up within a round",
	}[l.Merged.Arrangement]
	if len(l.Merged.Files) == 1 {
		rates = "alone"
	}
	what := "1 result"
	if n := len(l.Merged.Files); n > 1 {
		what = fmt.Sprintf("%d results", n)
	}
	if l.Merged.Shards > 0 {
		what = fmt.Sprintf("%d of %d shards", len(l.Merged.Files), l.Merged.Shards)
	}
	return fmt.Sprintf("%s %s; %.1f s of load, the last answer after %.1f s; the generators used %.2f s of CPU",
		what, rates, l.WindowS, l.ElapsedS, l.Generator.CPUSeconds)
}
