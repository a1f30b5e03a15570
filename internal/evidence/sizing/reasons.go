package sizing

import (
	"fmt"
	"math"
	"slices"
	"strconv"
)

// reasons say why the recommended pair, in sentences of the advice's figures.
func (q *Question) reasons(a *Advice) []string {
	best, pair := a.Recommended, a.Recommended.Pair()
	peak := q.Rate.PerSecond() * (1 + q.Goals.Headroom)
	reasons := []string{
		fmt.Sprintf("timeout %v: the shortest that cuts off no more than %s of the healthy answers (%s); longer would only keep a dead call's permit longer.",
			pair.Timeout, percent(q.Goals.MaxCut), percent(best.CutRatio)),
		fmt.Sprintf("%s: the fewest of which the bulkhead refuses no more than %s of the healthy calls at %s/s, in the worst case of the model (%s).",
			permits(best.Permits), percent(q.Goals.MaxRejected), number(peak), percent(best.RejectedAtHeadroom.High)),
	}
	if i := slices.IndexFunc(a.Permits, func(c Candidate) bool { return c.Permits < best.Permits }); i >= 0 {
		fewer := a.Permits[i]
		reasons = append(reasons, fmt.Sprintf("fewer, %d (%s), refuse %s of the healthy calls at %s/s, and %s at %s/s.",
			fewer.Permits, fewer.Why, percentRange(fewer.Rejected), number(q.Rate.PerSecond()), percentRange(fewer.RejectedAtHeadroom), number(peak)))
	}
	if n := len(a.Permits) - 1; a.Permits[n].Permits > best.Permits {
		more := a.Permits[n]
		reasons = append(reasons, fmt.Sprintf("more, %d (%s), hold up to %s of %d workers in an outage and refuse %s: room for what this latency does not have, a slower upstream or a burst.",
			more.Permits, more.Why, number(more.Held.High), q.Workers, percentRange(more.RejectedAtHeadroom)))
	}
	reasons = append(reasons, q.outageReason(a))
	if w := a.WithoutWait; w != nil && w.Meets && w.Held.High < best.Held.High {
		reasons = append(reasons, fmt.Sprintf("without a wait for a permit %s would do, and hold up to %s workers in an outage instead of %s: whoever waits for a permit holds a worker, so a wait costs more workers than the permits that it saves. It is worth them where arrivals come in bursts, or after a stall.",
			permits(w.Permits), number(w.Held.High), number(best.Held.High)))
	}
	return reasons
}

// outageReason compares the pair with no protection and with the timeout alone.
func (q *Question) outageReason(a *Advice) string {
	text := fmt.Sprintf("in an outage the pair holds up to %s of %d workers (%s): %d in the call, the others waiting up to %v for a permit or busy with other requests.",
		number(a.Recommended.Held.High), q.Workers, percent(a.Recommended.Held.High/float64(q.Workers)), a.Recommended.Permits, q.PermitWait)
	for _, c := range a.Outage {
		switch {
		case c.Protection == "none" && c.ExhaustedS != nil:
			text += fmt.Sprintf(" Without protection all are held after %s s.", number(c.ExhaustedS.Nominal))
		case c.Protection == "timeout alone" && c.ExhaustedS != nil:
			text += fmt.Sprintf(" The timeout alone holds all of them after %s s.", number(c.ExhaustedS.Nominal))
		case c.Protection == "timeout alone":
			text += fmt.Sprintf(" The timeout alone holds %s.", number(c.Held.Nominal))
		}
	}
	return text
}

// unmet says which goal the best pair misses, and what would help.
func (q *Question) unmet(c *Candidate) []string {
	if n := q.inFlight(c.Pair().Timeout); n > float64(q.Workers) {
		return []string{fmt.Sprintf("%s calls are in flight on average (Little's law) and the pool has %d workers: no timeout and no permits make room for them; give it more workers, or the upstream less to do", number(n), q.Workers)}
	}
	var unmet []string
	workers := q.Goals.MaxHeld * float64(q.Workers)
	peak := q.Rate.PerSecond() * (1 + q.Goals.Headroom)
	refused, abandoned := c.RejectedAtHeadroom.High, c.AbandonedAtHeadroom.High
	switch missed := refused+abandoned > q.Goals.MaxRejected; {
	case missed && abandoned > refused:
		unmet = append(unmet, fmt.Sprintf("%s of the healthy calls at %s/s are abandoned by their clients in the queue (goal: %s): %d workers are too few for that rate, whatever the permits; give the pool more, or ask for less headroom",
			percentRange(c.AbandonedAtHeadroom), number(peak), percent(q.Goals.MaxRejected), q.Workers))
	case missed:
		unmet = append(unmet, fmt.Sprintf("even %s, all workers, refuse %s of the healthy calls at %s/s (goal: %s): the pool is too small for the load; about %s calls are in flight on average",
			permits(c.Permits), percent(refused), number(peak), percent(q.Goals.MaxRejected), number(q.inFlight(c.Pair().Timeout))))
	}
	if c.Held.High > workers {
		unmet = append(unmet, fmt.Sprintf("%s, which the healthy load needs, would hold up to %s of %d workers in an outage (goal: %s): give the pool %d workers, or raise max-held, max-rejected or max-cut, or shorten the permit wait of %v",
			permits(c.Permits), number(c.Held.High), q.Workers, number(workers), int(math.Ceil(c.Held.High/q.Goals.MaxHeld)), q.PermitWait))
	}
	return unmet
}

func tooFewSamples(samples int64, share float64) error {
	return fmt.Errorf("%d measured answers do not show the slowest %s of them: measure at least %d, or raise max-cut", samples, percent(share), int64(math.Ceil(1/share)))
}

func permits(n int) string {
	if n == 1 {
		return "1 permit"
	}
	return strconv.Itoa(n) + " permits"
}

func quantileName(q float64) string {
	return "p" + strconv.FormatFloat(math.Round(1e4*100*q)/1e4, 'f', -1, 64)
}

// percent has two significant digits where it is small.
func percent(share float64) string {
	switch p := 100 * share; {
	case p == 0:
		return "0 %"
	case p < 0.001:
		return "under 0.001 %"
	case p < 10:
		return strconv.FormatFloat(p, 'g', 2, 64) + " %"
	default:
		return strconv.FormatFloat(p, 'f', 0, 64) + " %"
	}
}

func percentRange(r Range) string {
	if r.Low == r.High {
		return percent(r.Nominal)
	}
	return fmt.Sprintf("%s (%s to %s)", percent(r.Nominal), percent(r.Low), percent(r.High))
}

func number(v float64) string {
	if v >= 100 {
		return strconv.FormatFloat(math.Round(v), 'f', -1, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}
