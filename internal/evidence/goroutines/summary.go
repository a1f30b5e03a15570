package goroutines

import (
	"cmp"
	"hash/maphash"
	"io"
	"slices"

	"chokepoint/internal/result"
)

// Summarize reads the text of a dump and counts who stands where. It fills
// Goroutines, Workers, Queued, Where, Groups and Truncated, and leaves the
// fields that the text does not hold to the caller.
//
// Where has every word, 0 included: the workers by where they stand, and under
// "queued" the connections that wait for one. Groups hold every goroutine, by
// where, state and telling frame, the largest group first; the example is the
// first of each, as printed. Memory grows with the groups, not with the text.
//
// An error comes with what was read before it; see Parse.
func Summarize(r io.Reader) (result.Dump, error) {
	d := result.Dump{Where: make(map[string]int)}
	for _, where := range Wheres() {
		d.Where[where] = 0
	}
	groups := make(map[groupKey]*group)
	var hash maphash.Hash
	s := NewScanner(r)
	for s.Scan() {
		g := s.Goroutine()
		p := Locate(g)
		d.Goroutines++
		d.Truncated = d.Truncated || g.Truncated
		switch {
		case p.Worker:
			d.Workers++
			d.Where[p.Where]++
		case p.Where == Queued:
			d.Queued++
			d.Where[Queued]++
		}
		key := groupKey{p.Where, g.State, p.Frame.Func}
		members := groups[key]
		if members == nil {
			members = &group{example: string(s.Text()), stacks: make(map[uint64]struct{})}
			groups[key] = members
		}
		members.count++
		members.stacks[stackID(&hash, g)] = struct{}{}
	}
	d.Truncated = d.Truncated || s.Rest().Truncated
	for key, members := range groups {
		d.Groups = append(d.Groups, result.Group{
			Where: key.where, State: key.state, Frame: key.frame,
			Count: members.count, Stacks: len(members.stacks), Stack: members.example,
		})
	}
	slices.SortFunc(d.Groups, func(a, b result.Group) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), compareKeys(keyOf(a), keyOf(b)))
	})
	return d, s.finish(d.Goroutines)
}

type groupKey struct{ where, state, frame string }

func keyOf(g result.Group) groupKey { return groupKey{g.Where, g.State, g.Frame} }

func compareKeys(a, b groupKey) int {
	return cmp.Or(cmp.Compare(a.where, b.where), cmp.Compare(a.state, b.state), cmp.Compare(a.frame, b.frame))
}

type group struct {
	count   int
	example string
	stacks  map[uint64]struct{}
}

// stackID tells stacks apart by their frames and creator, not by arguments,
// wait times or ids.
func stackID(h *maphash.Hash, g Goroutine) uint64 {
	h.Reset()
	for _, f := range g.Frames {
		writeFrame(h, f)
	}
	writeFrame(h, g.CreatedBy)
	return h.Sum64()
}

func writeFrame(h *maphash.Hash, f Frame) {
	h.WriteString(f.Func)
	h.WriteByte(0)
	h.WriteString(f.File)
	maphash.WriteComparable(h, f.Line)
}
