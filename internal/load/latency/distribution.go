package latency

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"time"
)

// ticksPerHalfDistance is how many lines a distribution has between one
// percentile and the one half as far from 100 %: the default of HdrHistogram's
// HistogramLogProcessor.
const ticksPerHalfDistance = 5

// WriteDistribution writes the percentile distribution of h, in milliseconds, as
// HdrHistogram's Java library prints it (AbstractHistogram.
// outputPercentileDistribution): the .hgrm files that its plotters read. Its
// maximum is at 3 significant digits, like every value of it.
func (h *Histogram) WriteDistribution(w io.Writer) error {
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "%12s %14s %10s %14s\n\n", "Value", "Percentile", "TotalCount", "1/(1-Percentile)")
	unit := float64(time.Millisecond)
	if h.Count() > 0 {
		for _, line := range h.counts.CumulativeDistributionWithTicks(ticksPerHalfDistance) {
			fmt.Fprintf(b, "%12.*f %2.12f %10d", digits, float64(line.ValueAt)/unit, line.Quantile/100, line.Count)
			if line.Quantile < 100 {
				fmt.Fprintf(b, " %14.2f", 1/(1-line.Quantile/100))
			}
			fmt.Fprintln(b)
		}
	}
	buckets, subBuckets := h.geometry()
	fmt.Fprintf(b, "#[Mean    = %12.*f, StdDeviation   = %12.*f]\n", digits, h.counts.Mean()/unit, digits, h.counts.StdDev()/unit)
	fmt.Fprintf(b, "#[Max     = %12.*f, Total count    = %12d]\n", digits, float64(h.counts.Max())/unit, h.Count())
	fmt.Fprintf(b, "#[Buckets = %12d, SubBuckets     = %12d]\n", buckets, subBuckets)
	return b.Flush()
}

// geometry is the shape of the histogram, as its footer has it: buckets of
// subBuckets values each, every bucket twice as wide as the one before.
func (h *Histogram) geometry() (buckets, subBuckets int64) {
	subBuckets = 1
	for subBuckets < int64(2*math.Pow10(int(h.counts.SignificantFigures()))) {
		subBuckets *= 2
	}
	buckets = 1
	for untrackable := float64(subBuckets); untrackable <= float64(h.counts.HighestTrackableValue()); untrackable *= 2 {
		buckets++
	}
	return buckets, subBuckets
}
