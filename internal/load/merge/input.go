package merge

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"chokepoint/internal/load/latency"
	"chokepoint/internal/result"
)

// input is one result. Its interval log is not kept: of each endpoint it takes more
// than a megabyte.
type input struct {
	path string
	load result.Load
}

// totals are what an interval log holds, by tag.
type totals map[string]*latency.Histogram

// maxWindow is far above the longest window that the engine plays, in seconds.
const maxWindow = 366 * 24 * 3600

// LogBeside is where the interval log of a result is expected: load.hlog beside
// load.json.
func LogBeside(path string) string {
	return strings.TrimSuffix(path, filepath.Ext(path)) + ".hlog"
}

// read reads the result at path and the log beside it.
func read(path string) (input, totals, error) {
	load, err := result.ReadLoad(path)
	if err != nil {
		return input{}, nil, err
	}
	f, err := result.Open(LogBeside(path), result.MaxInput)
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return input{}, nil, err
	case err != nil:
		return input{}, nil, fmt.Errorf("%s has no interval log beside it, and percentiles cannot be merged without one: %w", path, err)
	}
	defer f.Close()
	log, err := latency.ReadTotals(f)
	if err != nil {
		return input{}, nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	switch {
	case len(load.Endpoints) == 0:
		return input{}, nil, fmt.Errorf("%s has no endpoint, which no run has; take another result", path)
	case load.StartedAt.IsZero():
		return input{}, nil, fmt.Errorf("%s does not say when its load began (started_at), so how it lay in time is not known", path)
	}
	if !(load.WindowS > 0 && load.WindowS <= maxWindow) {
		return input{}, nil, fmt.Errorf("%s has a load window of %v s, which no run has", path, load.WindowS)
	}
	if err := checkShard(path, load.Shard); err != nil {
		return input{}, nil, err
	}
	return input{path, load}, log, nil
}

// kind is one distribution of an endpoint: its tag in the log and its field.
type kind struct {
	name string
	of   func(*result.Endpoint) *result.Percentiles
}

func kinds() []kind {
	return []kind{
		{latency.Response, func(e *result.Endpoint) *result.Percentiles { return &e.Response }},
		{latency.OKResponse, func(e *result.Endpoint) *result.Percentiles { return &e.OKResponse }},
		{latency.FailedResponse, func(e *result.Endpoint) *result.Percentiles { return &e.FailedResponse }},
		{latency.Service, func(e *result.Endpoint) *result.Percentiles { return &e.Service }},
		{latency.Lag, func(e *result.Endpoint) *result.Percentiles { return &e.Lag }},
	}
}

var errOtherLog = errors.New("the log beside it is of another run")

// histogram is a distribution from the log of the result, with the exact extremes
// of the result. The two must be of the same run.
func (in input) histogram(log totals, endpoint string, k kind) (*latency.Histogram, error) {
	e := in.load.Endpoints[endpoint]
	want := k.of(&e)
	h := log[endpoint+"/"+k.name]
	if h == nil {
		if want.Count == 0 {
			return latency.New(), nil
		}
		return nil, fmt.Errorf("%s: the log has no %s, and the result has %d", endpoint, k.name, want.Count)
	}
	if h.Count() != want.Count {
		return nil, fmt.Errorf("%s: %d values of %s in the log and %d in the result: %w", endpoint, h.Count(), k.name, want.Count, errOtherLog)
	}
	if !h.Sharpen(milliseconds(want.Min), milliseconds(want.Max)) {
		return nil, fmt.Errorf("%s: %s from %v to %v in the log and %v to %v ms in the result: %w", endpoint, k.name, h.Min(), h.Max(), want.Min, want.Max, errOtherLog)
	}
	return h, nil
}
