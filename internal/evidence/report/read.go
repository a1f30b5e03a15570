package report

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"chokepoint/internal/load/latency"
	"chokepoint/internal/result"
)

// runFolder holds what the folder of a run says. Only the summary is needed;
// what else is missing or unreadable is nil, with a sentence about it.
type runFolder struct {
	dir      string
	summary  result.Summary
	manifest *result.Manifest
	load     *result.Load
	timeline []result.TimelineRow
	events   []result.Event
	requests *requestTally
	// totals hold the response times of the whole run, by tag of load.hlog.
	totals map[string]*latency.Histogram
	// closeRace is the series of that scenario, and nil of any other.
	closeRace []result.CloseRacePoint
	// unread holds, by file name, the sentence that says why there is nothing.
	unread map[string]string
	// malformed are the errors of the files that are there and cannot be read.
	malformed []error
}

func readRun(dir string) (runFolder, error) {
	summary, err := result.ReadSummary(dir)
	if err != nil {
		return runFolder{}, needed(dir, result.SummaryFile, "a run", err)
	}
	r := runFolder{dir: dir, summary: summary, unread: map[string]string{}}
	if m, err := result.ReadManifest(dir); r.note(result.ManifestFile, err) {
		r.manifest = &m
	}
	if summary.Run.Scenario == result.ScenarioCloseRace {
		if points, err := result.ReadCloseRace(filepath.Join(dir, result.CloseRaceFile)); r.note(result.CloseRaceFile, err) {
			r.closeRace = points
		}
	}
	if len(summary.Cases) > 0 {
		return r, nil // a matrix has no load, but a folder for each cell, which is read as it is told
	}
	if l, err := result.ReadLoad(filepath.Join(dir, result.LoadFile)); r.note(result.LoadFile, err) {
		r.load = &l
	}
	if rows, err := result.ReadTimeline(filepath.Join(dir, result.TimelineFile)); r.note(result.TimelineFile, err) {
		r.timeline = rows
	}
	if events, err := result.ReadEvents(filepath.Join(dir, result.EventsFile)); r.note(result.EventsFile, err) {
		r.events = events
	}
	if t, err := tallyRequests(filepath.Join(dir, result.RequestsFile)); r.note(result.RequestsFile, err) {
		r.requests = t
	}
	if totals, err := readTotals(filepath.Join(dir, result.HistogramFile), summary); r.note(result.HistogramFile, err) {
		r.totals = totals
	}
	return r, nil
}

// readTotals reads the histograms of an interval log, over all its intervals. The log
// has their extremes at 3 significant digits; the summary has the exact ones.
func readTotals(path string, summary result.Summary) (map[string]*latency.Histogram, error) {
	f, err := result.Open(path, result.MaxInput)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	totals, err := latency.ReadTotals(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for name, e := range summary.Endpoints {
		for kind, p := range map[string]result.Percentiles{latency.Response: e.Response, latency.OKResponse: e.OKResponse} {
			if h := totals[name+"/"+kind]; h != nil {
				h.Sharpen(duration(p.Min), duration(p.Max)) // where it is not of the same values, it stays as it is
			}
		}
	}
	return totals, nil
}

func duration(ms float64) time.Duration {
	return time.Duration(math.Round(ms * float64(time.Millisecond)))
}

// needed explains why a folder cannot be reported on at all.
func needed(dir, file, what string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s holds no %s: give the folder of %s, such as results/<run>: %w", dir, file, what, fs.ErrNotExist)
	}
	return err
}

// note says whether file could be read, and keeps the reason where it could not.
func (r *runFolder) note(file string, err error) bool {
	switch {
	case err == nil:
		return true
	case errors.Is(err, fs.ErrNotExist):
		r.unread[file] = file + " is missing."
	default:
		r.malformed = append(r.malformed, err)
		r.unread[file] = "Unreadable: " + relative(r.dir, err.Error()) + "."
	}
	return false
}

// relative takes the folder out of an error text: a report reads the same
// wherever its folder lies.
func relative(dir, message string) string {
	return strings.ReplaceAll(message, filepath.Clean(dir)+string(filepath.Separator), "")
}

// rawFile links a file of a run, whose folder lies at run relative to the
// report's, or its gzipped form, as reference results are committed.
func rawFile(dir, run, name string) text {
	if name == "" {
		return plain(none)
	}
	for _, candidate := range []string{name, name + ".gz"} {
		href := path.Join(run, candidate)
		if _, err := os.Stat(filepath.Join(dir, filepath.FromSlash(href))); err == nil {
			return link(candidate, href)
		}
	}
	return plain(name + " (missing)")
}
