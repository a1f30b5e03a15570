package sizing

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"chokepoint/internal/rate"
)

// question is the log-normal upstream with a median of 80 ms and a p99 of 400 ms at
// 200/s, with fewer simulated calls than a user gets.
func question(t *testing.T) Question {
	t.Helper()
	return Question{
		Latency: read(t, "p50=80ms,p99=400ms", ""), Rate: 200, OtherRate: 20, Workers: 200,
		PermitWait: 100 * ms, Poisson: true, Seed: 1, calls: 400,
		Goals: Goals{MaxRejected: 0.005, Headroom: 0.2, MaxCut: 0.001, MaxHeld: 0.5},
	}
}

func advise(t *testing.T, q Question) Advice {
	t.Helper()
	a, err := Advise(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestAdvice(t *testing.T) {
	q := question(t)
	a := advise(t, q)
	best := a.Recommended
	if best == nil {
		t.Fatalf("no pair: %v", a.Unmet)
	}
	if best.Pair().Timeout != 690*ms { // the p99.9 of 678.5 ms and the reserve, rounded up
		t.Errorf("timeout %v", best.Pair().Timeout)
	}
	if little := int(math.Ceil(q.inFlight(690 * ms))); little != 21 || best.Permits <= little || best.Permits >= 80 {
		t.Errorf("%d permits: want more than Little's %d and fewer than rate x p99", best.Permits, little)
	}
	if !best.Meets || best.ExhaustedS != nil || best.Held.High > 100 || best.CutRatio > 0.001 || best.AbandonedAtHeadroom.High != 0 {
		t.Errorf("the recommended pair misses a goal, or its calls die in the queue: %+v", *best)
	}
	if fewer, err := q.healthy(t.Context(), Pair{690 * ms, best.Permits - 1}, 240); err != nil || rejected(fewer).High <= q.Goals.MaxRejected {
		t.Errorf("one permit less would do as well (%v, %v)", rejected(fewer), err)
	}
	for name, list := range map[string][]Candidate{"timeouts": a.Timeouts, "permits": a.Permits} {
		recommended := 0
		for _, c := range list {
			if c.Pair() == best.Pair() {
				recommended++
			}
		}
		if recommended != 1 || len(list) < 3 || !slices.IsSortedFunc(list, func(a, b Candidate) int {
			return int(a.TimeoutMS-b.TimeoutMS) + a.Permits - b.Permits
		}) {
			t.Errorf("%s: %d are the recommended one of %+v", name, recommended, list)
		}
	}
	if none := a.Outage[0]; none.Protection != "none" || none.Held.High != 200 || none.ExhaustedS == nil || math.Abs(none.ExhaustedS.Nominal-1) > 0.2 {
		t.Errorf("unprotected: %+v; want all of 200 held after about 1 s at 200/s", none)
	}
	if alone := a.Outage[1]; alone.LittlesLaw != 138 || alone.Held.Low < 120 {
		t.Errorf("timeout alone: %+v; want about 200/s x 0.69 s", alone)
	}
	// Whoever waits for a permit holds a worker.
	if w := a.WithoutWait; w == nil || w.Permits <= best.Permits || w.Held.High >= best.Held.Low {
		t.Errorf("without a wait: %+v; want more permits and fewer workers held than %+v", w, *best)
	}
	if len(a.Reasons) != 6 || len(a.Unmet) != 0 {
		t.Errorf("reasons %q, unmet %q", a.Reasons, a.Unmet)
	}
}

// TestPermitsFollowErlang: without a wait for a permit, the share that c permits
// refuse of Poisson arrivals is Erlang's B(c, offered load), whatever the
// distribution of the latency. The choice is by the worst case of the model, so it
// lies a little above.
func TestPermitsFollowErlang(t *testing.T) {
	q := question(t)
	q.PermitWait, q.Goals.Headroom, q.Goals.MaxRejected, q.calls = 0, 0, 0.02, 3000
	got, err := q.fewestPermits(t.Context(), 690*ms)
	if err != nil {
		t.Fatal(err)
	}
	offered := q.inFlight(690 * ms)
	b, exact := 1.0, 0
	for b > q.Goals.MaxRejected {
		exact++
		b = offered * b / (float64(exact) + offered*b)
	}
	if got < exact || got > exact+8 {
		t.Errorf("%d permits, Erlang's formula asks for %d", got, exact)
	}
}

func TestAPoolThatTheOutageFillsOverHalf(t *testing.T) {
	small := question(t)
	small.Workers = 40
	checkUnmet(t, advise(t, small), "of 40 workers in an outage (goal: 20): give the pool")
}

func checkUnmet(t *testing.T, a Advice, want string) {
	t.Helper()
	if a.Recommended != nil || len(a.Unmet) != 1 || !strings.Contains(a.Unmet[0], want) {
		t.Errorf("recommended %v, unmet %q; want %q", a.Recommended, a.Unmet, want)
	}
}

// TestCallsThatDieInTheQueue: where more calls are in flight than there are workers, none
// is refused a permit, since few come so far. What fails is abandoned in the queue.
func TestCallsThatDieInTheQueue(t *testing.T) {
	slow := question(t)
	slow.Latency, slow.Rate, slow.Workers = read(t, "3s", ""), 20, 20
	a := advise(t, slow)
	checkUnmet(t, a, "60 calls are in flight on average (Little's law) and the pool has 20 workers")
	for _, c := range append(a.Timeouts, a.Permits...) {
		if c.Permits < 20 {
			continue
		}
		if c.Rejected.High > 0 || c.Abandoned.Low < 0.3 || c.AbandonedAtHeadroom.Low < c.Abandoned.Low || c.Meets {
			t.Errorf("%d permits: refused %v, abandoned %v and %v, meets the goals %v; want a third and more abandoned", c.Permits, c.Rejected, c.Abandoned, c.AbandonedAtHeadroom, c.Meets)
		}
	}
	// There are workers for the rate, and not for the headroom.
	tight := slow
	tight.Rate, tight.OtherRate, tight.Goals.Headroom, tight.Goals.MaxHeld = 5, 1, 1, 1
	checkUnmet(t, advise(t, tight), "of the healthy calls at 10/s are abandoned by their clients in the queue")
}

// TestNoPredictionIsBegunAfterTheEnd: each may take seconds, which an interrupt would
// have to wait for.
func TestNoPredictionIsBegunAfterTheEnd(t *testing.T) {
	q := question(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, healthyErr := q.healthy(ctx, Pair{4 * time.Second, 20}, q.Rate)
	_, outageErr := q.outage(ctx, Pair{4 * time.Second, 20})
	if !errors.Is(healthyErr, context.Canceled) || !errors.Is(outageErr, context.Canceled) {
		t.Errorf("predictions begun after the end: %v, %v", healthyErr, outageErr)
	}
}

func TestQuestionsThatMakeNoSense(t *testing.T) {
	for _, test := range []struct {
		name string
		set  func(*Question)
		want string
	}{
		{"no rate", func(q *Question) { q.Rate = 0 }, "rate 0/s"},
		{"a rate that is no number", func(q *Question) { q.Rate = rate.Rate(math.NaN()) }, "rate NaN/s"},
		{"a call in a century", func(q *Question) { q.Rate = 1e-9 }, "rate 1e-09/s: want 0.001/s to 20000/s"},
		{"hardly a call among many others", func(q *Question) { q.Rate, q.OtherRate = 1, 200 }, "other rate 200/s: want 0/s to 20000/s, and no more than 100 times"},
		{"a negative other rate", func(q *Question) { q.OtherRate = -1 }, "other rate -1/s"},
		{"no workers", func(q *Question) { q.Workers = 0 }, "0 workers"},
		{"a negative wait", func(q *Question) { q.PermitWait = -1 }, "permit wait -1ns"},
		{"no latency", func(q *Question) { q.Latency = Latency{} }, "the latency is 0s"},
		{"hours", func(q *Question) { q.Latency = read(t, "2h", "") }, "the latency reaches 2h0m0s"},
		{"no refusal at all", func(q *Question) { q.Goals.MaxRejected = 0 }, "max-rejected 0: want a share from 0.0001 to 1"},
		{"a cut that is no number", func(q *Question) { q.Goals.MaxCut = math.NaN() }, "max-cut NaN"},
		{"more than all workers", func(q *Question) { q.Goals.MaxHeld = 1.5 }, "max-held 1.5"},
		{"less than the rate", func(q *Question) { q.Goals.Headroom = -0.1 }, "headroom -0.1"},
		{"too few samples", func(q *Question) { q.Latency.Samples = 500 }, "500 measured answers do not show the slowest 0.1 % of them: measure at least 1000"},
	} {
		q := question(t)
		test.set(&q)
		if _, err := Advise(t.Context(), q); err == nil || !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("%s: %v; want %q", test.name, err, test.want)
		}
	}
}

func TestRoundUp(t *testing.T) {
	for _, test := range []struct{ d, want time.Duration }{
		{690 * ms, 690 * ms}, {683540 * time.Microsecond, 690 * ms}, {405 * ms, 410 * ms}, {30005 * ms, 31 * time.Second},
		{time.Second, time.Second}, {1001 * ms, 1100 * ms}, {9 * ms, 9 * ms}, {9010 * time.Microsecond, 9100 * time.Microsecond},
	} {
		if got := roundUp(test.d); got != test.want {
			t.Errorf("%v is rounded to %v, want %v", test.d, got, test.want)
		}
	}
}

func TestAnInterruptedQuestionHasNoAnswer(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("stop")
	cancel(stop)
	if _, err := Advise(ctx, question(t)); !errors.Is(err, stop) {
		t.Errorf("%v, want the cause", err)
	}
}
