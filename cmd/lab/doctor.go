package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"

	"chokepoint/internal/cli"
	"chokepoint/internal/lab/doctor"
	"chokepoint/internal/lab/netlab"
)

const doctorSynopsis = `Usage: lab doctor [-json]

Says what of the lab this machine can run, by trying it, and what to do where it
cannot. It changes nothing and takes a few seconds.
Exit codes: 0 whatever it found, 1 failure, 2 usage, 130 interrupted.`

// examine is lab doctor. In a sandbox it is the lab that makes the tries there.
func examine(ctx context.Context, args []string, stdout io.Writer) (int, error) {
	if netlab.Inside() {
		if err := doctor.Inside(ctx, stdout); err != nil {
			return cli.ExitFailure, err
		}
		return cli.ExitOK, nil
	}
	fs := flag.NewFlagSet("doctor", flag.ContinueOnError)
	asJSON := fs.Bool("json", false, "print the findings as JSON")
	if err := cli.Parse(fs, args, doctorSynopsis, stdout); err != nil {
		return cli.ExitUsage, err
	}
	if fs.NArg() > 0 {
		return cli.ExitUsage, fmt.Errorf("unexpected argument %q; lab doctor has flags only", fs.Arg(0))
	}
	report, err := doctor.Examine(ctx, []string{"doctor"})
	switch {
	case ctx.Err() != nil:
		return cli.ExitInterrupted, errors.New("interrupted")
	case err != nil:
		return cli.ExitFailure, err
	}
	if *asJSON {
		encoder := json.NewEncoder(stdout)
		encoder.SetIndent("", "  ")
		return cli.ExitOK, encoder.Encode(report)
	}
	printFindings(stdout, report)
	return cli.ExitOK, nil
}

func printFindings(w io.Writer, report doctor.Report) {
	var missing []doctor.Finding
	for _, f := range report.Checks {
		if f.OK {
			fmt.Fprintf(w, "yes  %-16s %s\n", f.Name, cli.Printable(f.Found))
			continue
		}
		fmt.Fprintf(w, "no   %-16s %s\n", f.Name, cli.Printable(f.Problem))
		if f.Remedy != "" {
			missing = append(missing, f)
		}
	}
	if len(missing) == 0 {
		fmt.Fprintln(w, "\nThis machine can run all of the lab.")
		return
	}
	fmt.Fprintln(w)
	for _, f := range missing {
		fmt.Fprintf(w, "%s (for %s)\n  %s\n", f.Name, f.NeededFor, f.Remedy)
	}
}
