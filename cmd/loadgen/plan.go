package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"chokepoint/internal/cli"
	"chokepoint/internal/load/plan"
	"chokepoint/internal/result"
)

const planSynopsis = `Usage: loadgen plan [-check] [flags] plan.yaml
       loadgen plan [-check] [flags] URL

Shows the plan that loadgen would play with the same flags, and what it needs of
this machine: arrivals, workers, connections, files, ports and memory. Nothing is
sent. -json writes the plan and not a result; the other outputs are not written.

Exit codes: 0 the plan is good, 1 failure, 2 it is not, with a line for each fault.`

// showPlan is the subcommand: it returns the exit code.
func showPlan(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	check := false
	c := newCommandLine("loadgen plan")
	c.fs.BoolVar(&check, "check", false, "a plan that this machine cannot carry is a fault too")
	groups := append([]cli.Group{{Title: "What is shown", Flags: []string{"check"}}}, groups()...)
	if err := cli.ParseGrouped(c.fs, args, planSynopsis, groups, stdout); err != nil {
		return c.refuse(err, stderr)
	}
	urls := c.fs.Args()
	if len(urls) == 1 && !strings.Contains(urls[0], "://") {
		if cli.Given(c.fs)["plan"] {
			return c.refuse(fmt.Errorf("two plans: %s and that of -plan; give one", urls[0]), stderr)
		}
		if err := c.fs.Set("plan", urls[0]); err != nil {
			return c.refuse(err, stderr)
		}
		urls = nil
	}
	o, p, err := c.settle(urls)
	if err != nil {
		return c.refuse(err, stderr)
	}
	effective := p.Effective()
	if check && effective.Needs.Lacks != "" {
		return cli.Fail(stderr, "loadgen", cli.ExitUsage, errors.New(effective.Needs.Lacks))
	}
	if o.json != "" {
		out := outputFile{"json", o.json}
		if err := out.write(ctx, func() error { return result.WriteJSON(o.json, effective) }); err != nil {
			return cli.Fail(stderr, "loadgen", cli.ExitFailure, out.unwritable(err))
		}
	}
	effective.Print(stdout)
	return cli.ExitOK
}

// refuse prints what is wrong with the command line, a line for each fault, and
// returns the exit code.
func (c *commandLine) refuse(err error, stderr io.Writer) int {
	if errors.Is(err, cli.ErrDone) {
		return cli.ExitOK
	}
	faults, ok := errors.AsType[plan.Faults](err)
	if !ok {
		return cli.Fail(stderr, "loadgen", cli.ExitUsage, withHint(err, c.fs.Name()))
	}
	for _, fault := range faults {
		cli.Fail(stderr, "loadgen", cli.ExitUsage, fault)
	}
	return cli.ExitUsage
}

// withHint adds where the flags of the program are listed to an error of them. A
// fault of the plan has its remedy already.
func withHint(err error, program string) error {
	if _, ok := errors.AsType[plan.Faults](err); ok {
		return err
	}
	return fmt.Errorf("%w (%s -h lists the flags)", err, program)
}
