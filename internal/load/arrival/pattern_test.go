package arrival

import (
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"chokepoint/internal/rate"
)

func mustPattern(t *testing.T, text string, length time.Duration) Pattern {
	t.Helper()
	p, err := ParsePattern(text, length)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestCourseCountsTheIntegral(t *testing.T) {
	for _, tt := range []struct {
		text   string
		length time.Duration
		want   int
		most   int // within one second
		whole  time.Duration
	}{
		{"ramp:10/s..100/s", 30 * time.Second, 1650, 100, 30 * time.Second},
		{"ramp:100/s..10/s", 30 * time.Second, 1650, 100, 30 * time.Second},
		{"ramp:0/s..100/s", 10 * time.Second, 500, 100, 10 * time.Second},
		{"ramp:100..0", 10 * time.Second, 500, 100, 10 * time.Second},
		{"ramp:20..20", time.Minute, 1200, 20, time.Minute},
		{"ramp:1/m..3/m", time.Minute, 2, 1, time.Minute},
		{"steps:100/s:30s,200/s:30s", 0, 9000, 200, time.Minute},
		// The integral goes on: 1.5 and 1.5 are 3, not 2 and 2.
		{"steps:1/s:1500ms,1/s:1500ms", 0, 3, 1, 3 * time.Second},
		{"steps:0:10s,5:1s", 0, 5, 5, 11 * time.Second},
		{"steps:0..100:10s,100:10s,100..0:10s", 0, 2000, 100, 30 * time.Second},
	} {
		t.Run(tt.text, func(t *testing.T) {
			p := mustPattern(t, tt.text, tt.length)
			all := drain(p.Sequence("fast"))
			if len(all) != tt.want || p.Count("fast") != tt.want {
				t.Errorf("%d arrivals, Count %d, want %d", len(all), p.Count("fast"), tt.want)
			}
			if p.Length() != tt.whole || p.Most("fast", time.Second) != tt.most {
				t.Errorf("length %v and at most %d in a second, want %v and %d", p.Length(), p.Most("fast", time.Second), tt.whole, tt.most)
			}
		})
	}
}

func TestAPatternSaysWhatItWasReadFrom(t *testing.T) {
	for _, text := range []string{"ramp:10/s..100/s", "ramp:20/s..20/s", "steps:100/s:30s,0/s..0.5/s:1m30s", "replay:" + filepath.Join("testdata", "none.csv")} {
		if kind, file, _ := strings.Cut(text, ":"); kind == KindReplay {
			r, err := ParseRecording(file, strings.NewReader("0.5\n"))
			if err != nil || r.String() != text {
				t.Errorf("%v of %s, error %v", r, text, err)
			}
			continue
		}
		if got := mustPattern(t, text, time.Minute).String(); got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
}

func TestCourseDueTimes(t *testing.T) {
	// 0 to 2/s over 2 s: the integral t^2/2 reaches k at sqrt(2k).
	want := []time.Duration{0, 1414213562, 2 * time.Second, 2500 * time.Millisecond}
	if diff := cmp.Diff(want, drain(mustPattern(t, "steps:0..2:2s,2:1s", 0).Sequence(""))); diff != "" {
		t.Error(diff)
	}
}

// integralAt is the number of arrivals that the legs have brought by then, in
// exact arithmetic.
func integralAt(legs []Leg, at time.Duration) *big.Rat {
	sum := new(big.Rat)
	for _, l := range legs {
		t := min(at, l.Length)
		seconds := big.NewRat(int64(t), int64(time.Second))
		slope := new(big.Rat).Sub(exact(l.To), exact(l.From))
		slope.Mul(slope, big.NewRat(int64(t), 2*int64(l.Length)))
		sum.Add(sum, slope.Add(slope, exact(l.From)).Mul(slope, seconds))
		if at -= t; at == 0 {
			break
		}
	}
	return sum
}

func TestCourseIsItsIntegralWithoutDrift(t *testing.T) {
	rates := rapid.Custom(func(t *rapid.T) rate.Rate {
		return rate.Rate(float64(rapid.IntRange(0, 5000).Draw(t, "num")) / float64(rapid.IntRange(1, 60).Draw(t, "den")))
	})
	rapid.Check(t, func(t *rapid.T) {
		legs := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Leg {
			return Leg{
				Length: time.Duration(rapid.Int64Range(1, int64(2*time.Second)).Draw(t, "length")),
				From:   rates.Draw(t, "from"), To: rates.Draw(t, "to"),
			}
		}), 1, 4).Draw(t, "legs")
		c, err := newCourse(KindSteps, legs)
		if err != nil {
			if integralAt(legs, maxLeg).Sign() != 0 {
				t.Fatal(err)
			}
			return
		}
		all := drain(c.Sequence(""))
		if want := ceil(integralAt(legs, c.Length())); len(all) != want || c.Count("") != want {
			t.Fatalf("%d arrivals, Count %d, the integral is %d", len(all), c.Count(""), want)
		}
		for k, due := range all {
			if due < 0 || due >= c.Length() || k > 0 && due < all[k-1] {
				t.Fatalf("arrival %d at %d is out of the window or out of order", k, due)
			}
			// The integral passes k within two nanoseconds of the due time.
			whole := new(big.Rat).SetInt64(int64(k))
			if integralAt(legs, max(0, due-2)).Cmp(whole) > 0 || integralAt(legs, min(c.Length(), due+2)).Cmp(whole) < 0 {
				t.Fatalf("arrival %d is due at %d, where the integral is %s", k, due, integralAt(legs, due).FloatString(9))
			}
		}
	})
}

func TestParsePatternErrors(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"burst", `arrivals "burst": choose constant, poisson, ramp:`},
		{"ramp", "a ramp has two rates, as in ramp:10/s..100/s"},
		{"ramp:10/s", "a ramp has two rates"},
		{"ramp:10/s..fast", `rate "fast": not a number`},
		{"ramp:-1..5", `rate "-1": must be above zero`},
		{"ramp:0..0", "every rate is 0"},
		{"ramp:1e300..1", "lower the rate"},
		{"ramp:1e14..1e15", "more than 1e+15 arrivals"},
		{"steps:", `step "" is not a rate and a duration`},
		{"steps:5/s", `step "5/s" is not a rate and a duration`},
		{"steps:5/s:soon", `"soon" is not a duration`},
		{"steps:5/s:0s", "must be above zero"},
		{"replay:", "the file is missing"},
		{"replay:absent.csv", "replay: open absent.csv: no such file"},
	} {
		t.Run(tt.text, func(t *testing.T) {
			_, err := ParsePattern(tt.text, time.Minute)
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("error %v, want one line with %q", err, tt.want)
			}
		})
	}
}

func TestRecording(t *testing.T) {
	s := time.Second
	for _, tt := range []struct {
		name, text string
		endpoints  []string
		fast       []time.Duration
		length     time.Duration
		most       int // of fast within a second
	}{
		{"seconds without a header", "0\n0.5\n0.5\n# a pause\n2.000000001\n", nil, []time.Duration{0, s / 2, s / 2, 2*s + 1}, 3 * s, 3},
		{"seconds", "due_s\n1\n2\n", nil, []time.Duration{s, 2 * s}, 3 * s, 1},
		{"nanoseconds", "note,due_ns\nx,5\nx,999999999\n", nil, []time.Duration{5, 999999999}, s, 2},
		{"of two endpoints", "id,endpoint,due_ns\n1,fast,0\n2,slow,10\n3,fast,1000000000\n", []string{"fast", "slow"}, []time.Duration{0, s}, 2 * s, 1},
		{"in DOS lines", "due_s\r\n0\r\n0.25\r\n", nil, []time.Duration{0, s / 4}, s, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "times.csv")
			if err := os.WriteFile(path, []byte(tt.text), 0o600); err != nil {
				t.Fatal(err)
			}
			p := mustPattern(t, "replay:"+path, 0)
			r := p.(*Recording)
			if diff := cmp.Diff(tt.endpoints, r.Endpoints()); diff != "" {
				t.Error(diff)
			}
			for range 2 { // a second sequence starts anew
				if diff := cmp.Diff(tt.fast, drain(p.Sequence("fast"))); diff != "" {
					t.Error(diff)
				}
			}
			if p.Count("fast") != len(tt.fast) || p.Length() != tt.length || p.Most("fast", s) != tt.most || p.Kind() != KindReplay {
				t.Errorf("count %d, length %v, most %d, kind %s", p.Count("fast"), p.Length(), p.Most("fast", s), p.Kind())
			}
		})
	}
}

func TestParseRecordingNamesFileAndLine(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"nothing", "", "times.csv has no arrival"},
		{"only a header", "due_s\n", "times.csv has no arrival"},
		{"no such column", "when\n1\n", `times.csv:1: "when" is not a time, and there is no column due_s or due_ns`},
		{"not a number", "due_s\n1\nsoon\n", `times.csv:3: "soon" is not a number`},
		{"NaN", "0\nNaN\n", `times.csv:2: "NaN" is not a number`},
		{"a fraction of a nanosecond", "due_ns\n1.5\n", `times.csv:2: "1.5" is not a number`},
		{"negative", "due_s\n-1\n", "times.csv:2: -1 is before the start"},
		{"out of order", "1\n2\n\n1.5\n", "times.csv:4: 1.5 is before the time above it; sort"},
		{"since the epoch", "1796000000.1\n", "times.csv:1: 1796000000.1 is beyond 720h0m0s; times count from the start"},
		{"infinite", "0\n+Inf\n", "times.csv:2: +Inf is beyond"},
		{"a short row", "due_s,endpoint\n1\n", "times.csv:2: wrong number of fields"},
		{"a cell without an end", strings.Repeat("x", 1<<20), "times.csv:1: \"" + strings.Repeat("x", 40) + "\" is not a time"},
		{"a number of many digits", "0\n-" + strings.Repeat("1", 60) + "\n", "times.csv:2: -" + strings.Repeat("1", 39) + " is before"},
		{"a bare quote", "0\n1\"\n", "times.csv:2: bare \" in non-quoted"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := ParseRecording("times.csv", strings.NewReader(tt.text))
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("error %v, want one line with %q", err, tt.want)
			}
		})
	}
}

func FuzzParseRecording(f *testing.F) {
	for _, seed := range []string{"0\n1\n", "due_s\n0.1\n", "endpoint,due_ns\na,1\nb,2\n", "due_s\n\"1\n", "1e300\n", "0\n#\n,\n"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := ParseRecording("times.csv", strings.NewReader(text))
		if err != nil {
			if !strings.HasPrefix(err.Error(), "replay: times.csv") {
				t.Errorf("the error %q does not name the file", err)
			}
			return
		}
		names := r.Endpoints()
		if names == nil {
			names = []string{""}
		}
		for _, name := range names {
			last := time.Duration(0)
			all := drain(r.Sequence(name))
			for _, due := range all {
				if due < last || due >= r.Length() {
					t.Errorf("%v after %v in a recording of %v", due, last, r.Length())
				}
				last = due
			}
			if len(all) == 0 || len(all) != r.Count(name) || r.Most(name, r.Length()) != len(all) {
				t.Errorf("%q: %d arrivals, Count %d, Most %d", name, len(all), r.Count(name), r.Most(name, r.Length()))
			}
		}
	})
}

func FuzzParsePattern(f *testing.F) {
	for _, seed := range []string{"ramp:10/s..100/s", "steps:1:1s,0..5/m:2s", "ramp:..", "steps:1e9:1ns"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if strings.HasPrefix(text, KindReplay) {
			return // of a file of this machine
		}
		p, err := ParsePattern(text, time.Second)
		if err != nil {
			return
		}
		s, last := p.Sequence(""), time.Duration(0)
		for range min(p.Count(""), 1000) {
			due, ok := s.Next()
			if !ok || due < last || due >= p.Length() {
				t.Fatalf("%v (%v) after %v in %v", due, ok, last, p.Length())
			}
			last = due
		}
	})
}

func TestInitialRates(t *testing.T) {
	recording := func(text string) Pattern {
		r, err := ParseRecording("r.csv", strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	course := func(text string) Pattern {
		p, err := ParsePattern(text, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	for _, tt := range []struct {
		name    string
		pattern Pattern
		want    rate.Rate
	}{
		{"ramp", course("ramp:3/s..30/s"), 3},
		{"ramp from 0", course("ramp:0/s..30/s"), 0},
		{"steps", course("steps:7/s:1s,9/s:1s"), 7},
		{"short recording", recording("0\n1\n2\n3.5\n"), 1},              // 4 in 4 s
		{"long recording", recording("0\n5\n9.9\n10\n500\n"), 0.3},       // 3 in 10 s
		{"recording that begins late", recording("100\n200\n"), 0},       // none in 10 s
		{"recording of another", recording("endpoint,due_s\nslow,1"), 0}, // none at all
	} {
		if got := tt.pattern.Initial("fast"); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}
