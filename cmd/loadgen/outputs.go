package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"chokepoint/internal/load/engine"
	"chokepoint/internal/result"
)

// outputs are the files of a run. Each appears whole at the end, or not at all.
type outputs struct {
	options options
	// hlog is written while the run goes on: an hour of it does not belong in
	// memory. It has a temporary name until it is complete.
	hlog *os.File
}

// openOutputs finds out before the load whether its files can be written.
func openOutputs(o options) (*outputs, error) {
	out := &outputs{options: o}
	for _, f := range []struct{ flag, path string }{{"json", o.json}, {"requests", o.requests}, {"hlog", o.hlog}} {
		if f.path == "" {
			continue
		}
		file, err := createBeside(f.path)
		if err != nil {
			return nil, fmt.Errorf("-%s: cannot write %s: %w; choose another place", f.flag, f.path, err)
		}
		if f.flag == "hlog" {
			out.hlog = file
			continue
		}
		file.Close()
		os.Remove(file.Name())
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

// commit writes every file of the run.
func (out *outputs) commit(r *engine.Report) error {
	if out.hlog != nil {
		name := out.hlog.Name()
		err := out.hlog.Chmod(0o644)
		if closed := out.hlog.Close(); err == nil {
			err = closed
		}
		if err == nil {
			err = os.Rename(name, out.options.hlog)
		}
		if err != nil {
			os.Remove(name)
			return err
		}
		out.hlog = nil
	}
	return out.commitWithoutLog(r)
}

// commitWithoutLog writes what does not depend on the interval log.
func (out *outputs) commitWithoutLog(r *engine.Report) error {
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
	if out.hlog != nil {
		out.hlog.Close()
		os.Remove(out.hlog.Name())
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
