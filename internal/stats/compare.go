package stats

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Alpha bounds the chance that a family of rank tests claims any difference where
// there is none. It is the usual 5 %, as in benchstat.
const Alpha = 0.05

// RankTestRuns is the number of values on each side from which the rank test
// decides. Three against three cannot reach Alpha: the most extreme of the 20
// orders has a two-sided p of 2/20.
const RankTestRuns = 4

// Direction says how the other values lie to the base. Its values are those of
// result.ComparedMetric.
type Direction string

// The directions.
const (
	Higher Direction = "higher"
	Lower  Direction = "lower"
	Noise  Direction = "~" // no difference that the values can carry
	TooFew Direction = "?"
)

// Kind is how far medians must lie apart for the three-run rule to call it a
// difference: further than both thresholds.
type Kind struct {
	relative float64 // share of the smaller median
	absolute float64 // in the unit of the values
}

// Quantity is the kind of times, counts and sizes: the medians must differ by
// more than 25 % (DESIGN section 6) and by more than floor, the resolution of
// the measurement in its own unit; 0 is none. The percentage is taken of the
// smaller median, so that exchanging the sides mirrors the verdict.
func Quantity(floor float64) Kind { return Kind{relative: 0.25, absolute: floor} }

// Ratio is the kind of shares between 0 and 1: the medians must differ by more
// than 5 percentage points (DESIGN section 6).
func Ratio() Kind { return Kind{absolute: 0.05} }

func (k Kind) exceeded(base, other float64) bool {
	gap := math.Abs(other - base)
	return gap > k.absolute && gap > k.relative*min(math.Abs(base), math.Abs(other))
}

// Pair holds one figure of two sets of runs.
type Pair struct {
	Base, Other []float64
	Kind        Kind
}

// Verdict is what a comparison may claim.
type Verdict struct {
	Direction Direction
	// P is the two-sided p of the rank test before the correction; 1 where no
	// rank test was made.
	P float64
	// Shift is by how much Other lies above Base, with an interval that agrees with
	// Direction: it lies on one side of 0, at most touching it, where a difference is
	// claimed, and holds 0 where none is. Nil where no rank test decided.
	Shift *Shift
	// Warning says why there is no claim, or why not by the rank test.
	Warning string
}

// Compare judges one figure on its own, as CompareAll does a family of one.
func Compare(base, other []float64, kind Kind) Verdict {
	return CompareAll([]Pair{{Base: base, Other: other, Kind: kind}})[0]
}

// CompareAll judges all figures of one comparison. The answer has the order of
// pairs. Values must be finite; a pair with one that is not is TooFew.
//
// The rules (DESIGN section 6) go by the smaller side of each pair:
//
//   - under three values: TooFew;
//   - three: a difference where the ranges are disjoint and the medians lie
//     further apart than Kind asks. Chance alone makes three against three
//     disjoint in 2 of 20 orders, hence the second condition, which holds only as
//     well as the figures are stable: of quantities that vary by 5 % from run to run
//     none is claimed falsely, of those that vary by 10 % just under 1 % are
//     (TestAAComparison counts them);
//   - from four on: a Mann-Whitney U test (Mann and Whitney 1947), whose p values
//     are corrected by Holm's step-down method (Holm 1979), so that Alpha bounds the
//     chance of any false claim of the whole family. A figure that no order of its
//     values could carry past Alpha, such as one that is the same in every run,
//     cannot be claimed falsely and is not counted in the correction (Tarone 1990).
//
// Many figures and few runs can put the corrected level out of reach of every
// order: 4 against 4 has no p under 2/70. There the test would call any gap noise,
// however wide, so the three-run rule decides, which only grows stricter with
// each run, and the verdict carries a warning.
//
// The interval of a Shift is at the level at which Holm's method judged the figure,
// which is why the two agree; that is 1 - Alpha or above. The three-run rule gives
// no interval: no order of so few values is rare enough for one.
func CompareAll(pairs []Pair) []Verdict {
	verdicts := make([]Verdict, len(pairs))
	sums := &rankSums{}
	var family, constant []test // constant: beyond any claim, and so outside the family
	for i, p := range pairs {
		n := min(len(p.Base), len(p.Other))
		switch {
		case !finite(p.Base) || !finite(p.Other):
			verdicts[i] = Verdict{Direction: TooFew, P: 1, Warning: "a value is not a finite number"}
		case n < MinRuns:
			verdicts[i] = Verdict{Direction: TooFew, P: 1, Warning: tooFew(n)}
		case n < RankTestRuns:
			verdicts[i] = Verdict{Direction: threeRunRule(p), P: 1}
		default:
			t := sums.rankTest(p.Base, p.Other)
			t.index = i
			verdicts[i] = Verdict{Direction: Noise, P: t.p}
			if t.leastP <= Alpha {
				family = append(family, t)
			} else {
				constant = append(constant, t)
			}
		}
	}
	claimed := claim(family, verdicts)
	for i, t := range append(family, constant...) {
		v, p := &verdicts[t.index], pairs[t.index]
		if i >= claimed && i < len(family) && t.leastP > Alpha/float64(len(family)) {
			v.Direction = threeRunRule(p)
			v.Warning = fmt.Sprintf("%d and %d values cannot decide %d figures by a rank test: judged by ranges and medians; %d values a side would",
				len(p.Base), len(p.Other), len(family), runsFor(len(family)))
			continue
		}
		shift := sums.shift(p.Base, p.Other, level(len(family), min(i, claimed)))
		v.Shift = &shift
	}
	return verdicts
}

// level is what Holm's method asks of a p once so many of a family are claimed.
func level(family, claimed int) float64 { return Alpha / float64(max(1, family-claimed)) }

// claim sets the direction of those verdicts that Holm's method allows: the
// smallest p must not exceed Alpha/m, the next Alpha/(m-1), up to the first
// that does. It sorts the family by p, and says how many were claimed.
func claim(family []test, verdicts []Verdict) int {
	slices.SortStableFunc(family, func(a, b test) int { return cmp.Compare(a.p, b.p) })
	for i, t := range family {
		if t.p > level(len(family), i) {
			return i
		}
		verdicts[t.index].Direction = t.direction
	}
	return len(family)
}

func threeRunRule(p Pair) Direction {
	base, other := Summarize(p.Base), Summarize(p.Other)
	switch {
	case !p.Kind.exceeded(base.Median, other.Median):
		return Noise
	case other.Min > base.Max:
		return Higher
	case other.Max < base.Min:
		return Lower
	}
	return Noise
}

// runsFor is the least number of values a side with which the most extreme of
// the orders, whose two-sided p is 2 in (2n choose n), passes Holm's first step
// among m tests.
func runsFor(m int) int {
	n, orders := RankTestRuns, 70.0
	for 2/orders > Alpha/float64(m) {
		n++
		orders *= float64(2*n*(2*n-1)) / float64(n*n)
	}
	return n
}

func finite(values []float64) bool {
	return !slices.ContainsFunc(values, func(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) })
}
