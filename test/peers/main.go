//go:build linux

// Command peers runs the load generators that are installed beside loadgen, under
// the same loads against the same server, and writes what each did: `make
// bench-peers`. Arrivals are taken from the server's clock. The server has a core,
// the generator another; every cell runs once in a round, in turn, so that a
// machine that becomes slower does not do so for one of them.
//
// It refuses to install anything, and to guess: a tool that is not there is left
// out by name, and a run that fails is named with its reason.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"chokepoint/internal/cli"
)

func main() {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case roleServer:
			os.Exit(serve(os.Args[2:], os.Stdin, os.Stdout, os.Stderr))
		case roleSpinref:
			os.Exit(spin(os.Args[2:], os.Stdout, os.Stderr))
		}
	}
	os.Exit(run(cli.Context(), os.Args[1:], os.Stdout, os.Stderr))
}

const synopsis = `Usage: peers [flags]

Runs the load generators that are installed beside loadgen, pinned and in turn, and
compares them: arrivals by the server's clock, CPU, memory, and what each reports of
a server that stalls. Tools are looked for in $PEERS_DIR and then on the PATH.`

// options is the command line.
type options struct {
	loadgen string
	dir     string // of peers
	results string
	rounds  int
	short   bool
	only    string
	network bool
}

func parse(args []string, stdout io.Writer) (options, error) {
	var o options
	fs := flag.NewFlagSet("peers", flag.ContinueOnError)
	fs.StringVar(&o.loadgen, "loadgen", "bin/loadgen", "`path` of loadgen")
	fs.StringVar(&o.dir, "peers-dir", os.Getenv("PEERS_DIR"), "`folder` that tools are looked for in first")
	fs.StringVar(&o.results, "results", "results", "`folder` for the tables")
	fs.IntVar(&o.rounds, "rounds", 3, "how `often` every cell is run")
	fs.BoolVar(&o.short, "short", false, "a few minutes: one round, and shorter windows, which prove nothing")
	fs.StringVar(&o.only, "only", "", "`parts`, with commas: "+strings.Join(partNames(), ", "))
	fs.BoolVar(&o.network, "netns", os.Geteuid() == 0, "run in a network namespace of its own, whose loopback no firewall's rules slow down (root only)")
	if err := cli.Parse(fs, args, synopsis, stdout); err != nil {
		return o, err
	}
	if o.short && !slices.ContainsFunc(args, func(a string) bool { return strings.HasPrefix(strings.TrimLeft(a, "-"), "rounds") }) {
		o.rounds = 1
	}
	switch {
	case fs.NArg() > 0:
		return o, fmt.Errorf("unexpected argument %q", fs.Arg(0))
	case o.rounds < 1:
		return o, fmt.Errorf("-rounds %d: give one or more", o.rounds)
	}
	for name := range strings.SplitSeq(o.only, ",") {
		if name != "" && !slices.Contains(partNames(), name) {
			return o, fmt.Errorf("-only %q: the parts are %s", name, strings.Join(partNames(), ", "))
		}
	}
	return o, nil
}

// partNames are the names that -only takes.
func partNames() []string {
	var names []string
	for _, p := range full.parts(nil) {
		if !slices.Contains(names, p.name) {
			names = append(names, p.name)
		}
	}
	return names
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parse(args, stdout)
	switch {
	case errors.Is(err, cli.ErrDone):
		return cli.ExitOK
	case err != nil:
		return cli.Fail(stderr, "peers", cli.ExitUsage, err)
	}
	if o.network {
		if err := ownNetwork(); err != nil {
			return cli.Fail(stderr, "peers", cli.ExitFailure, fmt.Errorf("%w; -netns=false does without", err))
		}
	}
	r, err := compare(ctx, o, stderr)
	if err == nil {
		err = r.write(o.results, stdout)
	}
	switch {
	case err != nil:
		return cli.Fail(stderr, "peers", cli.ExitFailure, err)
	case r.Interrupted:
		return cli.ExitInterrupted
	}
	return cli.ExitOK
}

// compare measures everything. If ctx ends, the report has the parts that were
// measured whole.
func compare(ctx context.Context, o options, progress io.Writer) (*report, error) {
	if _, err := exec.LookPath("taskset"); err != nil {
		return nil, errors.New("taskset is not on the PATH; install util-linux")
	}
	generatorCPU, serverCPU, err := twoCPUs()
	if err != nil {
		return nil, err
	}
	loadgenPath, err := filepath.Abs(o.loadgen)
	if err != nil {
		return nil, err
	}
	found, missing, err := find(ctx, tools(loadgenPath), o.dir)
	if err != nil {
		return nil, err
	}
	if slices.Contains(missing, loadgen) {
		return nil, fmt.Errorf("no loadgen at %s; run make build, or give -loadgen", o.loadgen)
	}
	if err := raiseFileLimit(full.held); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "peers-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	b := &bench{tools: map[string]installed{}, self: self, dir: dir, serverCPU: serverCPU, generatorCPU: generatorCPU}
	for _, t := range found {
		b.tools[t.name] = t
	}
	s := full
	if o.short {
		s = short
	}
	r := newReport(o, found, missing)
	for _, p := range s.parts(found) {
		if o.only != "" && !slices.Contains(strings.Split(o.only, ","), p.name) {
			continue
		}
		samples, err := b.rounds(ctx, p, o.rounds, progress)
		if err != nil {
			r.Interrupted = true
			break
		}
		r.add(b, p, samples)
	}
	r.LoadAfter = loadAverage()
	return r, nil
}

// rounds runs every cell of the part once in each round. The error is ctx's.
func (b *bench) rounds(ctx context.Context, p part, n int, progress io.Writer) (medians, error) {
	samples := medians{}
	for round := range n {
		for _, c := range p.cells {
			s, err := b.run(ctx, c)
			if err != nil {
				return nil, err
			}
			samples[c.label] = append(samples[c.label], s)
			fmt.Fprintf(progress, "%s %s, round %d of %d: %s: %d arrived, %.2f s CPU%s\n",
				time.Now().UTC().Format(time.TimeOnly), p.name, round+1, n, c.label, s.Arrived, s.CPUSeconds, prefixed(", failed: ", s.Failed))
		}
	}
	return samples, nil
}

func prefixed(prefix, text string) string {
	if text == "" {
		return ""
	}
	return prefix + text
}

// twoCPUs are the first and the last CPU that this process may use.
func twoCPUs() (first, last int, err error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return 0, 0, fmt.Errorf("sched_getaffinity: %w", err)
	}
	first = -1
	for cpu := range 8 * len(set) * 8 {
		if set.IsSet(cpu) {
			if first < 0 {
				first = cpu
			}
			last = cpu
		}
	}
	if first == last {
		return first, last, errors.New("one CPU: generator and server need one each")
	}
	return first, last, nil
}

// raiseFileLimit allows this process and what it starts so many connections.
func raiseFileLimit(connections int) error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("getrlimit: %w", err)
	}
	need := uint64(connections + 200)
	if limit.Max < need {
		return fmt.Errorf("%d open files are allowed, and %d are needed; raise the limit (ulimit -Hn)", limit.Max, need)
	}
	limit.Cur = limit.Max
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("setrlimit: %w", err)
	}
	return nil
}
