package main

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"chokepoint/internal/load/engine"
	"chokepoint/internal/load/ledger"
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
		if err := result.WriteFile(path, requestRows(r.Requests)); err != nil {
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

// requestRows is the CSV of all scheduled arrivals in due order. Times are in
// nanoseconds; a dropped arrival has none but its due time.
func requestRows(requests []engine.Request) []byte {
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	// A bytes.Buffer takes every write.
	_ = w.Write([]string{"id", "endpoint", "due_ns", "lag_ns", "service_ns", "response_ns", "outcome", "cause", "status"})
	for _, r := range requests {
		row := []string{
			r.Endpoint + "-" + strconv.Itoa(r.Index), r.Endpoint, nanoseconds(r.Due),
			"", "", "", r.Answer.Outcome.String(), r.Answer.Cause, "",
		}
		if r.Answer.Outcome != ledger.Dropped {
			row[3], row[4], row[5] = nanoseconds(r.Lag), nanoseconds(r.Service), nanoseconds(r.Response)
		}
		if r.Answer.Status != 0 {
			row[8] = strconv.Itoa(r.Answer.Status)
		}
		_ = w.Write(row)
	}
	w.Flush()
	return b.Bytes()
}

func nanoseconds(d time.Duration) string { return strconv.FormatInt(int64(d), 10) }
