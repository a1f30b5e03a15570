package main

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"chokepoint/internal/load/engine"
	"chokepoint/internal/result"
)

// endpointMark stands for the endpoint's name in the name of an -hgrm file.
const endpointMark = "{endpoint}"

// outputs are the files of a run. Each appears whole at the end, or not at all.
type outputs struct {
	options options
	// Written while the run goes on: an hour of them does not belong in memory.
	// They have temporary names until they are complete; nil if not wanted.
	hlog, perSecond *os.File
	rows            *csv.Writer // of perSecond
}

// openOutputs finds out before the load whether its files can be written.
func openOutputs(o options) (*outputs, error) {
	out := &outputs{options: o}
	for _, f := range []struct {
		flag, path string
		keep       **os.File
	}{
		{"json", o.json, nil}, {"requests", o.requests, nil}, {"hgrm", o.hgrm, nil},
		{"hlog", o.hlog, &out.hlog}, {"per-second", o.perSecond, &out.perSecond},
	} {
		if f.path == "" {
			continue
		}
		file, err := createBeside(f.path)
		if err != nil {
			out.discard()
			return nil, fmt.Errorf("-%s: cannot write %s: %w; choose another place", f.flag, f.path, err)
		}
		if f.keep != nil {
			*f.keep = file
			continue
		}
		file.Close()
		os.Remove(file.Name())
	}
	if out.perSecond != nil {
		out.rows = csv.NewWriter(out.perSecond)
		out.rows.Write(perSecondHeader())
	}
	return out, nil
}

// createBeside makes a temporary file in the folder of path, which must exist.
func createBeside(path string) (*os.File, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return nil, fmt.Errorf("it is a folder")
	}
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if pathError, ok := err.(*os.PathError); ok {
		err = pathError.Err
	}
	return file, err
}

// log is where the interval log goes; nil if none is wanted.
func (out *outputs) log() io.Writer {
	if out.hlog == nil {
		return nil
	}
	return out.hlog
}

func perSecondHeader() []string {
	return []string{"second", "endpoint", "scheduled", "started", "dropped", "ok", "failed", "p50_ms", "p99_ms", "max_ms", "in_flight"}
}

// eachSecond writes the rows of -per-second; nil if none are wanted. What goes
// wrong is known at the end, from the csv.Writer.
func (out *outputs) eachSecond() func(engine.Second) {
	if out.rows == nil {
		return nil
	}
	return func(s engine.Second) {
		for _, e := range s.Endpoints {
			p50, p99, longest := "", "", ""
			if e.Response.Count > 0 {
				p50, p99, longest = number(e.Response.P50), number(e.Response.P99), number(e.Response.Max)
			}
			out.rows.Write([]string{
				strconv.Itoa(int(s.From / time.Second)), e.Name,
				strconv.Itoa(e.Scheduled), strconv.Itoa(e.Started), strconv.Itoa(e.Dropped), strconv.Itoa(e.OK), strconv.Itoa(e.Failed),
				p50, p99, longest, strconv.Itoa(e.InFlight),
			})
		}
	}
}

func number(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// commit writes every file of the run.
func (out *outputs) commit(r *engine.Report) error {
	if err := commitFile(&out.hlog, out.options.hlog); err != nil {
		return err
	}
	return out.commitWithoutLog(r)
}

// commitFile gives a file that was written meanwhile its name.
func commitFile(file **os.File, path string) error {
	if *file == nil {
		return nil
	}
	name := (*file).Name()
	err := (*file).Chmod(0o644)
	if closed := (*file).Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(name, path)
	}
	if err != nil {
		os.Remove(name)
	}
	*file = nil
	return err
}

// commitWithoutLog writes what does not depend on the interval log.
func (out *outputs) commitWithoutLog(r *engine.Report) error {
	if out.rows != nil {
		out.rows.Flush()
		if err := out.rows.Error(); err != nil {
			return fmt.Errorf("write %s: %w", out.options.perSecond, err)
		}
		if err := commitFile(&out.perSecond, out.options.perSecond); err != nil {
			return err
		}
	}
	if pattern := out.options.hgrm; pattern != "" {
		for name, timings := range r.Timings {
			var text bytes.Buffer
			if err := timings.Response.WriteDistribution(&text); err != nil {
				return err
			}
			if err := result.WriteFile(strings.ReplaceAll(pattern, endpointMark, name), text.Bytes()); err != nil {
				return err
			}
		}
	}
	if path := out.options.requests; path != "" {
		if err := result.WriteRequests(path, requestRows(r.Requests)); err != nil {
			return err
		}
	}
	// Last: whoever waits for the result finds the other files complete.
	if path := out.options.json; path != "" {
		return result.WriteJSON(path, r.Load)
	}
	return nil
}

// discard removes what was not committed.
func (out *outputs) discard() {
	for _, file := range []*os.File{out.hlog, out.perSecond} {
		if file != nil {
			file.Close()
			os.Remove(file.Name())
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
