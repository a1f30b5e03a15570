package engine

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"chokepoint/internal/load/arrival"
	"chokepoint/internal/load/latency"
	"chokepoint/internal/load/ledger"
	"chokepoint/internal/result"
)

// recorded plays the times, in seconds, on two workers with a timeout of 1 s.
func recorded(t *testing.T, times string) Config {
	t.Helper()
	pattern, err := arrival.ParseRecording("times.csv", strings.NewReader(times))
	if err != nil {
		t.Fatal(err)
	}
	c := plan(Endpoint{Name: "fast", Workers: 2, Timeout: time.Second})
	c.Pattern, c.Duration = pattern, pattern.Length()
	return c
}

func TestEverySecondIsAccountedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := recorded(t, "0.1\n0.2\n0.3\n1.1\n1.2\n")
		var got []Second
		var responses []result.Percentiles
		c.EachSecond = func(s Second) {
			got = append(got, s)
			responses = append(responses, s.Endpoints[0].Timings.Response.Percentiles())
		}
		r := play(t, t.Context(), c, newFake(func(_, index int) time.Duration {
			if index == 0 {
				return time.Hour
			}
			return 500 * time.Millisecond
		}))
		want := []Second{
			{From: 0, To: time.Second, Window: c.Duration, Endpoints: []EndpointSecond{{Name: "fast", Planned: 3, Scheduled: 3, Started: 2, Dropped: 1,
				Outcomes: ledger.Outcomes{ledger.OK: 1}, InFlight: 1}}},
			{From: time.Second, To: 1700 * time.Millisecond, Window: c.Duration, Endpoints: []EndpointSecond{{Name: "fast", Planned: 2, Scheduled: 2, Started: 2,
				Outcomes: ledger.Outcomes{ledger.OK: 2, ledger.Timeout: 1}}}},
		}
		if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(EndpointSecond{}, "Timings"), cmpopts.IgnoreFields(Second{}, "Generator")); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
		if first, second := responses[0], responses[1]; first.Count != 1 || second.Count != 3 || second.Max != 1000 {
			t.Errorf("responses %+v and %+v, want one, and three of at most a second", first, second)
		}
		e := r.Load.Endpoints["fast"]
		if e.Planned != 5 || e.TargetRate != 2.5 || e.AchievedRate != 2 {
			t.Errorf("planned %d at %v/s, achieved %v/s; want 5 at 2.5/s, 2/s", e.Planned, e.TargetRate, e.AchievedRate)
		}
	})
}

func TestTheLogHoldsGoodAnswersAndFailuresApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := recorded(t, "0\n2.5\n")
		var text bytes.Buffer
		c.Log = &text
		r := play(t, t.Context(), c, newFake(func(_, index int) time.Duration { return time.Duration(1+19*index) * 100 * time.Millisecond }))
		log, err := latency.ReadLog(&text)
		if err != nil {
			t.Fatal(err)
		}
		timings := r.Timings["fast"]
		for kind, h := range map[string]*latency.Histogram{
			latency.Response: timings.Response, latency.OKResponse: timings.OKResponse, latency.FailedResponse: timings.FailedResponse,
			latency.Service: timings.Service, latency.Lag: timings.Lag,
		} {
			series := log.Series["fast/"+kind]
			if series == nil {
				if h.Count() != 0 {
					t.Errorf("%s: not in the log, want %d values", kind, h.Count())
				}
				continue
			}
			if series.Total.Count() != h.Count() || h.Count() == 0 {
				t.Errorf("%s: %d values in the log, want %d", kind, series.Total.Count(), h.Count())
			}
		}
	})
}

func TestAPatternHasItsOwnRateAndLength(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*Config)
		want   string
	}{
		{"a rate as well", func(c *Config) { c.Endpoints[0].Rate = 5 }, "endpoint fast: rate 5/s belongs to constant or poisson arrivals"},
		{"another duration", func(c *Config) { c.Duration = time.Minute }, "the replay arrivals last 2s, and the duration is 1m0s"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := recorded(t, "0\n1\n")
			test.change(&c)
			if err := c.WithDefaults().Validate(); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
	c := recorded(t, "0\n0.9\n1\n3.1\n")
	c.Endpoints[0].Workers = 0
	// Within the timeout and its slack, 1.25 s, three fall due.
	if c = c.WithDefaults(); c.Arrivals != "replay" || c.Endpoints[0].Workers != 3+spareWorkers {
		t.Errorf("%s arrivals, %d workers; want replay and %d", c.Arrivals, c.Endpoints[0].Workers, 3+spareWorkers)
	}
}

// TestASecondIsClosedLate: what fell due and what ended after its end is of the next
// one, though it is there when the second is closed.
func TestASecondIsClosedLate(t *testing.T) {
	c := plan(Endpoint{Name: "fast", Rate: 20}).WithDefaults()
	tl := newTally(c, 0)
	due := func(index int, ms time.Duration) job { return job{index: index, due: ms * time.Millisecond} }
	good := ledger.Answer{Outcome: ledger.OK, Status: 200}
	tl.schedule(due(0, 900), true)
	tl.schedule(due(1, 950), true)
	tl.schedule(due(2, 1000), true)
	tl.schedule(due(3, 1050), false)
	tl.finish(due(0, 900), 0, 60*time.Millisecond, 0, good)
	tl.finish(due(1, 950), 0, 50*time.Millisecond, 0, good)
	tl.finish(due(2, 1000), 0, 10*time.Millisecond, 0, good)

	timings, first := tl.rotate(time.Second, false)
	first = first.until(2)
	answered := timings.Response.Count()
	_, all := tl.rotate(1100*time.Millisecond, true)
	for _, test := range []struct {
		name      string
		got, want EndpointSecond
	}{
		{"first", first.since(counts{}), EndpointSecond{Scheduled: 2, Started: 2, Outcomes: ledger.Outcomes{ledger.OK: 1}, InFlight: 1}},
		{"last", all.since(first), EndpointSecond{Scheduled: 2, Started: 1, Dropped: 1, Outcomes: ledger.Outcomes{ledger.OK: 2}}},
	} {
		if diff := cmp.Diff(test.want, test.got, cmpopts.IgnoreFields(EndpointSecond{}, "Timings")); diff != "" {
			t.Errorf("%s (-want +got)\n%s", test.name, diff)
		}
	}
	if answered != 1 || tl.total.Response.Count() != 3 {
		t.Errorf("%d answers in the first second and %d in all, want 1 and 3", answered, tl.total.Response.Count())
	}
}

func TestTheSecondsHaveThePlanInThem(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*Config)
	}{
		{"constant", func(*Config) {}},
		{"poisson", func(c *Config) { c.Arrivals, c.Seed = Poisson, 7 }},
		{"a shard", func(c *Config) { c.Shard, c.StartAt = arrival.Shard{Index: 1, Of: 3}, time.Now().Add(time.Second) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := plan(Endpoint{Name: "fast", Rate: 20}, Endpoint{Name: "slow", Rate: 7})
				c.Duration = 5 * time.Second
				test.change(&c)
				got := map[string]int{}
				c.EachSecond = func(s Second) {
					for _, e := range s.Endpoints {
						got[e.Name] += e.Planned
						// An arrival on the end of a second is of the next one, whoever of
						// the two comes first.
						if e.Scheduled != e.Planned {
							t.Errorf("%s, from %v to %v: %d planned and %d scheduled of a generator that is never late", e.Name, s.From, s.To, e.Planned, e.Scheduled)
						}
					}
				}
				r := play(t, t.Context(), c, newFake(after(50*time.Millisecond+time.Microsecond)))
				for name, e := range r.Load.Endpoints {
					if got[name] != e.Planned || e.Planned == 0 {
						t.Errorf("%s: %d planned by the second, %d in the ledger", name, got[name], e.Planned)
					}
				}
			})
		})
	}
}
