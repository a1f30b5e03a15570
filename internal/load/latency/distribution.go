package latency

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"math/big"
	"strconv"
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
			fmt.Fprintf(b, "%12s %s %10d", decimal(float64(line.ValueAt)/unit, digits), decimal(line.Quantile/100, 12), line.Count)
			if line.Quantile < 100 {
				fmt.Fprintf(b, " %14s", decimal(1/(1-line.Quantile/100), 2))
			}
			fmt.Fprintln(b)
		}
	}
	buckets, subBuckets := h.geometry()
	fmt.Fprintf(b, "#[Mean    = %12s, StdDeviation   = %12s]\n", decimal(h.counts.Mean()/unit, digits), decimal(h.counts.StdDev()/unit, digits))
	fmt.Fprintf(b, "#[Max     = %12s, Total count    = %12d]\n", decimal(float64(h.counts.Max())/unit, digits), h.Count())
	fmt.Fprintf(b, "#[Buckets = %12d, SubBuckets     = %12d]\n", buckets, subBuckets)
	return b.Flush()
}

// decimal is v with so many decimals, as Java's Formatter rounds it: the shortest
// decimal that is v, halves away from zero. Go's fmt rounds the binary value, and so
// has 0.999780273437 where Java has 0.999780273438.
func decimal(v float64, decimals int) string {
	exact, ok := new(big.Rat).SetString(strconv.FormatFloat(v, 'g', -1, 64))
	if !ok {
		return strconv.FormatFloat(v, 'f', decimals, 64)
	}
	return exact.FloatString(decimals)
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
