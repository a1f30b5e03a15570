package stats

import (
	"math"
	"slices"
	"sort"
)

// exactLimit is the number of values in all up to which the rank test counts
// orders; above, it takes the normal approximation. At 50 values every count is
// a whole number below 2^53, and so exact in a float64.
const exactLimit = 50

// test is a Mann-Whitney U test of one pair.
type test struct {
	index     int // of the pair in its family
	direction Direction
	p         float64 // two-sided
	leastP    float64 // the p of the most extreme order of the same values
}

// rankTest asks how many of the equally likely orders of the values put the rank
// sum of other at least as far from its mean as it is. Equal values share the mean
// of their ranks, and the orders are those of the shared ranks, so that the p is
// exact with ties too (the permutation form of the test; Lehmann, Nonparametrics,
// 1975, section 1.4). Rank sums are counted doubled, which makes shared ranks
// whole numbers.
func (r *rankSums) rankTest(base, other []float64) test {
	ranks, observed := doubledRanks(slices.Sorted(slices.Values(base)), slices.Sorted(slices.Values(other)), at(0))
	n, all := len(other), len(ranks)
	mean := n * (all + 1) // of the doubled rank sum
	t := test{direction: Noise}
	switch {
	case observed > mean:
		t.direction = Higher
	case observed < mean:
		t.direction = Lower
	}
	lowest, highest := sum(ranks[:n]), sum(ranks[all-n:])
	t.p = r.p(ranks, n, abs(observed-mean))
	t.leastP = r.p(ranks, n, max(mean-lowest, highest-mean))
	return t
}

// doubledRanks ranks all values from 2 up in steps of 2, equal values sharing
// their mean, and sums the ranks of other. Both sets are sorted; order says how a
// value of other compares with one of base, by their difference. The ranks are
// sorted.
func doubledRanks(base, other []float64, order func(difference float64) int) (ranks []int, sumOfOther int) {
	// Twice the values below, and once those that are equal, the value itself among
	// them: the doubled mean of the ranks that they share is one more.
	within := func(values []float64, v float64) int {
		from, to := sort.SearchFloat64s(values, v), sort.Search(len(values), func(i int) bool { return values[i] > v })
		return 2*from + (to - from) + 1
	}
	for _, o := range other {
		from := sort.Search(len(base), func(i int) bool { return order(o-base[i]) <= 0 })
		to := sort.Search(len(base), func(i int) bool { return order(o-base[i]) < 0 })
		rank := within(other, o) + 2*from + (to - from)
		ranks, sumOfOther = append(ranks, rank), sumOfOther+rank
	}
	for _, b := range base {
		from := sort.Search(len(other), func(i int) bool { return order(other[i]-b) >= 0 })
		to := sort.Search(len(other), func(i int) bool { return order(other[i]-b) > 0 })
		ranks = append(ranks, within(base, b)+2*from+(to-from))
	}
	slices.Sort(ranks)
	return ranks, sumOfOther
}

// rankSums knows how rank sums are distributed. Inverting a test asks for hundreds
// of distributions, most of them the same; so they are kept. It is ready to use.
type rankSums struct {
	orders map[string][]float64 // by ranks and number: see rankSumOrders
}

// p is the share of the orders of ranks, which are sorted, in which the sum of n of
// them is at least distance from its mean.
func (r *rankSums) p(ranks []int, n, distance int) float64 {
	if len(ranks) > exactLimit {
		return normalP(ranks, n, distance)
	}
	key := make([]byte, 0, exactLimit+1)
	key = append(key, byte(n))
	for _, rank := range ranks {
		key = append(key, byte(rank)) // at most 2 * exactLimit
	}
	orders, known := r.orders[string(key)]
	if !known {
		if r.orders == nil {
			r.orders = make(map[string][]float64)
		}
		orders = rankSumOrders(ranks, n)
		r.orders[string(key)] = orders
	}
	return shareBeyond(orders, n*(len(ranks)+1), distance)
}

// rankSumOrders counts, for every sum, the ways to choose n of the ranks that
// add up to it.
func rankSumOrders(ranks []int, n int) []float64 {
	ways := make([][]float64, n+1)
	for k := range ways {
		ways[k] = make([]float64, sum(ranks)+1)
	}
	ways[0][0] = 1
	reach := 0 // the sum of the ranks so far
	for i, r := range ranks {
		reach += r
		for k := min(n, i+1); k >= 1; k-- {
			for s := reach; s >= r; s-- {
				ways[k][s] += ways[k-1][s-r]
			}
		}
	}
	return ways[n]
}

func shareBeyond(orders []float64, mean, distance int) float64 {
	var beyond, all float64
	for s, ways := range orders {
		all += ways
		if abs(s-mean) >= distance {
			beyond += ways
		}
	}
	return beyond / all
}

// normalP approximates the two-sided p by a normal distribution of the rank
// sum's variance, which takes ties into account, with a continuity correction
// of half a rank.
func normalP(ranks []int, n, distance int) float64 {
	all := float64(len(ranks))
	mean := all + 1 // of the doubled ranks
	var squares float64
	for _, r := range ranks {
		squares += (float64(r) - mean) * (float64(r) - mean)
	}
	variance := float64(n) * (all - float64(n)) / (all * (all - 1)) * squares
	if variance == 0 {
		return 1
	}
	z := max(0, float64(distance)-1) / math.Sqrt(variance)
	return math.Erfc(z / math.Sqrt2)
}

func sum(values []int) (total int) {
	for _, v := range values {
		total += v
	}
	return total
}

func abs(v int) int { return max(v, -v) }
