// Loadgen is an open-model HTTP load generator: requests are sent when they fall
// due, whatever has become of those before, and every one of them is accounted
// for. See internal/load/engine for what it measures and refuses.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"syscall"

	"chokepoint/internal/load/engine"
)

// Exit codes.
const (
	exitDone        = 0
	exitFailure     = 1
	exitUsage       = 2
	exitInvalid     = 3
	exitInterrupted = 130
)

func main() {
	// The pacer sleeps in a system call, and until the runtime notices it keeps
	// its share of GOMAXPROCS from the workers: it gets one of its own.
	runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + 1)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// Once the first signal has stopped the load, the next one kills.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run is the program: it returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parse(args, stdout)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitDone
	case err != nil:
		fmt.Fprintf(stderr, "loadgen: %v\n", err)
		return exitUsage
	case o.version:
		fmt.Fprintln(stdout, "loadgen", version())
		return exitDone
	}
	code, err := load(ctx, o, stdout, stderr)
	if err != nil {
		fmt.Fprintf(stderr, "loadgen: %v\n", err)
	}
	return code
}

// load runs the plan and writes its result.
func load(ctx context.Context, o options, stdout, stderr io.Writer) (int, error) {
	if err := engine.Preflight(o.plan); err != nil {
		return exitFailure, err
	}
	out, err := openOutputs(o)
	if err != nil {
		return exitFailure, err
	}
	defer out.discard()
	sender, err := engine.NewHTTP(o.plan)
	if err != nil {
		return exitFailure, err
	}
	defer sender.Close()

	plan := o.plan
	plan.Log = out.log()
	if isTerminal(stderr) {
		plan.Progress = func(p engine.Progress) { showProgress(stderr, p) }
	}
	report, err := engine.Run(ctx, plan, sender)
	if plan.Progress != nil {
		clearProgress(stderr)
	}
	if err == nil {
		err = out.commit(report)
	} else {
		err = errors.Join(fmt.Errorf("write %s: %w", o.hlog, err), out.commitWithoutLog(report))
	}
	printSummary(stdout, o.plan, report.Load)
	switch {
	case report.StoppedEarly:
		return exitInterrupted, err
	case err != nil:
		return exitFailure, err
	case !report.Load.Validity.Valid:
		return exitInvalid, nil
	}
	return exitDone, nil
}

// version is what the build knows of itself.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	revision, modified := "unknown", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			modified = "+modified"
		}
	}
	return fmt.Sprintf("%s%s %s", revision, modified, info.GoVersion)
}
