package latency

import (
	"bytes"
	"encoding/csv"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	hdr "github.com/HdrHistogram/hdrhistogram-go"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// readReference reads the log that jHiccup wrote with the Java library. It is
// part of HdrHistogram's own tests (public domain, CC0).
func readReference(t *testing.T) Log {
	t.Helper()
	f, err := os.Open("testdata/jHiccup-2.0.7S.logV2.hlog")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	log, err := ReadLog(f)
	if err != nil {
		t.Fatal(err)
	}
	return log
}

func TestTheReferenceLog(t *testing.T) {
	log := readReference(t)
	series := log.Series[""]
	// The figures that the Java library's HistogramLogReaderTest.jHiccupV2Log
	// asserts of this file, added up in a histogram of 3 digits.
	if len(log.Series) != 1 || len(series.Intervals) != 62 || series.Total.Count() != 48761 {
		t.Errorf("%d series, %d intervals, %d values; want 1, 62, 48761", len(log.Series), len(series.Intervals), series.Total.Count())
	}
	if got := series.Total.Quantile(0.999); got != 1745879039 {
		t.Errorf("p99.9 is %d ns, want 1745879039", got)
	}
	if got := series.Total.Max(); got != 1796210687 {
		t.Errorf("maximum %d ns, want 1796210687", got)
	}
	if got := log.Start.UnixMilli(); got != 1441812279474 {
		t.Errorf("start %d, want 1441812279474", got)
	}
}

func TestTheReferenceLogRoundTrip(t *testing.T) {
	reference := readReference(t)
	total := reference.Series[""].Total
	var b bytes.Buffer
	w, err := NewLogWriter(&b, reference.Start)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write("all", 0, time.Minute, total); err != nil {
		t.Fatal(err)
	}
	again, err := ReadLog(&b)
	if err != nil {
		t.Fatal(err)
	}
	got := again.Series["all"].Total
	if !got.counts.Equals(total.counts) {
		t.Error("the buckets are not those that were written")
	}
	if diff := cmp.Diff(total.Percentiles(), got.Percentiles()); diff != "" {
		t.Error(diff)
	}
	if !again.Start.Equal(reference.Start) {
		t.Errorf("start %v, want %v", again.Start, reference.Start)
	}
}

func TestQuantilesAreThoseOfTheReference(t *testing.T) {
	// 1 to n ms at a precision that tells them apart: the value is its own rank.
	// What the Java library says: rank ceil(p/100 * n).
	for _, tt := range []struct {
		n    int
		q    float64
		want int
	}{
		{1, 0.5, 1}, {2, 0.5, 1}, {3, 0.5, 2}, {10, 0.9, 9}, {10, 0.91, 10}, {10, 0.94, 10},
		{60, 0.99, 60}, {100, 0.99, 99}, {101, 0.99, 100}, {1000, 0.999, 999}, {1001, 0.999, 1000},
		{7, 0, 1}, {7, 1, 7}, {12, 0.95, 12}, {20, 0.95, 19}, {21, 0.95, 20},
	} {
		h := New()
		for i := range tt.n {
			h.Record(time.Duration(i+1) * time.Millisecond)
		}
		got := h.Quantile(tt.q)
		if want := time.Duration(tt.want) * time.Millisecond; !h.counts.ValuesAreEquivalent(int64(got), int64(want)) {
			t.Errorf("quantile %v of 1 to %d ms is %v, want %v", tt.q, tt.n, got, want)
		}
	}
}

func TestQuantileIsTheNearestRank(t *testing.T) {
	h := New()
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Int64Range(0, int64(Highest)), 1, 300).Draw(t, "values")
		h.Reset()
		for _, v := range values {
			h.Record(time.Duration(v))
		}
		slices.Sort(values)
		permille := rapid.IntRange(1, 1000).Draw(t, "permille")
		rank := (permille*len(values) + 999) / 1000
		got := h.Quantile(float64(permille) / 1000)
		if want := values[rank-1]; !h.counts.ValuesAreEquivalent(int64(got), want) {
			t.Fatalf("quantile 0.%03d of %d values is %d, want %d", permille, len(values), got, want)
		}
	})
}

func TestSharpen(t *testing.T) {
	exact := of(123_456_789, 987_654_321, 2*Highest)
	read, _ := rebuilt(exact.counts)
	if read.Min() == exact.Min() {
		t.Fatal("the log kept the exact extremes: this test shows nothing")
	}
	if read.Sharpen(exact.Min()+time.Second, exact.Max()) || read.Sharpen(exact.Min(), time.Second) {
		t.Error("extremes of other values were taken")
	}
	if !read.Sharpen(exact.Min(), exact.Max()) {
		t.Error("the exact extremes were refused")
	}
	if diff := cmp.Diff(exact.Percentiles(), read.Percentiles()); diff != "" {
		t.Error(diff)
	}
	if !New().Sharpen(0, 0) || New().Sharpen(1, 2) {
		t.Error("an empty histogram has no extremes but 0")
	}
}

func TestDistribution(t *testing.T) {
	h := of(time.Millisecond, time.Millisecond, 2*time.Millisecond, 30*time.Second)
	var b bytes.Buffer
	if err := h.WriteDistribution(&b); err != nil {
		t.Fatal(err)
	}
	want := `       Value     Percentile TotalCount 1/(1-Percentile)

       1.000 0.000000000000          2           1.00
       1.000 0.100000000000          2           1.11
       1.000 0.200000000000          2           1.25
       1.000 0.300000000000          2           1.43
       1.000 0.400000000000          2           1.67
       1.000 0.500000000000          2           2.00
       2.001 0.550000000000          3           2.22
       2.001 0.600000000000          3           2.50
       2.001 0.650000000000          3           2.86
       2.001 0.700000000000          3           3.33
       2.001 0.750000000000          3           4.00
   30014.439 0.775000000000          4           4.44
   30014.439 1.000000000000          4
#[Mean    =     7502.513, StdDeviation   =    12992.424]
#[Max     =    30014.439, Total count    =            4]
#[Buckets =           32, SubBuckets     =         2048]
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	b.Reset()
	if err := New().WriteDistribution(&b); err != nil || strings.Contains(b.String(), "NaN") || strings.Count(b.String(), "\n") != 5 {
		t.Errorf("no values: error %v, text\n%s", err, &b)
	}
}

// references are histograms of which testdata has what the Java library says
// (testdata/Reference.java).
func references(t *testing.T) map[string]*Histogram {
	t.Helper()
	sequence := New()
	x := int64(1)
	for range 10_000 {
		x = x * 48271 % (1<<31 - 1)
		sequence.Record(time.Duration(x << 10 >> (x % 31)))
	}
	return map[string]*Histogram{"jHiccup": readReference(t).Series[""].Total, "sequence": sequence}
}

func TestTheDistributionIsTheReferences(t *testing.T) {
	for name, h := range references(t) {
		t.Run(name, func(t *testing.T) {
			want, err := os.ReadFile("testdata/" + name + ".hgrm")
			if err != nil {
				t.Fatal(err)
			}
			var got bytes.Buffer
			if err := h.WriteDistribution(&got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got.String(), "\n")); diff != "" {
				t.Errorf("(-reference +ours)\n%s", diff)
			}
		})
	}
}

func TestPercentilesAreThoseOfTheReference(t *testing.T) {
	for name, h := range references(t) {
		t.Run(name, func(t *testing.T) {
			f, err := os.Open("testdata/" + name + ".percentiles.csv")
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			rows, err := csv.NewReader(f).ReadAll()
			if err != nil || len(rows) != 21 {
				t.Fatalf("%d rows, %v; want 21", len(rows), err)
			}
			for _, row := range rows {
				percentile, err := strconv.ParseFloat(row[0], 64)
				if err != nil {
					t.Fatal(err)
				}
				want, err := strconv.ParseInt(row[1], 10, 64)
				if err != nil {
					t.Fatal(err)
				}
				// A histogram of ours keeps the exact extremes; the bucket is what
				// the reference reports.
				if got := h.counts.ValueAtPercentile(rankedPercentile(percentile, h.Count())); got != want {
					t.Errorf("p%v is %d ns, want %d", percentile, got, want)
				}
			}
		})
	}
}

func TestTooManyTags(t *testing.T) {
	encoded, err := of(time.Second).counts.Encode(hdr.V2CompressedEncodingCookieBase)
	if err != nil {
		t.Fatal(err)
	}
	interval := func(tag string) logLine {
		i, err := parseInterval("Tag=" + tag + ",0,1,2," + string(encoded))
		if err != nil {
			t.Fatal(err)
		}
		return i
	}
	log := Log{Series: map[string]*Series{}}
	for i := range maxSeries {
		log.Series[strconv.Itoa(i)] = &Series{Total: New()}
	}
	if err := log.add(interval("7")); err != nil {
		t.Errorf("a tag that is known: %v", err)
	}
	if err := log.add(interval("one more")); err == nil || err.Error() != "more than 1000 tags" {
		t.Errorf("error %v, want too many tags", err)
	}
}
