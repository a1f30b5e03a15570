package result

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
)

// ScenarioCloseRace is what Run.Scenario says of the close race.
const ScenarioCloseRace = "closerace"

// CloseRaceFile is the series of the scenario closerace, in the folder of its run.
const CloseRaceFile = "closerace.csv"

// CloseRacePoint is one row of closerace.csv: what became of the requests of one
// client, method and defence before which a connection had rested so long, compared
// with the idle timeout of the server. A request before which none had rested, such as
// the one after a failure, is of no point: it cannot meet a close.
type CloseRacePoint struct {
	Client  string // ClientNetHTTP or ClientFastHTTP
	Method  string
	Defence string // as the victim's -defence names it
	// OffsetMS is the think time less the server's idle timeout, in milliseconds: the
	// middle of the point.
	OffsetMS float64
	// WidthMS is how wide the point is: a request is of it whose measured think time is
	// within half of that.
	WidthMS  float64
	Requests int
	// Failed are those that the caller saw fail. Each either never reached a handler,
	// or was executed all the same.
	Failed            int
	FailedButExecuted int
	ExecutedTwice     int // whatever the caller saw
	// Renewed are those that a new connection answered: the rested one was given up
	// in time, or the request was sent again.
	Renewed int
}

// NeverReached is how many failed without a handler having run.
func (p CloseRacePoint) NeverReached() int { return p.Failed - p.FailedButExecuted }

// FailedRatio is the share of the requests that failed; NaN where there are none.
func (p CloseRacePoint) FailedRatio() float64 { return float64(p.Failed) / float64(p.Requests) }

var closeRaceColumns = []string{
	"client", "method", "defence", "offset_ms", "width_ms",
	"requests", "failed", "failed_but_executed", "executed_twice", "renewed",
}

func (p *CloseRacePoint) counts() []*int {
	return []*int{&p.Requests, &p.Failed, &p.FailedButExecuted, &p.ExecutedTwice, &p.Renewed}
}

// WriteCloseRace writes points as CSV with a header, whole or not at all.
func WriteCloseRace(path string, points []CloseRacePoint) error {
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	_ = w.Write(closeRaceColumns) // a bytes.Buffer takes every write
	for _, p := range points {
		row := []string{p.Client, p.Method, p.Defence,
			strconv.FormatFloat(p.OffsetMS, 'f', -1, 64), strconv.FormatFloat(p.WidthMS, 'f', -1, 64)}
		for _, n := range p.counts() {
			row = append(row, strconv.Itoa(*n))
		}
		_ = w.Write(row)
	}
	w.Flush()
	return WriteFile(path, b.Bytes())
}

// ReadCloseRace reads what WriteCloseRace wrote. An error names the file and, where
// there is one, the line.
func ReadCloseRace(path string) ([]CloseRacePoint, error) {
	f, err := Open(path, MaxInput)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r := csv.NewReader(f)
	r.FieldsPerRecord = len(closeRaceColumns)
	header, err := r.Read()
	switch {
	case errors.Is(err, io.EOF):
		return nil, fmt.Errorf("%s is empty; it starts with its header", path)
	case err != nil:
		return nil, fmt.Errorf("%s is not what a run writes: %w", path, err)
	case !slices.Equal(header, closeRaceColumns):
		return nil, fmt.Errorf("%s is not what a run writes: line 1 is %.100q, want %q",
			path, strings.Join(header, ","), strings.Join(closeRaceColumns, ","))
	}
	var points []CloseRacePoint
	for {
		row, err := r.Read()
		if errors.Is(err, io.EOF) {
			return points, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s is not what a run writes: %w", path, err)
		}
		p, err := parseCloseRacePoint(row)
		if err != nil {
			line, _ := r.FieldPos(0)
			return nil, fmt.Errorf("%s line %d: %w", path, line, err)
		}
		points = append(points, p)
	}
}

func parseCloseRacePoint(row []string) (CloseRacePoint, error) {
	p := CloseRacePoint{Client: row[0], Method: row[1], Defence: row[2]}
	for i, field := range []*float64{&p.OffsetMS, &p.WidthMS} {
		v, err := parseFinite(row[3+i])
		if err != nil || math.Abs(v) > float64(longestRun.Milliseconds()) {
			return p, fmt.Errorf("%s is %.40q, want milliseconds", closeRaceColumns[3+i], row[3+i])
		}
		*field = v
	}
	for i, field := range p.counts() {
		n, err := strconv.Atoi(row[5+i])
		if err != nil || n < 0 {
			return p, fmt.Errorf("%s is %.40q, want a count", closeRaceColumns[5+i], row[5+i])
		}
		*field = n
	}
	if p.Failed > p.Requests || p.FailedButExecuted > p.Failed || p.ExecutedTwice > p.Requests || p.Renewed > p.Requests {
		return p, fmt.Errorf("a part is larger than its whole: %s", strings.Join(row, ","))
	}
	return p, nil
}
