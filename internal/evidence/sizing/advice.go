package sizing

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"chokepoint/internal/adminapi"
	"chokepoint/internal/evidence/queueing"
	"chokepoint/internal/rate"
)

// Schema leads the JSON of an Advice.
const Schema = "chokepoint/size/v1"

// Advice is the answer to a Question: the pair, what was weighed against it, and
// what the model expects of each. Ratios are shares from 0 to 1; _ms and _s are
// real time.
type Advice struct {
	Schema string `json:"schema"`
	Asked  Asked  `json:"asked"`
	// Recommended is nil if no pair meets the goals; Unmet then says which and why.
	Recommended *Candidate `json:"recommended"`
	Unmet       []string   `json:"unmet,omitempty"`
	Reasons     []string   `json:"reasons"`
	// Timeouts, ascending, each with the permits chosen for the recommended one;
	// Permits, ascending, each with the chosen timeout.
	Timeouts []Candidate `json:"timeouts"`
	Permits  []Candidate `json:"permits"`
	// WithoutWait is the choice if nobody may wait for a permit; nil where the question
	// has no wait.
	WithoutWait *Candidate `json:"without_permit_wait,omitempty"`
	// Outage is what each protection by itself holds when the upstream hangs.
	Outage []OutageCase `json:"outage"`
	// Validation is what the real runs showed; empty if there were none.
	Validation *Validation `json:"validation,omitempty"`
}

// Asked is the question as it was understood.
type Asked struct {
	Latency      string  `json:"latency"`
	Samples      int64   `json:"latency_samples,omitempty"`
	P50MS        float64 `json:"p50_ms"`
	P99MS        float64 `json:"p99_ms"`
	P999MS       float64 `json:"p99_9_ms"`
	MeanMS       float64 `json:"mean_ms"`
	Rate         float64 `json:"rate"`
	OtherRate    float64 `json:"other_rate"`
	Arrivals     string  `json:"arrivals"`
	Workers      int     `json:"max_workers"`
	PermitWaitMS float64 `json:"permit_wait_ms"`
	Goals        Goals   `json:"goals"`
}

// Candidate is a pair with why it was considered and what the model expects.
type Candidate struct {
	TimeoutMS float64 `json:"timeout_ms"`
	Permits   int     `json:"permits"`
	Why       string  `json:"why"`
	// CutRatio is the share of the healthy answers that the timeout cuts off, by
	// the distribution alone.
	CutRatio float64 `json:"cut_ratio"`
	// Rejected is the share of the healthy calls that the bulkhead refuses, at the
	// rate, and RejectedAtHeadroom at the rate with the headroom.
	Rejected           Range `json:"rejected_ratio"`
	RejectedAtHeadroom Range `json:"rejected_at_headroom_ratio"`
	// Abandoned is the share of the healthy calls whose client has given up, at the rate,
	// and AbandonedAtHeadroom at the rate with the headroom. Clients outlast timeout and
	// permit wait by 5 s: what they abandon has waited for a worker.
	Abandoned           Range `json:"abandoned_ratio"`
	AbandonedAtHeadroom Range `json:"abandoned_at_headroom_ratio"`
	// Held is the number of workers busy at most in an outage, waits for a permit
	// included. ExhaustedS is when all of them are, nil where they never are.
	Held       Range  `json:"held_in_outage"`
	ExhaustedS *Range `json:"exhausted_s"`
	// Meets says whether the goals are met, by the high end of each range.
	Meets bool `json:"meets_goals"`
}

// Pair is the candidate's timeout and permits.
func (c *Candidate) Pair() Pair {
	return Pair{time.Duration(math.Round(c.TimeoutMS * float64(time.Millisecond))), c.Permits}
}

// Range is a nominal figure and between what the model's cases lie.
type Range struct {
	Nominal float64 `json:"nominal"`
	Low     float64 `json:"low"`
	High    float64 `json:"high"`
}

func (r Range) over(n float64) Range { return Range{r.Nominal / n, r.Low / n, r.High / n} }

// OutageCase is one protection, alone or not, against an upstream that hangs.
type OutageCase struct {
	Protection string `json:"protection"`
	Held       Range  `json:"held"`
	// LittlesLaw is rate times the time that a call holds its worker, in the mean;
	// 0 where nothing bounds it.
	LittlesLaw float64 `json:"littles_law"`
	ExhaustedS *Range  `json:"exhausted_s"`
	pair       Pair
}

// Advise answers a question. Its error is of a question that makes no sense, and
// names the value, or of ctx: the model takes seconds.
func Advise(ctx context.Context, q Question) (Advice, error) {
	if err := q.validate(); err != nil {
		return Advice{}, err
	}
	timeouts, chosen, err := q.timeouts()
	if err != nil {
		return Advice{}, err
	}
	permits, err := q.fewestPermits(ctx, chosen)
	if err != nil {
		return Advice{}, err
	}
	best := Pair{chosen, permits}
	a := Advice{Schema: Schema, Asked: q.asked(), Timeouts: timeouts, Permits: q.permitCandidates(best), Outage: q.outageCases(best)}
	for i := range a.Timeouts {
		a.Timeouts[i].Permits = permits
	}
	if err := q.estimateAll(ctx, &a); err != nil {
		return Advice{}, err
	}
	if a.WithoutWait, err = q.withoutWait(ctx, chosen); err != nil {
		return Advice{}, err
	}
	i := slices.IndexFunc(a.Permits, func(c Candidate) bool { return c.Permits == permits })
	if a.Permits[i].Meets {
		a.Recommended = &a.Permits[i]
		a.Reasons = q.reasons(&a)
	} else {
		a.Unmet = q.unmet(&a.Permits[i])
	}
	return a, nil
}

func (q *Question) asked() Asked {
	arrivals := "constant"
	if q.Poisson {
		arrivals = "poisson"
	}
	return Asked{
		Latency: q.Latency.String(), Samples: q.Latency.Samples,
		P50MS: milliseconds(q.Latency.Quantile(0.5)), P99MS: milliseconds(q.Latency.Quantile(0.99)),
		P999MS: milliseconds(q.Latency.Quantile(0.999)), MeanMS: milliseconds(q.Latency.meanWithin(longest)),
		Rate: q.Rate.PerSecond(), OtherRate: q.OtherRate.PerSecond(), Arrivals: arrivals,
		Workers: q.Workers, PermitWaitMS: milliseconds(q.PermitWait), Goals: q.Goals,
	}
}

// reserve is what a call takes beside the upstream's own time, real: messages and
// wake-ups. A timeout at the quantile itself would cut off what it should let by.
const reserve = 5 * time.Millisecond

// timeouts are the candidates, ascending, and the chosen one: the shortest that
// cuts off as few healthy answers as the goal asks.
func (q *Question) timeouts() (all []Candidate, chosen time.Duration, err error) {
	goal := 1 - q.Goals.MaxCut
	if !q.Latency.knows(goal) {
		return nil, 0, tooFewSamples(q.Latency.Samples, q.Goals.MaxCut)
	}
	quantiles := []float64{0.99, 0.995, 0.999, 0.9999}
	if !slices.Contains(quantiles, goal) {
		quantiles = append(quantiles, goal)
	}
	slices.Sort(quantiles)
	for _, quantile := range quantiles {
		if !q.Latency.knows(quantile) {
			continue
		}
		timeout := roundUp(q.Latency.Quantile(quantile) + reserve)
		if quantile == goal {
			chosen = timeout
		}
		if n := len(all); n > 0 && all[n-1].TimeoutMS == milliseconds(timeout) {
			continue
		}
		all = append(all, Candidate{
			TimeoutMS: milliseconds(timeout), CutRatio: q.Latency.beyond(timeout),
			Why: quantileName(quantile) + " of the healthy answers, rounded up",
		})
	}
	return all, chosen, nil
}

// fewestPermits is the smallest number of permits of which the bulkhead refuses
// at most the goal's share, in every case of the model, at the rate with its
// headroom. A call that its client abandons in the queue counts as refused: that few
// come as far as the bulkhead is no merit of it. It is found by bisection: more permits refuse no more calls.
func (q *Question) fewestPermits(ctx context.Context, timeout time.Duration) (int, error) {
	peak := rate.Rate(q.Rate.PerSecond() * (1 + q.Goals.Headroom))
	enough := func(permits int) (bool, error) {
		p, err := q.healthy(ctx, Pair{timeout, permits}, peak)
		return rejected(p).High+abandoned(p).High <= q.Goals.MaxRejected, err
	}
	low := 0 // is too few
	high := min(max(1, int(math.Ceil(q.inFlight(timeout)))), q.Workers)
	for {
		ok, err := enough(high)
		if err != nil {
			return 0, err
		}
		if ok {
			break
		}
		if high >= q.Workers {
			return high, nil // fewer refuse no less
		}
		low, high = high, min(high+max(high/2, 4), q.Workers)
	}
	for high-low > 1 {
		middle := (low + high) / 2
		ok, err := enough(middle)
		if err != nil {
			return 0, err
		}
		if ok {
			high = middle
		} else {
			low = middle
		}
	}
	return high, nil
}

// permitCandidates are the chosen number and those that are commonly advised,
// ascending; of equal ones the chosen one stays.
func (q *Question) permitCandidates(best Pair) []Candidate {
	perSecond := q.Rate.PerSecond()
	whole := func(v float64) int { return max(1, int(math.Ceil(v-1e-9))) }
	named := []Candidate{
		{Permits: best.Permits, Why: "the fewest that refuse few enough healthy calls"},
		{Permits: whole(q.inFlight(best.Timeout)), Why: "Little's law: rate x mean time, what is in flight on average"},
		{Permits: whole(perSecond * q.Latency.Quantile(0.99).Seconds()), Why: "rate x p99, Hystrix's formula before its headroom"},
		{Permits: whole(perSecond * best.Timeout.Seconds()), Why: "rate x timeout: what is in flight if every call times out"},
	}
	var all []Candidate
	for _, c := range named {
		if !slices.ContainsFunc(all, func(o Candidate) bool { return o.Permits == c.Permits }) {
			c.TimeoutMS, c.CutRatio = milliseconds(best.Timeout), q.Latency.beyond(best.Timeout)
			all = append(all, c)
		}
	}
	slices.SortFunc(all, func(a, b Candidate) int { return a.Permits - b.Permits })
	return all
}

func (q *Question) outageCases(best Pair) []OutageCase {
	perSecond := q.Rate.PerSecond()
	return []OutageCase{
		{Protection: "none"},
		{Protection: "timeout alone", LittlesLaw: perSecond * best.Timeout.Seconds(), pair: Pair{Timeout: best.Timeout}},
		{Protection: "permits alone", pair: Pair{Permits: best.Permits},
			LittlesLaw: float64(best.Permits) + perSecond*q.PermitWait.Seconds()},
		{Protection: "both", pair: best,
			LittlesLaw: float64(best.Permits) + max(0, perSecond-float64(best.Permits)/best.Timeout.Seconds())*q.PermitWait.Seconds()},
	}
}

// estimateAll runs the model for every candidate and outage case.
func (q *Question) estimateAll(ctx context.Context, a *Advice) error {
	var group errgroup.Group
	group.SetLimit(2) // a case of the model takes a whole CPU
	for _, list := range [][]Candidate{a.Timeouts, a.Permits} {
		for i := range list {
			group.Go(func() error { return q.estimate(ctx, &list[i]) })
		}
	}
	for i := range a.Outage {
		c := &a.Outage[i]
		group.Go(func() error {
			p, err := q.outage(ctx, c.pair)
			c.Held, c.ExhaustedS = held(p), exhausted(p)
			return err
		})
	}
	return group.Wait()
}

// withoutWait is the choice for the same question without a wait for a permit.
func (q *Question) withoutWait(ctx context.Context, timeout time.Duration) (*Candidate, error) {
	if q.PermitWait == 0 {
		return nil, nil
	}
	other := *q
	other.PermitWait = 0
	permits, err := other.fewestPermits(ctx, timeout)
	if err != nil {
		return nil, err
	}
	c := Candidate{
		TimeoutMS: milliseconds(timeout), Permits: permits, CutRatio: q.Latency.beyond(timeout),
		Why: "the fewest that refuse few enough healthy calls, if none may wait for a permit",
	}
	return &c, other.estimate(ctx, &c)
}

func (q *Question) estimate(ctx context.Context, c *Candidate) error {
	pair := c.Pair()
	now, err := q.healthy(ctx, pair, q.Rate)
	peak, peakErr := q.healthy(ctx, pair, rate.Rate(q.Rate.PerSecond()*(1+q.Goals.Headroom)))
	dead, deadErr := q.outage(ctx, pair)
	c.Abandoned, c.AbandonedAtHeadroom = abandoned(now), abandoned(peak)
	c.Rejected, c.RejectedAtHeadroom, c.Held, c.ExhaustedS = rejected(now), rejected(peak), held(dead), exhausted(dead)
	c.Meets = c.CutRatio <= q.Goals.MaxCut && c.RejectedAtHeadroom.High+c.AbandonedAtHeadroom.High <= q.Goals.MaxRejected &&
		c.Held.High <= q.Goals.MaxHeld*float64(q.Workers)
	return cmp.Or(err, peakErr, deadErr)
}

// rejected is the share of the calls that got no permit.
func rejected(p queueing.Prediction) Range {
	e := p.Endpoints[callStream]
	return Range(e.Causes[adminapi.CauseBulkheadFull]).over(max(e.Scheduled.Nominal, 1))
}

// abandoned is the share of the calls whose client has given up.
func abandoned(p queueing.Prediction) Range {
	e := p.Endpoints[callStream]
	return Range(e.Timeout).over(max(e.Scheduled.Nominal, 1))
}

func held(p queueing.Prediction) Range { return Range(p.Pool.MaxBusy) }

func exhausted(p queueing.Prediction) *Range {
	if !p.Exhausted {
		return nil
	}
	r := Range(p.FullSeconds)
	return &r
}

// milliseconds are to the microsecond: a quantile that is computed may miss a
// round number by a nanosecond.
func milliseconds(d time.Duration) float64 {
	return float64(d.Round(time.Microsecond)) / float64(time.Millisecond)
}
