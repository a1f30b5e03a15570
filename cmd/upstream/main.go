// Command upstream is the stub that the victim calls; see internal/service/upstream.
//
// It prints one line of JSON (adminapi.Listening) on stdout when both of its
// listeners are open, and logs to stderr. SIGINT and SIGTERM end it at once,
// whatever waits. Exit codes: 0 ended as told, 1 failure, 2 usage, 130
// interrupted before it listened.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"

	"chokepoint/internal/cli"
	"chokepoint/internal/service/upstream"

	"github.com/peterbourgon/ff/v3"
)

// Exit codes, as DESIGN section 6 has them.
const (
	exitOK          = 0
	exitFailure     = 1
	exitUsage       = 2
	exitInterrupted = 130
)

// envPrefix begins the name of every environment variable that sets a flag.
const envPrefix = "CHOKEPOINT"

// The soft limit on open files needs no call: package os raises it to the hard
// one when a Go program starts (golang/go#46279); a test holds it to that.
func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// A second signal kills.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	fail := func(code int, err error) int {
		fmt.Fprintf(stderr, "upstream: %s\n", strings.Join(strings.Fields(err.Error()), " "))
		return code
	}
	cfg, asked, err := parse(args, stdout)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitOK
	case err != nil:
		return fail(exitUsage, fmt.Errorf("%w (upstream -h lists the flags)", err))
	case asked.version:
		fmt.Fprintln(stdout, "upstream", buildVersion())
		return exitOK
	case asked.healthcheck != "":
		if err := cli.Healthcheck(ctx, asked.healthcheck); err != nil {
			return fail(exitFailure, err)
		}
		return exitOK
	}
	cfg.Logger = slog.New(slog.NewTextHandler(stderr, nil))

	server, err := upstream.Start(ctx, cfg)
	if err != nil {
		if ctx.Err() != nil {
			return exitInterrupted
		}
		return fail(exitFailure, err)
	}
	defer server.Close()
	if ctx.Err() != nil {
		return exitInterrupted
	}
	if err := json.NewEncoder(stdout).Encode(server.Listening()); err != nil {
		return fail(exitFailure, fmt.Errorf("cannot say on stdout that it listens: %w", err))
	}
	<-ctx.Done()
	if err := server.Close(); err != nil {
		return fail(exitFailure, err)
	}
	return exitOK
}

// instead is what a command line asks for instead of a server.
type instead struct {
	version     bool
	healthcheck string // a URL
}

// parse reads flags over CHOKEPOINT_ variables over the -config file, and
// refuses what cannot be had. Usage goes to w if it is asked for.
func parse(args []string, w io.Writer) (cfg upstream.Config, asked instead, err error) {
	defaults := upstream.Config{}.WithDefaults()
	fs := flag.NewFlagSet("upstream", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.StringVar(&cfg.Listen, "listen", defaults.Listen, "public `address`, host:port; port 0 takes a free one")
	fs.StringVar(&cfg.Admin, "admin", defaults.Admin, "`address` of the admin listener; anyone who reaches it controls the stub")
	fs.StringVar(&cfg.Behaviour.Delay, "delay", defaults.Behaviour.Delay,
		"time to the answer: a `duration`, uniform:10ms..50ms, lognormal:p50=80ms,p99=400ms or file:PATH (one duration a line)")
	fs.StringVar((*string)(&cfg.Behaviour.Fault), "fault", "", "what befalls requests: "+strings.Join(upstream.FaultNames(), ", ")+"; empty is none")
	fs.Float64Var(&cfg.Behaviour.FaultRate, "fault-rate", 1, "the `share` of requests that the fault befalls, above 0 to 1")
	fs.IntVar(&cfg.Behaviour.BodyBytes, "body-bytes", 0, "`bytes` to which a good answer's body is padded")
	fs.Float64Var(&cfg.Scale, "scale", 1, "`factor` on every delay, above 0 to 1")
	fs.Uint64Var(&cfg.Seed, "seed", 1, "`seed` of the delays and faults that are drawn")
	fs.BoolVar(&asked.version, "version", false, "print the version and exit")
	fs.StringVar(&asked.healthcheck, "healthcheck", "", cli.HealthcheckUsage)
	fs.String("config", "", "`file` of settings, a flag name and its value a line")
	err = ff.Parse(fs, args,
		ff.WithEnvVarPrefix(envPrefix),
		ff.WithConfigFileFlag("config"),
		ff.WithConfigFileParser(ff.PlainParser))
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprintln(w, "Usage: upstream [flags]\n\nA slow, failing, hanging or refusing HTTP server.\nEach flag can be set as "+envPrefix+"_FLAG_NAME, too.")
		fmt.Fprintln(w)
		fs.SetOutput(w)
		fs.PrintDefaults()
		return cfg, asked, err
	case err != nil || asked != (instead{}):
		return cfg, asked, err
	case fs.NArg() > 0:
		return cfg, asked, fmt.Errorf("unexpected argument %q", fs.Arg(0))
	}
	return cfg, asked, cfg.Validate()
}

func buildVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(unknown)"
}
