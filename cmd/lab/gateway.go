package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"chokepoint/internal/cli"
	"chokepoint/internal/lab/gateway"
)

const gatewaySynopsis = `Usage: lab gateway -to URL[,URL] [flags]

A reverse proxy on Go's net/http, as a program to drain: HTTP/1.1, and HTTP/2 without
TLS. SIGTERM makes it serve on for -pre-stop and then drain for -drain, or wait with
-exit-on-zero until its clients have closed; a second signal kills it.
It prints one line of JSON when it listens: "public" and "admin", which has /connections.
Exit codes: 0 drained, 1 failure, or connections had to be cut off, 2 usage.`

// gatewayFlags are the flags of lab gateway.
type gatewayFlags struct {
	gateway.Config
	to string
}

func (f *gatewayFlags) bind(fs *flag.FlagSet) {
	fs.StringVar(&f.Listen, "listen", "127.0.0.1:8082", "public `address`, host:port; port 0 takes a free one")
	fs.StringVar(&f.Admin, "admin", "127.0.0.1:9082", "`address` of the admin listener")
	fs.StringVar(&f.to, "to", "", "`URL`s of the servers, http://host:port, taken in turn; separated by commas")
	fs.StringVar(&f.Name, "name", "gateway", "`name` of this gateway in the ids of its connections")
	fs.DurationVar(&f.PreStop, "pre-stop", 0, "how long to serve on as before, once told to end")
	fs.DurationVar(&f.Drain, "drain", 30*time.Second, "how long requests in flight may then take, before they are cut off")
	fs.BoolVar(&f.ExitOnZero, "exit-on-zero", false, "instead of a drain: leave connections alone until the clients have closed them all")
	fs.DurationVar(&f.MaxWait, "max-wait", 10*time.Minute, "how long -exit-on-zero waits for them")
	fs.BoolVar(&f.Announce, "announce", true, "-exit-on-zero says with each answer that its connection closes (Connection: close, GOAWAY)")
	cli.FileVar(fs, &f.AccessLog, "access-log", "`file` to which a line of JSON is added for each connection accepted, request ended and connection closed")
}

// nameForm is what can stand in a header's value, and be told from the number after it.
var nameForm = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// complete reads what the flags name, and refuses what makes no sense.
func (f *gatewayFlags) complete(fs *flag.FlagSet) error {
	given := cli.Given(fs)
	switch {
	case fs.NArg() > 0:
		return fmt.Errorf("unexpected argument %q", fs.Arg(0))
	case f.to == "":
		return errors.New("-to is missing: where the requests go, such as http://127.0.0.1:8080")
	case !nameForm.MatchString(f.Name):
		return fmt.Errorf("-name %q: want up to 64 letters, digits, dots, dashes and underscores", f.Name)
	case f.PreStop < 0 || f.Drain < 0 || f.MaxWait < 0:
		return fmt.Errorf("-pre-stop %v, -drain %v, -max-wait %v: none may be below 0", f.PreStop, f.Drain, f.MaxWait)
	case f.ExitOnZero && given["drain"]:
		return errors.New("-drain and -exit-on-zero are two ways to end; give one of them (-max-wait bounds -exit-on-zero)")
	case !f.ExitOnZero && (given["max-wait"] || given["announce"]):
		return errors.New("-max-wait and -announce go with -exit-on-zero, which is not given")
	}
	for text := range strings.SplitSeq(f.to, ",") {
		to, err := url.Parse(text)
		if err != nil || to.Scheme != "http" || to.Host == "" || to.User != nil || to.RawQuery != "" {
			return fmt.Errorf("-to %q: want http://host:port, without a user and a query", text)
		}
		if port := to.Port(); port != "" {
			if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
				return fmt.Errorf("-to %q: port %s: want 1 to 65535", text, port)
			}
		}
		f.To = append(f.To, to)
	}
	return nil
}

func runGateway(ctx context.Context, args []string, stdout, stderr io.Writer) (int, error) {
	var f gatewayFlags
	fs := flag.NewFlagSet("lab gateway", flag.ContinueOnError)
	f.bind(fs)
	err := cli.Parse(fs, args, gatewaySynopsis, stdout)
	if errors.Is(err, cli.ErrDone) {
		return cli.ExitUsage, err
	}
	if err == nil {
		err = f.complete(fs)
	}
	if err != nil {
		return cli.ExitUsage, fmt.Errorf("%w (%s -h lists the flags)", err, fs.Name())
	}
	f.Logger = slog.New(slog.NewTextHandler(stderr, nil))
	g, err := gateway.Start(ctx, f.Config)
	switch {
	case ctx.Err() != nil && err != nil:
		return cli.ExitInterrupted, err
	case err != nil:
		return cli.ExitFailure, err
	}
	if err := json.NewEncoder(stdout).Encode(g.Listening()); err != nil {
		return cli.ExitFailure, errors.Join(fmt.Errorf("cannot say on stdout that it listens: %w", err), g.Close())
	}
	if err := g.Wait(ctx); err != nil {
		return cli.ExitFailure, err
	}
	return cli.ExitOK, nil
}
