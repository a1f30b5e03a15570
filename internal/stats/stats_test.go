package stats

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestSummarize(t *testing.T) {
	tests := []struct {
		name   string
		values []float64
		want   Spread
	}{
		{"none", nil, Spread{Warning: "too few values: 0, at least 3 are needed"}},
		{"two", []float64{4, 1}, Spread{N: 2, Median: 2.5, Min: 1, Max: 4,
			Warning: "too few values: 2, at least 3 are needed"}},
		{"odd", []float64{9, 1, 3}, Spread{N: 3, Median: 3, Min: 1, Max: 9}},
		{"even", []float64{9, 1, 3, 5}, Spread{N: 4, Median: 4, Min: 1, Max: 9}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before := slices.Clone(tt.values)
			if diff := cmp.Diff(tt.want, Summarize(tt.values)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if diff := cmp.Diff(before, tt.values); diff != "" {
				t.Errorf("the values were changed\n%s", diff)
			}
		})
	}
}

func TestMedian(t *testing.T) {
	if got := Median(nil); !math.IsNaN(got) {
		t.Errorf("Median(nil) = %v, want NaN", got)
	}
	if got := Median([]float64{math.MaxFloat64, math.MaxFloat64}); got != math.MaxFloat64 {
		t.Errorf("the median of two huge values = %v", got)
	}
}

func TestCompare(t *testing.T) {
	tests := []struct {
		name        string
		base, other []float64
		kind        Kind
		want        Direction
		warning     string
	}{
		{"two against three", []float64{1, 1}, []float64{9, 9, 9}, Quantity(0), TooFew, "too few values: 2"},
		{"none", nil, nil, Ratio(), TooFew, "too few values: 0"},
		{"not a number", []float64{1, 2, math.NaN()}, []float64{1, 2, 3}, Quantity(0), TooFew, "not a finite number"},
		{"infinite", []float64{1, 2, 3, 4}, []float64{1, 2, 3, math.Inf(1)}, Quantity(0), TooFew, "not a finite number"},

		{"disjoint and far", []float64{30_000, 30_000, 30_001}, []float64{2.9, 2.8, 3.4}, Quantity(5), Lower, ""},
		{"disjoint and far, the other way", []float64{2.9, 2.8, 3.4}, []float64{30_000, 30_000, 30_001}, Quantity(5), Higher, ""},
		{"disjoint and exactly 25 % apart", []float64{100, 100, 100}, []float64{125, 125, 125}, Quantity(0), Noise, ""},
		{"disjoint and just over 25 % apart", []float64{100, 100, 100}, []float64{125.1, 125.1, 125.1}, Quantity(0), Higher, ""},
		{"mirrored", []float64{125.1, 125.1, 125.1}, []float64{100, 100, 100}, Quantity(0), Lower, ""},
		{"far and overlapping", []float64{10, 20, 90}, []float64{80, 100, 120}, Quantity(0), Noise, ""},
		{"ranges that touch", []float64{10, 20, 80}, []float64{80, 100, 120}, Quantity(0), Noise, ""},
		{"under the floor", []float64{1, 1, 1}, []float64{5, 5, 6}, Quantity(5), Noise, ""},
		{"over the floor", []float64{1, 1, 1}, []float64{6.1, 6.1, 6.1}, Quantity(5), Higher, ""},
		{"from zero", []float64{0, 0, 0}, []float64{1, 1, 1}, Quantity(0), Higher, ""},
		{"zero against zero", []float64{0, 0, 0}, []float64{0, 0, 0}, Quantity(0), Noise, ""},

		{"ratios exactly 5 points apart", []float64{0, 0, 0}, []float64{0.05, 0.05, 0.05}, Ratio(), Noise, ""},
		{"ratios over 5 points apart", []float64{0, 0, 0}, []float64{0.051, 0.051, 0.051}, Ratio(), Higher, ""},
		{"ratios far apart by share alone", []float64{0.01, 0.01, 0.01}, []float64{0.03, 0.03, 0.03}, Ratio(), Noise, ""},

		{"three against five is the three-run rule", []float64{1, 2, 3}, []float64{10, 11, 12, 13, 14}, Quantity(0), Higher, ""},
		{"four disjoint, 5 % apart: ranks alone decide", []float64{100, 101, 102, 103}, []float64{105, 106, 107, 108}, Quantity(0), Higher, ""},
		{"four, one pair exchanged", []float64{100, 101, 102, 106}, []float64{105, 107, 108, 109}, Quantity(0), Noise, ""},
		{"four, all equal", []float64{7, 7, 7, 7}, []float64{7, 7, 7, 7}, Quantity(0), Noise, ""},
		{"four, constant and different", []float64{0, 0, 0, 0}, []float64{0.667, 0.667, 0.667, 0.667}, Ratio(), Higher, ""},
		{"six without a failure, five of six with", []float64{0, 0, 0, 0, 0, 0}, []float64{0, 0.1, 0.2, 0.3, 0.4, 0.5}, Ratio(), Higher, ""},
		{"five, U = 2", []float64{1, 2, 3, 4, 7}, []float64{5, 6, 8, 9, 10}, Quantity(0), Higher, ""},
		{"five, U = 3", []float64{1, 2, 3, 4, 8}, []float64{5, 6, 7, 9, 10}, Quantity(0), Noise, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := Compare(tt.base, tt.other, tt.kind)
			if got.Direction != tt.want {
				t.Errorf("direction %q, want %q (%+v)", got.Direction, tt.want, got)
			}
			if (tt.warning == "") != (got.Warning == "") || !strings.Contains(got.Warning, tt.warning) {
				t.Errorf("warning %q, want it to contain %q", got.Warning, tt.warning)
			}
		})
	}
}

// TestRankTestP checks p values that tables of the Mann-Whitney test print.
func TestRankTestP(t *testing.T) {
	tests := []struct {
		name        string
		base, other []float64
		p, leastP   float64
	}{
		{"4 against 4, U = 0", []float64{1, 2, 3, 4}, []float64{5, 6, 7, 8}, 2. / 70, 2. / 70},
		{"5 against 5, U = 2", []float64{1, 2, 3, 4, 7}, []float64{5, 6, 8, 9, 10}, 8. / 252, 2. / 252},
		{"5 against 5, U = 3", []float64{1, 2, 3, 4, 8}, []float64{5, 6, 7, 9, 10}, 14. / 252, 2. / 252},
		{"all equal", []float64{1, 1, 1, 1}, []float64{1, 1, 1, 1}, 1, 1},
		{"one value differs: no order is rare", []float64{0, 0, 0, 0}, []float64{0, 0, 0, 1}, 1, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := new(rankSums).rankTest(tt.base, tt.other)
			if math.Abs(got.p-tt.p) > 1e-12 || math.Abs(got.leastP-tt.leastP) > 1e-12 {
				t.Errorf("p %v and least p %v, want %v and %v", got.p, got.leastP, tt.p, tt.leastP)
			}
		})
	}
}

// TestRankTestAgainstEnumeration compares the counted p with one found by going
// through every order, ties included.
func TestRankTestAgainstEnumeration(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		small := rapid.Map(rapid.IntRange(0, 6), func(v int) float64 { return float64(v) })
		base := rapid.SliceOfN(small, 4, 6).Draw(t, "base")
		other := rapid.SliceOfN(small, 4, 6).Draw(t, "other")
		ranks, observed := doubledRanks(slices.Sorted(slices.Values(base)), slices.Sorted(slices.Values(other)), at(0))
		mean := len(other) * (len(ranks) + 1)
		beyond, orders, farthest := 0, 0, 0
		var sums []int
		for chosen := range 1 << len(ranks) {
			total, n := 0, 0
			for i, r := range ranks {
				if chosen>>i&1 == 1 {
					total, n = total+r, n+1
				}
			}
			if n == len(other) {
				sums = append(sums, total)
				farthest = max(farthest, abs(total-mean))
			}
		}
		extreme := 0
		for _, s := range sums {
			orders++
			if abs(s-mean) >= abs(observed-mean) {
				beyond++
			}
			if abs(s-mean) >= farthest {
				extreme++
			}
		}
		got := new(rankSums).rankTest(base, other)
		if want := float64(beyond) / float64(orders); math.Abs(got.p-want) > 1e-12 {
			t.Fatalf("p = %v, want %v", got.p, want)
		}
		if want := float64(extreme) / float64(orders); math.Abs(got.leastP-want) > 1e-12 {
			t.Fatalf("least p = %v, want %v", got.leastP, want)
		}
	})
}

// TestNormalApproximation holds the approximation of large sets against the
// exact count just below the limit.
func TestNormalApproximation(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 10 {
		base, other := make([]float64, 25), make([]float64, 25)
		for i := range base {
			base[i], other[i] = float64(random.IntN(40)), float64(random.IntN(40)+4)
		}
		ranks, observed := doubledRanks(slices.Sorted(slices.Values(base)), slices.Sorted(slices.Values(other)), at(0))
		exact := new(rankSums).rankTest(base, other).p
		approximate := normalP(ranks, 25, abs(observed-25*51))
		if math.Abs(exact-approximate) > 0.005 {
			t.Errorf("exact p %v, approximate %v", exact, approximate)
		}
	}
	large := make([]float64, 40)
	shifted := make([]float64, 40)
	for i := range large {
		large[i], shifted[i] = float64(i), float64(i+15)
	}
	if got := Compare(large, shifted, Quantity(0)).Direction; got != Higher {
		t.Errorf("40 against 40, shifted: %q, want %q", got, Higher)
	}
	if got := Compare(large, large, Quantity(0)); got.Direction != Noise || got.P != 1 {
		t.Errorf("40 values against themselves: %+v", got)
	}
}

func TestHolmCorrection(t *testing.T) {
	eight := func(from float64) (values []float64) {
		for i := range 8 {
			values = append(values, from+float64(i))
		}
		return values
	}
	apart := Pair{Base: eight(0), Other: eight(100), Kind: Quantity(0)} // p = 2/12870
	// One exchange: p = 4/12870 = 0.00031, over 0.05/200.
	nearly := Pair{Base: append(eight(0)[:7], 100.5), Other: eight(100), Kind: Quantity(0)}
	// p about 0.02: a difference on its own, not in a family of 3.
	weak := Pair{Base: []float64{1, 2, 3, 4, 6, 7, 11, 14}, Other: []float64{5, 8, 9, 10, 12, 13, 15, 16}, Kind: Quantity(0)}
	same := Pair{Base: eight(0), Other: eight(0), Kind: Quantity(0)}
	constant := Pair{Base: []float64{3, 3, 3, 3}, Other: []float64{3, 3, 3, 3}, Kind: Quantity(0)}

	directions := func(pairs ...Pair) (got []Direction) {
		for _, v := range CompareAll(pairs) {
			got = append(got, v.Direction)
		}
		return got
	}
	repeat := func(p Pair, n int, more ...Pair) (pairs []Pair) {
		return append(slices.Repeat([]Pair{p}, n), more...)
	}
	if p := new(rankSums).rankTest(weak.Base, weak.Other).p; p > Alpha || p < Alpha/3 {
		t.Fatalf("the weak pair has p = %v; it must lie between %v and %v", p, Alpha/3, Alpha)
	}

	if diff := cmp.Diff([]Direction{Higher}, directions(weak)); diff != "" {
		t.Errorf("weak alone\n%s", diff)
	}
	if diff := cmp.Diff([]Direction{Noise, Noise, Noise}, directions(weak, same, same)); diff != "" {
		t.Errorf("weak among three\n%s", diff)
	}
	// Holm's step down: once the strong ones are claimed, the weak one stands
	// against Alpha alone; Bonferroni's Alpha/3 would refuse it.
	if diff := cmp.Diff([]Direction{Higher, Higher, Higher}, directions(weak, apart, apart)); diff != "" {
		t.Errorf("weak after two strong ones\n%s", diff)
	}
	if diff := cmp.Diff(append(slices.Repeat([]Direction{Noise}, 199), Noise), directions(repeat(same, 199, nearly)...)); diff != "" {
		t.Errorf("p over the corrected level\n%s", diff)
	}
	// A constant figure takes no part in the correction.
	if got := directions(repeat(constant, 199, weak)...); got[199] != Higher {
		t.Errorf("weak among constant figures: %q, want %q", got[199], Higher)
	}
}

func TestTestsThatCannotDecideFallBackToTheThreeRunRule(t *testing.T) {
	far := Pair{Base: []float64{1, 2, 3, 4}, Other: []float64{50, 60, 70, 80}, Kind: Quantity(0)}
	near := Pair{Base: []float64{100, 101, 102, 103}, Other: []float64{105, 106, 107, 108}, Kind: Quantity(0)}
	got := CompareAll([]Pair{far, near})
	if got[0].Direction != Higher || got[1].Direction != Noise {
		t.Errorf("got %q and %q, want %q and %q", got[0].Direction, got[1].Direction, Higher, Noise)
	}
	for _, v := range got {
		if want := "4 and 4 values cannot decide 2 figures by a rank test: judged by ranges and medians; 5 values a side would"; v.Warning != want {
			t.Errorf("warning %q, want %q", v.Warning, want)
		}
	}
}

func TestRunsFor(t *testing.T) {
	// 2/C(2n,n): n=4 0.0286, 5 0.0079, 6 0.0022, 7 0.00058.
	for m, want := range map[int]int{1: 4, 2: 5, 6: 5, 7: 6, 23: 6, 24: 7, 85: 7} {
		if got := runsFor(m); got != want {
			t.Errorf("runsFor(%d) = %d, want %d", m, got, want)
		}
	}
}

func TestExchangingTheSidesMirrorsTheVerdict(t *testing.T) {
	mirror := map[Direction]Direction{Higher: Lower, Lower: Higher, Noise: Noise, TooFew: TooFew}
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Float64Range(0, 100), 0, 8)
		kind := rapid.SampledFrom([]Kind{Quantity(0), Quantity(5), Ratio()}).Draw(t, "kind")
		base, other := values.Draw(t, "base"), values.Draw(t, "other")
		forth, back := Compare(base, other, kind), Compare(other, base, kind)
		if back.Direction != mirror[forth.Direction] {
			t.Fatalf("forth %q, back %q", forth.Direction, back.Direction)
		}
		if math.Abs(forth.P-back.P) > 1e-12 {
			t.Fatalf("p forth %v, back %v", forth.P, back.P)
		}
	})
}

// TestAAComparison compares runs with runs of the same kind, 30 log-normal figures
// each, and counts the comparisons that claim any difference. The seeds are
// fixed, so the counts are too. What the three-run rule can promise depends on how
// much the figures vary from run to run; what the rank test can does not.
func TestAAComparison(t *testing.T) {
	const comparisons, figures = 100, 30
	for _, tt := range []struct {
		runs         int
		variation    float64 // standard deviation of the logarithm
		mayClaim     int     // comparisons, of 100
		mayClaimEach float64 // share of all figures
	}{
		{3, 0.05, 0, 0},
		{3, 0.10, 25, 0.01},
		{4, 0.10, 5, 0.002}, // the three-run rule: 4 runs cannot decide 30 figures
		{7, 0.10, 5, 0.002}, // Alpha of 100 is 5
		{7, 1.00, 5, 0.002},
	} {
		random := rand.New(rand.NewPCG(uint64(tt.runs), 7))
		claimed, claims := 0, 0
		for range comparisons {
			pairs := make([]Pair, figures)
			for i := range pairs {
				level := math.Exp(random.NormFloat64() * 3)
				draw := func() (values []float64) {
					for range tt.runs {
						values = append(values, level*math.Exp(random.NormFloat64()*tt.variation))
					}
					return values
				}
				pairs[i] = Pair{Base: draw(), Other: draw(), Kind: Quantity(0)}
			}
			before := claims
			for _, v := range CompareAll(pairs) {
				if v.Direction != Noise {
					claims++
				}
			}
			if claims > before {
				claimed++
			}
		}
		each := float64(claims) / (comparisons * figures)
		t.Logf("%d runs, variation %.2f: %d of %d comparisons, %.4f of the figures", tt.runs, tt.variation, claimed, comparisons, each)
		if claimed > tt.mayClaim || each > tt.mayClaimEach {
			t.Errorf("%d runs, variation %.2f: %d of %d A/A comparisons claim a difference (%.4f of the figures), want at most %d (%.4f)",
				tt.runs, tt.variation, claimed, comparisons, each, tt.mayClaim, tt.mayClaimEach)
		}
	}
}
