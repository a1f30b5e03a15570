// Command lab builds the world, makes a service die in it, and writes down why;
// see internal/lab.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"chokepoint/internal/cli"
	"chokepoint/internal/lab"
	"chokepoint/internal/lab/netlab"
	"chokepoint/internal/lab/pgserver"
	"chokepoint/internal/lab/proc"
	"chokepoint/internal/lab/toxiproxy"
)

const usage = `Usage: lab COMMAND [flags]

  lab run exhaustion      one run: a slow upstream against a shared worker pool
  lab run deadconn        a matrix: pooled connections that died while they rested
  lab run rolling         a matrix: one of two servers behind nginx goes away
  lab run closerace       how often a request meets the close of a kept connection
  lab run drain           gateways that are ended under load, and requests that fail but are executed
  lab run drainmap        a map: how long a gateway serves on and drains, and what that loses
  lab run spread          two services behind nginx: does the outage spread, or stay?
  lab compare exhaustion  alternated runs of several profiles, and their comparison
  lab attach              the same on a service that is not the lab's own
  lab report FOLDER...    render the report of a results folder anew
  lab size                a timeout and permits for an upstream, with the reason for each
  lab advise drain        how long a gateway serves on and drains, to paste for four products
  lab dump SOURCE...      who stands where in dumps of Go or Java, and waits for what
  lab gateway             a reverse proxy of Go, as a program to drain
  lab doctor              what of the lab this machine can run, and what to do where not
  lab profiles            what protects the victim, by name
  lab version             print the version

lab COMMAND -h lists the flags of a command.
`

func main() {
	// The lab's own binary is also its reaper, its downloader, what the reaper
	// removes a proxy with, and what runs in a sandbox: the same commands.
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case proc.ReaperArg:
			os.Exit(proc.RunReaper(os.Stdin, os.Stdout, os.Stderr))
		case pgserver.DownloadArg:
			os.Exit(pgserver.RunDownload(os.Args[2:], os.Stderr))
		case toxiproxy.RemoveArg:
			os.Exit(toxiproxy.RunRemove(os.Args[2:], os.Stderr))
		case netlab.SandboxArg:
			os.Exit(netlab.RunSandbox(os.Args[2:], func(ctx context.Context, args []string) int {
				return run(ctx, args, os.Stdout, os.Stderr)
			}))
		}
	}
	os.Exit(run(cli.Context(), os.Args[1:], os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return cli.CheckStdout(ctx, "lab", stdout, stderr, func(stdout io.Writer) int {
		code, err := dispatch(ctx, args, stdout, stderr)
		switch {
		case errors.Is(err, cli.ErrDone):
			return cli.ExitOK
		case err != nil:
			return cli.Fail(stderr, "lab", code, err)
		}
		return code
	})
}

func dispatch(ctx context.Context, args []string, stdout, stderr io.Writer) (int, error) {
	if len(args) == 0 {
		fmt.Fprint(stderr, usage)
		return cli.ExitUsage, errors.New("no command given")
	}
	command, rest := args[0], args[1:]
	switch command {
	case "run":
		return runScenario(ctx, rest, stdout, stderr)
	case lab.CasesCommand:
		return lab.ServeCases(ctx, os.Stdin, stdout, stderr), nil
	case "compare":
		return compareProfiles(ctx, rest, stdout, stderr)
	case "attach":
		return attach(ctx, rest, stdout, stderr)
	case "report":
		return renderReports(rest, stdout, stderr)
	case "size":
		return chooseSize(ctx, rest, stdout, stderr)
	case "advise":
		return advise(rest, stdout)
	case "dump":
		return readDumps(ctx, rest, stdout)
	case "gateway":
		return runGateway(ctx, rest, stdout, stderr)
	case "doctor":
		return examine(ctx, rest, stdout)
	case "profiles":
		return listProfiles(rest, stdout)
	case "version", "-version", "--version":
		fmt.Fprintln(stdout, "lab", cli.Version())
		return cli.ExitOK, nil
	case "help", "-h", "-help", "--help":
		fmt.Fprint(stdout, usage)
		return cli.ExitOK, nil
	}
	return cli.ExitUsage, fmt.Errorf("unknown command %q; lab help lists them", command)
}

// scenarioName takes the scenario off the front of a command's arguments.
func scenarioName(command string, args []string) ([]string, error) {
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		if args[0] != "exhaustion" {
			return nil, fmt.Errorf("unknown scenario %q; lab help lists what there is", args[0])
		}
		return args[1:], nil
	}
	for _, arg := range args {
		switch strings.TrimLeft(arg, "-") {
		case "h", "help":
			return args, nil
		}
	}
	return nil, fmt.Errorf("name the scenario: lab %s exhaustion [flags]", command)
}
