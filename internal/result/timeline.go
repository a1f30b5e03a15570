package result

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"strconv"
	"strings"
)

// TimelineRow is one row of timeline.csv: the state of the run at one scenario
// second.
type TimelineRow struct {
	AtS         float64 // scenario seconds from the start of the load
	Phase       string  // the lab's phase, e.g. "baseline", "load", "recovery"
	Workers     int     // pool workers alive
	Busy        int
	Queued      int // requests that wait for a worker
	PermitsHeld int
	Breaker     string // "none", "closed", "open", "half-open"
	AcceptQueue int
	Connections int
	CPUPercent  float64 // of the victim since the row before; 100 is one core
	RSSBytes    int64
	Goroutines  int
	FastP50MS   *float64 // of the answers since the row before; nil if there were none
	FastP99MS   *float64
	// Fast is the endpoint that must survive, and Upstream every other.
	FastDone     int // requests that ended since the row before, failed ones included
	FastFailed   int
	UpstreamDone int
	// UpstreamFailed is to UpstreamDone as FastFailed is to FastDone.
	UpstreamFailed int
	// Marks names what happened since the row before, such as "dump:load_15s". No
	// mark holds a semicolon, which separates them in the file.
	Marks []string
}

// timelineColumn ties a column of timeline.csv to a field.
type timelineColumn struct {
	name   string
	format func(TimelineRow) string
	parse  func(*TimelineRow, string) error
}

// timelineColumns lists the columns in the order of the file.
func timelineColumns() []timelineColumn {
	return []timelineColumn{
		momentColumn("at_s", func(r *TimelineRow) *float64 { return &r.AtS }),
		textColumn("phase", func(r *TimelineRow) *string { return &r.Phase }),
		intColumn("workers", func(r *TimelineRow) *int { return &r.Workers }),
		intColumn("busy", func(r *TimelineRow) *int { return &r.Busy }),
		intColumn("queued", func(r *TimelineRow) *int { return &r.Queued }),
		intColumn("permits_held", func(r *TimelineRow) *int { return &r.PermitsHeld }),
		textColumn("breaker", func(r *TimelineRow) *string { return &r.Breaker }),
		intColumn("accept_queue", func(r *TimelineRow) *int { return &r.AcceptQueue }),
		intColumn("connections", func(r *TimelineRow) *int { return &r.Connections }),
		floatColumn("cpu_percent", func(r *TimelineRow) *float64 { return &r.CPUPercent }),
		intColumn("rss_bytes", func(r *TimelineRow) *int64 { return &r.RSSBytes }),
		intColumn("goroutines", func(r *TimelineRow) *int { return &r.Goroutines }),
		optionalColumn("fast_p50_ms", func(r *TimelineRow) **float64 { return &r.FastP50MS }),
		optionalColumn("fast_p99_ms", func(r *TimelineRow) **float64 { return &r.FastP99MS }),
		intColumn("fast_done", func(r *TimelineRow) *int { return &r.FastDone }),
		intColumn("fast_failed", func(r *TimelineRow) *int { return &r.FastFailed }),
		intColumn("upstream_done", func(r *TimelineRow) *int { return &r.UpstreamDone }),
		intColumn("upstream_failed", func(r *TimelineRow) *int { return &r.UpstreamFailed }),
		{
			name:   "marks",
			format: func(r TimelineRow) string { return strings.Join(r.Marks, ";") },
			parse: func(r *TimelineRow, s string) error {
				if s != "" {
					r.Marks = strings.Split(s, ";")
				}
				return nil
			},
		},
	}
}

func textColumn(name string, field func(*TimelineRow) *string) timelineColumn {
	return timelineColumn{name,
		func(r TimelineRow) string { return *field(&r) },
		func(r *TimelineRow, s string) error { *field(r) = s; return nil }}
}

func intColumn[T int | int64](name string, field func(*TimelineRow) *T) timelineColumn {
	return timelineColumn{name,
		func(r TimelineRow) string { return strconv.FormatInt(int64(*field(&r)), 10) },
		func(r *TimelineRow, s string) error {
			v, err := strconv.ParseInt(s, 10, 64)
			*field(r) = T(v)
			return err
		}}
}

func floatColumn(name string, field func(*TimelineRow) *float64) timelineColumn {
	return timelineColumn{name,
		func(r TimelineRow) string { return strconv.FormatFloat(*field(&r), 'f', -1, 64) },
		func(r *TimelineRow, s string) (err error) {
			*field(r), err = parseFinite(s)
			return err
		}}
}

func optionalColumn(name string, field func(*TimelineRow) **float64) timelineColumn {
	return timelineColumn{name,
		func(r TimelineRow) string {
			if *field(&r) == nil {
				return ""
			}
			return strconv.FormatFloat(**field(&r), 'f', -1, 64)
		},
		func(r *TimelineRow, s string) error {
			if s == "" {
				return nil
			}
			v, err := parseFinite(s)
			*field(r) = &v
			return err
		}}
}

// momentColumn is a column of scenario seconds from the start of the load.
func momentColumn(name string, field func(*TimelineRow) *float64) timelineColumn {
	c := floatColumn(name, field)
	parse := c.parse
	c.parse = func(r *TimelineRow, s string) error {
		err := parse(r, s)
		if err == nil && math.Abs(*field(r)) > longestRun.Seconds() {
			err = strconv.ErrRange
		}
		return err
	}
	return c
}

func parseFinite(s string) (float64, error) {
	v, err := strconv.ParseFloat(s, 64)
	if err == nil && (math.IsNaN(v) || math.IsInf(v, 0)) {
		err = strconv.ErrRange
	}
	return v, err
}

// WriteTimeline writes rows as CSV with a header, whole or not at all.
func WriteTimeline(path string, rows []TimelineRow) error {
	columns := timelineColumns()
	record := make([]string, len(columns))
	for i, c := range columns {
		record[i] = c.name
	}
	var buf bytes.Buffer
	w := csv.NewWriter(&buf)
	w.Write(record) // a write to memory fails only in w.Error
	for _, row := range rows {
		for i, c := range columns {
			record[i] = c.format(row)
		}
		w.Write(record)
	}
	w.Flush()
	if err := w.Error(); err != nil {
		return fmt.Errorf("encode %s: %w", filepath.Base(path), err)
	}
	return WriteFile(path, buf.Bytes())
}

// ReadTimeline reads what WriteTimeline wrote. Columns are found by name, so
// that later versions may add some; a missing one is an error.
func ReadTimeline(path string) ([]TimelineRow, error) {
	f, err := Open(path, MaxInput)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r := csv.NewReader(f)
	header, err := r.Read()
	if err == io.EOF {
		return nil, fmt.Errorf("%s is empty; a timeline starts with its header", path)
	}
	if err != nil {
		return nil, fmt.Errorf("%s is not a timeline: %w", path, err)
	}
	at := make(map[string]int, len(header))
	for i, name := range header {
		at[name] = i
	}
	columns := timelineColumns()
	for _, c := range columns {
		if _, ok := at[c.name]; !ok {
			return nil, fmt.Errorf("%s has no column %q", path, c.name)
		}
	}
	var rows []TimelineRow
	for {
		record, err := r.Read()
		if err == io.EOF {
			return rows, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s is not a timeline: %w", path, err)
		}
		var row TimelineRow
		for _, c := range columns {
			cell := record[at[c.name]]
			if err := c.parse(&row, cell); err != nil {
				why := "not a number"
				if errors.Is(err, strconv.ErrRange) {
					why = "out of range"
				}
				return nil, fmt.Errorf("%s: row %d has %.40q as %s, which is %s", path, len(rows)+1, cell, c.name, why)
			}
		}
		rows = append(rows, row)
	}
}

// WriteEvents writes the events.json of a run, whole or not at all.
func WriteEvents(path string, events []Event) error {
	if events == nil {
		events = []Event{}
	}
	return WriteJSON(path, events)
}

// ReadEvents reads what WriteEvents wrote.
func ReadEvents(path string) ([]Event, error) {
	data, err := readFile(path)
	if err != nil {
		return nil, err
	}
	var events []Event
	if err := json.Unmarshal(data, &events); err != nil {
		return nil, fmt.Errorf("%s is not what a run writes: %w", path, err)
	}
	return events, nil
}
