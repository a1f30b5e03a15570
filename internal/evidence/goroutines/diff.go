package goroutines

import (
	"cmp"
	"slices"

	"chokepoint/internal/result"
)

// Change is a group whose count differs between two dumps.
type Change struct {
	Where, State, Frame string
	Before, After       int // 0: the group is not in that dump
}

// Diff lists the groups that appeared (Before is 0), went (After is 0), grew or
// shrank from a to b, the largest difference first.
func Diff(a, b result.Dump) []Change {
	counts := make(map[groupKey]*Change)
	at := func(g result.Group) *Change {
		key := keyOf(g)
		if counts[key] == nil {
			counts[key] = &Change{Where: g.Where, State: g.State, Frame: g.Frame}
		}
		return counts[key]
	}
	for _, g := range a.Groups {
		at(g).Before += g.Count
	}
	for _, g := range b.Groups {
		at(g).After += g.Count
	}
	var changes []Change
	for _, c := range counts {
		if c.Before != c.After {
			changes = append(changes, *c)
		}
	}
	slices.SortFunc(changes, func(x, y Change) int {
		return cmp.Or(
			cmp.Compare(abs(y.After-y.Before), abs(x.After-x.Before)),
			compareKeys(groupKey{x.Where, x.State, x.Frame}, groupKey{y.Where, y.State, y.Frame}),
		)
	})
	return changes
}

func abs(n int) int { return max(n, -n) }
