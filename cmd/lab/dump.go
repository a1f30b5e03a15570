package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"chokepoint/internal/cli"
	"chokepoint/internal/evidence/dumps"
	"chokepoint/internal/evidence/stacks"
	"chokepoint/internal/result"
)

const dumpSynopsis = `Usage: lab dump [flags] FILE|RUN|URL|-...

Reads dumps of Go goroutines (pprof debug=1 and debug=2, SIGQUIT, a panic) and of
Java threads (jstack, jcmd Thread.print and Thread.dump_to_file -format=json, Spring
Boot's /actuator/threaddump), compressed or not, and says who stands where and waits
for what. Several, in the order in which they were taken, make a timeline.

  lab dump results/<run>
  lab dump 'http://127.0.0.1:6060/debug/pprof/goroutine?debug=2'
  jstack 4242 | lab dump -by state -
  lab dump -assert 'upstream_read == 20' -assert 'wait:lock < 5' dump.txt`

// dumpSchema is the version of the -json of lab dump.
const dumpSchema = "chokepoint/dump/v1"

// dumpFlags are the flags of lab dump.
type dumpFlags struct {
	axis       stacks.Axis
	assertions []dumps.Assertion
	asJSON     bool
	top        int
	examples   bool
	options    dumps.Options
}

func (f *dumpFlags) bind(fs *flag.FlagSet) {
	f.axis = stacks.ByPlace
	fs.Func("by", "group by `axis`: where (with state and frame), wait, state, frame (the telling one), stack, creator or name (default where)", func(text string) error {
		f.axis = stacks.Axis(text)
		if !slices.Contains(stacks.Axes(), f.axis) {
			return fmt.Errorf("want one of %v", stacks.Axes())
		}
		return nil
	})
	fs.Func("assert", "a `condition` on a count, such as 'upstream_read == 20', that every dump must meet, or idle@last == 200 for one; may be repeated; 99 if one is not met", func(text string) error {
		a, err := dumps.ParseAssertion(text)
		f.assertions = append(f.assertions, a)
		return err
	})
	fs.BoolVar(&f.asJSON, "json", false, "print JSON")
	fs.IntVar(&f.top, "top", 20, "how many groups to print; 0 for all (JSON has all)")
	fs.BoolVar(&f.examples, "stacks", false, "print one stack of each group")
	fs.DurationVar(&f.options.Timeout, "timeout", 30*time.Second, "how long a URL may take, to its last byte")
	fs.Int64Var(&f.options.MaxBytes, "max-bytes", 1<<30, "how many bytes a URL may answer")
}

// parse reads flags and sources, in any order.
func (f *dumpFlags) parse(args []string, stdout io.Writer) (sources []string, err error) {
	fs := flag.NewFlagSet("lab dump", flag.ContinueOnError)
	f.bind(fs)
	if err := cli.Parse(fs, args, dumpSynopsis, stdout); err != nil {
		if errors.Is(err, cli.ErrDone) {
			return nil, err
		}
		return nil, fmt.Errorf("%w (lab dump -h lists the flags)", err)
	}
	for fs.NArg() > 0 {
		sources = append(sources, fs.Arg(0))
		if err := fs.Parse(fs.Args()[1:]); err != nil {
			return nil, fmt.Errorf("%w (lab dump -h lists the flags)", err)
		}
	}
	switch {
	case len(sources) == 0:
		return nil, errors.New("name a dump: lab dump FILE, the folder of a run, a URL, or - for stdin")
	case f.top < 0:
		return nil, fmt.Errorf("-top %d: want 0 or more", f.top)
	case f.options.Timeout <= 0:
		return nil, fmt.Errorf("-timeout %v: want more than 0", f.options.Timeout)
	case f.options.MaxBytes <= 0:
		return nil, fmt.Errorf("-max-bytes %d: want more than 0", f.options.MaxBytes)
	}
	if first := slices.Index(sources, "-"); first >= 0 && slices.Contains(sources[first+1:], "-") {
		return nil, errors.New("- is named twice; stdin can be read once")
	}
	return sources, nil
}

// dumpReport is the -json of lab dump.
type dumpReport struct {
	Schema   string       `json:"schema"`
	By       stacks.Axis  `json:"by"`
	Dumps    []dumps.Dump `json:"dumps"`
	Timeline []stacks.Row `json:"timeline,omitempty"` // of several dumps
	Changes  []stacks.Row `json:"changes,omitempty"`  // rows that differ from the first dump to the last
	Asserted []dumps.Held `json:"assertions,omitempty"`
}

func readDumps(ctx context.Context, args []string, stdout io.Writer) (int, error) {
	var f dumpFlags
	sources, err := f.parse(args, stdout)
	if err != nil {
		return cli.ExitUsage, err
	}
	f.options.Stdin = os.Stdin
	report := dumpReport{Schema: dumpSchema, By: f.axis}
	for _, source := range expanded(sources) {
		read, err := readDump(ctx, source, f)
		if err != nil {
			return dumpCode(ctx, err), err
		}
		report.Dumps = append(report.Dumps, read...)
	}
	if len(report.Dumps) > 1 {
		if report.Timeline, err = dumps.Timeline(report.Dumps); err != nil {
			return cli.ExitUsage, err
		}
		report.Changes = stacks.Changes(report.Timeline, 0, len(report.Dumps)-1)
	}
	code := cli.ExitOK
	for _, a := range f.assertions {
		held, err := a.Hold(report.Dumps)
		if err != nil {
			return cli.ExitUsage, err
		}
		report.Asserted = append(report.Asserted, held...)
	}
	if slices.ContainsFunc(report.Asserted, func(h dumps.Held) bool { return !h.OK }) {
		code = cli.ExitThreshold
	}
	if !f.asJSON {
		printDumps(stdout, report, f)
		return code, nil
	}
	encoder := json.NewEncoder(stdout)
	encoder.SetIndent("", "  ")
	return code, encoder.Encode(report)
}

// expanded puts the dumps of a run, in order, in the place of its folder.
func expanded(sources []string) []string {
	var all []string
	for _, source := range sources {
		files, _ := filepath.Glob(filepath.Join(source, result.DumpsDir, "*")) // a name that is no pattern matches nothing
		files = slices.DeleteFunc(files, func(file string) bool {
			name := strings.TrimSuffix(file, ".gz")
			return !strings.HasSuffix(name, ".txt") && !strings.HasSuffix(name, ".json")
		})
		if len(files) == 0 {
			files = []string{source}
		}
		all = append(all, files...)
	}
	return all
}

func readDump(ctx context.Context, source string, f dumpFlags) ([]dumps.Dump, error) {
	in, err := dumps.Open(ctx, source, f.options)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	return dumps.Read(in, in.Name, f.axis)
}

// dumpCode is the exit code of a dump that could not be read.
func dumpCode(ctx context.Context, err error) int {
	malformed, unusable := (*dumps.FormatError)(nil), (*dumps.URLError)(nil)
	switch {
	case ctx.Err() != nil:
		return cli.ExitInterrupted
	case errors.As(err, &malformed), errors.As(err, &unusable):
		return cli.ExitUsage
	}
	return cli.ExitFailure
}
