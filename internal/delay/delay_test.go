package delay

import (
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func writeFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "delays")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func samples(t *testing.T, text string, n int) []time.Duration {
	t.Helper()
	d, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(7, 7))
	drawn := make([]time.Duration, n)
	for i := range drawn {
		drawn[i] = d.Sample(r)
	}
	return drawn
}

// distinct is the sorted set of what was drawn.
func distinct(drawn []time.Duration) []time.Duration {
	return slices.Compact(slices.Sorted(slices.Values(drawn)))
}

func TestParse(t *testing.T) {
	file := writeFile(t, "# measured last week\n\n 80ms \n1.5s\r\n")
	tests := []struct {
		text string
		want []time.Duration // every value that 1,000 draws give
	}{
		{"0s", []time.Duration{0}},
		{"0", []time.Duration{0}},
		{"30s", []time.Duration{30 * time.Second}},
		{"24h", []time.Duration{Max}},
		{"uniform:5ms..5ms", []time.Duration{5 * time.Millisecond}},
		{"uniform:0s..2ns", []time.Duration{0, 1, 2}}, // both ends included
		{"lognormal:p50=80ms,p99=80ms", []time.Duration{80 * time.Millisecond}},
		{"file:" + file, []time.Duration{80 * time.Millisecond, 1500 * time.Millisecond}},
	}
	for _, tt := range tests {
		t.Run(tt.text, func(t *testing.T) {
			got := distinct(samples(t, tt.text, 1000))
			// exp(log(x)) may miss x by a few nanoseconds.
			near := cmp.Comparer(func(a, b time.Duration) bool { return (a - b).Abs() < 10 })
			if !strings.HasPrefix(tt.text, "lognormal") {
				near = cmp.Comparer(func(a, b time.Duration) bool { return a == b })
			}
			if diff := cmp.Diff(tt.want, got, near); diff != "" {
				t.Errorf("draws (-want +got):\n%s", diff)
			}
			if d, _ := Parse(tt.text); d.String() != tt.text {
				t.Errorf("String() = %q, want %q", d, tt.text)
			}
		})
	}
}

func TestParseErrors(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "absent")
	tests := []struct{ text, want string }{
		{"", "not a duration; write it with a unit"},
		{"30", `"30" is not a duration; write it with a unit`},
		{"-1s", "-1s is negative"},
		{"25h", "above the longest delay, 24h"},
		{"normal:1s", `unknown distribution "normal"; use a duration, uniform:LOW..HIGH, lognormal:p50=D,p99=D or file:PATH`},
		{"uniform:", "no range; write it as uniform:10ms..50ms"},
		{"uniform:10ms", "no range"},
		{"uniform:50ms..10ms", "50ms is above 10ms; write the smaller one first"},
		{"uniform:10..50ms", `"10" is not a duration`},
		{"uniform:1ms..x", `"x" is not a duration`},
		{"lognormal:p50=80ms", "needs both quantiles"},
		{"lognormal:p50=80ms,p50=90ms", `"p50=90ms" is not one p50 and one p99`},
		{"lognormal:p50=80ms,p99=400ms,p90=1s", `"p90=1s" is not one p50 and one p99`},
		{"lognormal:p50=80ms,p99=40ms", "p99 40ms is below p50 80ms"},
		{"lognormal:p50=0s,p99=40ms", "p50 must be above zero"},
		{"lognormal:p50=80,p99=1s", `p50: "80" is not a duration`},
		{"file:" + missing, "no such file"},
		{"file:" + t.TempDir(), "not a regular file"},
		{"file:/dev/zero", "not a regular file"},
		{"file:" + writeFile(t, "\n# nothing\n"), "holds no duration"},
		{"file:" + writeFile(t, "1s\n\nsoon\n"), `line 3: "soon" is not a duration`},
		{"file:" + writeFile(t, strings.Repeat("x", 1<<17)), "not a list of durations"},
		{"file:" + writeFile(t, strings.Repeat("1s\n", maxFileLines+1)), "line 1000001: more than 1000000 durations"},
		{"file:" + writeFile(t, strings.Repeat("\n", maxFileBytes+1)), "16777217 bytes; at most 16777216 are read"},
	}
	for _, tt := range tests {
		_, err := Parse(tt.text)
		if err == nil {
			t.Errorf("Parse(%q) succeeded, want an error with %q", tt.text, tt.want)
			continue
		}
		if !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "delay ") {
			t.Errorf("Parse(%q): %v, want %q", tt.text, err, tt.want)
		}
		if strings.Contains(err.Error(), "\n") {
			t.Errorf("Parse(%q): the error has more than one line: %v", tt.text, err)
		}
	}
}

func TestUniformStaysInRangeAndFillsIt(t *testing.T) {
	const n = 10_000
	low, high := 10*time.Millisecond, 50*time.Millisecond
	var below [4]int // draws by quarter of the range
	for _, d := range samples(t, "uniform:10ms..50ms", n) {
		if d < low || d > high {
			t.Fatalf("drew %v, want it in [%v, %v]", d, low, high)
		}
		below[min(3, int(4*(d-low)/(high-low)))]++
	}
	for quarter, got := range below {
		checkBinomial(t, got, n, 0.25, "quarter %d", quarter)
	}
}

// TestLogNormalQuantiles counts how many of n draws lie at or under the median
// and the 0.99 quantile that were asked for. For the right distribution that
// count is binomial.
func TestLogNormalQuantiles(t *testing.T) {
	const n = 100_000
	p50, p99 := 80*time.Millisecond, 400*time.Millisecond
	under50, under99, under84 := 0, 0, 0
	sigma := math.Log(float64(p99)/float64(p50)) / z99
	p84 := time.Duration(float64(p50) * math.Exp(sigma)) // one sigma above the median
	for _, d := range samples(t, "lognormal:p50=80ms,p99=400ms", n) {
		if d <= p50 {
			under50++
		}
		if d <= p99 {
			under99++
		}
		if d <= p84 {
			under84++
		}
	}
	checkBinomial(t, under50, n, 0.50, "at or under p50")
	checkBinomial(t, under99, n, 0.99, "at or under p99")
	checkBinomial(t, under84, n, 0.5*(1+math.Erf(1/math.Sqrt2)), "at or under one sigma")
}

func TestLogNormalTailIsCut(t *testing.T) {
	drawn := samples(t, "lognormal:p50=1ns,p99=24h", 100_000)
	if longest := slices.Max(drawn); longest != Max {
		t.Errorf("longest of 100,000 draws is %v, want it cut to %v", longest, Max)
	}
	if shortest := slices.Min(drawn); shortest < 0 {
		t.Errorf("shortest draw is %v", shortest)
	}
}

// checkBinomial fails if got is more than five standard deviations from n*p: a
// right implementation would fail for one seed in about 1.7 million.
func checkBinomial(t *testing.T, got, n int, p float64, format string, args ...any) {
	t.Helper()
	mean, deviation := float64(n)*p, math.Sqrt(float64(n)*p*(1-p))
	if math.Abs(float64(got)-mean) > 5*deviation {
		t.Errorf(format+": %d of %d draws, want %.0f +- %.0f", append(args, got, n, mean, 5*deviation)...)
	}
}

func TestQuantile(t *testing.T) {
	file := writeFile(t, "4ms\n1ms\n3ms\n2ms\n")
	const ms = time.Millisecond
	for _, tt := range []struct {
		text string
		q    float64
		want time.Duration
	}{
		{"30s", 0, 30 * time.Second},
		{"30s", 0.5, 30 * time.Second},
		{"30s", 1, 30 * time.Second},
		{"uniform:10ms..50ms", 0, 10 * ms},
		{"uniform:10ms..50ms", 0.25, 20 * ms},
		{"uniform:10ms..50ms", 1, 50 * ms},
		{"lognormal:p50=80ms,p99=400ms", 0, 0},
		{"lognormal:p50=80ms,p99=400ms", 0.5, 80 * ms},
		{"lognormal:p50=80ms,p99=400ms", 0.99, 400 * ms},
		{"lognormal:p50=80ms,p99=400ms", 1, Max},
		{"lognormal:p50=80ms,p99=80ms", 1, 80 * ms},
		// Nearest rank: the smallest value that at least that share does not exceed.
		{"file:" + file, 0, 1 * ms},
		{"file:" + file, 0.25, 1 * ms},
		{"file:" + file, 0.26, 2 * ms},
		{"file:" + file, 0.5, 2 * ms},
		{"file:" + file, 1, 4 * ms},
		// Out of range is the nearest end.
		{"uniform:10ms..50ms", -1, 10 * ms},
		{"file:" + file, 2, 4 * ms},
	} {
		d, err := Parse(tt.text)
		if err != nil {
			t.Fatal(err)
		}
		if got := d.Quantile(tt.q); (got - tt.want).Abs() > 10*time.Nanosecond {
			t.Errorf("%s: quantile %v = %v, want %v", tt.text, tt.q, got, tt.want)
		}
	}
	if got := (Delay{}).Quantile(0.5); got != 0 {
		t.Errorf("no delay: median %v", got)
	}
}

// TestDrawsFollowTheQuantiles: as many draws lie up to a quantile as it says.
func TestDrawsFollowTheQuantiles(t *testing.T) {
	const n = 20_000
	for _, text := range []string{"uniform:10ms..50ms", "lognormal:p50=80ms,p99=400ms"} {
		d, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		drawn := samples(t, text, n)
		for _, q := range []float64{0.1, 0.5, 0.9, 0.99, 0.999} {
			bound, within := d.Quantile(q), 0
			for _, v := range drawn {
				if v <= bound {
					within++
				}
			}
			checkBinomial(t, within, n, q, "%s: draws up to the quantile %v", text, q)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"30s", "uniform:10ms..50ms", "lognormal:p50=80ms,p99=400ms", "file:testdata", "file:/dev/zero", "uniform:..", "lognormal:p50", "::"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d, err := Parse(s)
		if err != nil {
			return
		}
		r := rand.New(rand.NewPCG(1, 1))
		for range 10 {
			if drawn := d.Sample(r); drawn < 0 || drawn > Max {
				t.Fatalf("%q drew %v, outside [0, %v]", s, drawn, Max)
			}
		}
		again, err := Parse(d.String())
		if err != nil || again.String() != d.String() {
			t.Fatalf("%q prints as %q, which reads as %q, %v", s, d, again, err)
		}
	})
}
