package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"chokepoint/internal/cli"
	"chokepoint/internal/lab"
	"chokepoint/internal/lab/scenario"
	"chokepoint/internal/lab/scenario/closerace"
	"chokepoint/internal/lab/scenario/deadconn"
	"chokepoint/internal/lab/scenario/drain"
	"chokepoint/internal/lab/scenario/drainmap"
	"chokepoint/internal/lab/scenario/rolling"
	"chokepoint/internal/lab/scenario/spread"
	"chokepoint/internal/lab/world"
	"chokepoint/internal/result"
)

const runSynopsis = `Usage: lab run exhaustion [flags]

One slow upstream against a shared worker pool: baselines, load, four goroutine
dumps, recovery. Durations and rates are scenario time; -scale shortens it.
Exit codes: 0 as expected, 1 failure, 2 usage, 3 the run is invalid, 4 another
verdict than the profile's, 130 interrupted.`

func runScenario(ctx context.Context, args []string, stdout, stderr io.Writer) (int, error) {
	if len(args) > 0 {
		switch args[0] {
		case closerace.Name:
			return runCloseRace(ctx, args[1:], stdout, stderr)
		case rolling.Name:
			return runRolling(ctx, args[1:], stdout, stderr)
		case deadconn.Name:
			return runDeadConnections(ctx, args[1:], stdout, stderr)
		case spread.Name:
			return runSpread(ctx, args[1:], stdout, stderr)
		case drainmap.Name:
			return runDrainMap(ctx, args[1:], stdout, stderr)
		case drain.Name:
			return runDrain(ctx, args[1:], stdout, stderr)
		}
	}
	args, err := scenarioName("run", args)
	if err != nil {
		return cli.ExitUsage, err
	}
	var s scenario.Settings
	var shown liveFlags
	var asJSON bool
	fs := flag.NewFlagSet("lab run exhaustion", flag.ContinueOnError)
	s.Bind(fs)
	shown.bind(fs)
	fs.BoolVar(&asJSON, "json", false, "print summary.json instead of the verdict")
	if err := parseSettings(fs, &s, args, runSynopsis, stdout); err != nil {
		return cli.ExitUsage, err
	}
	if err := shown.validate(); err != nil {
		return cli.ExitUsage, err
	}
	if err := world.CheckPrograms(s.BinDir); err != nil {
		return cli.ExitFailure, err
	}
	if needsSandbox(s) {
		return inSandbox(ctx, s, shown, append([]string{"run", scenario.Exhaustion}, args...), stdout, stderr)
	}
	return withLab(ctx, s.ResultsDir, shown, 1, stdout, stderr, func(l *lab.Lab, stdout io.Writer) (int, error) {
		dir, summary, err := l.Exhaustion(ctx, s, 1)
		if err != nil {
			return failureCode(ctx), err
		}
		if err := printResult(stdout, asJSON, summary, dir, printVerdict); err != nil {
			return cli.ExitFailure, err
		}
		return exitCode(ctx, summary), nil
	})
}

// withLab opens a lab for what do does with it, which is so many runs. What do prints
// goes to the stdout that it is given.
func withLab(ctx context.Context, resultsDir string, shown liveFlags, runs int, stdout, stderr io.Writer, do func(*lab.Lab, io.Writer) (int, error)) (int, error) {
	out := newOutput(stderr)
	defer out.announceStop(ctx)()
	// First: an address in use is the cheapest thing to be wrong.
	show, closeShow, err := shown.open(ctx, runs, out)
	if err != nil {
		return cli.ExitFailure, err
	}
	code, err := openLab(ctx, resultsDir, show, out, func(l *lab.Lab) (int, error) { return do(l, &afterBlock{out, stdout}) })
	closeShow(err)
	return code, err
}

func openLab(ctx context.Context, resultsDir string, show *lab.Show, out *output, do func(*lab.Lab) (int, error)) (int, error) {
	l, err := lab.Open(ctx, resultsDir, out.progress)
	if err != nil {
		return cli.ExitFailure, err
	}
	defer l.Close()
	l.Watch(show)
	return do(l)
}

// failureCode is the exit code of a command that has no result.
func failureCode(ctx context.Context) int {
	if ctx.Err() != nil {
		return cli.ExitInterrupted
	}
	return cli.ExitFailure
}

// parseSettings parses and validates the flags of a scenario.
func parseSettings(fs *flag.FlagSet, s *scenario.Settings, args []string, synopsis string, stdout io.Writer) error {
	err := cli.Parse(fs, args, synopsis, stdout)
	if errors.Is(err, cli.ErrDone) {
		return err
	}
	if err == nil && fs.NArg() > 0 {
		err = fmt.Errorf("unexpected argument %q", fs.Arg(0))
	}
	if err == nil {
		err = s.Validate()
	}
	if err != nil {
		return fmt.Errorf("%w (%s -h lists the flags)", err, fs.Name())
	}
	if s.DatabaseURL == "" {
		s.DatabaseURL = os.Getenv("DATABASE_URL")
	}
	return nil
}

// exitCode is what a finished run's verdict means to a script.
func exitCode(ctx context.Context, s result.Summary) int {
	switch {
	case ctx.Err() != nil:
		return cli.ExitInterrupted
	case !s.Validity.Valid:
		return cli.ExitInvalid
	case s.Verdict.Outcome != s.Verdict.Expected:
		return cli.ExitUnexpected
	}
	return cli.ExitOK
}

// printResult prints a command's result to w: as JSON, or as text for a reader, which
// may quote what a service has answered.
func printResult[T any](w io.Writer, asJSON bool, v T, dir string, text func(w io.Writer, v T, dir string)) error {
	if !asJSON {
		var b strings.Builder
		text(&b, v, dir)
		_, err := io.WriteString(w, cli.Printable(b.String()))
		return err
	}
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(v)
}

// printVerdict prints what a reader wants first: may the run be believed, what
// came out, and where the rest is.
func printVerdict(w io.Writer, s result.Summary, dir string) {
	printValidity(w, s)
	fmt.Fprintf(w, "verdict: %s (profile %s, expected %s)\n\n", s.Verdict.Outcome, s.Run.Profile, s.Verdict.Expected)
	printChecks(w, s.Verdict)
	fmt.Fprintf(w, "\n  %-9s %9s %8s %8s %9s %12s %12s\n", "endpoint", "scheduled", "dropped", "ok", "failed %", "p50 ms", "p95 ms")
	for _, name := range []string{"fast", "upstream"} {
		e, ok := s.Endpoints[name]
		if !ok {
			continue
		}
		fmt.Fprintf(w, "  %-9s %9d %8d %8d %9.1f %12.1f %12.1f\n", name, e.Scheduled, e.Dropped, e.OK, 100*e.FailedRatio, e.Response.P50, e.Response.P95)
	}
	fmt.Fprintf(w, "\n  %-10s %8s %11s %14s %12s %8s %9s\n", "dump", "workers", "connecting", "upstream read", "permit wait", "queued", "pause ms")
	for _, d := range s.Dumps {
		fmt.Fprintf(w, "  %-10s %8d %11d %14d %12d %8d %9.1f\n", d.Point, d.Workers, d.Where["upstream_connect"], d.Where["upstream_read"], d.Where["permit_wait"], d.Queued, d.PauseMS)
	}
	printPrediction(w, s)
	fmt.Fprintf(w, "report: %s/%s\n", dir, result.PageFile)
}

// printValidity says whether the run may be believed, and why not.
func printValidity(w io.Writer, s result.Summary) {
	if s.Validity.Valid {
		fmt.Fprintf(w, "\nvalid run: every arrival is accounted for\n")
	} else {
		fmt.Fprintf(w, "\nINVALID run:\n")
		for _, reason := range s.Validity.Reasons {
			fmt.Fprintf(w, "  %s\n", reason)
		}
	}
	for _, warning := range s.Validity.Warnings {
		fmt.Fprintf(w, "warning: %s\n", warning)
	}
}

func printChecks(w io.Writer, v result.Verdict) {
	for _, c := range v.Checks {
		mark := "ok  "
		switch {
		case c.Informative:
			mark = "info"
		case !c.OK:
			mark = "FAIL"
		}
		fmt.Fprintf(w, "  %s  %-17s %s; want %s\n", mark, c.Name, c.Got, c.Want)
	}
}

// printPrediction prints the figures that disagree with the model, which is of a
// whole run and says nothing of one that was cut short.
func printPrediction(w io.Writer, s result.Summary) {
	if s.Run.EndedEarly != "" {
		fmt.Fprintf(w, "\nprediction not judged: the run was stopped early\n")
		return
	}
	agree := 0
	for _, row := range s.Prediction.Rows {
		if row.OK {
			agree++
		}
	}
	fmt.Fprintf(w, "\nprediction: %d of %d figures agree\n", agree, len(s.Prediction.Rows))
	for _, row := range s.Prediction.Rows {
		if row.OK {
			continue
		}
		note := ""
		if row.Note != "" {
			note = "; " + row.Note
		}
		fmt.Fprintf(w, "  %s: predicted %.4g (%.4g to %.4g), measured %.4g%s\n", row.Name, row.Predicted, row.Low, row.High, row.Measured, note)
	}
}
