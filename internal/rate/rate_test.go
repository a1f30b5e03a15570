package rate

import (
	"encoding/json"
	"flag"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestParse(t *testing.T) {
	for _, test := range []struct {
		text string
		want float64 // requests per second
	}{
		{"20", 20},
		{"20/s", 20},
		{"20/sec", 20},
		{"20/second", 20},
		{"1200/m", 20},
		{"1200/min", 20},
		{"1200/minute", 20},
		{"72000/h", 20},
		{"72000/hour", 20},
		{"0.5", 0.5},
		{"1e3/s", 1000},
		{" 20/s ", 20},
	} {
		t.Run(test.text, func(t *testing.T) {
			got, err := Parse(test.text)
			if err != nil || got.PerSecond() != test.want {
				t.Errorf("%v, %v; want %v/s", got, err, test.want)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	const remedy = "write it as 20, 20/s, 1200/m or 72000/h"
	for _, test := range []struct{ text, want string }{
		{"", `rate "": not a number; ` + remedy},
		{"many", `rate "many": not a number; ` + remedy},
		{"20 /s", `rate "20 /s": not a number; ` + remedy},
		{"1e999", `rate "1e999": not a number; ` + remedy},
		{"/s", `rate "/s": not a number; ` + remedy},
		{"20/", `rate "20/": unknown unit ""; ` + remedy},
		{"20/y", `rate "20/y": unknown unit "y"; ` + remedy},
		{"20/S", `rate "20/S": unknown unit "S"; ` + remedy},
		{"20/s/s", `rate "20/s/s": unknown unit "s/s"; ` + remedy},
		{"0", `rate "0": must be above zero`},
		{"-5/m", `rate "-5/m": must be above zero`},
		{"NaN", `rate "NaN": must be finite and above zero`},
		{"Inf", `rate "Inf": must be finite and above zero`},
		// Below the least float64: an arrival in more than the age of the world.
		{"5e-324/h", `rate "5e-324/h": must be above zero`},
	} {
		t.Run(test.text, func(t *testing.T) {
			got, err := Parse(test.text)
			if err == nil || err.Error() != test.want {
				t.Errorf("%v, error %v; want %q", got, err, test.want)
			}
		})
	}
}

func TestSetKeepsTheRateOfAValueItRefuses(t *testing.T) {
	r := Rate(20)
	fs := flag.NewFlagSet("", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.Var(&r, "rate", "")
	if err := fs.Parse([]string{"-rate", "5/y"}); err == nil || !strings.Contains(err.Error(), `unknown unit "y"`) {
		t.Errorf("error %v", err)
	}
	if r != 20 {
		t.Errorf("rate %v after a refused value, want 20/s", r)
	}
	if err := fs.Parse([]string{"-rate", "1200/m"}); err != nil || r != 20 {
		t.Errorf("rate %v, error %v; want 20/s", r, err)
	}
}

func TestCount(t *testing.T) {
	for _, test := range []struct {
		rate string
		d    time.Duration
		want int
	}{
		{"20/s", 60 * time.Second, 1200},
		{"30/s", 30 * time.Second, 900},
		{"400/s", 3 * time.Second, 1200},
		{"1200/m", 60 * time.Second, 1200},
		{"100/s", 10 * time.Second, 1000},
		// The window is half-open: the arrival at its end is not in it.
		{"1/s", time.Second, 1},
		{"1/s", time.Second + time.Millisecond, 2},
		{"1/s", time.Second - time.Millisecond, 1},
		// The first falls due at 0, however rare the others are.
		{"1/h", time.Millisecond, 1},
		{"20/s", 0, 0},
		{"20/s", -time.Second, 0},
		// A third of a second is not exact in binary; the count is.
		{"3/s", 333333333 * time.Nanosecond, 1},
		{"20/m", 3 * time.Second, 1},
		{"7/m", 60 * time.Second, 7},
	} {
		t.Run(test.rate+" x "+test.d.String(), func(t *testing.T) {
			r, err := Parse(test.rate)
			if err != nil {
				t.Fatal(err)
			}
			if got := r.Count(test.d); got != test.want {
				t.Errorf("%d, want %d", got, test.want)
			}
		})
	}
}

// The count is ceil(rate x d), worked out here in whole numbers. Milliseconds
// and minutes keep the product away from a whole number, or on it.
func TestCountIsTheCeiling(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64Range(1, 100_000).Draw(t, "requests")
		per := rapid.SampledFrom([]int64{1, 60}).Draw(t, "seconds")
		millis := rapid.Int64Range(0, 3_600_000).Draw(t, "milliseconds")
		divisor := per * 1000
		want := int((n*millis + divisor - 1) / divisor)
		if got := Rate(float64(n) / float64(per)).Count(time.Duration(millis) * time.Millisecond); got != want {
			t.Errorf("%d in %d s, for %d ms: %d arrivals, want %d", n, per, millis, got, want)
		}
	})
}

// A scaled run has the same number of arrivals in a shorter window.
func TestScaleDoesNotChangeTheCount(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := Rate(rapid.IntRange(1, 1000).Draw(t, "rate"))
		d := time.Duration(rapid.IntRange(1, 600).Draw(t, "seconds")) * time.Second
		scale := float64(rapid.IntRange(5, 100).Draw(t, "percent")) / 100
		scaled := Rate(r.PerSecond() / scale)
		if got, want := scaled.Count(time.Duration(math.Round(float64(d)*scale))), r.Count(d); got != want {
			t.Errorf("%v for %v at scale %v: %d arrivals, want %d", r, d, scale, got, want)
		}
	})
}

func TestInterval(t *testing.T) {
	for _, test := range []struct {
		rate Rate
		want time.Duration
	}{
		{20, 50 * time.Millisecond},
		{1, time.Second},
		{3, 333333333 * time.Nanosecond},
		{1.5, 666666667 * time.Nanosecond},
	} {
		if got := test.rate.Interval(); got != test.want {
			t.Errorf("%v: %v, want %v", test.rate, got, test.want)
		}
	}
}

// What String prints, in flags and in JSON, Parse reads back to the last bit.
func TestTextRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := Rate(rapid.Float64Range(1e-6, 1e9).Draw(t, "rate"))
		data, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		var got Rate
		if err := json.Unmarshal(data, &got); err != nil || got != want {
			t.Errorf("%v became %s became %v, %v", float64(want), data, float64(got), err)
		}
	})
}
