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
	"strings"

	"chokepoint/internal/cli"
	"chokepoint/internal/service/upstream"
)

const synopsis = `Usage: upstream [flags]

A slow, failing, hanging or refusing HTTP server.`

// The soft limit on open files needs no call: package os raises it to the hard
// one when a Go program starts (golang/go#46279); a test holds it to that.
func main() {
	os.Exit(run(cli.Context(), os.Args[1:], os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return cli.CheckStdout(ctx, "upstream", stdout, stderr, func(stdout io.Writer) int {
		return serve(ctx, args, stdout, stderr)
	})
}

// serve runs the server until ctx ends, or does what else the flags ask for.
func serve(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	fail := func(code int, err error) int { return cli.Fail(stderr, "upstream", code, err) }
	cfg, healthcheck, err := parse(args, stdout)
	switch {
	case errors.Is(err, cli.ErrDone):
		return cli.ExitOK
	case err != nil:
		return fail(cli.ExitUsage, fmt.Errorf("%w (upstream -h lists the flags)", err))
	case healthcheck != "":
		if err := cli.Healthcheck(ctx, healthcheck); err != nil {
			return fail(cli.ExitFailure, err)
		}
		return cli.ExitOK
	}
	cfg.Logger = slog.New(slog.NewTextHandler(stderr, nil))

	server, err := upstream.Start(ctx, cfg)
	if err != nil {
		if ctx.Err() != nil {
			return cli.ExitInterrupted
		}
		return fail(cli.ExitFailure, err)
	}
	defer server.Close()
	if ctx.Err() != nil {
		return cli.ExitInterrupted
	}
	if err := json.NewEncoder(stdout).Encode(server.Listening()); err != nil {
		return fail(cli.ExitFailure, fmt.Errorf("cannot say on stdout that it listens: %w", err))
	}
	<-ctx.Done()
	if err := server.Close(); err != nil {
		return fail(cli.ExitFailure, err)
	}
	return cli.ExitOK
}

// parse reads the settings and refuses what cannot be had. healthcheck is a URL
// to ask instead of starting a server.
func parse(args []string, stdout io.Writer) (cfg upstream.Config, healthcheck string, err error) {
	defaults := upstream.Config{}.WithDefaults()
	fs := flag.NewFlagSet("upstream", flag.ContinueOnError)
	fs.StringVar(&cfg.Listen, "listen", defaults.Listen, "public `address`, host:port; port 0 takes a free one")
	fs.StringVar(&cfg.Admin, "admin", defaults.Admin, "`address` of the admin listener; anyone who reaches it controls the stub")
	fs.StringVar(&cfg.Behaviour.Delay, "delay", defaults.Behaviour.Delay,
		"time to the answer: a `duration`, uniform:10ms..50ms, lognormal:p50=80ms,p99=400ms or file:PATH (one duration a line)")
	fs.StringVar((*string)(&cfg.Behaviour.Fault), "fault", "", "what befalls requests: "+strings.Join(upstream.FaultNames(), ", ")+"; empty is none")
	fs.Float64Var(&cfg.Behaviour.FaultRate, "fault-rate", 1, "the `share` of requests that the fault befalls, above 0 to 1")
	fs.IntVar(&cfg.Behaviour.BodyBytes, "body-bytes", 0, "`bytes` to which a good answer's body is padded")
	fs.Float64Var(&cfg.Scale, "scale", 1, "`factor` on every delay, above 0 to 1")
	fs.Uint64Var(&cfg.Seed, "seed", 1, "`seed` of the delays and faults that are drawn")
	fs.StringVar(&healthcheck, "healthcheck", "", cli.HealthcheckUsage)
	if err := cli.Parse(fs, args, synopsis, stdout); err != nil || healthcheck != "" {
		return cfg, healthcheck, err
	}
	if fs.NArg() > 0 {
		return cfg, "", fmt.Errorf("unexpected argument %q", fs.Arg(0))
	}
	return cfg, "", cfg.Validate()
}
