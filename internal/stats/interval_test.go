package stats

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

func TestMedianInterval(t *testing.T) {
	upTo := func(n int) (values []float64) {
		for i := range n {
			values = append(values, float64(n-i)) // not sorted
		}
		return values
	}
	for _, tt := range []struct {
		name   string
		values []float64
		want   Interval
	}{
		// golang.org/x/perf/benchmath has the same.
		{"six", []float64{-10, 2, 3, 4, 5, 6}, Interval{-10, 6, 1 - 0.03125}},
		// Tables of the sign test, such as Conover's, give the order statistics.
		{"eight", upTo(8), Interval{1, 8, 1 - 2./256}},
		{"nine", upTo(9), Interval{2, 8, 1 - 20./512}},
		{"ten", upTo(10), Interval{2, 9, 1 - 22./1024}},
		{"twenty", upTo(20), Interval{6, 15, 0.958610534667969}},
		{"a hundred", upTo(100), Interval{40, 61, 0.964799799782066}},
		{"ten thousand", upTo(10_000), Interval{4902, 5099, 0.951167}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, ok := MedianInterval(tt.values)
			if diff := cmp.Diff(tt.want, got, cmpopts.EquateApprox(0, 1e-6)); diff != "" || !ok {
				t.Errorf("%v (-want +got)\n%s", ok, diff)
			}
		})
	}
	for n := range 20 {
		if _, ok := MedianInterval(upTo(n)); ok != (n >= MedianIntervalRuns) {
			t.Errorf("an interval of %d values: %v", n, ok)
		}
	}
}

// TestShiftOfAKnownSample: the permeability of two membranes (Hollander and Wolfe,
// example 4.1), of which R's wilcox.test(conf.int = TRUE) gives the same.
func TestShiftOfAKnownSample(t *testing.T) {
	x := []float64{0.80, 0.83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, 0.73, 1.46}
	y := []float64{1.15, 0.88, 0.90, 0.74, 1.21}
	got := Compare(y, x, Quantity(0))
	want := Shift{Estimate: 0.305, Interval: Interval{Low: -0.15, High: 0.76, Confidence: 0.95}}
	if got.Shift == nil {
		t.Fatalf("no shift: %+v", got)
	}
	if diff := cmp.Diff(want, *got.Shift, cmpopts.EquateApprox(0, 1e-9)); diff != "" || got.Direction != Noise {
		t.Errorf("%s (-want +got)\n%s", got.Direction, diff)
	}
}

// TestShiftIsAnOrderStatisticOfTheDifferences: without ties the ends are the c-th
// differences from both sides, c one above the critical U of the tables (Mann and
// Whitney's, two-sided 5 %).
func TestShiftIsAnOrderStatisticOfTheDifferences(t *testing.T) {
	for _, tt := range []struct{ base, other, critical int }{
		{4, 4, 0}, {5, 5, 2}, {6, 6, 5}, {7, 7, 8}, {8, 8, 13}, {10, 10, 23}, {20, 20, 127}, {5, 10, 8},
	} {
		random := rand.New(rand.NewPCG(uint64(tt.base), uint64(tt.other)))
		draw := func(n int) (values []float64) {
			for range n {
				values = append(values, random.NormFloat64())
			}
			return values
		}
		base, other := draw(tt.base), draw(tt.other)
		var differences []float64
		for _, b := range base {
			for _, o := range other {
				differences = append(differences, o-b)
			}
		}
		slices.Sort(differences)
		want := Interval{Low: differences[tt.critical], High: differences[len(differences)-1-tt.critical], Confidence: 0.95}
		if got := Compare(base, other, Quantity(0)).Shift; got == nil || got.Interval != want || got.Estimate != Median(differences) {
			t.Errorf("%d and %d values: %+v, want %+v around %v", tt.base, tt.other, got, want, Median(differences))
		}
	}
}

// tied draws few distinct values, so that most samples have ties.
func tied(least, most int) *rapid.Generator[[]float64] {
	return rapid.SliceOfN(rapid.Map(rapid.IntRange(0, 9), func(v int) float64 { return float64(v) }), least, most)
}

func TestTheIntervalAgreesWithTheClaim(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var pairs []Pair
		for range rapid.IntRange(1, 4).Draw(t, "figures") {
			lift := float64(rapid.IntRange(-8, 8).Draw(t, "lift"))
			pair := Pair{Base: tied(4, 9).Draw(t, "base"), Other: tied(4, 9).Draw(t, "other"), Kind: Quantity(0)}
			for i := range pair.Other {
				pair.Other[i] += lift
			}
			pairs = append(pairs, pair)
		}
		for i, v := range CompareAll(pairs) {
			s := v.Shift
			switch {
			case (s == nil) != (v.Warning != ""):
				t.Fatalf("%v: shift %v, warning %q; want one of them", pairs[i], s, v.Warning)
			case s == nil:
			case s.Low > s.Estimate || s.Estimate > s.High || s.Confidence < 0.95:
				t.Fatalf("%v: %+v does not hold its estimate", pairs[i], s)
			case v.Direction == Noise && (s.Low > 0 || s.High < 0),
				v.Direction == Higher && s.Low < 0, v.Direction == Lower && s.High > 0:
				t.Fatalf("%v: %s, and the interval is %+v", pairs[i], v.Direction, s)
			}
		}
	})
}

func TestShiftAndScaleEquivariance(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		base, other := tied(4, 9).Draw(t, "base"), tied(4, 9).Draw(t, "other")
		by := float64(rapid.IntRange(-100, 100).Draw(t, "by"))
		factor := rapid.SampledFrom([]float64{0.25, 2, 1024}).Draw(t, "factor")
		change := func(values []float64, f func(float64) float64) (all []float64) {
			for _, v := range values {
				all = append(all, f(v))
			}
			return all
		}
		moved := func(v float64) float64 { return v + by }
		scaled := func(v float64) float64 { return v * factor }
		shift := func(base, other []float64) Shift { return new(rankSums).shift(base, other, Alpha) }
		s := shift(base, other)
		for _, tt := range []struct {
			name      string
			got, want Shift
		}{
			{"both moved", shift(change(base, moved), change(other, moved)), s},
			{"one moved", shift(base, change(other, moved)), Shift{s.Estimate + by, Interval{s.Low + by, s.High + by, s.Confidence}}},
			{"scaled", shift(change(base, scaled), change(other, scaled)), Shift{s.Estimate * factor, Interval{s.Low * factor, s.High * factor, s.Confidence}}},
			{"exchanged", shift(other, base), Shift{-s.Estimate, Interval{-s.High, -s.Low, s.Confidence}}},
		} {
			if tt.got != tt.want {
				t.Fatalf("%s: %+v, want %+v", tt.name, tt.got, tt.want)
			}
		}
	})
}

// TestCoverage draws from distributions whose median and shift are known, and counts
// how often the intervals miss them. The seeds are fixed, so the counts are too.
// Where values tie the intervals are wider than they claim.
func TestCoverage(t *testing.T) {
	const trials = 500
	sums := &rankSums{}
	for _, tt := range []struct {
		name   string
		median float64
		draw   func(*rand.Rand) float64
		ties   bool
	}{
		{"normal", 0, (*rand.Rand).NormFloat64, false},
		{"log-normal", 1, func(r *rand.Rand) float64 { return math.Exp(r.NormFloat64()) }, false},
		{"exponential", math.Ln2, (*rand.Rand).ExpFloat64, false},
		{"whole numbers from 0 to 6", 3, func(r *rand.Rand) float64 { return float64(r.IntN(7)) }, true},
	} {
		for _, n := range []int{6, 9} {
			random := rand.New(rand.NewPCG(uint64(n), 3))
			draw := func() (values []float64) {
				for range n {
					values = append(values, tt.draw(random))
				}
				return values
			}
			medians, shifts, confidence := 0, 0, 0.0
			const by = 2.0
			for range trials {
				base, other := draw(), draw()
				interval, _ := MedianInterval(base)
				confidence = interval.Confidence
				if tt.median < interval.Low || tt.median > interval.High {
					medians++
				}
				for i := range other {
					other[i] += by
				}
				if s := sums.shift(base, other, Alpha); by < s.Low || by > s.High {
					shifts++
				}
			}
			t.Logf("%s, %d values: %d medians and %d shifts of %d missed", tt.name, n, medians, shifts, trials)
			// Three standard deviations of a binomial count of trials.
			bound := func(p float64) (least, most int) {
				sd := math.Sqrt(trials * p * (1 - p))
				return int(trials*p - 3*sd), int(trials*p + 3*sd)
			}
			least, most := bound(1 - confidence)
			if medians > most || medians < least && !tt.ties {
				t.Errorf("%s, %d values: %d medians missed, want %d to %d", tt.name, n, medians, least, most)
			}
			// The shift's true level is the nearest that the orders have under Alpha.
			attained := map[int]float64{6: 38. / 924, 9: 0.03998}[n]
			least, most = bound(attained)
			if shifts > most || shifts < least && !tt.ties {
				t.Errorf("%s, %d values: %d shifts missed, want %d to %d", tt.name, n, shifts, least, most)
			}
		}
	}
}
