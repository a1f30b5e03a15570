//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"chokepoint/internal/cli"
	"chokepoint/internal/result"
)

func loadgenAccount(o output) (account, error) {
	l, err := result.ReadLoad(filepath.Join(o.dir, resultFile))
	if err != nil {
		return account{}, err
	}
	a := account{}
	var dropped, interrupted int
	for _, e := range l.Endpoints {
		a.Requests += e.OK + e.HTTPError + e.Timeout + e.ConnectError + e.TransportError + e.Interrupted
		a.P90MS, a.P99MS = e.Response.P90, e.Response.P99
		dropped, interrupted = dropped+e.Dropped, interrupted+e.Interrupted
	}
	var notes []string
	if o.exit == cli.ExitInvalid && len(l.Validity.Reasons) > 0 {
		notes = append(notes, "INVALID: "+l.Validity.Reasons[0])
	}
	if dropped > 0 {
		notes = append(notes, fmt.Sprintf("%d dropped", dropped))
	}
	if interrupted > 0 {
		notes = append(notes, fmt.Sprintf("%d interrupted", interrupted))
	}
	a.Note = strings.Join(notes, ", ")
	return a, nil
}

var (
	wrkRequests   = regexp.MustCompile(`(?m)^\s*(\d+) requests in `)
	wrkPercentile = regexp.MustCompile(`(?m)^\s*(\d+)(?:\.0+)?%\s+([\d.]+(?:us|ms|s|m|h))\s*$`)
)

// wrkAccount reads the text that wrk and wrk2 print; they have no other format.
func wrkAccount(o output) (account, error) {
	m := wrkRequests.FindSubmatch(o.stdout)
	if m == nil {
		return account{}, fmt.Errorf("no count of requests in its report")
	}
	var a account
	a.Requests, _ = strconv.Atoi(string(m[1]))
	for _, m := range wrkPercentile.FindAllSubmatch(o.stdout, -1) {
		d, err := time.ParseDuration(string(m[2]))
		if err != nil {
			return account{}, fmt.Errorf("percentile %q of its report", m[2])
		}
		switch string(m[1]) {
		case "90":
			a.P90MS = milliseconds(d)
		case "99":
			a.P99MS = milliseconds(d)
		}
	}
	return a, nil
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

var h2loadRequests = regexp.MustCompile(`(?m)^requests: \d+ total, (\d+) started, (\d+) done, \d+ succeeded, (\d+) failed`)

// h2loadAccount reads its text. A request that it started and says nothing more of
// has no outcome.
func h2loadAccount(o output) (account, error) {
	m := h2loadRequests.FindSubmatch(o.stdout)
	if m == nil {
		return account{}, fmt.Errorf("no count of requests in its report")
	}
	var a account
	a.Requests, _ = strconv.Atoi(string(m[2]))
	a.Note = fmt.Sprintf("%s started, %s failed; no percentiles", m[1], m[3])
	return a, nil
}

func bombardierAccount(o output) (account, error) {
	var r struct {
		Result struct {
			Req1xx, Req2xx, Req3xx, Req4xx, Req5xx, Others int
			Latency                                        struct{ Percentiles map[string]float64 } // us
		}
	}
	if err := json.Unmarshal(o.stdout, &r); err != nil {
		return account{}, fmt.Errorf("its report: %w", err)
	}
	a := account{Requests: r.Result.Req1xx + r.Result.Req2xx + r.Result.Req3xx + r.Result.Req4xx + r.Result.Req5xx + r.Result.Others}
	a.P90MS, a.P99MS = r.Result.Latency.Percentiles["90"]/1000, r.Result.Latency.Percentiles["99"]/1000
	return a, nil
}

// vegetaAccount has vegeta itself read its hits, which is not in its CPU time.
func vegetaAccount(o output) (account, error) {
	text, err := exec.Command(o.program, "report", "-type", "json", filepath.Join(o.dir, hitsFile)).Output()
	if err != nil {
		return account{}, fmt.Errorf("vegeta report: %w", err)
	}
	var r struct {
		Requests  int
		Latencies struct {
			P90 float64 `json:"90th"`
			P99 float64 `json:"99th"`
		}
	}
	if err := json.Unmarshal(text, &r); err != nil {
		return account{}, fmt.Errorf("vegeta report: %w", err)
	}
	return account{Requests: r.Requests, P90MS: r.Latencies.P90 / 1e6, P99MS: r.Latencies.P99 / 1e6}, nil
}

var (
	heyPercentile = regexp.MustCompile(`(?m)^\s*(90|99)%+ in ([\d.]+) secs`)
	heyOutcome    = regexp.MustCompile(`(?m)^\s*\[\d+\]\t(\d+) responses`)
	heyError      = regexp.MustCompile(`(?m)^\s*\[(\d+)\]\t\D`)
)

// heyAccount reads its text; its CSV has a row for every request.
func heyAccount(o output) (account, error) {
	var a account
	for _, m := range heyPercentile.FindAllSubmatch(o.stdout, -1) {
		v, _ := strconv.ParseFloat(string(m[2]), 64)
		if string(m[1]) == "90" {
			a.P90MS = 1000 * v
		} else {
			a.P99MS = 1000 * v
		}
	}
	for _, outcomes := range []*regexp.Regexp{heyOutcome, heyError} {
		for _, m := range outcomes.FindAllSubmatch(o.stdout, -1) {
			n, _ := strconv.Atoi(string(m[1]))
			a.Requests += n
		}
	}
	return a, nil
}

func fortioAccount(o output) (account, error) {
	var r struct {
		DurationHistogram struct {
			Count       int
			Percentiles []struct{ Percentile, Value float64 } // s
		}
	}
	if err := readJSON(o, &r); err != nil {
		return account{}, err
	}
	a := account{Requests: r.DurationHistogram.Count}
	for _, p := range r.DurationHistogram.Percentiles {
		switch p.Percentile {
		case 90:
			a.P90MS = 1000 * p.Value
		case 99:
			a.P99MS = 1000 * p.Value
		}
	}
	return a, nil
}

func k6Account(o output) (account, error) {
	var r map[string]struct{ Values map[string]float64 }
	if err := readJSON(o, &r); err != nil {
		return account{}, err
	}
	a := account{Requests: int(r["http_reqs"].Values["count"])}
	a.P90MS, a.P99MS = r["http_req_duration"].Values["p(90)"], r["http_req_duration"].Values["p(99)"]
	if dropped := r["dropped_iterations"].Values["count"]; dropped > 0 {
		a.Note = fmt.Sprintf("%.0f dropped", dropped)
	}
	return a, nil
}

func readJSON(o output, into any) error {
	text, err := os.ReadFile(filepath.Join(o.dir, resultFile))
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		return fmt.Errorf("its report: %w", err)
	}
	return nil
}
