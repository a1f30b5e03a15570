package engine

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"chokepoint/internal/load/latency"
	"chokepoint/internal/load/ledger"
	"chokepoint/internal/result"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake answers after a time of its own. It honours deadlines and Interrupt as a
// Sender must.
type fake struct {
	service   func(endpoint, index int) time.Duration
	interrupt chan struct{}
	once      sync.Once

	mu   sync.Mutex
	sent []string // "endpoint-index", in the order of arrival
}

func newFake(service func(endpoint, index int) time.Duration) *fake {
	return &fake{service: service, interrupt: make(chan struct{})}
}

func (f *fake) NewClient(endpoint int, _ bool) Client {
	return func(index int, deadline time.Time) Exchange {
		x := Exchange{Began: time.Now()}
		f.mu.Lock()
		f.sent = append(f.sent, fmt.Sprintf("%d-%d", endpoint, index))
		f.mu.Unlock()
		answer := time.NewTimer(f.service(endpoint, index))
		defer answer.Stop()
		expiry := time.NewTimer(time.Until(deadline))
		defer expiry.Stop()
		select {
		case <-f.interrupt:
			x.Answer = ledger.Answer{Outcome: ledger.Interrupted}
		case <-answer.C:
			x.Answer = ledger.Answer{Outcome: ledger.OK, Status: 200}
		case <-expiry.C:
			x.Answer = ledger.Answer{Outcome: ledger.Timeout, Cause: CauseResponse}
		}
		x.Done = time.Now()
		return x
	}
}

func (f *fake) Interrupt() { f.once.Do(func() { close(f.interrupt) }) }

// after is a service that always takes d.
func after(d time.Duration) func(int, int) time.Duration {
	return func(int, int) time.Duration { return d }
}

func plan(endpoints ...Endpoint) Config {
	for i := range endpoints {
		if endpoints[i].URL == "" {
			endpoints[i].URL = "http://127.0.0.1:1/"
		}
	}
	return Config{Endpoints: endpoints, Duration: 30 * time.Second}
}

// play runs c in fake time and fails the test if the ledger does not balance.
func play(t *testing.T, ctx context.Context, c Config, sender Sender) *Report {
	t.Helper()
	c = c.WithDefaults()
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	r, err := run(ctx, c, sender, func() wait { return timerWait })
	if err != nil {
		t.Fatal(err)
	}
	balanced(t, r)
	return r
}

// balanced checks the ledger of a report.
func balanced(t *testing.T, r *Report) {
	t.Helper()
	for name, e := range r.Load.Endpoints {
		if e.Scheduled != e.Started+e.Dropped ||
			e.Started != e.OK+e.HTTPError+e.Timeout+e.ConnectError+e.TransportError+e.Interrupted {
			t.Errorf("%s does not balance: %+v", name, e)
		}
	}
	for _, reason := range r.Load.Validity.Reasons {
		if strings.Contains(reason, "ledger") {
			t.Error(reason)
		}
	}
}

func TestTenRunsHaveTheSameCount(t *testing.T) {
	for range 10 {
		synctest.Test(t, func(t *testing.T) {
			r := play(t, t.Context(), plan(Endpoint{Name: "fast", Rate: 30}), newFake(after(time.Millisecond)))
			e := r.Load.Endpoints["fast"]
			if e.Planned != 900 || e.Scheduled != 900 || e.OK != 900 {
				t.Errorf("planned %d, scheduled %d, ok %d; want 900 of each", e.Planned, e.Scheduled, e.OK)
			}
			if !r.Load.Validity.Valid || e.AchievedRate != 30 {
				t.Errorf("rate %v, validity %+v", e.AchievedRate, r.Load.Validity)
			}
		})
	}
}

func TestNoArrivalWaitsForAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// A server that stands still: every request is sent at its due time all the
		// same, and every response time is exactly the service time.
		r := play(t, t.Context(), plan(
			Endpoint{Name: "fast", Rate: 20, Timeout: 30 * time.Second},
			Endpoint{Name: "upstream", Rate: 20, Timeout: 60 * time.Second},
		), newFake(after(45*time.Second)))
		fast, upstream := r.Load.Endpoints["fast"], r.Load.Endpoints["upstream"]
		if fast.Timeout != 600 || upstream.OK != 600 {
			t.Errorf("fast: %d timeouts, upstream: %d ok; want 600 of each", fast.Timeout, upstream.OK)
		}
		if fast.Lag.Max != 0 || upstream.Lag.Max != 0 {
			t.Errorf("lag up to %v and %v ms, want none", fast.Lag.Max, upstream.Lag.Max)
		}
		if fast.Response.Min != 30_000 || fast.Response.Max != 30_000 || upstream.Response.P50 != 45_000 {
			t.Errorf("responses: fast %+v, upstream %+v", fast.Response, upstream.Response)
		}
		if fast.Workers != 613 || upstream.Workers != 1213 {
			t.Errorf("%d and %d workers, want 613 and 1,213", fast.Workers, upstream.Workers)
		}
		if r.Load.ElapsedS < 74.9 || r.Load.ElapsedS > 75.1 {
			t.Errorf("the last answer came after %v s, want 74.95", r.Load.ElapsedS)
		}
	})
}

func TestDropsAreExact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// 10/s and 3 workers that take 1.05 s: of every 11 arrivals the first 3
		// start, then all are busy until the first is free again.
		c := plan(Endpoint{Name: "fast", Rate: 10, Workers: 3})
		c.Duration = 11 * time.Second
		c.KeepRequests = true
		f := newFake(after(1050 * time.Millisecond))
		r := play(t, t.Context(), c, f)
		e := r.Load.Endpoints["fast"]
		if e.Scheduled != 110 || e.Started != 30 || e.Dropped != 80 {
			t.Errorf("scheduled %d, started %d, dropped %d; want 110, 30, 80", e.Scheduled, e.Started, e.Dropped)
		}
		if diff := cmp.Diff([]int{7, 7, 7, 7, 7, 7, 7, 7, 8, 8, 8}, r.Load.Drops["fast"]); diff != "" {
			t.Errorf("drops per second:\n%s", diff)
		}
		want := "fast: 80 of 110 arrivals were dropped, since all 3 workers were busy from 0.3 to 10.9 s; give it more workers"
		if r.Load.Validity.Valid || r.Load.Validity.Reasons[0] != want {
			t.Errorf("validity %+v, want %q", r.Load.Validity, want)
		}
		var times []result.DropSecond
		for _, q := range r.Requests {
			if q.Answer.Outcome != ledger.Dropped {
				continue
			}
			second := int(q.Due / time.Second)
			if len(times) <= second {
				times = append(times, result.DropSecond{Second: second, FirstDueNS: int64(q.Due)})
			}
			times[second].Dropped++
			times[second].LastDueNS = int64(q.Due)
		}
		if diff := cmp.Diff(times, r.Load.DropTimes["fast"]); diff != "" {
			t.Errorf("drop times (-records +result):\n%s", diff)
		}
		for i, q := range r.Requests {
			want := ledger.OK
			if i%11 >= 3 {
				want = ledger.Dropped
			}
			if q.Index != i || q.Due != time.Duration(i)*100*time.Millisecond || q.Answer.Outcome != want {
				t.Errorf("arrival %d: %+v, want outcome %v", i, q, want)
			}
		}
		if len(r.Requests) != 110 || len(f.sent) != 30 {
			t.Errorf("%d records and %d requests, want 110 and 30", len(r.Requests), len(f.sent))
		}
	})
}

func TestTiesAreSentInTheOrderOfEndpoints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := plan(Endpoint{Name: "b", Rate: 5}, Endpoint{Name: "a", Rate: 10})
		c.Duration = time.Second
		c.KeepRequests = true
		r := play(t, t.Context(), c, newFake(after(time.Millisecond)))
		var got []string
		for _, q := range r.Requests {
			got = append(got, fmt.Sprintf("%s-%d", q.Endpoint, q.Index))
		}
		want := "b-0 a-0 a-1 b-1 a-2 a-3 b-2 a-4 a-5 b-3 a-6 a-7 b-4 a-8 a-9"
		if diff := cmp.Diff(want, strings.Join(got, " ")); diff != "" {
			t.Error(diff)
		}
	})
}

// ofThePlan are the lines that do not depend on what else the machine does: the
// use of CPUs is real, also where a test's clock is not.
func ofThePlan(lines []string) []string {
	return slices.DeleteFunc(slices.Clone(lines), func(line string) bool {
		return strings.HasPrefix(line, "a crowded machine: ") || strings.HasPrefix(line, "the generator's own limit: ")
	})
}

func TestLagIsRecordedAndJudged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// A pacer that oversleeps by 7 ms; the due time still counts.
		c := plan(Endpoint{Name: "fast", Rate: 10}).WithDefaults()
		late := func() wait {
			return func(ctx context.Context, until time.Time) bool {
				return timerWait(ctx, until.Add(7*time.Millisecond))
			}
		}
		r, err := run(t.Context(), c, newFake(after(3*time.Millisecond)), late)
		if err != nil {
			t.Fatal(err)
		}
		e := r.Load.Endpoints["fast"]
		if e.Lag.Min != 7 || e.Lag.Max != 7 || e.Service.P50 != 3 || e.Response.P50 != 10 {
			t.Errorf("lag %+v, service %+v, response %+v", e.Lag, e.Service, e.Response)
		}
		reasons := ofThePlan(r.Load.Validity.Reasons)
		if r.Load.Validity.Valid || len(reasons) != 2 || reasons[0] != "fast: lag p99 is 7.00 ms (limit 5ms)" || !strings.HasPrefix(reasons[1], "the generator used ") {
			t.Errorf("validity %+v", r.Load.Validity)
		}
	})
}

func TestGracefulStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// Answers take 20 s. 10 s after the window, those due in its first 20 s
		// have theirs; 10.025 s makes the one due at 20 s no tie.
		c := plan(Endpoint{Name: "fast", Rate: 20, Timeout: time.Minute})
		grace := 10*time.Second + 25*time.Millisecond
		c.GracefulStop = &grace
		r := play(t, t.Context(), c, newFake(after(20*time.Second)))
		e := r.Load.Endpoints["fast"]
		if e.Started != 600 || e.OK != 401 || e.Interrupted != 199 {
			t.Errorf("started %d, ok %d, interrupted %d; want 600, 401, 199", e.Started, e.OK, e.Interrupted)
		}
		if e.Response.Count != 401 || e.Lag.Count != 600 {
			t.Errorf("%d responses and %d lags, want 401 and 600", e.Response.Count, e.Lag.Count)
		}
		v := r.Load.Validity
		if warnings := ofThePlan(v.Warnings); !v.Valid || len(warnings) != 1 || !strings.Contains(warnings[0], "199 of 600 requests were interrupted") {
			t.Errorf("validity %+v", v)
		}
		if r.Load.ElapsedS < 40 || r.Load.ElapsedS > 40.1 {
			t.Errorf("ended after %v s, want 40.025", r.Load.ElapsedS)
		}
	})
}

func TestCancelAtAnyMomentLeavesABalancedReport(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 25 {
		at := time.Duration(random.Int64N(int64(20 * time.Second)))
		t.Run(at.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), at)
				defer cancel()
				c := plan(Endpoint{Name: "fast", Rate: 20, Workers: 100}, Endpoint{Name: "upstream", Rate: 7, Timeout: 3 * time.Second})
				c.Duration = 10 * time.Second
				c.KeepRequests = true
				begin := time.Now()
				// Every seventh answer takes longer than the grace after a cancel.
				r := play(t, ctx, c, newFake(func(_, i int) time.Duration {
					return time.Duration(1+i%7) * 700 * time.Millisecond
				}))
				if took := time.Since(begin); took > at+CancelGrace {
					t.Errorf("ended %v after the cancel, want at most %v", took-at, CancelGrace)
				}
				scheduled := 0
				offered := min(c.Duration, max(0, at-notice)).Seconds()
				if r.Load.OfferedS != offered {
					t.Errorf("%v s of the window were offered, want %v", r.Load.OfferedS, offered)
				}
				for name, e := range r.Load.Endpoints {
					scheduled += e.Scheduled
					if want := float64(e.Started) / offered; offered > 0 && e.AchievedRate != want {
						t.Errorf("%s: %v/s, want %v/s over the time that passed", name, e.AchievedRate, want)
					}
				}
				if len(r.Requests) != scheduled {
					t.Errorf("%d records of %d arrivals", len(r.Requests), scheduled)
				}
				// The last answer of /fast comes after 13 to 15 s.
				if at < 13*time.Second && (!r.StoppedEarly || r.Load.Validity.Valid) {
					t.Errorf("stopped early: %v, validity %+v", r.StoppedEarly, r.Load.Validity)
				}
				if at > 15*time.Second && r.StoppedEarly {
					t.Error("a run that was over counts as stopped early")
				}
			})
		})
	}
}

func TestCancelBeforeTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := plan(Endpoint{Name: "fast", Rate: 20})
		c.StartAt = time.Now().Add(time.Hour)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		r := play(t, ctx, c, newFake(after(time.Second)))
		e := r.Load.Endpoints["fast"]
		if e.Planned != 600 || e.Scheduled != 0 || r.Load.ElapsedS != 0 {
			t.Errorf("planned %d, scheduled %d, elapsed %v; want 600, 0, 0", e.Planned, e.Scheduled, r.Load.ElapsedS)
		}
		want := []string{"stopped early: 0 of 600 arrivals had fallen due"}
		if diff := cmp.Diff(want, ofThePlan(r.Load.Validity.Reasons)); diff != "" {
			t.Error(diff)
		}
	})
}

func TestStartAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := plan(Endpoint{Name: "fast", Rate: 20})
		c.StartAt = time.Now().Add(90 * time.Second)
		r := play(t, t.Context(), c, newFake(after(time.Second)))
		if !r.Load.StartedAt.Equal(c.StartAt) {
			t.Errorf("started at %v, want %v", r.Load.StartedAt, c.StartAt)
		}
		if e := r.Load.Endpoints["fast"]; e.OK != 600 || e.Lag.Max != 0 {
			t.Errorf("ok %d, lag up to %v ms", e.OK, e.Lag.Max)
		}
	})
}

func TestPoissonPlansItsOwnCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := plan(Endpoint{Name: "fast", Rate: 100})
		c.Arrivals, c.Seed = Poisson, 42
		r := play(t, t.Context(), c, newFake(after(time.Millisecond)))
		e := r.Load.Endpoints["fast"]
		if e.Planned == 3000 || e.Planned < 2800 || e.Planned > 3200 || e.OK != e.Planned {
			t.Errorf("planned %d, ok %d; want about 3,000 and the same", e.Planned, e.OK)
		}
	})
}

func TestIntervalLogHoldsEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		c := plan(Endpoint{Name: "fast", Rate: 20})
		c.Log = &log
		seconds := 0
		c.EachSecond = func(Second) { seconds++ }
		r := play(t, t.Context(), c, newFake(after(525*time.Millisecond)))
		read, err := latency.ReadLog(&log)
		if err != nil {
			t.Fatal(err)
		}
		for _, tag := range []string{"fast/response", "fast/service", "fast/lag"} {
			series := read.Series[tag]
			if series == nil || series.Total.Count() != 600 || len(series.Intervals) != 31 {
				t.Errorf("%s: %+v, want 600 values in 31 intervals", tag, series)
			}
		}
		// The log starts in the same millisecond as the load.
		if !read.Start.Equal(r.Load.StartedAt.Truncate(time.Millisecond)) {
			t.Errorf("the log starts at %v, the load at %v", read.Start, r.Load.StartedAt)
		}
		if seconds != 31 {
			t.Errorf("%d seconds, want 31", seconds)
		}
	})
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, fmt.Errorf("disk full") }

func TestABrokenLogDoesNotSpoilTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := plan(Endpoint{Name: "fast", Rate: 20}).WithDefaults()
		c.Log = brokenWriter{}
		r, err := run(t.Context(), c, newFake(after(time.Second)), func() wait { return timerWait })
		if err == nil || r == nil || r.Load.Endpoints["fast"].OK != 600 {
			t.Errorf("report %+v, error %v", r, err)
		}
	})
}

// refusing is a Sender whose every request ends with the same answer at once.
type refusing struct{ answer ledger.Answer }

func (r refusing) NewClient(int, bool) Client {
	return func(int, time.Time) Exchange {
		now := time.Now()
		return Exchange{Began: now, Done: now, Answer: r.answer}
	}
}

func (refusing) Interrupt() {}

func TestTheGeneratorsOwnFaultsMakeTheRunInvalid(t *testing.T) {
	for _, tt := range []struct {
		answer ledger.Answer
		want   []string
	}{
		{ledger.Answer{Outcome: ledger.ConnectError, Cause: CauseOutOfFiles},
			[]string{"fast: the generator ran out of file descriptors; raise the limit (ulimit -n) (600 requests)"}},
		{ledger.Answer{Outcome: ledger.ConnectError, Cause: CauseOutOfPorts},
			[]string{"fast: the generator ran out of local ports; lower the rate or the timeout (600 requests)"}},
		{ledger.Answer{Outcome: ledger.Timeout, Cause: CauseUnsent},
			[]string{"fast: the generator was so late that the client's timeout had passed before the request was sent (600 requests)"}},
		{ledger.Answer{Outcome: ledger.ConnectError, Cause: CauseRefused}, []string{}},
		{ledger.Answer{Outcome: ledger.Timeout, Cause: CauseConnect}, []string{}},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := play(t, t.Context(), plan(Endpoint{Name: "fast", Rate: 20}), refusing{tt.answer})
			if diff := cmp.Diff(tt.want, ofThePlan(r.Load.Validity.Reasons)); diff != "" {
				t.Errorf("%+v:\n%s", tt.answer, diff)
			}
			e := r.Load.Endpoints["fast"]
			if e.Causes[tt.answer.Cause] != 600 || e.FailedRatio != 1 {
				t.Errorf("%+v: %+v", tt.answer, e)
			}
			served := int64(600)
			if tt.answer.Cause == CauseUnsent {
				served = 0
			}
			if e.Service.Count != served || e.Response.Count != 600 {
				t.Errorf("%+v: %d service times and %d responses, want %d and 600", tt.answer, e.Service.Count, e.Response.Count, served)
			}
		})
	}
}

func TestPacingIsNeverEarly(t *testing.T) {
	waitUntil := pacing()
	for range 50 {
		for _, d := range []time.Duration{-time.Second, 0, 100 * time.Microsecond, time.Millisecond, 6 * time.Millisecond} {
			until := time.Now().Add(d)
			if !waitUntil(t.Context(), until) {
				t.Fatal("gave up, and nobody asked for it")
			}
			if early := time.Until(until); early > 0 {
				t.Fatalf("a wait of %v ended %v early", d, early)
			}
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if waitUntil(ctx, time.Now().Add(time.Hour)) {
		t.Error("waited an hour for a run that was stopped")
	}
}

func TestResultHasNoNulls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// Nothing is ever answered.
		zero := time.Duration(0)
		c := plan(Endpoint{Name: "fast", Rate: 20})
		c.GracefulStop = &zero
		r := play(t, t.Context(), c, newFake(after(time.Hour)))
		e := r.Load.Endpoints["fast"]
		if diff := cmp.Diff(result.Percentiles{}, e.OKResponse); diff != "" {
			t.Error(diff)
		}
		if e.Causes == nil || e.Status == nil || r.Load.Validity.Reasons == nil {
			t.Errorf("a map or list is null: %+v", e)
		}
	})
}
