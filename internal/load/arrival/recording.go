package arrival

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"chokepoint/internal/rate"
	"chokepoint/internal/result"
)

const (
	// maxRecorded bounds a recording: its times are kept in memory, 8 bytes each.
	maxRecorded = 10_000_000
	// maxRecordedBytes bounds the file.
	maxRecordedBytes = 1 << 30
	// maxRecordedTime tells a time since the start from one since the epoch.
	maxRecordedTime = 30 * 24 * time.Hour
)

// Names of the columns of a recording.
const (
	columnSeconds     = "due_s"
	columnNanoseconds = "due_ns"
	columnEndpoint    = "endpoint"
)

// Recording is arrivals at recorded times.
type Recording struct {
	name string // of the file
	// times by endpoint; under "" if the file does not tell endpoints apart.
	times  map[string][]time.Duration
	length time.Duration
}

// ReadRecording reads the CSV file at path: see ParseRecording.
func ReadRecording(path string) (*Recording, error) {
	f, err := result.Open(path, maxRecordedBytes)
	if err != nil {
		return nil, fmt.Errorf("replay: %w", err)
	}
	defer f.Close()
	return ParseRecording(path, f)
}

// ParseRecording reads a recording from CSV: due times from the start of the
// load, in seconds in the column due_s or in whole nanoseconds in due_ns, none
// before the one above it, at most ten million. If there is a column endpoint,
// each endpoint has its own times, else every endpoint has all of them; other
// columns are ignored, so that the requests.csv of a run can be replayed. A file
// whose first line is a number has no header, and seconds in its first column.
//
// A recording lasts until the first whole second after its last arrival. The
// error is one line that names the file, the line and the value.
func ParseRecording(name string, r io.Reader) (*Recording, error) {
	limited := &io.LimitedReader{R: r, N: maxRecordedBytes + 1}
	rows := csv.NewReader(limited)
	rows.ReuseRecord = true
	rows.TrimLeadingSpace = true
	rows.Comment = '#'
	rec := &Recording{name: name, times: map[string][]time.Duration{}}
	var (
		dueAt, endpointAt = -1, -1
		perUnit           = time.Second
		last              time.Duration
		n                 int
	)
	for {
		row, err := rows.Read()
		if limited.N <= 0 {
			return nil, fmt.Errorf("replay: %s is larger than %d bytes; cut it into parts", name, maxRecordedBytes)
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, rowError(name, err)
		}
		line, _ := rows.FieldPos(0)
		if dueAt < 0 {
			if _, err := strconv.ParseFloat(row[0], 64); err != nil {
				if dueAt, endpointAt, perUnit, err = header(row); err != nil {
					return nil, fmt.Errorf("replay: %s:%d: %w", name, line, err)
				}
				continue
			}
			dueAt = 0
		}
		due, err := recordedTime(row[dueAt], perUnit)
		switch {
		case err != nil:
			return nil, fmt.Errorf("replay: %s:%d: %w", name, line, err)
		case due < last:
			return nil, fmt.Errorf("replay: %s:%d: %.40s is before the time above it; sort the file by its times", name, line, row[dueAt])
		case n == maxRecorded:
			return nil, fmt.Errorf("replay: %s:%d: more than %d arrivals; cut the file into parts", name, line, maxRecorded)
		}
		endpoint := ""
		if endpointAt >= 0 {
			// A copy: the row's memory is used again, and would be kept whole.
			endpoint = string([]byte(row[endpointAt]))
		}
		rec.times[endpoint] = append(rec.times[endpoint], due)
		last = due
		n++
	}
	if n == 0 {
		return nil, fmt.Errorf("replay: %s has no arrival; give a time in seconds on each line", name)
	}
	rec.length = last - last%time.Second + time.Second
	return rec, nil
}

// rowError puts what encoding/csv says into the form of the other errors.
func rowError(name string, err error) error {
	var syntax *csv.ParseError
	if errors.As(err, &syntax) {
		return fmt.Errorf("replay: %s:%d: %w", name, syntax.Line, syntax.Err)
	}
	return fmt.Errorf("replay: %s: %w", name, err)
}

func header(row []string) (due, endpoint int, perUnit time.Duration, err error) {
	endpoint = slices.Index(row, columnEndpoint)
	if due = slices.Index(row, columnNanoseconds); due >= 0 {
		return due, endpoint, time.Nanosecond, nil
	}
	if due = slices.Index(row, columnSeconds); due >= 0 {
		return due, endpoint, time.Second, nil
	}
	return -1, -1, 0, fmt.Errorf("%.40q is not a time, and there is no column %s or %s", row[0], columnSeconds, columnNanoseconds)
}

func recordedTime(cell string, perUnit time.Duration) (time.Duration, error) {
	var nanoseconds float64
	var err error
	if perUnit == time.Nanosecond {
		var whole int64
		whole, err = strconv.ParseInt(cell, 10, 64)
		nanoseconds = float64(whole)
	} else {
		nanoseconds, err = strconv.ParseFloat(cell, 64)
		nanoseconds = math.Round(nanoseconds * float64(time.Second))
	}
	switch {
	case err != nil || math.IsNaN(nanoseconds):
		return 0, fmt.Errorf("%.40q is not a number", cell)
	case nanoseconds < 0:
		return 0, fmt.Errorf("%.40s is before the start; times count from 0", cell)
	case nanoseconds > float64(maxRecordedTime):
		return 0, fmt.Errorf("%.40s is beyond %v; times count from the start of the load, so subtract the first", cell, maxRecordedTime)
	}
	// Up to maxRecordedTime a float64 holds every nanosecond.
	return time.Duration(nanoseconds), nil
}

// Endpoints are the names that the recording has arrivals for, sorted; nil if it
// does not tell endpoints apart.
func (r *Recording) Endpoints() []string {
	if _, all := r.times[""]; all && len(r.times) == 1 {
		return nil
	}
	return slices.Sorted(maps.Keys(r.times))
}

// of is the times of an endpoint.
func (r *Recording) of(endpoint string) []time.Duration {
	if r.Endpoints() == nil {
		return r.times[""]
	}
	return r.times[endpoint]
}

// Kind implements Pattern.
func (r *Recording) Kind() string { return KindReplay }

// Length implements Pattern.
func (r *Recording) Length() time.Duration { return r.length }

// Count implements Pattern.
func (r *Recording) Count(endpoint string) int { return len(r.of(endpoint)) }

// initialStretch is the beginning of a recording whose mean is its initial rate.
const initialStretch = 10 * time.Second

// Initial implements Pattern: the mean of the first ten seconds, or of all if that
// is less.
func (r *Recording) Initial(endpoint string) rate.Rate {
	stretch := min(initialStretch, r.length)
	first, _ := slices.BinarySearch(r.of(endpoint), stretch)
	return rate.Rate(float64(first) / stretch.Seconds())
}

// Most implements Pattern, exactly.
func (r *Recording) Most(endpoint string, stretch time.Duration) int {
	times := r.of(endpoint)
	most, from := 0, 0
	for i, due := range times {
		for due-times[from] >= stretch && from < i {
			from++
		}
		most = max(most, i+1-from)
	}
	return most
}

// String implements Pattern.
func (r *Recording) String() string { return KindReplay + ":" + r.name }

// Identify implements Pattern.
func (r *Recording) Identify(w io.Writer) {
	fmt.Fprintln(w, KindReplay, int64(r.length))
	for _, endpoint := range slices.Sorted(maps.Keys(r.times)) {
		fmt.Fprintf(w, "%q %d\n", endpoint, len(r.times[endpoint]))
		for _, due := range r.times[endpoint] {
			fmt.Fprintln(w, int64(due))
		}
	}
}

// Sequence implements Pattern.
func (r *Recording) Sequence(endpoint string) Sequence { return &replay{times: r.of(endpoint)} }

type replay struct{ times []time.Duration }

func (r *replay) Next() (time.Duration, bool) {
	if len(r.times) == 0 {
		return 0, false
	}
	due := r.times[0]
	r.times = r.times[1:]
	return due, true
}
