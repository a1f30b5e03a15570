package report

import "math"

// chartColumns is how many buckets a chart has at most: about the pixels of a wide
// screen, beyond which nothing could be told apart.
const chartColumns = 900

// thinned gives the points of several series over one ascending x axis. Series of more
// than twice as many points as a chart has columns are drawn as the lowest and the
// highest value of each column, in the order in which they came, so that no peak and
// no gap is lost; every then is how wide a column is, else 0.
func thinned(xs []float64, series ...[]float64) (thinXs []float64, thin [][]float64, every float64) {
	if len(xs) <= 2*chartColumns {
		return xs, series, 0
	}
	first, last := xs[0], xs[len(xs)-1]
	width := niceWidth((last - first) / chartColumns)
	thin = make([][]float64, len(series))
	for from := 0; from < len(xs); {
		column := math.Floor(xs[from] / width)
		to := from
		for to < len(xs) && math.Floor(xs[to]/width) == column {
			to++
		}
		thinXs = append(thinXs, xs[from])
		two := to-from > 1
		if two {
			thinXs = append(thinXs, xs[to-1])
		}
		for i, values := range series {
			a, b := extremes(values[from:to])
			thin[i] = append(thin[i], a)
			if two {
				thin[i] = append(thin[i], b)
			}
		}
		from = to
	}
	return thinXs, thin, width
}

// extremes are the lowest and the highest of values in the order in which they stand;
// NaN where there are none.
func extremes(values []float64) (first, second float64) {
	low, high := -1, -1
	for i, v := range values {
		if math.IsNaN(v) {
			continue
		}
		if low < 0 || v < values[low] {
			low = i
		}
		if high < 0 || v > values[high] {
			high = i
		}
	}
	if low < 0 {
		return math.NaN(), math.NaN()
	}
	return values[min(low, high)], values[max(low, high)]
}

// niceWidth rounds up to 1, 2 or 5 times a power of ten.
func niceWidth(v float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, step := range []float64{1, 2, 5, 10} {
		if v <= step*power*(1+1e-9) {
			return step * power
		}
	}
	return 10 * power
}
