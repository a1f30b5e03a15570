package stacks

import (
	"cmp"
	"slices"

	"chokepoint/internal/result"
)

// mostOther is how many groups of "other" are named at most.
const mostOther = 3

// CountsEveryone says that the places of a dump are those of all its goroutines or
// threads, and not of the workers of a pool alone: the rules know no pool in it.
func CountsEveryone(d result.Dump) bool {
	placed := 0
	for _, n := range d.Where {
		placed += n
	}
	return d.Workers == 0 && d.Queued == 0 && placed > 0
}

// LargestOther are the largest groups of "other", the largest first, of a dump that
// counts everyone and has more than half of them there: what holds a service may be
// something that no rule names, such as a semaphore made of a channel. There are none
// where "other" is the smaller part, or counts workers alone.
func LargestOther(d result.Dump) []result.Group {
	if !CountsEveryone(d) || 2*d.Where[Other] <= d.Goroutines {
		return nil
	}
	groups := slices.DeleteFunc(slices.Clone(d.Groups), func(g result.Group) bool { return g.Where != Other })
	slices.SortStableFunc(groups, func(a, b result.Group) int { return cmp.Compare(b.Count, a.Count) })
	return groups[:min(mostOther, len(groups))]
}
