// Package threshold reads conditions on the result of a load, in the grammar of
// k6's thresholds, and says at the end of a run which of them hold:
//
//	fast:p(95)<200ms      the 95th percentile of the response times of fast
//	p(99.9)<=2s           of all endpoints together
//	fast:failed<1%        failed / scheduled, dropped and interrupted included
//	dropped==0
//	fast{expected_response:true}:p(95)<200ms
//	{ok}:p(95)<200ms      of the good answers alone, written short
//
// k6's tag expected_response is true where the status is under 400, which is what
// ok means here; there is no other tag.
//
// It refuses the mean (k6's avg): a mean hides the slow answers that a threshold
// is there to catch. It does not look at validity: an invalid run is judged before
// any threshold.
package threshold

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"chokepoint/internal/load/latency"
	"chokepoint/internal/result"
)

// example is what every syntax error ends with.
const example = "write it as fast:p(95)<200ms, failed<1% or dropped==0"

// The units of a threshold, as result.Threshold has them.
const (
	unitMS    = "ms"
	unitRatio = "ratio"
	unitCount = "count"
)

// Measured is what a threshold looks at: one endpoint, or all together.
type Measured struct {
	Scheduled, OK, Dropped int
	Response               *latency.Histogram // of the part that is selected
}

// part is which responses a threshold is about.
type part string

const (
	allResponses    part = ""
	okResponses     part = "ok"
	failedResponses part = "failed"
)

// parts are the spellings of a part: k6's tag, and the outcome.
var parts = map[string]part{
	"": allResponses, "ok": okResponses, "failed": failedResponses,
	"expected_response:true": okResponses, "expected_response:false": failedResponses,
}

// of is the histogram of the part.
func (p part) of(r latency.Responses) *latency.Histogram {
	switch p {
	case okResponses:
		return r.OK
	case failedResponses:
		return r.Failed
	}
	return r.All
}

// metric is a word of the grammar. Its value is false where nothing was measured.
type metric struct {
	unit  string
	value func(Measured) (float64, bool)
}

// named is the metric of a word other than p(N).
func named(word string) (metric, bool) {
	switch word {
	case "med":
		return percentile(50), true
	case "min":
		return timing(func(h *latency.Histogram) time.Duration { return h.Min() }), true
	case "max":
		return timing(func(h *latency.Histogram) time.Duration { return h.Max() }), true
	case "failed":
		return metric{unitRatio, func(m Measured) (float64, bool) {
			if m.Scheduled == 0 {
				return 0, false
			}
			return float64(m.Scheduled-m.OK) / float64(m.Scheduled), true
		}}, true
	case "dropped":
		return metric{unitCount, func(m Measured) (float64, bool) { return float64(m.Dropped), true }}, true
	case "count":
		return metric{unitCount, func(m Measured) (float64, bool) { return float64(m.Scheduled), true }}, true
	}
	return metric{}, false
}

// words are the metrics, for messages.
const words = "p(N), med, min, max, failed, dropped and count"

func percentile(p float64) metric {
	return timing(func(h *latency.Histogram) time.Duration { return h.Quantile(p / 100) })
}

// timing is a metric of response times, in milliseconds.
func timing(of func(*latency.Histogram) time.Duration) metric {
	return metric{unitMS, func(m Measured) (float64, bool) {
		return float64(of(m.Response)) / float64(time.Millisecond), m.Response.Count() > 0
	}}
}

// Threshold is one condition.
type Threshold struct {
	text     string
	endpoint string // empty for all together
	part     part
	metric   metric
	operator string
	limit    float64 // in the metric's unit
}

// syntax is [endpoint[{part}]:]metric operator value. The operator's second character
// is taken where there is one.
var syntax = regexp.MustCompile(`^(?:([A-Za-z0-9_-]+)\s*(?:\{([^{}]+)\})?\s*:|\{([^{}]+)\}\s*:)?\s*([a-z]+(?:\([^()]*\))?)\s*(<=|>=|==|!=|<|>)\s*(\S+)$`)

// Parse reads a threshold:
//
//	[endpoint[{part}]:]metric operator value
//
// A part is expected_response:true or ok, expected_response:false or failed, and
// goes with response times only; the endpoint before it may be left out.
// The metrics are p(N), med, min and max of response times (a duration; a plain
// number is milliseconds, as in k6), failed (a share, 1% or 0.01), dropped and
// count (whole numbers; count is of scheduled arrivals). The operators are <, <=,
// >, >=, == and !=. The error is one line with the text and an example.
func Parse(text string) (Threshold, error) {
	fields := syntax.FindStringSubmatch(strings.TrimSpace(text))
	if fields == nil {
		return Threshold{}, fmt.Errorf("threshold %q: not [endpoint[{part}]:]metric operator value; %s", text, example)
	}
	t := Threshold{text: strings.TrimSpace(text), endpoint: fields[1], operator: fields[5]}
	var err error
	if t.metric, err = parseMetric(fields[4]); err == nil {
		t.limit, err = parseLimit(fields[6], t.metric.unit)
	}
	if err == nil {
		t.part, err = parsePart(fields[2]+fields[3], t.metric)
	}
	if err != nil {
		return Threshold{}, fmt.Errorf("threshold %q: %w; %s", text, err, example)
	}
	return t, nil
}

func parsePart(text string, m metric) (part, error) {
	p, ok := parts[strings.ReplaceAll(text, " ", "")]
	switch {
	case !ok:
		return "", fmt.Errorf("{%s} is no part of the responses: there are {ok} or {expected_response:true}, and {failed} or {expected_response:false}", text)
	case p != allResponses && m.unit != unitMS:
		return "", fmt.Errorf("{%s} goes with response times only: p(N), med, min and max", text)
	}
	return p, nil
}

func parseMetric(word string) (metric, error) {
	if m, ok := named(word); ok {
		return m, nil
	}
	if word == "avg" {
		return metric{}, fmt.Errorf("a mean hides the slow answers; take med or a percentile such as p(95)")
	}
	inner, ok := strings.CutPrefix(word, "p(")
	if !ok {
		return metric{}, fmt.Errorf("unknown metric %q: there are %s", word, words)
	}
	number := strings.TrimSpace(strings.TrimSuffix(inner, ")"))
	p, err := strconv.ParseFloat(number, 64)
	if err != nil || !(p > 0 && p <= 100) {
		return metric{}, fmt.Errorf("%q is not a percentile above 0 and up to 100", number)
	}
	return percentile(p), nil
}

func parseLimit(text, unit string) (float64, error) {
	var v float64
	var err error
	var want string
	switch unit {
	case unitMS:
		want = "a duration such as 200ms"
		if v, err = strconv.ParseFloat(text, 64); err != nil {
			var d time.Duration
			d, err = time.ParseDuration(text)
			v = float64(d) / float64(time.Millisecond)
		}
	case unitRatio:
		want = "a share from 0 to 1 such as 1% or 0.01"
		number, percent := strings.CutSuffix(text, "%")
		if v, err = strconv.ParseFloat(number, 64); percent {
			v /= 100
		}
		if v > 1 {
			return 0, fmt.Errorf("%q is not %s", text, want)
		}
	default:
		want = "a whole number"
		var n int
		n, err = strconv.Atoi(text)
		v = float64(n)
	}
	if err != nil || v < 0 || math.IsNaN(v) || math.IsInf(v, 0) {
		return 0, fmt.Errorf("%q is not %s", text, want)
	}
	return v, nil
}

// String is the threshold as it was given.
func (t Threshold) String() string { return t.text }

// Endpoint is the endpoint that the threshold is about; empty for all together.
func (t Threshold) Endpoint() string { return t.endpoint }

// Evaluate holds what was measured to the threshold. Where nothing was, it is
// not met: that cannot be told from an endpoint that never answered.
func (t Threshold) Evaluate(m Measured) result.Threshold {
	r := result.Threshold{Text: t.text, Unit: t.metric.unit}
	got, measured := t.metric.value(m)
	if !measured {
		return r
	}
	r.Got = &got
	switch t.operator {
	case "<":
		r.OK = got < t.limit
	case "<=":
		r.OK = got <= t.limit
	case ">":
		r.OK = got > t.limit
	case ">=":
		r.OK = got >= t.limit
	case "==":
		r.OK = got == t.limit
	case "!=":
		r.OK = got != t.limit
	}
	return r
}

// EvaluateAll holds a load to several thresholds. responses has the histograms of
// every endpoint; a threshold of an endpoint that is not in the load is not met.
func EvaluateAll(thresholds []Threshold, endpoints map[string]result.Endpoint, responses map[string]latency.Responses) []result.Threshold {
	var results []result.Threshold
	for _, t := range thresholds {
		m := Measured{Response: latency.New()}
		for name, e := range endpoints {
			if t.endpoint != "" && t.endpoint != name {
				continue
			}
			m.Scheduled, m.OK, m.Dropped = m.Scheduled+e.Scheduled, m.OK+e.OK, m.Dropped+e.Dropped
			if of := t.part.of(responses[name]); of != nil {
				m.Response.Merge(of)
			}
		}
		results = append(results, t.Evaluate(m))
	}
	return results
}
