package engine

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"chokepoint/internal/load/ledger"
	"chokepoint/internal/result"
)

// report puts the counts of a run together and judges it.
func report(c Config, tallies []*tally, start, last time.Time, offered time.Duration, m *meter, stopped bool) *Report {
	elapsed := max(0, last.Sub(start))
	load := result.Load{
		Schema:    result.LoadSchema,
		StartedAt: start.Round(0).UTC(),
		WindowS:   c.Duration.Seconds(),
		OfferedS:  offered.Seconds(),
		ElapsedS:  elapsed.Seconds(),
		Phase:     c.Phase,
		Engine:    string(c.engine()),
		Model:     c.model(),
		Arrivals:  c.arrivalWords(),
		Seed:      c.Seed,
		Shard:     c.shard(start),
		Endpoints: make(map[string]result.Endpoint),
		Drops:     make(map[string][]int),
		Generator: m.used(), Saturation: m.saturation(),
	}
	seconds := int((c.Duration + time.Second - 1) / time.Second)
	for i, t := range tallies {
		load.Endpoints[t.name] = t.endpoint(c.Endpoints[i], offered, elapsed)
		drops := make([]int, seconds)
		for _, d := range t.drops {
			drops[d.Second] = d.Dropped
		}
		load.Drops[t.name] = drops
		if len(t.drops) > 0 {
			if load.DropTimes == nil {
				load.DropTimes = make(map[string][]result.DropSecond)
			}
			load.DropTimes[t.name] = t.drops
		}
	}
	load.Validity = judge(c, tallies, load, stopped)
	timings := make(map[string]Timings, len(tallies))
	for _, t := range tallies {
		timings[t.name] = t.total
	}
	return &Report{Load: load, Timings: timings, Requests: requests(tallies), StoppedEarly: stopped}
}

// connectedTo puts on record where the endpoint's connections went.
func (r *Report) connectedTo(endpoint string, to netip.AddrPort) {
	e := r.Load.Endpoints[endpoint]
	e.Address = to.String()
	r.Load.Endpoints[endpoint] = e
}

// requests are the kept records of all scheduled arrivals, in due order; those
// that fell due together are in the order of the endpoints.
func requests(tallies []*tally) []Request {
	var all []Request
	for _, t := range tallies {
		for _, r := range t.requests {
			// Several loops that are stopped early leave out some between the last ones.
			if r.Endpoint != "" {
				all = append(all, r)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b Request) int { return cmp.Compare(a.Due, b.Due) })
	return all
}

// maxStretches is how many stretches of time a line names.
const maxStretches = 3

// dropStretches says when arrivals were dropped, as " from 12.0 to 14.3 s": the
// due times of the first and the last, apart where a whole second has none.
func dropStretches(drops []result.DropSecond) string {
	type stretch struct{ first, last int64 }
	var all []stretch
	for i, d := range drops {
		if i == 0 || d.Second > drops[i-1].Second+1 {
			all = append(all, stretch{first: d.FirstDueNS})
		}
		all[len(all)-1].last = d.LastDueNS
	}
	if len(all) == 0 {
		return ""
	}
	var parts []string
	for _, s := range all[:min(len(all), maxStretches)] {
		first, last := fmt.Sprintf("%.1f", float64(s.first)/1e9), fmt.Sprintf("%.1f", float64(s.last)/1e9)
		if first == last {
			parts = append(parts, fmt.Sprintf("at %s s", first))
		} else {
			parts = append(parts, fmt.Sprintf("from %s to %s s", first, last))
		}
	}
	if more := len(all) - maxStretches; more > 0 {
		parts = append(parts, fmt.Sprintf("and %d times more", more))
	}
	return " " + strings.Join(parts, ", ")
}

// generatorFaults are the causes that the machine of the generator is to blame
// for, each with what to do.
var generatorFaults = []struct{ cause, message string }{
	{CauseOutOfFiles, "the generator ran out of file descriptors; raise the limit (ulimit -n)"},
	{CauseOutOfPorts, "the generator ran out of local ports; lower the rate or the timeout"},
	{CauseUnsent, "the generator was so late that the client's timeout had passed before the request was sent"},
}

// judge says whether a run may be believed, from what the generator alone knows.
func judge(c Config, tallies []*tally, load result.Load, stopped bool) result.Validity {
	v := result.Validity{Reasons: []string{}}
	invalid := func(format string, args ...any) { v.Reasons = append(v.Reasons, fmt.Sprintf(format, args...)) }
	warn := func(format string, args ...any) { v.Warnings = append(v.Warnings, fmt.Sprintf(format, args...)) }

	if c.Closed > 0 {
		warn("%s", closedWarning(c))
	}
	tooLate, late, dropped := false, false, false
	var planned, scheduled int
	for i, t := range tallies {
		e := load.Endpoints[t.name]
		planned, scheduled = planned+e.Planned, scheduled+e.Scheduled
		if err := t.ledger.Check(); err != nil {
			invalid("%s: %v", t.name, err)
		}
		maxLag := float64(c.MaxLag) / float64(time.Millisecond)
		warnLag := float64(WarnLag) / float64(time.Millisecond)
		if e.Dropped > 0 {
			dropped = true
			remedy := "give it more workers"
			if e.Lag.P99 > maxLag {
				remedy = "the generator was late, so that more workers alone may not help"
			}
			invalid("%s: %d of %d arrivals were dropped, since all %d workers were busy%s; %s",
				t.name, e.Dropped, e.Scheduled, c.Endpoints[i].Workers, dropStretches(load.DropTimes[t.name]), remedy)
		}
		switch {
		case e.Lag.P99 > maxLag:
			tooLate = true
			invalid("%s: lag p99 is %.2f ms (limit %v)", t.name, e.Lag.P99, c.MaxLag)
		case e.Lag.P99 >= warnLag:
			late = true
			warn("%s: lag p99 is %.2f ms (from %v on it shows in latencies; limit %v)", t.name, e.Lag.P99, WarnLag, c.MaxLag)
		}
		if c.Closed > 0 && e.Scheduled == 0 && !stopped {
			invalid("%s: the generator was so late that no worker had sent a request when the window was over; give it a longer window", t.name)
		}
		for _, fault := range generatorFaults {
			if n := t.ledger.Cause(fault.cause); n > 0 {
				invalid("%s: %s (%d requests)", t.name, fault.message, n)
			}
		}
		if n := t.ledger.Count(ledger.Interrupted); n > 0 {
			warn("%s: %d of %d requests were interrupted, unanswered when the generator stopped waiting", t.name, n, e.Started)
		}
		if n := t.total.Response.Clamped(); n > 0 {
			warn("%s: %d responses took longer than a histogram can tell apart", t.name, n)
		}
	}
	if c.Connections.Insecure && c.speaksTLS() {
		warn("the server's certificate was not verified")
	}
	// Once for all endpoints: it tells a crowded machine from a bad tool. Where
	// nothing came of it, it is a warning.
	blame := warn
	if tooLate || dropped {
		blame = invalid
	}
	for _, limit := range ownLimits(load.Saturation, c) {
		blame("%s", limit)
	}
	used := fmt.Sprintf("the generator used %.2f s of CPU and waited %.2f s for a CPU, summed over threads",
		load.Generator.CPUSeconds, load.Generator.RunQueueWaitMS/1000)
	switch {
	case tooLate:
		invalid("%s", used)
	case late:
		warn("%s", used)
	}
	switch {
	case stopped && c.Closed > 0:
		invalid("stopped early: after %.1f s of %v", min(load.ElapsedS, load.WindowS), c.Duration)
	case stopped:
		invalid("stopped early: %d of %d arrivals had fallen due", scheduled, planned)
	}
	v.Valid = len(v.Reasons) == 0
	return v
}
