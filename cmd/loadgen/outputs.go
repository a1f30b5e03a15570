package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"chokepoint/internal/cli"
	"chokepoint/internal/load/engine"
	"chokepoint/internal/load/latency"
	"chokepoint/internal/load/ledger"
	"chokepoint/internal/load/merge"
	"chokepoint/internal/result"
)

// endpointMark stands for the endpoint's name in the name of an -hgrm file, and
// partMark for which responses are in it.
const (
	endpointMark = "{endpoint}"
	partMark     = "{part}"
)

// distribution is what an -hgrm file is of.
type distribution struct {
	path, endpoint string
	of             func(engine.Timings) *latency.Histogram
}

// distributions are the -hgrm files of the endpoints: those of all responses, and
// where the pattern has the mark also those of each part.
func distributions(pattern string, endpoints []string) []distribution {
	if pattern == "" {
		return nil
	}
	parts := []struct {
		name string
		of   func(engine.Timings) *latency.Histogram
	}{
		{"all", func(t engine.Timings) *latency.Histogram { return t.Response }},
		{"ok", func(t engine.Timings) *latency.Histogram { return t.OKResponse }},
		{"failed", func(t engine.Timings) *latency.Histogram { return t.FailedResponse }},
	}
	if !strings.Contains(pattern, partMark) {
		parts = parts[:1]
	}
	var files []distribution
	for _, endpoint := range endpoints {
		for _, part := range parts {
			path := strings.NewReplacer(endpointMark, endpoint, partMark, part.name).Replace(pattern)
			files = append(files, distribution{path, endpoint, part.of})
		}
	}
	return files
}

// outputFile is a file that a flag asks for.
type outputFile struct{ flag, path string }

// outputFiles are the files that the run will write.
func (o options) outputFiles() []outputFile {
	files := []outputFile{{"json", o.json}, {"requests", o.requests}, {"hlog", o.hlog}, {"per-second", o.perSecond}}
	for _, d := range distributions(o.hgrm, endpointNames(o.plan)) {
		files = append(files, outputFile{"hgrm", d.path})
	}
	return slices.DeleteFunc(files, func(f outputFile) bool { return f.path == "" })
}

// unwritable says that the file could not be written, and why.
func (f outputFile) unwritable(err error) error {
	if pathError, ok := errors.AsType[*fs.PathError](err); ok {
		err = pathError.Err
	}
	return fmt.Errorf("-%s: cannot write %s: %w; choose another place", f.flag, f.path, err)
}

// write calls do, which writes the file. A pipe or a device is not waited for for ever
// once ctx has ended; a file on a slow disk is, since a result would be lost.
func (f outputFile) write(ctx context.Context, do func() error) error {
	if info, err := os.Stat(f.path); err != nil || info.Mode().IsRegular() {
		return do()
	}
	return cli.Await(ctx, do)
}

// create begins the file.
func (f outputFile) create(ctx context.Context) (*result.File, error) {
	created := make(chan *result.File, 1)
	err := f.write(ctx, func() error {
		file, err := result.Create(f.path)
		created <- file
		return err
	})
	if err != nil {
		return nil, err
	}
	return <-created, nil
}

// overwrites refuses an output that would take the place of a result that is read,
// or of the log beside it.
func (f outputFile) overwrites(paths []string) error {
	if f.path == "" {
		return nil
	}
	for _, path := range paths {
		for _, input := range []string{path, merge.LogBeside(path)} {
			if result.SameFile(f.path, input) {
				return fmt.Errorf("-%s %s would overwrite %s, which is read; choose another place", f.flag, f.path, input)
			}
		}
	}
	return nil
}

// outputs are the files of a run. Each appears whole at the end, or not at all.
type outputs struct {
	options options
	// Written while the run goes on: an hour of them does not belong in memory.
	// nil if not wanted.
	hlog, perSecond *result.File
	rows            *csv.Writer // of perSecond
}

// openOutputs finds out before the load whether its files can be written.
func openOutputs(ctx context.Context, o options) (*outputs, error) {
	out := &outputs{options: o}
	for _, f := range o.outputFiles() {
		var err error
		switch f.flag {
		case "hlog":
			out.hlog, err = f.create(ctx)
		case "per-second":
			out.perSecond, err = f.create(ctx)
		default:
			err = result.Probe(f.path)
		}
		if err != nil {
			out.discard()
			return nil, f.unwritable(err)
		}
	}
	if out.perSecond != nil {
		out.rows = csv.NewWriter(cli.Awaited(ctx, out.perSecond))
		out.rows.Write(perSecondHeader())
	}
	return out, nil
}

// log is where the interval log goes; nil if none is wanted.
func (out *outputs) log(ctx context.Context) io.Writer {
	if out.hlog == nil {
		return nil
	}
	return cli.Awaited(ctx, out.hlog)
}

func perSecondHeader() []string {
	return []string{"second", "endpoint", "scheduled", "started", "dropped", "ok", "failed", "p50_ms", "p99_ms", "max_ms", "in_flight", "generator_cpu_percent", "pacer_cpu_percent"}
}

// second writes the rows of -per-second, if they are wanted. What goes wrong is
// known at the end, from the csv.Writer.
func (out *outputs) second(s engine.Second) {
	if out.rows == nil {
		return
	}
	cpu, pacer := "", ""
	if s.Generator.CPUPercent > 0 {
		cpu, pacer = tenth(s.Generator.CPUPercent), tenth(s.Generator.PacerPercent)
	}
	for _, e := range s.Endpoints {
		p50, p99, longest := "", "", ""
		if response := e.Timings.Response.Percentiles(); response.Count > 0 {
			p50, p99, longest = number(response.P50), number(response.P99), number(response.Max)
		}
		out.rows.Write([]string{
			strconv.Itoa(int(s.From / time.Second)), e.Name,
			strconv.Itoa(e.Scheduled), strconv.Itoa(e.Started), strconv.Itoa(e.Dropped),
			strconv.Itoa(e.Outcomes[ledger.OK]), strconv.Itoa(e.Outcomes.Failed()),
			p50, p99, longest, strconv.Itoa(e.InFlight),
			cpu, pacer,
		})
	}
}

func tenth(v float64) string { return strconv.FormatFloat(v, 'f', 1, 64) }

func number(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// commit writes every file of the run. One that cannot be written costs no other,
// and the error names each. unlogged is what went wrong with the interval log while
// the run went on.
func (out *outputs) commit(ctx context.Context, r *engine.Report, unlogged error) error {
	var failed []error
	check := func(flag, path string, err error) {
		if err != nil {
			failed = append(failed, outputFile{flag, path}.unwritable(err))
		}
	}
	write := func(flag, path string, do func() error) {
		check(flag, path, outputFile{flag, path}.write(ctx, do))
	}
	o := out.options
	if unlogged == nil {
		unlogged = commitFile(&out.hlog)
	}
	check("hlog", o.hlog, unlogged)
	check("per-second", o.perSecond, out.commitSeconds())
	for _, d := range distributions(o.hgrm, endpointNames(o.plan)) {
		var text bytes.Buffer
		if err := d.of(r.Timings[d.endpoint]).WriteDistribution(&text); err != nil {
			check("hgrm", d.path, err)
			continue
		}
		write("hgrm", d.path, func() error { return result.WriteFile(d.path, text.Bytes()) })
	}
	if o.requests != "" {
		rows := requestRows(r.Requests)
		write("requests", o.requests, func() error { return result.WriteRequests(o.requests, rows) })
	}
	// Last: whoever waits for the result finds the other files complete.
	if o.json != "" {
		write("json", o.json, func() error { return result.WriteJSON(o.json, r.Load) })
	}
	return errors.Join(failed...)
}

// commitSeconds ends the file of -per-second.
func (out *outputs) commitSeconds() error {
	if out.rows == nil {
		return nil
	}
	out.rows.Flush()
	if err := out.rows.Error(); err != nil {
		return err
	}
	return commitFile(&out.perSecond)
}

// commitFile gives a file that was written meanwhile its name.
func commitFile(file **result.File) error {
	f := *file
	if f == nil {
		return nil
	}
	*file = nil
	return f.Commit()
}

// discard removes what was not committed.
func (out *outputs) discard() {
	for _, file := range []*result.File{out.hlog, out.perSecond} {
		if file != nil {
			file.Discard()
		}
	}
}

// requestRows are the kept arrivals as requests.csv has them.
func requestRows(kept []engine.Request) []result.Request {
	rows := make([]result.Request, len(kept))
	for i, r := range kept {
		rows[i] = result.Request{
			ID: r.Endpoint + "-" + strconv.Itoa(r.Index), Endpoint: r.Endpoint,
			Due: r.Due, Lag: r.Lag, Service: r.Service, Response: r.Response,
			Outcome: r.Answer.Outcome.String(), Cause: r.Answer.Cause, Status: r.Answer.Status,
		}
	}
	return rows
}
