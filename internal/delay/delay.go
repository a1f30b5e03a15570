// Package delay is the one spelling of a distribution of delays: "30s",
// "uniform:10ms..50ms", "lognormal:p50=80ms,p99=400ms" or "file:PATH". The stub
// draws from it and the model predicts with it. It parses and draws; it does not
// wait.
package delay

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"time"
)

// Max is the longest delay that can be asked for. A log-normal draw beyond
// it is cut to it.
const Max = 24 * time.Hour

// Limits of a delay file.
const (
	maxFileBytes = 16 << 20
	maxFileLines = 1_000_000
)

// z99 is the 0.99 quantile of the standard normal distribution.
const z99 = 2.3263478740408408

// Delay is a distribution of delays. Its zero value is no delay.
type Delay struct {
	text   string
	sample func(*rand.Rand) time.Duration
}

// Sample draws one delay, in [0, Max]. A constant draws nothing from r.
func (d Delay) Sample(r *rand.Rand) time.Duration {
	if d.sample == nil {
		return 0
	}
	return d.sample(r)
}

// Median is the middle of 1,001 draws, the same ones every time; for a constant
// it is that.
func (d Delay) Median() time.Duration {
	r := rand.New(rand.NewPCG(1, 1))
	drawn := make([]time.Duration, 1001)
	for i := range drawn {
		drawn[i] = d.Sample(r)
	}
	slices.Sort(drawn)
	return drawn[len(drawn)/2]
}

// String is the text that Parse read.
func (d Delay) String() string {
	if d.sample == nil {
		return "0s"
	}
	return d.text
}

// Parse reads a distribution:
//
//	30s                          constant
//	uniform:10ms..50ms           uniform in [10ms, 50ms], both ends included
//	lognormal:p50=80ms,p99=400ms log-normal with that median and 0.99 quantile
//	file:PATH                    drawn evenly from the durations in PATH, one a
//	                             line; empty lines and lines that start with #
//	                             are skipped
//
// The log-normal delay is exp(mu + sigma*Z) with Z standard normal, mu = ln p50
// and sigma = ln(p99/p50) / 2.3263 (the 0.99 quantile of Z), so that its
// quantiles are exactly those asked for.
//
// The file is read whole, here: later changes to it have no effect. It must be
// a regular file of at most 16 MiB and a million durations.
func Parse(s string) (Delay, error) {
	kind, rest, tagged := strings.Cut(s, ":")
	if !tagged {
		d, err := parseDuration(s)
		if err != nil {
			return Delay{}, fmt.Errorf("delay %q: %w", s, err)
		}
		return Delay{s, func(*rand.Rand) time.Duration { return d }}, nil
	}
	var sample func(*rand.Rand) time.Duration
	var err error
	switch kind {
	case "uniform":
		sample, err = parseUniform(rest)
	case "lognormal":
		sample, err = parseLogNormal(rest)
	case "file":
		sample, err = parseFile(rest)
	default:
		err = fmt.Errorf("unknown distribution %q; use a duration, uniform:LOW..HIGH, lognormal:p50=D,p99=D or file:PATH", kind)
	}
	if err != nil {
		return Delay{}, fmt.Errorf("delay %q: %w", s, err)
	}
	return Delay{s, sample}, nil
}

func parseUniform(s string) (func(*rand.Rand) time.Duration, error) {
	from, to, ok := strings.Cut(s, "..")
	if !ok {
		return nil, fmt.Errorf("no range; write it as uniform:10ms..50ms")
	}
	low, err := parseDuration(from)
	if err != nil {
		return nil, err
	}
	high, err := parseDuration(to)
	if err != nil {
		return nil, err
	}
	if low > high {
		return nil, fmt.Errorf("%v is above %v; write the smaller one first", low, high)
	}
	return func(r *rand.Rand) time.Duration {
		return low + time.Duration(r.Int64N(int64(high-low)+1))
	}, nil
}

func parseLogNormal(s string) (func(*rand.Rand) time.Duration, error) {
	quantiles := map[string]time.Duration{"p50": 0, "p99": 0}
	for part := range strings.SplitSeq(s, ",") {
		name, value, _ := strings.Cut(part, "=")
		seen, known := quantiles[name]
		if !known || seen != 0 {
			return nil, fmt.Errorf("%q is not one p50 and one p99; write it as lognormal:p50=80ms,p99=400ms", part)
		}
		d, err := parseDuration(value)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if d == 0 {
			return nil, fmt.Errorf("%s must be above zero", name)
		}
		quantiles[name] = d
	}
	p50, p99 := quantiles["p50"], quantiles["p99"]
	if p50 == 0 || p99 == 0 {
		return nil, fmt.Errorf("needs both quantiles; write it as lognormal:p50=80ms,p99=400ms")
	}
	if p99 < p50 {
		return nil, fmt.Errorf("p99 %v is below p50 %v", p99, p50)
	}
	mu := math.Log(float64(p50))
	sigma := math.Log(float64(p99)/float64(p50)) / z99
	return func(r *rand.Rand) time.Duration {
		// Compared as floats: a far tail would overflow the conversion.
		return time.Duration(min(math.Exp(mu+sigma*r.NormFloat64()), float64(Max)))
	}, nil
}

func parseFile(path string) (func(*rand.Rand) time.Duration, error) {
	// Checked before opening: a pipe would block, a device would never end.
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("not a regular file")
	}
	if info.Size() > maxFileBytes {
		return nil, fmt.Errorf("%d bytes; at most %d are read", info.Size(), maxFileBytes)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()

	var delays []time.Duration
	lines := bufio.NewScanner(io.LimitReader(f, maxFileBytes))
	for number := 1; lines.Scan(); number++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		d, err := parseDuration(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		if len(delays) == maxFileLines {
			return nil, fmt.Errorf("line %d: more than %d durations", number, maxFileLines)
		}
		delays = append(delays, d)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("not a list of durations, one a line: %w", err)
	}
	if len(delays) == 0 {
		return nil, fmt.Errorf("holds no duration; write one a line, such as 80ms")
	}
	return func(r *rand.Rand) time.Duration { return delays[r.IntN(len(delays))] }, nil
}

func parseDuration(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	switch {
	case err != nil:
		return 0, fmt.Errorf("%q is not a duration; write it with a unit, such as 80ms or 30s", s)
	case d < 0:
		return 0, fmt.Errorf("%v is negative", d)
	case d > Max:
		return 0, fmt.Errorf("%v is above the longest delay, %v", d, Max)
	}
	return d, nil
}
