package report

import (
	"cmp"
	"fmt"
	"strings"

	"chokepoint/internal/evidence/stacks"
	"chokepoint/internal/result"
)

// heldAtMost is the most workers that stood in a call to the upstream in any dump, be it
// in the connect or in the read, as the median over the runs of a profile.
func (c comparisonFolder) heldAtMost(profile string) float64 {
	most := 0.0
	for _, point := range c.points() {
		held := 0.0
		for _, place := range []string{stacks.UpstreamConnect, stacks.UpstreamRead} {
			held += c.metrics["dump."+point+"."+place].Values[profile].Median
		}
		most = max(most, held)
	}
	return most
}

// protectionBlocks say what each profile does and what it does not, in its own
// figures.
func (c comparisonFolder) protectionBlocks() []block {
	t := table{columns: []column{words("profile"), words("/fast survives"), numbers("/fast p95"), numbers("longest call, p99"), numbers("held in the upstream, most in a dump"),
		numbers("busy at most"), numbers("queued at most"), numbers("/upstream answered"), numbers("pool free after the load")}}
	var said list
	for _, p := range c.Profiles {
		if c.validRuns(p) == 0 {
			said.items = append(said.items, join(code(p), plain(": no valid run, so that nothing is said.")))
			continue
		}
		f := c.protectionOf(p)
		survives := strong("no")
		if f.survives() {
			survives = plain("yes")
		}
		t.rows = append(t.rows, []text{code(p), survives, plain(inUnit(f.fastP95, "ms")), plain(inUnit(f.callP99, "ms")), plain(decimal(f.held)), plain(decimal(f.busy)),
			plain(decimal(f.queued)), plain(percent(1 - f.upstreamFailed)), plain(f.free())})
		does, not := f.sentences()
		item := join(code(p), plain(" "))
		if len(does) > 0 {
			item = join(item, strong("does"), plain(": "+strings.Join(does, "; ")+". "))
		}
		if len(not) > 0 {
			item = join(item, strong("does not"), plain(": "+strings.Join(not, "; ")+"."))
		}
		said.items = append(said.items, item)
	}
	if len(t.rows) == 0 {
		return nil
	}
	return []block{said, t, paragraph{plain("Figures are medians over the valid runs. A call is a request to /" + upstreamEndpoint + ", from its due time until it ended. Those held in the upstream are counted in the dumps; between two dumps they may be more.")}}
}

// protection is what one profile did, in medians.
type protection struct {
	failed         float64 // share of /fast, the highest of the runs
	fastP95        float64 // ms
	callP99        float64 // ms, of /upstream
	delay          float64 // ms, of the upstream
	held           float64
	permits        float64 // held at most; 0 without a bulkhead
	busy, queued   float64
	limit          int
	upstreamFailed float64
	recovered      bool
	recovery       float64 // scenario seconds
	waited         float64
}

func (c comparisonFolder) protectionOf(p string) protection {
	at := func(metric string) result.Spread { return c.metrics[metric].Values[p] }
	f := protection{
		failed: at(fastEndpoint + ".failed_ratio").Max, fastP95: at(fastEndpoint + ".p95_ms").Median,
		callP99: at(upstreamEndpoint + ".p99_ms").Median, delay: at("dose.delay_seen_ms").Median, held: c.heldAtMost(p), permits: at("pool.max_permits").Median,
		busy: at("pool.max_busy").Median, queued: at("pool.max_queued").Median, upstreamFailed: at(upstreamEndpoint + ".failed_ratio").Median,
		recovered: at("recovery.recovered").Min == 1, recovery: at("recovery.seconds").Median,
	}
	if r := c.profiles[p].first; r != nil {
		f.limit, f.waited = r.summary.Pool.WorkerLimit, r.summary.Recovery.WaitedS
		f.delay = cmp.Or(f.delay, r.summary.Upstream.DelayAskedMS)
	}
	return f
}

func (f protection) survives() bool { return f.failed == 0 }

// boundsTime: nearly every call was over sooner than the upstream answers.
func (f protection) boundsTime() bool { return f.delay > 0 && f.callP99 < f.delay*0.9 }

// boundsCount: a bulkhead's permits, or less, were all that the upstream held.
func (f protection) boundsCount() bool { return f.permits > 0 && f.held <= f.permits }

func (f protection) free() string {
	if !f.recovered {
		if f.waited > 0 {
			return "not in " + number(f.waited, 1) + " s"
		}
		return "not within the wait"
	}
	return number(f.recovery, 1) + " s"
}

// sentences sort what the figures say of a profile by whether a user would like it.
func (f protection) sentences() (does, not []string) {
	say := func(good bool, yes, no string) {
		if good {
			does = append(does, yes)
		} else {
			not = append(not, no)
		}
	}
	say(f.survives(), fmt.Sprintf("keep /%s alive: none of it failed, its p95 was %s", fastEndpoint, inUnit(f.fastP95, "ms")),
		fmt.Sprintf("keep /%s alive: %s of it failed", fastEndpoint, percent(f.failed)))
	say(f.boundsTime(), fmt.Sprintf("bound how long a call takes: %s in 99 of 100, of an upstream that takes %s", inUnit(f.callP99, "ms"), inUnit(f.delay, "ms")),
		fmt.Sprintf("bound how long a call takes: up to %s in 99 of 100", inUnit(f.callP99, "ms")))
	say(f.boundsCount(), fmt.Sprintf("bound how many calls are held: %s at most, by its permits", decimal(f.permits)),
		fmt.Sprintf("bound how many calls are held: %s stood in the upstream at most", decimal(f.held)))
	say(f.queued == 0, "keep the queue for a worker empty", fmt.Sprintf("keep the queue empty: %s waited for a worker at most", decimal(f.queued)))
	say(f.upstreamFailed < 0.5, fmt.Sprintf("answer /%s: %s of it succeeded", upstreamEndpoint, percent(1-f.upstreamFailed)),
		fmt.Sprintf("answer /%s: %s of it failed", upstreamEndpoint, percent(f.upstreamFailed)))
	say(f.recovered, "free the pool by itself: "+f.free()+" after the load", "free the pool: "+f.free()+" after the load")
	return does, not
}
