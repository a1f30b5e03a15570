package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"

	"chokepoint/internal/cli"
	"chokepoint/internal/lab"
	"chokepoint/internal/lab/scenario"
	"chokepoint/internal/lab/world"
	"chokepoint/internal/profile"
	"chokepoint/internal/result"
)

const compareSynopsis = `Usage: lab compare exhaustion [-profiles anti,fixed] [-runs 3] [-faults slow,hang,refused,reset,loss,tls_hang]
       [flags of lab run exhaustion]

Runs the profiles in turn, round after round, and compares them: medians with
ranges, over valid runs only. -vary FLAG=VALUE,VALUE runs each with every value of
a flag of lab run exhaustion; of several -vary, with every combination.
-faults runs each with every fault on the path to the upstream: who dies, where the
workers stand, and when they are free again, each beside what was expected.`

const (
	maxRounds = 100
	// maxCompared bounds what is compared: a page with more columns tells nothing.
	maxCompared = 100
)

// compareFlags are the flags of lab compare.
type compareFlags struct {
	settings scenario.Settings
	shown    liveFlags
	names    string
	faults   []scenario.PathFault // nil: the comparison is not by fault
	rounds   int
	asJSON   bool
	vary     []variation
}

// variation is a flag with the values that it takes in turn.
type variation struct {
	flag   string
	values []string
}

// parse reads args, with the environment and the file of settings.
func (f *compareFlags) parse(args []string, stdout io.Writer) error {
	fs := flag.NewFlagSet("lab compare exhaustion", flag.ContinueOnError)
	f.settings.Bind(fs)
	scenarioFlags := map[string]bool{}
	fs.VisitAll(func(f *flag.Flag) { scenarioFlags[f.Name] = f.Name != "profile" })
	f.shown.bind(fs)
	fs.StringVar(&f.names, "profiles", "anti,fixed", "the profiles to compare, by `name,name`; the first is what the others are held against")
	fs.IntVar(&f.rounds, "runs", 3, "runs of each profile")
	fs.BoolVar(&f.asJSON, "json", false, "print comparison.json instead of the outcome")
	fs.Func("vary", "`flag=value,value` of lab run exhaustion, each value in turn; may be repeated", func(text string) error {
		name, values, ok := strings.Cut(text, "=")
		name = strings.TrimLeft(name, "-")
		v := variation{name, strings.Split(values, ",")}
		switch {
		case !ok || !scenarioFlags[name]:
			return fmt.Errorf("want a flag of lab run exhaustion and its values, such as accept-backlog=10,100; profiles are varied by -profiles")
		case name == "results" || name == "scale": // the runs lie beside their comparison, which has one scale
			return fmt.Errorf("-%s is that of the whole comparison; give it once, without -vary", name)
		case slices.ContainsFunc(f.vary, func(o variation) bool { return o.flag == name }):
			return fmt.Errorf("-%s is varied twice; give all its values in one -vary", name)
		}
		for i, value := range v.values {
			if value == "" || slices.Contains(v.values[:i], value) {
				return fmt.Errorf("value %q of -%s is empty or given twice", value, name)
			}
		}
		f.vary = append(f.vary, v)
		return nil
	})
	fs.Func("faults", "faults on the path to the upstream, by `name,name`: slow, hang, refused, reset, loss, tls_hang. Of all but slow it would answer at once", func(text string) error {
		f.faults = nil
		for name := range strings.SplitSeq(text, ",") {
			fault, err := scenario.LookupFault(strings.TrimSpace(name))
			if err != nil {
				return err
			}
			if slices.ContainsFunc(f.faults, func(o scenario.PathFault) bool { return o.Name == fault.Name }) {
				return fmt.Errorf("%s is named twice", fault.Name)
			}
			f.faults = append(f.faults, fault)
		}
		return nil
	})
	if err := parseSettings(fs, &f.settings, args, compareSynopsis, stdout); err != nil || f.faults == nil {
		return err
	}
	if f.settings.Fault != "" || slices.ContainsFunc(f.vary, func(v variation) bool { return v.flag == "fault" || v.flag == "fault-rate" }) {
		return errors.New("-fault is one fault for all runs and -faults is each in turn; give one of the two")
	}
	return nil
}

func compareProfiles(ctx context.Context, args []string, stdout, stderr io.Writer) (int, error) {
	args, err := scenarioName("compare", args)
	if err != nil {
		return cli.ExitUsage, err
	}
	var f compareFlags
	if err := f.parse(args, stdout); err != nil {
		return cli.ExitUsage, err
	}
	if f.rounds < 1 || f.rounds > maxRounds {
		return cli.ExitUsage, fmt.Errorf("-runs %d: want 1 to %d", f.rounds, maxRounds)
	}
	settings, err := f.compared(args)
	if err == nil {
		err = f.shown.validate()
	}
	if err != nil {
		return cli.ExitUsage, err
	}
	for _, s := range settings {
		if err := world.CheckPrograms(s.BinDir); err != nil {
			return cli.ExitFailure, err
		}
	}
	if needsSandbox(settings...) {
		return inSandbox(ctx, f.settings, f.shown, append([]string{"compare", scenario.Exhaustion}, args...), stdout, stderr)
	}
	return withLab(ctx, f.settings.ResultsDir, f.shown, f.rounds*len(settings), stdout, stderr, func(l *lab.Lab, stdout io.Writer) (int, error) {
		dir, comparison, err := l.Compare(ctx, settings, f.rounds)
		if dir == "" {
			return failureCode(ctx), err
		}
		if err := printResult(stdout, f.asJSON, comparison, dir, printComparison); err != nil {
			return cli.ExitFailure, err
		}
		if err != nil && ctx.Err() == nil {
			return cli.ExitFailure, fmt.Errorf("the comparison ended early: %w", err)
		}
		return comparisonCode(ctx, comparison, settings), nil
	})
}

// compared are the settings of everything that is compared: each profile, with
// each combination of what varies.
func (f *compareFlags) compared(args []string) ([]scenario.Settings, error) {
	combinations := [][]string{nil}
	for _, v := range f.vary {
		var more [][]string
		for _, c := range combinations {
			for _, value := range v.values {
				more = append(more, append(slices.Clone(c), v.flag+"="+value))
			}
		}
		combinations = more
		if len(combinations) > maxCompared {
			return nil, fmt.Errorf("-vary makes more than %d combinations; give fewer values", maxCompared)
		}
	}
	var all []scenario.Settings
	for _, c := range combinations {
		settings := f.settings
		if len(c) > 0 {
			// Settings are bound to their own flags, so each variant is parsed anew.
			varied := slices.Clone(args)
			for _, setting := range c {
				varied = append(varied, "-"+setting)
			}
			var one compareFlags
			if err := one.parse(varied, io.Discard); err != nil {
				return nil, fmt.Errorf("-vary: %w", err)
			}
			settings = one.settings
			settings.Variant = strings.Join(c, " ")
		}
		for _, faulty := range f.eachFault(settings) {
			profiles, err := eachProfile(faulty, f.names)
			if err != nil {
				return nil, err
			}
			all = append(all, profiles...)
		}
	}
	switch {
	case len(all) < 2:
		return nil, errors.New("-profiles: a comparison needs two, such as anti,fixed")
	case len(all) > maxCompared:
		return nil, fmt.Errorf("%d profiles and variants to compare: want at most %d", len(all), maxCompared)
	}
	return all, nil
}

// eachFault makes the settings of every fault that is compared; without any they stay
// as they are.
func (f *compareFlags) eachFault(s scenario.Settings) []scenario.Settings {
	if f.faults == nil {
		return []scenario.Settings{s}
	}
	var all []scenario.Settings
	for _, fault := range f.faults {
		all = append(all, s.WithFault(fault))
	}
	return all
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
		expected[s.Label()] = s.Expected()
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
