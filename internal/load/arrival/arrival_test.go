package arrival

import (
	"math"
	"math/big"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"chokepoint/internal/rate"
)

func drain(s Sequence) []time.Duration {
	var all []time.Duration
	for {
		due, ok := s.Next()
		if !ok {
			return all
		}
		all = append(all, due)
	}
}

func mustRate(t *testing.T, s string) rate.Rate {
	t.Helper()
	r, err := rate.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestConstantCountsExactly(t *testing.T) {
	for _, tt := range []struct {
		rate   string
		window time.Duration
		want   int
	}{
		{"20", time.Minute, 1200},
		{"30", 30 * time.Second, 900},
		{"400", 3 * time.Second, 1200},
		{"100", 10 * time.Second, 1000},
		{"1/m", time.Minute, 1},
		{"1/m", time.Minute + time.Millisecond, 2},
		{"7", time.Second, 7},
		{"0.1", time.Second, 1},
		{"3", 333 * time.Millisecond, 1},
		{"3", 334 * time.Millisecond, 2},
		{"10000000", time.Second / 10, 1_000_000},
		{"20", 0, 0},
	} {
		t.Run(tt.rate+"x"+tt.window.String(), func(t *testing.T) {
			if got := Count(Constant(mustRate(t, tt.rate), tt.window)); got != tt.want {
				t.Errorf("got %d arrivals, want %d", got, tt.want)
			}
		})
	}
}

func TestThirtyASecondForThirtySecondsAreNineHundredEveryTime(t *testing.T) {
	for run := range 10 {
		all := drain(Constant(30, 30*time.Second))
		if len(all) != 900 || all[0] != 0 || all[899] != 29_966_666_667 {
			t.Errorf("run %d: %d arrivals from %v to %v, want 900 from 0 to 29.966666667s", run, len(all), all[0], all[len(all)-1])
		}
	}
}

func TestConstantScaledRatesStayExact(t *testing.T) {
	// A scaled run divides the rate and multiplies the window by the scale.
	for _, scale := range []float64{1, 0.7, 0.5, 0.3, 0.1, 0.07, 0.05} {
		window := time.Duration(float64(time.Minute) * scale)
		if got := Count(Constant(rate.Rate(20/scale), window)); got != 1200 {
			t.Errorf("scale %v: %d arrivals, want 1200", scale, got)
		}
	}
}

func TestConstantDueTimes(t *testing.T) {
	want := []time.Duration{0, 142857143, 285714286, 428571429, 571428572, 714285715, 857142858}
	if diff := cmp.Diff(want, drain(Constant(7, time.Second))); diff != "" {
		t.Error(diff)
	}
}

func TestConstantHasNoDrift(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		num := rapid.IntRange(1, 100_000).Draw(t, "num")
		den := rapid.IntRange(1, 100).Draw(t, "den")
		r := rate.Rate(float64(num) / float64(den))
		window := time.Duration(rapid.Int64Range(1, int64(10*time.Second)).Draw(t, "window"))
		if r.Count(window) > 20_000 {
			window = 20_000 * r.Interval()
		}
		all := drain(Constant(r, window))
		if len(all) != r.Count(window) {
			t.Fatalf("%d arrivals, want %d", len(all), r.Count(window))
		}
		for i, due := range all {
			// ceil(10^9 * i * den / num), in exact arithmetic.
			exact := new(big.Int).Mul(big.NewInt(int64(i)*int64(den)), big.NewInt(1e9))
			exact.Add(exact, big.NewInt(int64(num-1))).Quo(exact, big.NewInt(int64(num)))
			if want := min(time.Duration(exact.Int64()), window-1); due != want {
				t.Fatalf("arrival %d due at %d, want %d", i, due, want)
			}
		}
	})
}

func TestFraction(t *testing.T) {
	for _, tt := range []struct {
		v        float64
		num, den uint64
	}{
		{20, 20, 1}, {0.1, 1, 10}, {20 / 0.7, 200, 7}, {1.0 / 60, 1, 60}, {1e7, 1e7, 1},
		{1e-12, 1, 1e9}, {1e-30, 1, 1e9}, {1e15, 1e15, 1}, {math.Pi, 245850922, 78256779},
	} {
		if num, den := fraction(tt.v); num != tt.num || den != tt.den {
			t.Errorf("fraction(%v) = %d/%d, want %d/%d", tt.v, num, den, tt.num, tt.den)
		}
	}
}

func TestPoissonIsSeeded(t *testing.T) {
	a := drain(Poisson(1000, 10*time.Second, 7, 0))
	if diff := cmp.Diff(a, drain(Poisson(1000, 10*time.Second, 7, 0))); diff != "" {
		t.Errorf("same seed and stream, other arrivals:\n%s", diff)
	}
	for _, other := range []Sequence{Poisson(1000, 10*time.Second, 8, 0), Poisson(1000, 10*time.Second, 7, 1)} {
		if cmp.Equal(a, drain(other)) {
			t.Error("another seed or stream gave the same arrivals")
		}
	}
	// 10,000 expected; the standard deviation is 100, and the seed is fixed.
	if len(a) < 9_500 || len(a) > 10_500 {
		t.Errorf("%d arrivals, want about 10,000", len(a))
	}
	for i, due := range a {
		if due < 0 || due >= 10*time.Second || i > 0 && due < a[i-1] {
			t.Fatalf("arrival %d at %v is out of the window or out of order", i, due)
		}
	}
}

func TestConcat(t *testing.T) {
	s := Concat(
		Part{Constant(2, time.Second), time.Second},
		Part{Constant(1, 0), 500 * time.Millisecond},
		Part{Constant(4, time.Hour), 600 * time.Millisecond},
	)
	ms := time.Millisecond
	if diff := cmp.Diff([]time.Duration{0, 500 * ms, 1500 * ms, 1750 * ms, 2000 * ms}, drain(s)); diff != "" {
		t.Error(diff)
	}
	if _, ok := s.Next(); ok {
		t.Error("a sequence that has ended gave another arrival")
	}
}

// drainMerged is what is left of m.
func drainMerged(m *Merged) []Arrival {
	var all []Arrival
	for {
		a, ok := m.Next()
		if !ok {
			return all
		}
		all = append(all, a)
	}
}

func TestMergeKeepsDueOrderAndTies(t *testing.T) {
	m := Merge(Shard{}, Constant(2, time.Second), Constant(4, time.Second), Constant(2, time.Second))
	ms := time.Millisecond
	want := []Arrival{
		{0, 0, 0}, {0, 1, 0}, {0, 2, 0}, {250 * ms, 1, 1},
		{500 * ms, 0, 1}, {500 * ms, 1, 2}, {500 * ms, 2, 1}, {750 * ms, 1, 3},
	}
	if diff := cmp.Diff(want, drainMerged(m)); diff != "" {
		t.Error(diff)
	}
	if _, ok := m.Next(); ok {
		t.Error("a plan that has ended gave another arrival")
	}
}
