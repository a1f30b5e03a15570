// Command upstream is the stub that the victim calls; see internal/service/upstream.
//
// It prints one line of JSON (adminapi.Listening) on stdout when both of its
// listeners are open, and logs to stderr. SIGINT and SIGTERM end it at once,
// whatever waits, or with -shutdown graceful when it has answered what it had begun;
// a second signal kills it. Exit codes: 0 ended as told, 1 failure or a request cut
// off at the end of a graceful shutdown, 2 usage, 130 interrupted before it listened.
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
	"time"

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
	o, err := parse(args, stdout)
	switch {
	case errors.Is(err, cli.ErrDone):
		return cli.ExitOK
	case err != nil:
		return fail(cli.ExitUsage, fmt.Errorf("%w (upstream -h lists the flags)", err))
	case o.healthcheck != "":
		if err := cli.Healthcheck(ctx, o.healthcheck); err != nil {
			return fail(cli.ExitFailure, err)
		}
		return cli.ExitOK
	}
	o.Logger = slog.New(slog.NewTextHandler(stderr, nil))

	server, err := upstream.Start(ctx, o.Config)
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
	if err := o.end(server); err != nil {
		return fail(cli.ExitFailure, err)
	}
	return cli.ExitOK
}

// The ways in which a signal ends the stub.
const (
	shutdownImmediate = "immediate"
	shutdownGraceful  = "graceful"
)

// options are what the flags say.
type options struct {
	upstream.Config
	shutdown        string
	shutdownTimeout time.Duration
	healthcheck     string // a URL to ask instead of starting a server
}

// end ends the server as the flags say.
func (o options) end(server *upstream.Server) error {
	if o.shutdown == shutdownImmediate {
		return server.Close()
	}
	ctx, cancel := context.WithTimeout(context.Background(), o.shutdownTimeout)
	defer cancel()
	return server.Shutdown(ctx)
}

// parse reads the settings and refuses what cannot be had.
func parse(args []string, stdout io.Writer) (o options, err error) {
	cfg := &o.Config
	defaults := upstream.Config{}.WithDefaults()
	fs := flag.NewFlagSet("upstream", flag.ContinueOnError)
	fs.StringVar(&cfg.Listen, "listen", defaults.Listen, "public `address`, host:port; port 0 takes a free one")
	fs.StringVar(&cfg.Admin, "admin", defaults.Admin, "`address` of the admin listener; anyone who reaches it controls the stub")
	fs.StringVar(&cfg.Behaviour.Delay, "delay", defaults.Behaviour.Delay,
		"time to the answer: a `duration`, uniform:10ms..50ms, lognormal:p50=80ms,p99=400ms or file:PATH (one duration a line)")
	fs.StringVar((*string)(&cfg.Behaviour.Fault), "fault", "", "what befalls requests: "+strings.Join(upstream.FaultNames(), ", ")+"; empty is none")
	fs.Float64Var(&cfg.Behaviour.FaultRate, "fault-rate", 1, "the `share` of requests that the fault befalls, above 0 to 1")
	fs.IntVar(&cfg.Behaviour.BodyBytes, "body-bytes", 0, "`bytes` to which a good answer's body is padded")
	fs.IntVar(&cfg.Behaviour.FaultFirst, "fault-first", 0, "the fault befalls only the first `n` requests; 0 is all")
	fs.IntVar(&cfg.Behaviour.FaultStatus, "fault-status", 0, "`status` of the fault status, such as 429 or 503")
	fs.BoolVar(&cfg.Behaviour.CloseAnswers, "close-answers", false, "send Connection: close with every answer")
	fs.StringVar(&cfg.Behaviour.IdleTimeout, "idle-timeout", "", "`duration` that a connection may rest after an answer; empty is for ever")
	fs.StringVar((*string)(&cfg.Behaviour.IdleEnd), "idle-end", "", "how it then ends: "+strings.Join(upstream.IdleEndNames(), ", ")+
		" (default fin); half sends a FIN and goes on reading")
	fs.StringVar(&cfg.Name, "name", defaults.Name, "`name` of this server in the ids of its connections and in the request log")
	cli.FileVar(fs, &cfg.RequestLog, "request-log", "`file` to which each run of the handler is added, a line of JSON when it begins and one when it ends")
	fs.StringVar(&o.shutdown, "shutdown", shutdownImmediate, "what a signal does: immediate cuts off what is in flight, graceful answers it")
	fs.DurationVar(&o.shutdownTimeout, "shutdown-timeout", 30*time.Second, "`duration` after which a graceful shutdown cuts off the rest")
	fs.Float64Var(&cfg.Scale, "scale", 1, "`factor` on every delay that is drawn, above 0 to 1")
	fs.Uint64Var(&cfg.Seed, "seed", 1, "`seed` of the delays and faults that are drawn")
	fs.StringVar(&o.healthcheck, "healthcheck", "", cli.HealthcheckUsage)
	if err := cli.Parse(fs, args, synopsis, stdout); err != nil || o.healthcheck != "" {
		return o, err
	}
	switch {
	case fs.NArg() > 0:
		return o, fmt.Errorf("unexpected argument %q", fs.Arg(0))
	case o.shutdown != shutdownImmediate && o.shutdown != shutdownGraceful:
		return o, fmt.Errorf("-shutdown %q: choose one of %s, %s", o.shutdown, shutdownImmediate, shutdownGraceful)
	case o.shutdownTimeout <= 0:
		return o, fmt.Errorf("-shutdown-timeout %v: must be above 0", o.shutdownTimeout)
	}
	return o, cfg.Validate()
}
