package merge

import (
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"chokepoint/internal/result"
)

// The arrangements of several runs.
const (
	Parallel = "parallel" // at the same time: rates add up
	Sequence = "sequence" // one after the other: rates do not
	Mixed    = "mixed"    // rounds of parallel runs, one round after the other
)

// round is the runs that were at the same time.
type round struct {
	inputs []input
	window float64 // seconds: the longest, or from first start to last end
	// together says that all windows have a moment in common.
	together bool
}

func (r round) files() string {
	var paths []string
	for _, in := range r.inputs {
		paths = append(paths, in.path)
	}
	return strings.Join(paths, ", ")
}

// start and end of a load window, in seconds since the epoch.
func start(in input) float64 { return float64(in.load.StartedAt.UnixMicro()) / 1e6 }
func end(in input) float64   { return start(in) + in.load.WindowS }

// overlaps says whether two runs were at the same time: for more than half of
// the shorter window. Clocks of two machines may differ, so a little overlap of
// runs in sequence says nothing.
func overlaps(a, b input) bool {
	shared := min(end(a), end(b)) - max(start(a), start(b))
	return shared > min(a.load.WindowS, b.load.WindowS)/2
}

// arrange puts inputs, sorted by their start, into rounds: a run belongs to a
// round if it overlaps one of it.
func arrange(inputs []input) []round {
	var rounds []round
	for _, in := range inputs {
		joined := false
		if len(rounds) > 0 {
			last := &rounds[len(rounds)-1]
			for _, other := range last.inputs {
				joined = joined || overlaps(in, other)
			}
			if joined {
				last.inputs = append(last.inputs, in)
			}
		}
		if !joined {
			rounds = append(rounds, round{inputs: []input{in}})
		}
	}
	for i := range rounds {
		rounds[i].measure()
	}
	return rounds
}

func (r *round) measure() {
	r.together = true
	from, to := math.Inf(1), math.Inf(-1)
	for i, in := range r.inputs {
		r.window = max(r.window, in.load.WindowS)
		from, to = min(from, start(in)), max(to, end(in))
		for _, other := range r.inputs[:i] {
			r.together = r.together && overlaps(in, other)
		}
	}
	if !r.together {
		r.window = to - from
	}
}

func arrangement(rounds []round) string {
	longest := 0
	for _, r := range rounds {
		longest = max(longest, len(r.inputs))
	}
	switch {
	case len(rounds) == 1 && longest > 1:
		return Parallel
	case longest == 1:
		return Sequence
	}
	return Mixed
}

// rate is that of all runs: the sum within a round, and over the rounds the mean
// by the length of their windows. A run counts with what it brought into its own
// window, so a round that is not together is diluted and never scaled up.
func rate(rounds []round, of func(result.Load) float64) float64 {
	if len(rounds) == 1 && rounds[0].together && sameWindow(rounds[0]) {
		// Without a detour that would round.
		sum := 0.0
		for _, in := range rounds[0].inputs {
			sum += of(in.load)
		}
		return sum
	}
	arrivals, window := 0.0, 0.0
	for _, r := range rounds {
		for _, in := range r.inputs {
			arrivals += of(in.load) * in.load.WindowS
		}
		window += r.window
	}
	return arrivals / window
}

func sameWindow(r round) bool {
	for _, in := range r.inputs {
		if in.load.WindowS != r.window {
			return false
		}
	}
	return true
}

// drops are those of each second: within a round side by side, round after round.
func drops(name string, rounds []round) []int {
	all := []int{}
	for _, r := range rounds {
		seconds := make([]int, r.seconds())
		for _, in := range r.inputs {
			for i, n := range in.load.Drops[name] {
				seconds[r.second(in, i)] += n
			}
		}
		all = append(all, seconds...)
	}
	return all
}

// dropTimes are the due times of the drops, of each second that has any, moved
// as its second is.
func dropTimes(name string, rounds []round) []result.DropSecond {
	all := map[int]result.DropSecond{}
	before := 0
	for _, r := range rounds {
		for _, in := range r.inputs {
			for _, d := range in.load.DropTimes[name] {
				second := before + r.second(in, d.Second)
				moved := int64(second-d.Second) * int64(time.Second)
				d.Second, d.FirstDueNS, d.LastDueNS = second, d.FirstDueNS+moved, d.LastDueNS+moved
				if other, ok := all[second]; ok {
					d.Dropped += other.Dropped
					d.FirstDueNS, d.LastDueNS = min(d.FirstDueNS, other.FirstDueNS), max(d.LastDueNS, other.LastDueNS)
				}
				all[second] = d
			}
		}
		before += r.seconds()
	}
	var sorted []result.DropSecond
	for _, second := range slices.Sorted(maps.Keys(all)) {
		sorted = append(sorted, all[second])
	}
	return sorted
}

// seconds is how many the round has, the last one counted if it is begun.
func (r round) seconds() int { return int(math.Ceil(r.window)) }

// second is where the second i of an input lies within its round.
func (r round) second(in input, i int) int {
	if !r.together {
		i += int(start(in) - start(r.inputs[0]))
	}
	return max(0, min(i, r.seconds()-1))
}
