package latency

import (
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"encoding/binary"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	hdr "github.com/HdrHistogram/hdrhistogram-go"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"chokepoint/internal/result"
)

func of(values ...time.Duration) *Histogram {
	h := New()
	for _, v := range values {
		h.Record(v)
	}
	return h
}

func TestEmptyHistogramHasNoNaN(t *testing.T) {
	if diff := cmp.Diff(result.Percentiles{}, New().Percentiles()); diff != "" {
		t.Error(diff)
	}
}

func TestPercentilesOfOneValueAreThatValue(t *testing.T) {
	// 123,456,789 ns is not on a bucket's edge: only exact extremes give it back.
	want := result.Percentiles{Min: 123.456789, P50: 123.456789, P90: 123.456789, P95: 123.456789, P99: 123.456789, Max: 123.456789, Count: 1}
	if diff := cmp.Diff(want, of(123456789).Percentiles()); diff != "" {
		t.Error(diff)
	}
}

func TestP999NeedsAThousandSamples(t *testing.T) {
	h := New()
	for range 999 {
		h.Record(time.Millisecond)
	}
	if p := h.Percentiles(); p.P999 != nil {
		t.Errorf("p99.9 of 999 samples is %v, want none", *p.P999)
	}
	h.Record(time.Second)
	if p := h.Percentiles(); p.P999 == nil || math.Abs(*p.P999-1) > 0.001 {
		t.Errorf("p99.9 of 1,000 samples is %v, want 1 ms", p.P999)
	}
}

func TestBeyondTheRangeIsClampedAndCounted(t *testing.T) {
	h := of(Highest, Highest+1, 1000*time.Hour, math.MaxInt64, -time.Second)
	if h.Clamped() != 3 || h.Count() != 5 {
		t.Errorf("%d clamped of %d, want 3 of 5", h.Clamped(), h.Count())
	}
	if h.Max() != math.MaxInt64 || h.Min() != 0 {
		t.Errorf("extremes %v and %v, want 0 and the largest duration", h.Min(), h.Max())
	}
	if got := h.Quantile(0.5); got < Highest || got > Highest+Highest/1000 {
		t.Errorf("p50 %v, want %v within 0.1 %%", got, Highest)
	}
}

func TestExtremesAndQuantiles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Int64Range(0, int64(Highest)), 1, 200).Draw(t, "values")
		h, halves := New(), [2]*Histogram{New(), New()}
		lo, hi := time.Duration(math.MaxInt64), time.Duration(0)
		for i, v := range values {
			d := time.Duration(v)
			h.Record(d)
			halves[i%2].Record(d)
			lo, hi = min(lo, d), max(hi, d)
		}
		halves[0].Merge(halves[1])
		if h.Min() != lo || h.Max() != hi {
			t.Fatalf("extremes %v..%v, want exactly %v..%v", h.Min(), h.Max(), lo, hi)
		}
		if diff := cmp.Diff(h.Percentiles(), halves[0].Percentiles()); diff != "" {
			t.Fatalf("a merge of two halves is not the whole:\n%s", diff)
		}
		for last, q := lo, 0.0; q <= 1; q += 0.05 {
			v := h.Quantile(q)
			if v < last || v > hi {
				t.Fatalf("quantile %v is %v, outside %v..%v", q, v, last, hi)
			}
			last = v
		}
		h.Reset()
		if diff := cmp.Diff(result.Percentiles{}, h.Percentiles()); diff != "" {
			t.Fatalf("a reset histogram is not empty:\n%s", diff)
		}
	})
}

var logStart = time.Date(2026, 1, 2, 3, 4, 5, 678e6, time.UTC)

func writeLog(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := NewLogWriter(&b, logStart)
	if err != nil {
		t.Fatal(err)
	}
	for i, h := range []*Histogram{of(time.Millisecond, 2*time.Millisecond), New(), of(0, 30*time.Second)} {
		from := time.Duration(i) * time.Second
		if err := w.Write("fast/response", from, from+time.Second, h); err != nil {
			t.Fatal(err)
		}
		if err := w.Write("fast/lag", from, from+time.Second, of(50*time.Microsecond)); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

func TestLogRoundTrip(t *testing.T) {
	log, err := ReadLog(bytes.NewReader(writeLog(t)))
	if err != nil {
		t.Fatal(err)
	}
	if !log.Start.Equal(logStart) {
		t.Errorf("start %v, want %v", log.Start, logStart)
	}
	if len(log.Series) != 2 || len(log.Series["fast/lag"].Intervals) != 3 {
		t.Fatalf("series %v", log.Series)
	}
	response := log.Series["fast/response"]
	if response.Total.Count() != 4 || response.Total.Min() != 0 {
		t.Errorf("total: %+v", response.Total.Percentiles())
	}
	// The interval without a sample is left out of the log.
	if len(response.Intervals) != 2 {
		t.Fatalf("%d intervals, want 2", len(response.Intervals))
	}
	second := response.Intervals[1]
	if second.Start != 2*time.Second || second.Length != time.Second || second.Percentiles.Count != 2 {
		t.Errorf("second interval: %+v", second)
	}
	if got := second.Percentiles.Max; math.Abs(got-30_000) > 30 {
		t.Errorf("maximum %v ms, want 30,000 within 0.1 %%", got)
	}
}

func TestTheLibraryReadsTheLog(t *testing.T) {
	r := hdr.NewHistogramLogReader(bytes.NewReader(writeLog(t)))
	var tags []string
	var starts []int64
	for {
		h, err := r.NextIntervalHistogram()
		if err != nil {
			t.Fatal(err)
		}
		if h == nil {
			break
		}
		tags = append(tags, h.Tag())
		starts = append(starts, h.StartTimeMs()-logStart.UnixMilli())
	}
	if diff := cmp.Diff([]string{"fast/response", "fast/lag", "fast/lag", "fast/response", "fast/lag"}, tags); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]int64{0, 0, 1000, 2000, 2000}, starts); diff != "" {
		t.Error(diff)
	}
}

func TestReadLogOfAbsoluteTimes(t *testing.T) {
	// What a writer without a base time leaves: starts since the epoch.
	text := strings.ReplaceAll(string(writeLog(t)), "#[BaseTime", "#[Ignored")
	text = strings.ReplaceAll(text, ",2.000000,1.0", ",1767323047.678,1.0")
	log, err := ReadLog(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if got := log.Series["fast/lag"].Intervals[2].Start; got != 2*time.Second {
		t.Errorf("start %v, want 2s", got)
	}
}

func TestReadLogNamesTheBadLine(t *testing.T) {
	good := string(writeLog(t))
	for name, bad := range map[string]string{
		"no fields":         "Tag=fast/lag",
		"too few fields":    "0.1,1.0,2.0",
		"not a time":        "Tag=a,x,1.0,2.0,HIST",
		"negative time":     "Tag=a,-1,1.0,2.0,HIST",
		"not a number":      "Tag=a,NaN,1.0,2.0,HIST",
		"not a histogram":   "Tag=a,0.1,1.0,2.0,HISTxxxx",
		"bad start time":    "#[StartTime: yesterday (seconds since epoch)]",
		"histogram cut off": strings.TrimSpace(good)[:len(good)-20],
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ReadLog(strings.NewReader(bad))
			if err == nil || !strings.Contains(err.Error(), "line ") || strings.Contains(err.Error(), "\n") {
				t.Errorf("error %v, want one line that names the line", err)
			}
		})
	}
}

func FuzzReadLog(f *testing.F) {
	var b bytes.Buffer
	w, err := NewLogWriter(&b, logStart)
	if err != nil {
		f.Fatal(err)
	}
	if err := w.Write("fast/response", 0, time.Second, of(time.Millisecond, time.Hour)); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Add([]byte("Tag=a,0,1,2,HISTFAAAABV42pNpmSzMwMDAxAABzFCaEURcm7yEwf4DRGB/"))
	f.Add([]byte("#[BaseTime: 1e9]\n\n#x\nTag=,0,1,2,"))
	f.Fuzz(func(t *testing.T, data []byte) { adds(t, data) })
}

// adds fails the test unless the log is refused, or its totals are the sums of its
// intervals.
func adds(t *testing.T, data []byte) {
	log, err := ReadLog(bytes.NewReader(data))
	totals, totalsErr := ReadTotals(bytes.NewReader(data))
	if (err == nil) != (totalsErr == nil) {
		t.Fatalf("ReadLog says %v, ReadTotals %v", err, totalsErr)
	}
	if len(totals) != len(log.Series) {
		t.Errorf("%d totals of %d series", len(totals), len(log.Series))
	}
	for tag, total := range totals {
		if diff := cmp.Diff(log.Series[tag].Total.Percentiles(), total.Percentiles()); diff != "" {
			t.Errorf("%q: the total alone differs (-want +got)\n%s", tag, diff)
		}
	}
	if err != nil {
		if strings.Contains(err.Error(), "\n") {
			t.Errorf("error %q, want one line", err)
		}
		return
	}
	for tag, series := range log.Series {
		var n int64
		for _, interval := range series.Intervals {
			n += interval.Percentiles.Count
		}
		if n != series.Total.Count() {
			t.Errorf("%q: the intervals hold %d values, the total %d", tag, n, series.Total.Count())
		}
		if total := series.Total; total.Count() > 0 && !(total.Min() <= total.Quantile(0.5) && total.Quantile(0.5) <= total.Max()) {
			t.Errorf("%q: minimum %v, median %v, maximum %v", tag, total.Min(), total.Quantile(0.5), total.Max())
		}
	}
}

// FuzzReadHistogram reaches what the compression hides from FuzzReadLog: the
// header and the counts of a histogram.
func FuzzReadHistogram(f *testing.F) {
	const oneMillisecond = "\x85\x14\x02"
	f.Add(int32(3), int64(1), int64(time.Hour), 1.0, []byte(oneMillisecond), 0)
	f.Add(int32(5), int64(1), int64(math.MaxInt64), 1.0, []byte("\x02\x02"), 0)
	f.Add(int32(0), int64(0), int64(2), 0.5, []byte("\x01\x02"), 0)
	f.Add(int32(3), int64(1000), int64(time.Hour), 1.0, []byte("\xfe\xff\xff\xff\xff\xff\xff\xff\xff"), 0)
	f.Add(int32(3), int64(1), int64(time.Hour), math.NaN(), []byte(oneMillisecond), -1)
	f.Fuzz(func(t *testing.T, digits int32, lowest, highest int64, ratio float64, counts []byte, missing int) {
		var histogram, line bytes.Buffer
		field := func(w io.Writer, values ...any) {
			for _, v := range values {
				if err := binary.Write(w, binary.BigEndian, v); err != nil {
					t.Fatal(err)
				}
			}
		}
		compressed := zlib.NewWriter(&histogram)
		field(compressed, uint32(0x1c849303), int32(len(counts)-missing), int32(0), digits, lowest, highest, ratio, counts)
		if err := compressed.Close(); err != nil {
			t.Fatal(err)
		}
		field(&line, uint32(0x1c849304), int32(histogram.Len()), histogram.Bytes())
		text := "Tag=a,0,1,2," + base64.StdEncoding.EncodeToString(line.Bytes()) + "\n"
		adds(t, []byte(text+text))
	})
}

func TestCountsUpTo(t *testing.T) {
	h := of(time.Millisecond, time.Millisecond, 5*time.Millisecond, 30*time.Second, 2*Highest)
	bounds := []time.Duration{0, time.Millisecond, 4 * time.Millisecond, 5 * time.Millisecond, time.Minute, Highest}
	if diff := cmp.Diff([]int64{0, 2, 2, 3, 4, 5}, h.CountsUpTo(bounds)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if diff := cmp.Diff(make([]int64, len(bounds)), New().CountsUpTo(bounds)); diff != "" {
		t.Errorf("of none (-want +got)\n%s", diff)
	}
	if sum := of(time.Millisecond, 2*time.Millisecond, 3*time.Second).Sum(); sum < 3000*time.Millisecond || sum > 3006*time.Millisecond || New().Sum() != 0 {
		t.Errorf("sum %v, want 3.003 s to 3 digits; of none %v", sum, New().Sum())
	}
}
