package arrival

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"chokepoint/internal/rate"
)

// drawSequences draws the arrivals of a few endpoints, and gives a way to make
// them anew.
func drawSequences(t *rapid.T) func() []Sequence {
	window := time.Duration(rapid.Int64Range(1, int64(3*time.Second)).Draw(t, "window"))
	kind := rapid.SampledFrom([]string{"constant", "poisson", KindRamp, KindSteps, KindReplay}).Draw(t, "arrivals")
	rates := rapid.SliceOfN(rapid.IntRange(1, 300), 1, 3).Draw(t, "rates")
	seed := rapid.Uint64().Draw(t, "seed")
	var patterns []Pattern
	for range rates {
		patterns = append(patterns, drawPattern(t, kind, window))
	}
	return func() []Sequence {
		var all []Sequence
		for i, r := range rates {
			switch kind {
			case "constant":
				all = append(all, Constant(rate.Rate(r), window))
			case "poisson":
				all = append(all, Poisson(rate.Rate(r), window, seed, uint64(i)))
			default:
				all = append(all, patterns[i].Sequence("fast"))
			}
		}
		return all
	}
}

func drawPattern(t *rapid.T, kind string, window time.Duration) Pattern {
	draw := func() rate.Rate { return rate.Rate(rapid.IntRange(1, 300).Draw(t, "rate")) }
	switch kind {
	case KindRamp:
		return mustCourse(t, kind, Leg{Length: window, From: draw(), To: draw()})
	case KindSteps:
		first, second := draw(), draw()
		return mustCourse(t, kind, Leg{Length: window, From: first, To: first}, Leg{Length: window, From: second, To: second})
	case KindReplay:
		times := rapid.SliceOfN(rapid.Int64Range(0, int64(window)), 1, 100).Draw(t, "times")
		slices.Sort(times)
		rec := &Recording{times: map[string][]time.Duration{}, length: window + 1}
		for _, due := range times {
			rec.times[""] = append(rec.times[""], time.Duration(due))
		}
		return rec
	}
	return nil
}

func mustCourse(t *rapid.T, kind string, legs ...Leg) *Course {
	c, err := newCourse(kind, legs)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// mustBePlan checks that the parts together are the whole, and that no arrival is
// in two of them.
func mustBePlan(t *rapid.T, whole []Arrival, parts [][]Arrival) {
	var union []Arrival
	seen := map[Arrival]bool{}
	for _, part := range parts {
		for _, a := range part {
			if seen[a] {
				t.Fatalf("arrival %+v is in two shards", a)
			}
			seen[a] = true
		}
		union = append(union, part...)
	}
	slices.SortFunc(union, func(a, b Arrival) int {
		return cmpInOrder(int(a.Due-b.Due), a.From-b.From, a.Index-b.Index)
	})
	if diff := cmp.Diff(whole, union); diff != "" {
		t.Fatalf("the union of %d shards is not the plan:\n%s", len(parts), diff)
	}
}

// cmpInOrder is the first that is not 0.
func cmpInOrder(signs ...int) int {
	for _, s := range signs {
		if s != 0 {
			return s
		}
	}
	return 0
}

func TestShardsAreThePlan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sequences := drawSequences(t)
		of := rapid.IntRange(1, 9).Draw(t, "shards")
		whole := drainMerged(Merge(Shard{}, sequences()...))
		counts := make([]int, len(sequences()))
		for i, s := range sequences() {
			counts[i] = Count(s)
		}
		var parts [][]Arrival
		for i := range of {
			shard := Shard{Index: i, Of: of}
			part := drainMerged(Merge(shard, sequences()...))
			if !slices.IsSortedFunc(part, func(a, b Arrival) int { return int(a.Due - b.Due) }) {
				t.Fatalf("shard %v is not in due order", shard)
			}
			got := make([]int, len(counts))
			for _, a := range part {
				if a.Index%of != i || shard.Nth(got[a.From]) != a.Index || shard.Position(a.Index) != got[a.From] {
					t.Fatalf("shard %v: arrival %+v is its number %d", shard, a, got[a.From])
				}
				got[a.From]++
			}
			for from, n := range counts {
				if shard.Count(n) != got[from] {
					t.Fatalf("shard %v has %d of %d arrivals, and Count says %d", shard, got[from], n, shard.Count(n))
				}
			}
			parts = append(parts, part)
		}
		mustBePlan(t, whole, parts)
	})
}

func TestShardsOfAShardAreTheShard(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sequences := drawSequences(t)
		of, parts := rapid.IntRange(1, 5).Draw(t, "shards"), rapid.IntRange(1, 5).Draw(t, "parts")
		shard := Shard{Index: rapid.IntRange(0, of-1).Draw(t, "shard"), Of: of}
		var split [][]Arrival
		for j := range parts {
			split = append(split, drainMerged(Merge(shard.Split(j, parts), sequences()...)))
		}
		mustBePlan(t, drainMerged(Merge(shard, sequences()...)), split)
	})
}

// TestMostBoundsAShard: no stretch of time holds more of a shard than Most makes
// of what it holds of the plan.
func TestMostBoundsAShard(t *testing.T) {
	within := func(all []Arrival, stretch time.Duration) int {
		most := 0
		for i := range all {
			n := i
			for n < len(all) && all[n].Due-all[i].Due < stretch {
				n++
			}
			most = max(most, n-i)
		}
		return most
	}
	rapid.Check(t, func(t *rapid.T) {
		sequences := drawSequences(t)
		one := func() Sequence { return sequences()[0] }
		stretch := time.Duration(rapid.Int64Range(1, int64(time.Second)).Draw(t, "stretch"))
		shard := Shard{Of: rapid.IntRange(1, 9).Draw(t, "shards")}
		whole := within(drainMerged(Merge(Shard{}, one())), stretch)
		for shard.Index = range shard.Of {
			if got := within(drainMerged(Merge(shard, one())), stretch); got > shard.Most(whole) {
				t.Fatalf("shard %v has %d arrivals within %v, and Most(%d) is %d", shard, got, stretch, whole, shard.Most(whole))
			}
		}
	})
}

func TestParseShard(t *testing.T) {
	for _, tt := range []struct {
		text string
		want Shard
		err  string
	}{
		{"0/1", Shard{0, 1}, ""},
		{"2/3", Shard{2, 3}, ""},
		{"3/3", Shard{}, "shard 3/3 does not exist: they count from 0, so of 3 the last is 2/3"},
		{"-1/3", Shard{}, "shard -1/3 does not exist"},
		{"0/0", Shard{}, "shard 0/0"},
		{"0/10001", Shard{}, "split into 1 to 10000 parts"},
		{"1", Shard{}, `shard "1" is not an index and a number, as in 0/3`},
		{"", Shard{}, `shard "" is not`},
		{"a/3", Shard{}, `shard "a/3" is not`},
		{"/3", Shard{}, `shard "/3" is not`},
	} {
		got, err := ParseShard(tt.text)
		if tt.err == "" {
			if err != nil || got != tt.want || got.String() != tt.text {
				t.Errorf("%q: %v, %v, want %v", tt.text, got, err, tt.want)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%q: error %v, want %q", tt.text, err, tt.err)
		}
	}
}

func TestPatternsIdentifyThemselves(t *testing.T) {
	record := func(text string) Pattern {
		r, err := ParseRecording("a.csv", strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	of := func(p Pattern) string {
		var b strings.Builder
		p.Identify(&b)
		return b.String()
	}
	patterns := map[string]Pattern{
		"ramp":             mustPattern(t, "ramp:10..100", time.Second),
		"longer ramp":      mustPattern(t, "ramp:10..100", 2*time.Second),
		"other ramp":       mustPattern(t, "ramp:10..101", time.Second),
		"steps":            mustPattern(t, "steps:10:1s,100:1s", 0),
		"other steps":      mustPattern(t, "steps:100:1s,10:1s", 0),
		"recording":        record("0\n0.5\n"),
		"other recording":  record("0\n0.6\n"),
		"longer recording": record("0\n0.5\n0.6\n"),
		"an endpoint's":    record("due_s,endpoint\n0,a\n0.5,a\n"),
		"another's":        record("due_s,endpoint\n0,a\n0.5,b\n"),
	}
	seen := map[string]string{}
	for name, p := range patterns {
		if twin, ok := seen[of(p)]; ok {
			t.Errorf("%s identifies itself as %s does", name, twin)
		}
		seen[of(p)] = name
	}
	if of(record("0\n0.5\n")) != of(record("due_s\n0.0\n0.500\n")) {
		t.Error("a recording is its times, and not how they are written")
	}
}

// BenchmarkShard is what a shard of a hundred pays for every arrival of the plan,
// its own or not.
func BenchmarkShard(b *testing.B) {
	ramp, err := ParsePattern("ramp:1000..2000", 24*time.Hour)
	if err != nil {
		b.Fatal(err)
	}
	for _, bench := range []struct {
		name string
		make func() Sequence
	}{
		{"constant", func() Sequence { return Constant(1e6, 24*time.Hour) }},
		{"poisson", func() Sequence { return Poisson(1e6, 24*time.Hour, 1, 0) }},
		{"ramp", func() Sequence { return ramp.Sequence("fast") }},
	} {
		b.Run(bench.name, func(b *testing.B) {
			const of = 100
			m := Merge(Shard{Index: 3, Of: of}, bench.make())
			for i := 0; i < b.N; i += of {
				if _, ok := m.Next(); !ok {
					m = Merge(Shard{Index: 3, Of: of}, bench.make())
				}
			}
		})
	}
}
