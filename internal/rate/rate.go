// Package rate is the one spelling of a request rate: "20", "20/s" or "1200/m".
//
// It parses and prints rates and nothing else: it does not schedule arrivals
// (that is load/arrival) and it does not measure anything.
package rate

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Rate is a number of requests per second. It implements flag.Value and
// encoding.TextUnmarshaler.
type Rate float64

var units = map[string]float64{
	"s": 1, "sec": 1, "second": 1,
	"m": 60, "min": 60, "minute": 60,
	"h": 3600, "hour": 3600,
}

// Parse reads "20", "20/s", "1200/m" or "72000/h". The rate must be finite and
// above zero.
func Parse(s string) (Rate, error) {
	number, unit, hasUnit := strings.Cut(strings.TrimSpace(s), "/")
	per := 1.0
	if hasUnit {
		var ok bool
		if per, ok = units[unit]; !ok {
			return 0, fmt.Errorf("rate %q: unknown unit %q; write it as 20, 20/s, 1200/m or 72000/h", s, unit)
		}
	}
	v, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return 0, fmt.Errorf("rate %q: not a number; write it as 20, 20/s, 1200/m or 72000/h", s)
	}
	v /= per
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return 0, fmt.Errorf("rate %q: must be finite and above zero", s)
	case v <= 0:
		return 0, fmt.Errorf("rate %q: must be above zero", s)
	}
	return Rate(v), nil
}

// String prints the rate per second with its unit, as Parse reads it.
func (r Rate) String() string { return strconv.FormatFloat(float64(r), 'g', -1, 64) + "/s" }

// Set parses s, for package flag.
func (r *Rate) Set(s string) error {
	v, err := Parse(s)
	if err == nil {
		*r = v
	}
	return err
}

// UnmarshalText parses text as Parse does.
func (r *Rate) UnmarshalText(text []byte) error { return r.Set(string(text)) }

// MarshalText prints the rate as String does.
func (r Rate) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// PerSecond is the rate as a plain number of requests per second.
func (r Rate) PerSecond() float64 { return float64(r) }

// Count is the number of arrivals of a constant rate in the half-open window
// [0, d): arrival i falls due at i/rate, so the count is ceil(rate x d), and the
// first is in any window that has a length. A product within a millionth of a
// whole number is that number, since a decimal rate and a scale are rarely exact
// in binary.
func (r Rate) Count(d time.Duration) int {
	if d <= 0 {
		return 0
	}
	n := float64(r) * d.Seconds()
	if whole := math.Round(n); whole >= 1 && math.Abs(n-whole) < 1e-6 {
		return int(whole)
	}
	return int(math.Ceil(n))
}

// Interval is the time between two arrivals at this rate.
func (r Rate) Interval() time.Duration {
	return time.Duration(math.Round(float64(time.Second) / float64(r)))
}
