// Package delay is the one spelling of a distribution of delays: "30s",
// "uniform:10ms..50ms", "lognormal:p50=80ms,p99=400ms" or "file:PATH". The stub
// draws from it, the model predicts with it and a size is taken from its
// quantiles. It parses and draws; it does not wait.
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
	text string
	distribution
}

// distribution is one kind of distribution, by what is asked of it.
type distribution struct {
	sample   func(*rand.Rand) time.Duration
	quantile func(q float64) time.Duration
}

// Sample draws one delay, in [0, Max]. A constant draws nothing from r.
func (d Delay) Sample(r *rand.Rand) time.Duration {
	if d.sample == nil {
		return 0
	}
	return d.sample(r)
}

// Quantile is the smallest delay that at least the share q (0 to 1) of the draws
// does not exceed, exactly, in [0, Max].
func (d Delay) Quantile(q float64) time.Duration {
	if d.quantile == nil {
		return 0
	}
	return d.quantile(min(max(q, 0), 1))
}

// Median is the quantile 0.5.
func (d Delay) Median() time.Duration { return d.Quantile(0.5) }

// String is the text that Parse read.
func (d Delay) String() string {
	if d.sample == nil {
		return "0s"
	}
	return d.text
}

// Of is drawn evenly from values, of which there is at least one, each in [0, Max];
// name is its String.
func Of(name string, values []time.Duration) Delay {
	return Delay{name, drawnFrom(values)}
}

func constant(d time.Duration) distribution {
	return distribution{
		sample:   func(*rand.Rand) time.Duration { return d },
		quantile: func(float64) time.Duration { return d },
	}
}

func drawnFrom(values []time.Duration) distribution {
	sorted := slices.Sorted(slices.Values(values))
	return distribution{
		sample: func(r *rand.Rand) time.Duration { return values[r.IntN(len(values))] },
		quantile: func(q float64) time.Duration {
			// A product that is whole but for the last bit is that whole number.
			rank := int(math.Ceil(q*float64(len(sorted)) - 1e-9))
			return sorted[max(rank, 1)-1]
		},
	}
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
		return Delay{s, constant(d)}, nil
	}
	var drawn distribution
	var err error
	switch kind {
	case "uniform":
		drawn, err = parseUniform(rest)
	case "lognormal":
		drawn, err = parseLogNormal(rest)
	case "file":
		drawn, err = parseFile(rest)
	default:
		err = fmt.Errorf("unknown distribution %q; use a duration, uniform:LOW..HIGH, lognormal:p50=D,p99=D or file:PATH", kind)
	}
	if err != nil {
		return Delay{}, fmt.Errorf("delay %q: %w", s, err)
	}
	return Delay{s, drawn}, nil
}

func parseUniform(s string) (distribution, error) {
	from, to, ok := strings.Cut(s, "..")
	if !ok {
		return distribution{}, fmt.Errorf("no range; write it as uniform:10ms..50ms")
	}
	low, err := parseDuration(from)
	if err != nil {
		return distribution{}, err
	}
	high, err := parseDuration(to)
	if err != nil {
		return distribution{}, err
	}
	if low > high {
		return distribution{}, fmt.Errorf("%v is above %v; write the smaller one first", low, high)
	}
	return distribution{
		sample: func(r *rand.Rand) time.Duration {
			return low + time.Duration(r.Int64N(int64(high-low)+1))
		},
		quantile: func(q float64) time.Duration { return low + time.Duration(q*float64(high-low)) },
	}, nil
}

func parseLogNormal(s string) (distribution, error) {
	quantiles := map[string]time.Duration{"p50": 0, "p99": 0}
	for part := range strings.SplitSeq(s, ",") {
		name, value, _ := strings.Cut(part, "=")
		seen, known := quantiles[name]
		if !known || seen != 0 {
			return distribution{}, fmt.Errorf("%q is not one p50 and one p99; write it as lognormal:p50=80ms,p99=400ms", part)
		}
		d, err := parseDuration(value)
		if err != nil {
			return distribution{}, fmt.Errorf("%s: %w", name, err)
		}
		if d == 0 {
			return distribution{}, fmt.Errorf("%s must be above zero", name)
		}
		quantiles[name] = d
	}
	p50, p99 := quantiles["p50"], quantiles["p99"]
	if p50 == 0 || p99 == 0 {
		return distribution{}, fmt.Errorf("needs both quantiles; write it as lognormal:p50=80ms,p99=400ms")
	}
	if p99 < p50 {
		return distribution{}, fmt.Errorf("p99 %v is below p50 %v", p99, p50)
	}
	mu := math.Log(float64(p50))
	sigma := math.Log(float64(p99)/float64(p50)) / z99
	// Compared as floats: a far tail would overflow the conversion.
	at := func(z float64) time.Duration { return time.Duration(min(math.Exp(mu+sigma*z), float64(Max))) }
	return distribution{
		sample: func(r *rand.Rand) time.Duration { return at(r.NormFloat64()) },
		quantile: func(q float64) time.Duration {
			if sigma == 0 { // 0 times the infinite z of q = 1 would be no number
				return at(0)
			}
			return at(math.Sqrt2 * math.Erfinv(2*q-1))
		},
	}, nil
}

func parseFile(path string) (distribution, error) {
	// Checked before opening: a pipe would block, a device would never end.
	info, err := os.Stat(path)
	if err != nil {
		return distribution{}, err
	}
	if !info.Mode().IsRegular() {
		return distribution{}, fmt.Errorf("not a regular file")
	}
	if info.Size() > maxFileBytes {
		return distribution{}, fmt.Errorf("%d bytes; at most %d are read", info.Size(), maxFileBytes)
	}
	f, err := os.Open(path)
	if err != nil {
		return distribution{}, err
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
			return distribution{}, fmt.Errorf("line %d: %w", number, err)
		}
		if len(delays) == maxFileLines {
			return distribution{}, fmt.Errorf("line %d: more than %d durations", number, maxFileLines)
		}
		delays = append(delays, d)
	}
	if err := lines.Err(); err != nil {
		return distribution{}, fmt.Errorf("not a list of durations, one a line: %w", err)
	}
	if len(delays) == 0 {
		return distribution{}, fmt.Errorf("holds no duration; write one a line, such as 80ms")
	}
	return drawnFrom(delays), nil
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
