package stats

import (
	"math"
	"slices"
)

// Interval is a confidence interval, its ends included.
type Interval struct {
	Low, High float64
	// Confidence is the chance that such an interval holds what it is of: at
	// least this, whatever the distribution.
	Confidence float64
}

// MedianInterval is the interval of the median at the level 1 - Alpha or above,
// from the order statistics of values, which must be finite: from the l-th value to
// the l-th from the end, with the largest l for which the chance of fewer than l
// values on one side of the median is at most Alpha/2 (the interval of the sign
// test; Hollander and Wolfe, Nonparametric Statistical Methods, section 3.6). It
// says false for fewer than MedianIntervalRuns values, where even the whole range
// falls short.
//
// benchmath takes as many order statistics as it needs and lets the two sides
// differ by one, which is tighter at some sizes. Here a mirrored sample has the
// mirrored interval.
func MedianInterval(values []float64) (Interval, bool) {
	n := len(values)
	left, beyond := 0, 0.0 // beyond is P(fewer than left values lie under the median)
	for {
		next := beyond + binomialHalf(n, left)
		if next > Alpha/2 {
			break
		}
		left, beyond = left+1, next
	}
	if left == 0 {
		return Interval{}, false
	}
	sorted := slices.Sorted(slices.Values(values))
	return Interval{Low: sorted[left-1], High: sorted[n-left], Confidence: 1 - 2*beyond}, true
}

// MedianIntervalRuns is the number of values from which a median has an interval:
// the range of n values misses the median in 2 of 2^n cases.
const MedianIntervalRuns = 6

// binomialHalf is the chance of k heads in n tosses.
func binomialHalf(n, k int) float64 {
	logFactorial := func(i int) float64 {
		v, _ := math.Lgamma(float64(i + 1))
		return v
	}
	return math.Exp(logFactorial(n) - logFactorial(k) - logFactorial(n-k) - float64(n)*math.Ln2)
}

// Shift is by how much one set of values lies above another.
type Shift struct {
	// Estimate is the median of all differences between a value of the one and a
	// value of the other (Hodges and Lehmann 1963).
	Estimate float64
	// Interval holds every shift that the rank test, at the level at which the
	// figure was judged, does not reject. Confidence is one minus that level.
	Interval
}

// shift inverts the rank test: of all shifts d, it finds the least and the greatest
// for which base and other - d are not told apart at alpha (Lehmann, Nonparametrics,
// 1975, section 2.6). Only the differences of two values matter: between two
// neighbours of them the order of the values, and so p, stays the same. Without ties
// this is the interval between the c-th lowest and the c-th highest difference, as in
// R's wilcox.test(conf.int = TRUE); with ties it stays exact, as the test does.
//
// The ends may be infinite, where too few values leave every order possible.
func (r *rankSums) shift(base, other []float64, alpha float64) Shift {
	base, other = slices.Sorted(slices.Values(base)), slices.Sorted(slices.Values(other))
	var differences []float64
	for _, o := range other {
		for _, b := range base {
			differences = append(differences, o-b)
		}
	}
	slices.Sort(differences)
	estimate := Median(differences)
	differences = slices.Compact(differences)
	s := Shift{Estimate: estimate, Interval: Interval{Low: math.Inf(-1), High: math.Inf(1), Confidence: 1 - alpha}}
	rejected := func(order func(float64) int) bool {
		ranks, observed := doubledRanks(base, other, order)
		return r.p(ranks, len(other), abs(observed-len(other)*(len(ranks)+1))) <= alpha
	}
	// From outside inwards, each difference and the gap on its outer side. The
	// differences are asked for themselves, so that one of 0 lies in the interval
	// wherever the test of the values as they are does not reject. The estimate
	// belongs to the interval in any case.
	for _, d := range differences {
		if d > estimate || !rejected(below(d)) {
			break
		}
		s.Low = d
		if d == estimate || !rejected(at(d)) {
			break
		}
	}
	for _, d := range slices.Backward(differences) {
		if d < estimate || !rejected(above(d)) {
			break
		}
		s.High = d
		if d == estimate || !rejected(at(d)) {
			break
		}
	}
	return s
}

// at orders two values by their difference as if the one had been shifted back by d;
// below and above do so for a shift next to d on that side.
func at(d float64) func(float64) int {
	return func(difference float64) int {
		switch {
		case difference > d:
			return 1
		case difference < d:
			return -1
		}
		return 0
	}
}

func below(d float64) func(float64) int {
	return func(difference float64) int {
		if difference >= d {
			return 1
		}
		return -1
	}
}

func above(d float64) func(float64) int {
	return func(difference float64) int {
		if difference <= d {
			return -1
		}
		return 1
	}
}
