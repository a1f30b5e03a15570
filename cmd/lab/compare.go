package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"

	"chokepoint/internal/cli"
	"chokepoint/internal/lab"
	"chokepoint/internal/lab/scenario"
	"chokepoint/internal/profile"
	"chokepoint/internal/result"
)

const compareSynopsis = `Usage: lab compare exhaustion [-profiles anti,fixed] [-runs 3] [flags of lab run exhaustion]

Runs the profiles in turn, round after round, and compares them: medians with
ranges, over valid runs only.`

const maxRounds = 100

func compareProfiles(ctx context.Context, args []string, stdout, stderr io.Writer) (int, error) {
	args, err := scenarioName("compare", args)
	if err != nil {
		return cli.ExitUsage, err
	}
	var s scenario.Settings
	var names string
	var rounds int
	var shown liveFlags
	var asJSON bool
	fs := flag.NewFlagSet("lab compare exhaustion", flag.ContinueOnError)
	s.Bind(fs)
	shown.bind(fs)
	fs.StringVar(&names, "profiles", "anti,fixed", "the profiles to compare, by `name,name`; the first is what the others are held against")
	fs.IntVar(&rounds, "runs", 3, "runs of each profile")
	fs.BoolVar(&asJSON, "json", false, "print comparison.json instead of the outcome")
	if err := parseSettings(fs, &s, args, compareSynopsis, stdout); err != nil {
		return cli.ExitUsage, err
	}
	if rounds < 1 || rounds > maxRounds {
		return cli.ExitUsage, fmt.Errorf("-runs %d: want 1 to %d", rounds, maxRounds)
	}
	settings, err := eachProfile(s, names)
	if err == nil {
		err = shown.validate()
	}
	if err != nil {
		return cli.ExitUsage, err
	}
	return withLab(ctx, s.ResultsDir, shown, rounds*len(settings), stderr, func(l *lab.Lab) (int, error) {
		dir, comparison, err := l.Compare(ctx, settings, rounds)
		if dir == "" {
			return failureCode(ctx), err
		}
		if err := printResult(stdout, asJSON, comparison, dir, printComparison); err != nil {
			return cli.ExitFailure, err
		}
		if err != nil && ctx.Err() == nil {
			return cli.ExitFailure, fmt.Errorf("the comparison ended early: %w", err)
		}
		return comparisonCode(ctx, comparison, settings), nil
	})
}

// eachProfile makes the settings of every profile that is compared.
func eachProfile(s scenario.Settings, names string) ([]scenario.Settings, error) {
	var all []scenario.Settings
	seen := map[string]bool{}
	for name := range strings.SplitSeq(names, ",") {
		name = strings.TrimSpace(name)
		if _, err := profile.Lookup(name); err != nil {
			return nil, fmt.Errorf("-profiles: %w", err)
		}
		if seen[name] {
			return nil, fmt.Errorf("-profiles: %s is named twice", name)
		}
		seen[name] = true
		one := s.WithProfile(name)
		if err := one.Validate(); err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	if len(all) < 2 {
		return nil, errors.New("-profiles: a comparison needs two, such as anti,fixed")
	}
	return all, nil
}

// comparisonCode is the worst of the runs' exit codes: a comparison of which one
// run is invalid still has its medians, and says in its code that one is missing.
func comparisonCode(ctx context.Context, c result.Comparison, settings []scenario.Settings) int {
	if ctx.Err() != nil {
		return cli.ExitInterrupted
	}
	expected := map[string]result.Outcome{}
	for _, s := range settings {
		if p, err := s.Profile.Profile(); err == nil {
			expected[p.Name] = result.Outcome(p.Expect)
		}
	}
	code := cli.ExitOK
	for _, r := range c.Runs {
		switch {
		case !r.Valid:
			return cli.ExitInvalid
		case r.Outcome != expected[r.Profile]:
			code = cli.ExitUnexpected
		}
	}
	return code
}
