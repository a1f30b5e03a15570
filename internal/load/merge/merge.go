// Package merge puts the results of several load generators, or of several runs,
// together without loss: histograms are added bucket by bucket from the interval
// logs, ledgers are summed, and rates add up only where the runs were at the same
// time.
//
// It refuses to scale up. What is missing (a file, an endpoint, a log) or does not
// fit (a ledger that does not balance, a log of another run) is named, and the
// result is then incomplete and so invalid.
package merge

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"chokepoint/internal/load/latency"
	"chokepoint/internal/load/ledger"
	"chokepoint/internal/result"
)

// Result is several results as one.
type Result struct {
	Load result.Load // Load.Merged says how it was put together
	// Responses are the histograms of the response times, by endpoint.
	Responses map[string]latency.Responses
}

// Files merges the results at paths, each with its interval log beside it
// (load.json and load.hlog). expected is how many there must be; 0 takes the
// number of paths. A file that cannot be read makes the result incomplete, and so
// does a missing shard; the error is that none could be read, or ErrApart.
func Files(paths []string, expected int) (Result, error) {
	m := &merger{
		load:       result.Load{Schema: result.LoadSchema, Merged: &result.Merged{}},
		histograms: map[string]map[string]*latency.Histogram{},
	}
	readable := 0
	var first error
	var given result.Inputs
	for _, path := range paths {
		if other, twice := given.Add(path); twice {
			return Result{}, fmt.Errorf("%s is given twice, as %s too: it would be counted twice", path, other)
		}
		in, log, err := read(path)
		if err != nil {
			first = cmp.Or(first, err)
			m.incomplete("%v", err)
			continue
		}
		readable++
		if err := m.add(in, log); err != nil {
			return Result{}, err
		}
	}
	if readable == 0 {
		return Result{}, first
	}
	if expected > 0 && readable != expected {
		m.incomplete("%d of %d results are there", readable, expected)
	}
	m.missingShards()
	return m.merge(), nil
}

// sameModel refuses to add a closed model to an open one: what the one cannot see
// would hide in the other.
func sameModel(a, b input) error {
	if a.load.Model == b.load.Model {
		return nil
	}
	return fmt.Errorf("%s is of model %q and %s of model %q: %w; report each model by itself", a.path, a.load.Model, b.path, b.load.Model, ErrApart)
}

// merger is a merge as it goes on.
type merger struct {
	load   result.Load
	inputs []input       // those that count
	plan   *result.Shard // what the inputs are shards of; nil if they are none
	shards []string      // the path of each shard of the plan; empty if it is missing
	// histograms are the sums over the inputs, by endpoint and kind. A log is added as
	// soon as it is read, so that no two are in memory at once.
	histograms map[string]map[string]*latency.Histogram
	responses  map[string]latency.Responses
}

// add takes an input and its log in, unless it is a shard that is there already. The
// error is ErrApart.
func (m *merger) add(in input, log totals) error {
	if len(m.inputs) > 0 {
		if err := cmp.Or(sameModel(m.inputs[0], in), sameSplit(m.inputs[0], in)); err != nil {
			return err
		}
	}
	if !m.claimShard(in) {
		return nil
	}
	m.inputs = append(m.inputs, in)
	for _, name := range slices.Sorted(maps.Keys(in.load.Endpoints)) {
		m.addHistograms(in, log, name)
	}
	return nil
}

// addHistograms adds the distributions of one endpoint of an input.
func (m *merger) addHistograms(in input, log totals, name string) {
	sums := m.histograms[name]
	if sums == nil {
		sums = map[string]*latency.Histogram{}
		for _, kind := range kinds() {
			sums[kind.name] = latency.New()
		}
		m.histograms[name] = sums
	}
	for _, kind := range kinds() {
		h, err := in.histogram(log, name, kind)
		if err != nil {
			m.incomplete("%s: %v", in.path, err)
			continue
		}
		sums[kind.name].Merge(h)
	}
}

func (m *merger) incomplete(format string, args ...any) {
	m.load.Merged.Incomplete = append(m.load.Merged.Incomplete, fmt.Sprintf(format, args...))
}

func (m *merger) merge() Result {
	inputs := m.inputs
	slices.SortStableFunc(inputs, func(a, b input) int { return a.load.StartedAt.Compare(b.load.StartedAt) })
	rounds := arrange(inputs)
	m.frame(inputs, rounds)
	m.responses = map[string]latency.Responses{}
	m.load.Endpoints = map[string]result.Endpoint{}
	m.load.Drops = map[string][]int{}
	for _, name := range names(inputs) {
		m.load.Endpoints[name] = m.endpoint(name, inputs, rounds)
		m.load.Drops[name] = drops(name, rounds)
		if times := dropTimes(name, rounds); len(times) > 0 {
			if m.load.DropTimes == nil {
				m.load.DropTimes = map[string][]result.DropSecond{}
			}
			m.load.DropTimes[name] = times
		}
	}
	m.judge(inputs)
	return Result{Load: m.load, Responses: m.responses}
}

// names are the endpoints of all inputs, sorted.
func names(inputs []input) []string {
	all := map[string]bool{}
	for _, in := range inputs {
		for name := range in.load.Endpoints {
			all[name] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// frame fills in what is of the runs as a whole.
func (m *merger) frame(inputs []input, rounds []round) {
	first := inputs[0].load
	m.load.StartedAt, m.load.Phase, m.load.Seed = first.StartedAt, first.Phase, first.Seed
	m.load.Model, m.load.Arrivals, m.load.Engine, m.load.Warmup = first.Model, first.Arrivals, first.Engine, warmUp(inputs)
	m.load.Generator.Name = first.Generator.Name
	for _, in := range inputs {
		m.load.Merged.Files = append(m.load.Merged.Files, in.path)
		if in.load.Engine != first.Engine {
			m.load.Engine = ""
		}
		if in.load.Arrivals != first.Arrivals {
			m.load.Arrivals = ""
		}
		m.load.Generator.CPUSeconds += in.load.Generator.CPUSeconds
		m.load.Generator.RunQueueWaitMS += in.load.Generator.RunQueueWaitMS
		end := in.load.StartedAt.Sub(first.StartedAt).Seconds() + in.load.ElapsedS
		m.load.ElapsedS = max(m.load.ElapsedS, end)
		if in.load.Phase != first.Phase {
			m.incomplete("%s is of phase %q, %s of %q: they do not belong together", in.path, in.load.Phase, inputs[0].path, first.Phase)
		}
	}
	for _, r := range rounds {
		m.load.WindowS += r.window
		offered := 0.0
		for _, in := range r.inputs {
			offered = max(offered, in.load.OfferedS)
		}
		m.load.OfferedS += offered
		if !r.together {
			m.incomplete("the windows of %s overlap only in part: neither in parallel nor in sequence, so their rates are those of the time from the first start to the last end", r.files())
		}
	}
	m.load.Merged.Arrangement = arrangement(rounds)
}

// endpoint merges one endpoint of all inputs.
func (m *merger) endpoint(name string, inputs []input, rounds []round) result.Endpoint {
	sum := &ledger.Ledger{}
	var merged result.Endpoint
	histograms := m.histograms[name]
	for _, in := range inputs {
		e, ok := in.load.Endpoints[name]
		if !ok {
			m.incomplete("%s has no endpoint %s", in.path, name)
			continue
		}
		l, err := ledger.Of(e, in.load.Model)
		if err == nil {
			err = l.Check()
		}
		if err != nil {
			m.incomplete("%s: %s: %v", in.path, name, err)
		}
		if l != nil {
			sum.Add(l)
		}
		if merged.ClientTimeoutMS != 0 && e.ClientTimeoutMS != merged.ClientTimeoutMS {
			m.incomplete("%s: %s waits %v ms, others %v ms: they do not belong together", in.path, name, e.ClientTimeoutMS, merged.ClientTimeoutMS)
		}
		merged.ClientTimeoutMS = e.ClientTimeoutMS
		merged.ReceivedBytes += e.ReceivedBytes
	}
	sum.Fill(&merged)
	if m.load.Model == result.ModelClosed {
		merged.Planned = 0
	}
	for _, kind := range kinds() {
		*kind.of(&merged) = histograms[kind.name].Percentiles()
	}
	merged.TargetRate = rate(rounds, func(l result.Load) float64 { return l.Endpoints[name].TargetRate })
	merged.AchievedRate = rate(rounds, func(l result.Load) float64 { return l.Endpoints[name].AchievedRate })
	merged.ReceivedRate = rate(rounds, func(l result.Load) float64 { return l.Endpoints[name].ReceivedRate })
	for _, r := range rounds {
		workers := 0
		for _, in := range r.inputs {
			workers += in.load.Endpoints[name].Workers
		}
		merged.Workers = max(merged.Workers, workers)
	}
	m.whole(name, &merged, inputs)
	sent(name, &merged, inputs)
	merged.ServerSeen = all(inputs, name, func(e result.Endpoint) *int { return e.ServerSeen })
	merged.Unseen = all(inputs, name, func(e result.Endpoint) *int { return e.Unseen })
	m.responses[name] = latency.Responses{
		All: histograms[latency.Response], OK: histograms[latency.OKResponse], Failed: histograms[latency.FailedResponse],
	}
	return merged
}

// sent is what every input sent, and where to; empty in what they differ in.
func sent(name string, merged *result.Endpoint, inputs []input) {
	first := inputs[0].load.Endpoints[name]
	merged.Method, merged.URL, merged.Headers, merged.Address = first.Method, first.URL, first.Headers, first.Address
	for _, in := range inputs[1:] {
		e := in.load.Endpoints[name]
		if e.Method != first.Method {
			merged.Method = ""
		}
		if e.URL != first.URL {
			merged.URL = ""
		}
		if !slices.Equal(e.Headers, first.Headers) {
			merged.Headers = nil
		}
		if e.Address != first.Address {
			merged.Address = ""
		}
	}
}

// all is the sum of a figure that every input has, or nil.
func all(inputs []input, name string, of func(result.Endpoint) *int) *int {
	sum := 0
	for _, in := range inputs {
		n := of(in.load.Endpoints[name])
		if n == nil {
			return nil
		}
		sum += *n
	}
	return &sum
}

// judge gathers the reasons of the inputs behind what is incomplete.
func (m *merger) judge(inputs []input) {
	v := &m.load.Validity
	v.Reasons = []string{}
	for _, what := range m.load.Merged.Incomplete {
		v.Reasons = append(v.Reasons, "incomplete: "+what)
	}
	for _, in := range inputs {
		for _, reason := range in.load.Validity.Reasons {
			v.Reasons = append(v.Reasons, in.path+": "+reason)
		}
		if !in.load.Validity.Valid && len(in.load.Validity.Reasons) == 0 {
			v.Reasons = append(v.Reasons, in.path+": invalid, and it does not say why")
		}
		for _, warning := range in.load.Validity.Warnings {
			v.Warnings = append(v.Warnings, in.path+": "+warning)
		}
	}
	v.Valid = len(v.Reasons) == 0
}

// milliseconds is a figure of a file as a duration; files have it to the
// nanosecond.
func milliseconds(ms float64) time.Duration {
	return time.Duration(ms*float64(time.Millisecond) + 0.5)
}
