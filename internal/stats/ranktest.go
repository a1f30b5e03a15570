package stats

import (
	"cmp"
	"math"
	"slices"
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
func rankTest(base, other []float64) test {
	ranks, observed := doubledRanks(base, other)
	n, all := len(other), len(ranks)
	mean := n * (all + 1) // of the doubled rank sum
	t := test{direction: Noise}
	switch {
	case observed > mean:
		t.direction = Higher
	case observed < mean:
		t.direction = Lower
	}
	slices.Sort(ranks)
	lowest, highest := sum(ranks[:n]), sum(ranks[all-n:])
	farthest := max(mean-lowest, highest-mean)
	if all > exactLimit {
		t.p = normalP(ranks, n, abs(observed-mean))
		t.leastP = normalP(ranks, n, farthest)
		return t
	}
	orders := rankSumOrders(ranks, n)
	t.p = shareBeyond(orders, mean, abs(observed-mean))
	t.leastP = shareBeyond(orders, mean, farthest)
	return t
}

// doubledRanks ranks all values from 2 up in steps of 2, equal values sharing
// their mean, and sums the ranks of other.
func doubledRanks(base, other []float64) (ranks []int, sumOfOther int) {
	type entry struct {
		value   float64
		isOther bool
	}
	var entries []entry
	for _, v := range base {
		entries = append(entries, entry{v, false})
	}
	for _, v := range other {
		entries = append(entries, entry{v, true})
	}
	slices.SortFunc(entries, func(a, b entry) int { return cmp.Compare(a.value, b.value) })
	for from := 0; from < len(entries); {
		to := from + 1
		for to < len(entries) && entries[to].value == entries[from].value {
			to++
		}
		shared := from + 1 + to // twice the mean of the ranks from+1 to to
		for _, e := range entries[from:to] {
			ranks = append(ranks, shared)
			if e.isOther {
				sumOfOther += shared
			}
		}
		from = to
	}
	return ranks, sumOfOther
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
