package result

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Request is one row of requests.csv: one arrival and what became of it. Times
// are real, in nanoseconds in the file; a dropped arrival has none but its due
// time, and whatever stands in the other fields is not written.
type Request struct {
	ID       string // <endpoint>-<index>, as the server saw it
	Endpoint string
	Due      time.Duration // from the start of the load
	Lag      time.Duration // the first connect or write call, after Due
	Service  time.Duration // from that call until it was done; none where Cause is CauseUnsent
	Response time.Duration // from Due until it was done
	Outcome  string        // "ok", "http_error", ..., "dropped"
	Cause    string
	Status   int // 0 without an answer
}

// CauseUnsent is the cause of a timeout that had passed before the generator sent
// anything: such a request has no service time.
const CauseUnsent = "unsent"

// maxRequestsBytes is room for the ten million arrivals that a recording may have.
const maxRequestsBytes = 1 << 30

var requestColumns = []string{"id", "endpoint", "due_ns", "lag_ns", "service_ns", "response_ns", "outcome", "cause", "status"}

// WriteRequests writes requests.csv, whole or not at all.
func WriteRequests(path string, requests []Request) error {
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	// A bytes.Buffer takes every write.
	_ = w.Write(requestColumns)
	for _, r := range requests {
		row := []string{r.ID, r.Endpoint, strconv.FormatInt(int64(r.Due), 10), "", "", "", r.Outcome, r.Cause, ""}
		if r.Outcome != "dropped" {
			row[3] = strconv.FormatInt(int64(r.Lag), 10)
			row[5] = strconv.FormatInt(int64(r.Response), 10)
		}
		if r.Outcome != "dropped" && r.Cause != CauseUnsent {
			row[4] = strconv.FormatInt(int64(r.Service), 10)
		}
		if r.Status != 0 {
			row[8] = strconv.Itoa(r.Status)
		}
		_ = w.Write(row)
	}
	w.Flush()
	return WriteFile(path, b.Bytes())
}

// ReadRequests reads what WriteRequests wrote. An error names the file and, where
// there is one, the line.
func ReadRequests(path string) ([]Request, error) {
	var requests []Request
	err := EachRequest(path, func(r Request) { requests = append(requests, r) })
	if err != nil {
		return nil, err
	}
	return requests, nil
}

// EachRequest calls f with every row in turn, for readers that do not need them all
// at once. Errors are those of ReadRequests; f has then had the rows before.
func EachRequest(path string, f func(Request)) error {
	file, err := Open(path, maxRequestsBytes)
	if err != nil {
		return err
	}
	defer file.Close()
	r := csv.NewReader(file)
	r.FieldsPerRecord = len(requestColumns)
	r.ReuseRecord = true
	header, err := r.Read()
	switch {
	case errors.Is(err, io.EOF):
		return fmt.Errorf("%s is empty; requests.csv starts with its header", path)
	case err != nil:
		return fmt.Errorf("%s is not what loadgen -requests writes: %w", path, err)
	case !slices.Equal(header, requestColumns):
		return fmt.Errorf("%s is not what loadgen -requests writes: line 1 is %.100q, want %q",
			path, strings.Join(header, ","), strings.Join(requestColumns, ","))
	}
	for {
		row, err := r.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s is not what loadgen -requests writes: %w", path, err)
		}
		request, err := parseRequest(row)
		if err != nil {
			line, _ := r.FieldPos(0)
			return fmt.Errorf("%s line %d: %w", path, line, err)
		}
		f(request)
	}
}

// longestRun is beyond every moment and duration of a run: a year. A sum of some of
// them does not overflow, and an axis over them can be divided into columns.
const longestRun = 365 * 24 * time.Hour

func parseRequest(row []string) (Request, error) {
	r := Request{ID: row[0], Endpoint: row[1], Outcome: row[6], Cause: row[7]}
	for i, field := range []*time.Duration{&r.Due, &r.Lag, &r.Service, &r.Response} {
		if row[2+i] == "" {
			continue
		}
		ns, err := strconv.ParseInt(row[2+i], 10, 64)
		if err != nil {
			return r, fmt.Errorf("%s is %.40q, want nanoseconds", requestColumns[2+i], row[2+i])
		}
		if ns < 0 || ns > int64(longestRun) {
			return r, fmt.Errorf("%s is %s, want nanoseconds from 0 to a year", requestColumns[2+i], row[2+i])
		}
		*field = time.Duration(ns)
	}
	if row[8] != "" {
		status, err := strconv.Atoi(row[8])
		if err != nil {
			return r, fmt.Errorf("status is %.40q, want a number", row[8])
		}
		r.Status = status
	}
	return r, nil
}
