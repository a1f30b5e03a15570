package stacks

import (
	"cmp"
	"slices"
)

// Row is one group over several dumps.
type Row struct {
	Group        // without Count, Stacks and Example
	Counts []int `json:"counts"` // in each dump; 0: the group is not in it
}

// Timeline follows the groups through dumps that were taken in this order, all
// along the same axis. The row that is largest in any dump is the first.
func Timeline(dumps ...[]Group) []Row {
	index := make(map[groupKey]int)
	var rows []Row
	for d, groups := range dumps {
		for _, g := range groups {
			i, ok := index[g.key]
			if !ok {
				i = len(rows)
				index[g.key] = i
				named := g
				named.Count, named.Stacks, named.Example = 0, 0, ""
				rows = append(rows, Row{Group: named, Counts: make([]int, len(dumps))})
			}
			rows[i].Counts[d] += g.Count
		}
	}
	slices.SortFunc(rows, func(a, b Row) int {
		return cmp.Or(cmp.Compare(slices.Max(b.Counts), slices.Max(a.Counts)), compareGroups(a.Group, b.Group))
	})
	return rows
}

// Changes lists the rows that grew or shrank from dump from to dump to, the
// largest difference first.
func Changes(rows []Row, from, to int) []Row {
	var changed []Row
	for _, r := range rows {
		if r.Counts[from] != r.Counts[to] {
			changed = append(changed, r)
		}
	}
	slices.SortStableFunc(changed, func(a, b Row) int {
		return cmp.Compare(abs(b.Counts[to]-b.Counts[from]), abs(a.Counts[to]-a.Counts[from]))
	})
	return changed
}

func abs(n int) int { return max(n, -n) }
