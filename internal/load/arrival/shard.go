package arrival

import (
	"fmt"
	"strconv"
	"strings"
)

// MaxShards bounds into how many parts a plan is split. Each shard draws the
// whole plan and skips what is not its own (BenchmarkShard: 5 to 30 ns an arrival).
const MaxShards = 10_000

// Shard is one part of a plan that several generators share: of each sequence the
// arrivals Index, Index+Of, Index+2*Of and so on. The shards 0 to Of-1 together
// are the plan, and no arrival is in two of them. The zero value is the whole
// plan. docs/adr/0015 has the reasons.
type Shard struct {
	Index, Of int
}

// ParseShard reads "i/n": shard i of n, counted from 0.
func ParseShard(text string) (Shard, error) {
	index, of, ok := strings.Cut(text, "/")
	i, indexErr := strconv.Atoi(index)
	n, ofErr := strconv.Atoi(of)
	if !ok || indexErr != nil || ofErr != nil {
		return Shard{}, fmt.Errorf("shard %q is not an index and a number, as in 0/3", text)
	}
	s := Shard{Index: i, Of: n}
	return s, s.check()
}

// Validate says what is wrong with a shard that is not the zero value.
func (s Shard) Validate() error {
	if s == (Shard{}) {
		return nil
	}
	return s.check()
}

func (s Shard) check() error {
	switch {
	case s.Of < 1 || s.Of > MaxShards:
		return fmt.Errorf("shard %v: a plan is split into 1 to %d parts", s, MaxShards)
	case s.Index < 0 || s.Index >= s.Of:
		return fmt.Errorf("shard %v does not exist: they count from 0, so of %d the last is %d/%d", s, s.Of, s.Of-1, s.Of)
	}
	return nil
}

// String is "i/n", as ParseShard reads it.
func (s Shard) String() string { return fmt.Sprintf("%d/%d", s.Index, s.Of) }

// stride is the distance of two arrivals of the shard.
func (s Shard) stride() int { return max(1, s.Of) }

// Nth is the index in its sequence of the shard's k-th arrival, from 0.
func (s Shard) Nth(k int) int { return s.Index + k*s.stride() }

// Position is the k for which Nth(k) is index.
func (s Shard) Position(index int) int { return index / s.stride() }

// Count is how many of a sequence's first n arrivals are the shard's.
func (s Shard) Count(n int) int { return max(0, (n-s.Index+s.stride()-1)/s.stride()) }

// Most is how many of any n successive arrivals of a sequence can be the shard's.
func (s Shard) Most(n int) int { return (n + s.stride() - 1) / s.stride() }

// Split is part j of m of the shard: the shards of a shard.
func (s Shard) Split(j, m int) Shard {
	return Shard{Index: s.Nth(j), Of: s.stride() * m}
}
