package stacks

import (
	"cmp"
	"hash/maphash"
	"slices"

	"chokepoint/internal/result"
)

// Axis is what the members of a group have in common.
type Axis string

// The axes. ByPlace is that of a report: where, state and telling frame.
const (
	ByPlace   Axis = "where"
	ByWait    Axis = "wait"
	ByState   Axis = "state"
	ByFrame   Axis = "frame"
	ByStack   Axis = "stack" // every frame and the creator; arguments, ids and wait times make no difference
	ByCreator Axis = "creator"
	ByName    Axis = "name" // of the threads of one pool, where the format has names
)

// Axes lists all of them.
func Axes() []Axis { return []Axis{ByPlace, ByWait, ByState, ByFrame, ByStack, ByCreator, ByName} }

// Limits that keep the memory of a Tally bounded, whatever it counts.
const (
	maxGroups  = 1 << 16
	maxKnown   = 1 << 16  // stacks whose place is remembered
	maxStacks  = 1 << 20  // different stacks told apart
	maxTextual = 32 << 20 // bytes of all names and examples of groups
)

// Group is the goroutines or threads that are alike along an axis. A field in
// which its members differ is empty.
type Group struct {
	Where     string `json:"where,omitempty"`
	Wait      string `json:"wait,omitempty"`
	State     string `json:"state,omitempty"`
	Frame     string `json:"frame,omitempty"` // the telling frame
	CreatedBy string `json:"created_by,omitempty"`
	Name      string `json:"name,omitempty"`
	Count     int    `json:"count"`
	Stacks    int    `json:"stacks"`            // how many different stacks it holds
	Example   string `json:"example,omitempty"` // the first of its members, as printed
	Rest      bool   `json:"rest,omitempty"`    // all that was beyond the limit of groups

	key groupKey
}

// groupKey tells the groups of an axis apart. Only the fields of the axis are set.
type groupKey struct {
	where, wait, state, frame, creator, name string
	stack                                    uint64
	rest                                     bool
}

// Tally counts goroutines or threads one by one. Its memory grows with the
// different stacks and groups, up to a limit, and not with the number counted.
type Tally struct {
	rules   *Rules
	axis    Axis
	known   map[uint64]Place // by stack and state
	groups  map[groupKey]*members
	textual int // bytes of names and examples
	pairs   int // of a group and one of its stacks
	own     bool

	total, workers, queued int
	workerWhere, where     map[string]int
	waits                  map[string]int
	truncated              bool
}

type members struct {
	Group
	distinct map[uint64]struct{}
}

// NewTally returns an empty Tally that makes groups along axis.
func NewTally(rules *Rules, axis Axis) *Tally {
	t := &Tally{
		rules: rules, axis: axis,
		known: make(map[uint64]Place), groups: make(map[groupKey]*members),
		workerWhere: make(map[string]int), where: make(map[string]int), waits: make(map[string]int),
	}
	for _, where := range Wheres() {
		t.workerWhere[where], t.where[where] = 0, 0
	}
	return t
}

// Add counts s, whose text is kept if it is the first of its group.
func (t *Tally) Add(s Stack, text []byte) {
	id := stackID(s)
	p := t.locate(s, id)
	t.total += s.Count
	t.truncated = t.truncated || s.Truncated
	t.where[p.Where] += s.Count
	t.waits[p.Wait] += s.Count
	switch {
	case p.Worker:
		t.workers += s.Count
		t.workerWhere[p.Where] += s.Count
	case p.Where == Queued:
		t.queued += s.Count
		t.workerWhere[Queued] += s.Count
	}
	one := Group{Where: p.Where, Wait: p.Wait, State: s.State, Frame: p.Frame.Func, CreatedBy: s.CreatedBy.Func, Name: s.Name}
	m := t.group(t.key(one, id), one, text)
	m.add(one, s.Count)
	if _, seen := m.distinct[id]; !seen && t.pairs < maxStacks {
		m.distinct[id] = struct{}{}
		t.pairs++
	}
}

// End takes what the reader said of the whole dump.
func (t *Tally) End(e End) { t.truncated = t.truncated || e.Truncated }

func (t *Tally) locate(s Stack, id uint64) Place {
	var h maphash.Hash
	h.SetSeed(seed)
	maphash.WriteComparable(&h, id)
	h.WriteString(s.State)
	key := h.Sum64()
	if p, ok := t.known[key]; ok {
		return p
	}
	p := t.rules.Locate(s)
	t.own = t.own || t.rules.owns(s.Frames)
	if len(t.known) < maxKnown {
		t.known[key] = p
	}
	return p
}

func (t *Tally) key(g Group, stack uint64) groupKey {
	switch t.axis {
	case ByWait:
		return groupKey{wait: g.Wait}
	case ByState:
		return groupKey{state: g.State}
	case ByFrame:
		return groupKey{frame: g.Frame}
	case ByStack:
		return groupKey{stack: stack}
	case ByCreator:
		return groupKey{creator: g.CreatedBy}
	case ByName:
		return groupKey{name: g.Name}
	}
	return groupKey{where: g.Where, state: g.State, frame: g.Frame}
}

func (t *Tally) group(key groupKey, first Group, text []byte) *members {
	m := t.groups[key]
	names := len(first.Where) + len(first.Wait) + len(first.State) + len(first.Frame) + len(first.CreatedBy) + len(first.Name)
	if m == nil && (len(t.groups) >= maxGroups || t.textual+names > maxTextual) {
		key, first, text = groupKey{rest: true}, Group{}, nil
		m = t.groups[key]
	}
	if m == nil {
		m = &members{Group: first, distinct: make(map[uint64]struct{})}
		m.key, m.Rest = key, key.rest
		t.textual += names
		if t.textual+len(text) <= maxTextual {
			t.textual += len(text)
			m.Example = string(text)
		}
		t.groups[key] = m
	}
	return m
}

// add counts a member, and empties the fields in which it differs from the others.
func (m *members) add(one Group, count int) {
	m.Count += count
	for _, f := range []struct {
		all *string
		one string
	}{{&m.Where, one.Where}, {&m.Wait, one.Wait}, {&m.State, one.State}, {&m.Frame, one.Frame}, {&m.CreatedBy, one.CreatedBy}, {&m.Name, one.Name}} {
		if *f.all != f.one {
			*f.all = ""
		}
	}
}

// Total is how many were counted.
func (t *Tally) Total() int { return t.total }

// Workers is how many of them run requests for the pool of the dump.
func (t *Tally) Workers() int { return t.workers }

// Queued is how many connections wait for a worker.
func (t *Tally) Queued() int { return t.queued }

// Truncated says that the text ends before the dump does: all counts may be too
// low.
func (t *Tally) Truncated() bool { return t.truncated }

// Where has every word of Wheres, 0 included. In a dump with a pool whose workers
// are known it counts those, and the queued connections; in any other, everyone.
func (t *Tally) Where() map[string]int {
	if t.workers > 0 || t.queued > 0 || t.own {
		return t.workerWhere
	}
	return t.where
}

// Waits counts everyone by what they wait for.
func (t *Tally) Waits() map[string]int { return t.waits }

// Groups are all groups, the largest first.
func (t *Tally) Groups() []Group {
	groups := make([]Group, 0, len(t.groups))
	for _, m := range t.groups {
		m.Stacks = len(m.distinct)
		groups = append(groups, m.Group)
	}
	slices.SortFunc(groups, func(a, b Group) int { return cmp.Or(cmp.Compare(b.Count, a.Count), compareGroups(a, b)) })
	return groups
}

func compareGroups(a, b Group) int {
	return cmp.Or(
		cmp.Compare(a.Where, b.Where), cmp.Compare(a.State, b.State), cmp.Compare(a.Frame, b.Frame),
		cmp.Compare(a.Wait, b.Wait), cmp.Compare(a.CreatedBy, b.CreatedBy), cmp.Compare(a.Name, b.Name), cmp.Compare(a.key.stack, b.key.stack),
	)
}

// Dump is the tally as the files of a run have it. The tally must be along
// ByPlace.
func (t *Tally) Dump() result.Dump {
	d := result.Dump{Goroutines: t.total, Workers: t.workers, Queued: t.queued, Where: t.Where(), Truncated: t.truncated}
	for _, g := range t.Groups() {
		d.Groups = append(d.Groups, result.Group{
			Where: g.Where, State: g.State, Frame: g.Frame, Count: g.Count, Stacks: g.Stacks, Stack: g.Example,
		})
	}
	return d
}

// seed is the same for all tallies of a process, so that a group by stack is the
// same group in another dump.
var seed = maphash.MakeSeed()

// stackID tells stacks apart by their frames and creator, not by arguments,
// wait times or ids.
func stackID(s Stack) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	for _, f := range s.Frames {
		writeFrame(&h, f)
	}
	writeFrame(&h, s.CreatedBy)
	return h.Sum64()
}

func writeFrame(h *maphash.Hash, f Frame) {
	h.WriteString(f.Func)
	h.WriteByte(0)
	h.WriteString(f.File)
	maphash.WriteComparable(h, f.Line)
}
