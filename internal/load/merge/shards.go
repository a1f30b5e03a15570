package merge

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"chokepoint/internal/load/arrival"
	"chokepoint/internal/result"
)

// ErrApart is the error of results that are no parts of one thing: to put them
// together is a mistake of whoever chose them.
var ErrApart = errors.New("they do not belong together")

// checkShard says what no generator would have written.
func checkShard(path string, s *result.Shard) error {
	if s == nil {
		return nil
	}
	if s.Of < 1 || s.Of > arrival.MaxShards || s.Index < 0 || s.Index >= s.Of {
		return fmt.Errorf("%s says that it is shard %d of %d, which there cannot be", path, s.Index, s.Of)
	}
	return nil
}

// claimShard says whether an input counts: one that is no shard does, and of a shard
// the first that is there. It names what is there twice.
func (m *merger) claimShard(in input) bool {
	s := in.load.Shard
	if s == nil {
		return true
	}
	if m.plan == nil {
		m.plan, m.shards = s, make([]string, s.Of)
		m.load.Merged.Shards, m.load.Merged.Plan = s.Of, s.Plan
	}
	at := &m.shards[s.Index]
	if *at != "" {
		m.incomplete("shard %d of %d is there twice: %s is counted, and %s is left out", s.Index, s.Of, *at, in.path)
		return false
	}
	*at = in.path
	return true
}

// missingShards names the shards of the plan that are not there.
func (m *merger) missingShards() {
	var missing []int
	for i, path := range m.shards {
		if path == "" {
			missing = append(missing, i)
		}
	}
	switch len(missing) {
	case 0:
	case 1:
		m.incomplete("shard %d of %d is missing (they count from 0), and nothing is scaled up for it", missing[0], m.plan.Of)
	default:
		m.incomplete("shards %s of %d are missing (they count from 0), and nothing is scaled up for them", ranges(missing), m.plan.Of)
	}
}

// sameSplit says why two results cannot be shards of one plan, or both none.
func sameSplit(a, b input) error {
	s, other := a.load.Shard, b.load.Shard
	switch {
	case s == nil && other == nil:
		return nil
	case s == nil:
		return fmt.Errorf("%s is shard %d of %d and %s is none: %w; merge the shards by themselves", b.path, other.Index, other.Of, a.path, ErrApart)
	case other == nil:
		return sameSplit(b, a)
	case s.Plan != other.Plan:
		return fmt.Errorf("%s is a shard of plan %s and %s of plan %s: %w; merge the shards of each plan by themselves", a.path, s.Plan, b.path, other.Plan, ErrApart)
	case s.Of != other.Of:
		return fmt.Errorf("%s is one of %d shards and %s is one of %d: %w; merge each set by itself", a.path, s.Of, b.path, other.Of, ErrApart)
	case !s.StartAt.Equal(other.StartAt):
		return fmt.Errorf("%s started at %s and %s at %s: %w, for the shards of a plan start at one moment; merge the shards of each start by themselves",
			a.path, clock(s), b.path, clock(other), ErrApart)
	}
	return nil
}

func clock(s *result.Shard) string {
	return s.StartAt.UTC().Format("2006-01-02T15:04:05.999999999Z07:00")
}

// ranges writes a sorted list of numbers as 1, 3-5, 9.
func ranges(sorted []int) string {
	var parts []string
	for i := 0; i < len(sorted); {
		last := i
		for last+1 < len(sorted) && sorted[last+1] == sorted[last]+1 {
			last++
		}
		text := strconv.Itoa(sorted[i])
		if last > i {
			text += "-" + strconv.Itoa(sorted[last])
		}
		parts = append(parts, text)
		i = last + 1
	}
	return strings.Join(parts, ", ")
}

// whole puts the plan's figures in the place of the sum of its shards: what was
// asked for does not depend on who answered. It names a plan that its shards,
// complete as they are, do not add up to.
func (m *merger) whole(name string, merged *result.Endpoint, inputs []input) {
	if m.plan == nil {
		return
	}
	planned, known := m.plan.Planned[name]
	if !known {
		m.incomplete("%s: shard %d does not say how many arrivals the plan has for it", name, m.plan.Index)
		return
	}
	if len(inputs) == m.plan.Of && merged.Planned != planned {
		m.incomplete("%s: the %d shards have %d arrivals together, and the plan has %d", name, m.plan.Of, merged.Planned, planned)
	}
	merged.Planned = planned
	if len(inputs) < m.plan.Of {
		// Every shard's target is the same part of the plan's.
		merged.TargetRate = inputs[0].load.Endpoints[name].TargetRate * float64(m.plan.Of)
	}
}
