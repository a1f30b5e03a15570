// Command victim is the service that dies; see internal/service/victim.
//
// It prints one line of JSON (adminapi.Listening) on stdout when both of its
// listeners are open and its database is warm, and logs to stderr.
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
	"time"

	"chokepoint/internal/cli"
	"chokepoint/internal/profile"
	"chokepoint/internal/service/victim"
)

const synopsis = `Usage: victim -database-url URL [flags]

A service with one shared worker pool: /fast reads a row, /upstream calls a peer.`

func main() {
	os.Exit(run(cli.Context(), os.Args[1:], os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return cli.CheckStdout(ctx, "victim", stdout, stderr, func(stdout io.Writer) int {
		return serve(ctx, args, stdout, stderr)
	})
}

// serve runs the server until ctx ends, or does what else the flags ask for.
func serve(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	cfg, healthcheck, err := parse(args, stdout)
	switch {
	case errors.Is(err, cli.ErrDone):
		return cli.ExitOK
	case err != nil:
		return cli.Fail(stderr, "victim", cli.ExitUsage, fmt.Errorf("%w (victim -h lists the flags)", err))
	case healthcheck != "":
		if err := cli.Healthcheck(ctx, healthcheck); err != nil {
			return cli.Fail(stderr, "victim", cli.ExitFailure, err)
		}
		return cli.ExitOK
	}
	cfg.Logger = slog.New(slog.NewTextHandler(stderr, nil))

	v, err := victim.Start(ctx, cfg)
	if ctx.Err() != nil {
		return cli.ExitInterrupted
	}
	if err != nil {
		return cli.Fail(stderr, "victim", cli.ExitFailure, err)
	}
	if err := json.NewEncoder(stdout).Encode(v.Listening()); err != nil {
		return cli.Fail(stderr, "victim", cli.ExitFailure, err)
	}
	err = v.Wait(ctx)
	closing, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	v.Close(closing)
	if err != nil {
		return cli.Fail(stderr, "victim", cli.ExitFailure, err)
	}
	return cli.ExitOK
}

func parse(args []string, stdout io.Writer) (cfg victim.Config, healthcheck string, err error) {
	var (
		chosen profile.Flags
		scale  float64
		noDB   bool
	)
	fs := flag.NewFlagSet("victim", flag.ContinueOnError)
	chosen.Bind(fs)
	fs.Float64Var(&scale, "scale", 1, "`factor` on every duration of the profile, 0.05 to 1")
	fs.StringVar(&cfg.Listen, "listen", "127.0.0.1:8080", "public `address`; port 0 takes a free one")
	fs.StringVar(&cfg.Admin, "admin", "127.0.0.1:9080", "`address` of the admin listener")
	fs.StringVar(&cfg.UpstreamURL, "upstream", "http://127.0.0.1:8081/", "`URL` that /upstream calls")
	fs.StringVar(&cfg.DatabaseURL, "database-url", "", "PostgreSQL `URL` (default: $DATABASE_URL; one of them is required)")
	fs.BoolVar(&noDB, "no-database", false, "do without PostgreSQL: /fast answers 503, and there is no /work")
	fs.IntVar(&cfg.DatabaseConns, "database-conns", 10, "connections to PostgreSQL")
	cfg.DatabasePool.Bind(fs)
	fs.IntVar(&cfg.MinWorkers, "min-workers", 10, "workers at the start (a servlet container's min-spare threads)")
	fs.IntVar(&cfg.MaxWorkers, "max-workers", 200, "workers at most (its max threads)")
	fs.IntVar(&cfg.AcceptBacklog, "accept-backlog", 100, "connections that the kernel holds unaccepted (its accept count)")
	fs.IntVar(&cfg.MaxConnections, "max-connections", 8192, "connections accepted at a time (its max connections)")
	cfg.Work.Bind(fs)
	fs.StringVar(&healthcheck, "healthcheck", "", cli.HealthcheckUsage)
	if err := cli.Parse(fs, args, synopsis, stdout); err != nil || healthcheck != "" {
		return cfg, healthcheck, err
	}
	switch {
	case noDB && (cfg.DatabaseURL != "" || cfg.Work.Table != ""):
		return cfg, "", errors.New("-no-database: there is nothing to do with -database-url or -work-table; leave them out")
	case !noDB && cfg.DatabaseURL == "":
		cfg.DatabaseURL = os.Getenv("DATABASE_URL")
	}
	p, err := chosen.Profile()
	switch {
	case err != nil:
		return cfg, "", err
	case fs.NArg() > 0:
		return cfg, "", fmt.Errorf("unexpected argument %q", fs.Arg(0))
	case !(scale >= 0.05 && scale <= 1): // so that NaN is refused too
		return cfg, "", fmt.Errorf("-scale %v: want 0.05 to 1", scale)
	case cfg.DatabaseURL == "" && !noDB:
		return cfg, "", errors.New("-database-url or DATABASE_URL is required: a PostgreSQL URL such as postgres://user@127.0.0.1:5432/postgres; or -no-database for /upstream alone")
	case cfg.DatabaseConns < 1:
		return cfg, "", fmt.Errorf("-database-conns %d: want at least 1", cfg.DatabaseConns)
	case cfg.AcceptBacklog < 1:
		return cfg, "", fmt.Errorf("-accept-backlog %d: want at least 1", cfg.AcceptBacklog)
	case cfg.MaxConnections < 1:
		return cfg, "", fmt.Errorf("-max-connections %d: want at least 1", cfg.MaxConnections)
	case cfg.MinWorkers < 0 || cfg.MaxWorkers < 1 || cfg.MinWorkers > cfg.MaxWorkers:
		return cfg, "", fmt.Errorf("-min-workers %d, -max-workers %d: want 0 <= min <= max and max >= 1", cfg.MinWorkers, cfg.MaxWorkers)
	}
	cfg.Profile = p.Scaled(scale)
	if err := cfg.DatabasePool.Validate(); err != nil {
		return cfg, "", err
	}
	return cfg, "", cfg.Work.Validate()
}
