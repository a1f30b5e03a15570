// Package stats condenses the figures of repeated runs and says whether two sets
// of them differ.
//
// A verdict travels with the reason for which it should be doubted: too few
// values are said to be too few and are never averaged into a claim. The package
// refuses to estimate what a handful of runs cannot carry: it knows no mean and no
// standard deviation, gives an interval only where there are enough values for one,
// and assumes no distribution. The idea of warnings that travel with numbers is that
// of golang.org/x/perf/benchmath.
package stats

import (
	"fmt"
	"math"
	"slices"
)

// MinRuns is the number of values under which a median is "too few" and nothing
// is claimed (DESIGN section 6).
const MinRuns = 3

// Spread is a median with the range that it came from.
type Spread struct {
	N                int
	Median, Min, Max float64
	// Warning says why the figures should be doubted; empty if nothing speaks
	// against them.
	Warning string
}

// Summarize condenses values, which must be finite. The figures of no values
// at all are 0, with a warning.
func Summarize(values []float64) Spread {
	s := Spread{N: len(values), Warning: tooFew(len(values))}
	if s.N > 0 {
		s.Median, s.Min, s.Max = Median(values), slices.Min(values), slices.Max(values)
	}
	return s
}

// Median is the middle value, or the mean of the two middle ones. It is NaN for
// no values, and leaves values as they are.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	// Halving first keeps the sum of two huge values finite.
	return sorted[middle-1]/2 + sorted[middle]/2
}

func tooFew(n int) string {
	if n >= MinRuns {
		return ""
	}
	return fmt.Sprintf("too few values: %d, at least %d are needed", n, MinRuns)
}

// Quantile is the nearest-rank quantile of sorted values: the smallest value
// that at least the share q of them does not exceed. It is what HdrHistogram
// reports, without its buckets. NaN if there are no values.
func Quantile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return math.NaN()
	}
	rank := int(math.Ceil(q * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1]
}
