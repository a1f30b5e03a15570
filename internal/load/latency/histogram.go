// Package latency records durations in HdrHistograms, writes them second by
// second in the HdrHistogram v2 interval-log format, and reads such logs back.
// It is the only importer of hdrhistogram-go.
//
// It refuses to correct for coordinated omission: the engine measures a response
// time from the moment the request was due, so there is nothing to correct.
package latency

import (
	"math"
	"time"

	hdr "github.com/HdrHistogram/hdrhistogram-go"

	"chokepoint/internal/result"
)

const (
	// Highest is the longest duration that a histogram tells apart. Longer ones
	// are counted in its last bucket and by Clamped.
	Highest = time.Hour
	// digits is the precision: a percentile is within 0.1 % of the true value.
	digits = 3
	// minForP999 is how many samples a p99.9 needs: under a thousand it would be
	// the maximum under another name.
	minForP999 = 1000
)

// Histogram counts durations at 3 significant digits up to Highest, and keeps
// the extremes exactly. It is not safe for concurrent use.
type Histogram struct {
	counts   *hdr.Histogram
	min, max time.Duration
	clamped  int64
}

// Responses are the response times of one endpoint: all, and its two parts.
type Responses struct {
	All, OK, Failed *Histogram
}

// New makes an empty histogram of about 270 kB.
func New() *Histogram {
	return &Histogram{counts: hdr.New(1, int64(Highest), digits), min: math.MaxInt64}
}

// Record counts d. A negative duration, which only a broken clock can give,
// counts as 0.
func (h *Histogram) Record(d time.Duration) {
	d = max(d, 0)
	h.min, h.max = min(h.min, d), max(h.max, d)
	if d > Highest {
		h.clamped++
		d = Highest
	}
	// The value is within the range that New asked for, so this cannot fail.
	if err := h.counts.RecordValue(int64(d)); err != nil {
		panic("latency: " + err.Error())
	}
}

// Count is how many durations were recorded.
func (h *Histogram) Count() int64 { return h.counts.TotalCount() }

// Clamped is how many of them were longer than Highest.
func (h *Histogram) Clamped() int64 { return h.clamped }

// Max is the longest duration, exactly as it was recorded; 0 if there is none.
func (h *Histogram) Max() time.Duration { return h.max }

// Min is the shortest duration, exactly as it was recorded; 0 if there is none.
func (h *Histogram) Min() time.Duration {
	if h.Count() == 0 {
		return 0
	}
	return h.min
}

// Quantile is the nearest-rank quantile: the smallest value that at least the
// share q (0 to 1) of the durations does not exceed, at 3 significant digits and
// never outside Min and Max; 0 if there are none.
func (h *Histogram) Quantile(q float64) time.Duration {
	if h.Count() == 0 {
		return 0
	}
	v := time.Duration(h.counts.ValueAtPercentile(rankedPercentile(100*q, h.Count())))
	return min(max(v, h.min), h.max)
}

// rankedPercentile is the percentile at which the Go library finds the value that
// the reference implementation finds at p. The Java library takes the value of
// rank ceil(p/100 * n), having stepped p down by one ulp, lest a product that
// should be whole is rounded up (AbstractHistogram.getValueAtPercentile, 2.1.10 and
// later). The C and Go libraries round the rank to the nearest, and so miss the
// slowest of 60 as p99.
func rankedPercentile(p float64, n int64) float64 {
	if p <= 0 {
		return 0
	}
	p = min(math.Nextafter(p, math.Inf(-1)), 100)
	rank := max(1, math.Ceil(p*float64(n)/100))
	return 100 * rank / float64(n)
}

// CountsUpTo is how many durations were no longer than each bound, at 3
// significant digits. The bounds are ascending.
func (h *Histogram) CountsUpTo(bounds []time.Duration) []int64 {
	counts := make([]int64, len(bounds))
	if h.Count() == 0 {
		return counts
	}
	n, i := int64(0), 0
	for _, bar := range h.counts.Distribution() {
		for ; i < len(bounds) && bar.From > int64(bounds[i]); i++ {
			counts[i] = n
		}
		n += bar.Count
	}
	for ; i < len(bounds); i++ {
		counts[i] = n
	}
	return counts
}

// Sum is that of all durations, at 3 significant digits.
func (h *Histogram) Sum() time.Duration {
	return time.Duration(h.counts.Mean() * float64(h.Count()))
}

// Merge adds everything that was recorded in from, bucket by bucket.
func (h *Histogram) Merge(from *Histogram) {
	if from.Count() == 0 {
		return
	}
	h.counts.Merge(from.counts)
	h.min, h.max = min(h.min, from.min), max(h.max, from.max)
	h.clamped += from.clamped
}

// Sharpen sets the extremes of a histogram that was read from a log, which holds
// them at 3 significant digits, to the exact ones. It says false, and changes
// nothing, if they cannot be those of the same values.
func (h *Histogram) Sharpen(low, high time.Duration) bool {
	if h.Count() == 0 {
		return low == 0 && high == 0
	}
	if !h.counts.ValuesAreEquivalent(int64(min(low, Highest)), int64(h.min)) ||
		!h.counts.ValuesAreEquivalent(int64(min(high, Highest)), int64(h.max)) {
		return false
	}
	h.min, h.max = low, high
	return true
}

// Reset forgets everything.
func (h *Histogram) Reset() {
	h.counts.Reset()
	h.min, h.max, h.clamped = math.MaxInt64, 0, 0
}

// Percentiles are the figures of a report, in milliseconds. Without samples each
// is 0; under 1,000 of them there is no p99.9.
func (h *Histogram) Percentiles() result.Percentiles {
	p := result.Percentiles{
		Min:   milliseconds(h.Min()),
		P50:   milliseconds(h.Quantile(0.50)),
		P90:   milliseconds(h.Quantile(0.90)),
		P95:   milliseconds(h.Quantile(0.95)),
		P99:   milliseconds(h.Quantile(0.99)),
		Max:   milliseconds(h.Max()),
		Count: h.Count(),
	}
	if p.Count >= minForP999 {
		p999 := milliseconds(h.Quantile(0.999))
		p.P999 = &p999
	}
	return p
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
