package scenario

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"chokepoint/internal/adminapi"
	"chokepoint/internal/lab/proc"
	"chokepoint/internal/result"
)

// TestBreaking: the moments at which the service broke, in scenario seconds; a
// request that the generator dropped or stopped waiting for broke nothing.
func TestBreaking(t *testing.T) {
	second := 50 * time.Millisecond // of the scenario, at 0.05
	at := func(seconds, busy, limit int) sample {
		return sample{time.Duration(seconds) * second, adminapi.VictimStats{Pool: adminapi.PoolStats{Busy: busy, Limit: limit}}}
	}
	row := func(endpoint, outcome string, due, response int) result.Request {
		return result.Request{Endpoint: endpoint, Outcome: outcome, Due: time.Duration(due) * second, Response: time.Duration(response) * second}
	}
	for _, test := range []struct {
		name     string
		samples  []sample
		requests []result.Request
		want     []result.Event
	}{
		{"nothing broke", []sample{at(1, 199, 200)}, []result.Request{row("fast", "ok", 1, 1), row("upstream", "timeout", 1, 60)}, nil},
		{"no pool at all", []sample{at(1, 900, 0)}, nil, nil},
		{"full before the load", []sample{at(-1, 200, 200), at(3, 10, 200)}, nil, nil},
		{"an outage", []sample{at(9, 199, 200), at(10, 200, 200), at(11, 200, 200)}, []result.Request{
			row("fast", "timeout", 20, 30), row("fast", "timeout", 12, 30), row("fast", "http_error", 45, 1), row("fast", "connect_error", 41, 30),
			row("fast", "dropped", 1, 0), row("fast", "interrupted", 50, 40),
		}, []result.Event{{AtS: 10, Name: "pool_full"}, {AtS: 42, Name: "first_fast_failed"}, {AtS: 71, Name: "last_fast_failed"}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := testSettings(t)
			e := evidence{settings: &s, samples: test.samples, requests: test.requests}
			if diff := cmp.Diff(test.want, e.breaking(), cmpopts.EquateApprox(0, 1e-9)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// TestLagIsExplained: what every process but the generator used is one reason
// beside those of the generator, which tells of itself.
func TestLagIsExplained(t *testing.T) {
	w := newFakeWorld(t)
	used := proc.Usage{}
	w.usage = func() map[string]proc.Usage {
		now := used // before the load, then after it
		used.CPUSeconds, used.RunQueueWait = used.CPUSeconds+0.25, used.RunQueueWait+12*time.Millisecond
		return map[string]proc.Usage{"victim": now}
	}
	w.result = func() result.Load {
		l := goodLoad()
		e := l.Endpoints["fast"]
		e.Lag.P99, e.Lag.Max = 9, 9
		l.Endpoints["fast"] = e
		l.Validity = result.Validity{Reasons: []string{"fast: lag p99 is 9.00 ms (limit 5ms)"}}
		l.Generator = result.Child{Name: "loadgen", CPUSeconds: 1.5, RunQueueWaitMS: 80}
		return l
	}
	outcome, err := run(t, t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"fast: lag p99 is 9.00 ms (limit 5ms)",
		"while the load was on, summed over threads: victim used 0.25 s of CPU and waited 0.01 s for a CPU",
	}
	if diff := cmp.Diff(want, outcome.Summary.Validity.Reasons); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestDropsAreTheSubjectWhereTheListenerIsSet: a kernel queue that overflows makes a
// run invalid, unless someone has set the limits that make it.
func TestDropsAreTheSubjectWhereTheListenerIsSet(t *testing.T) {
	overflowed := func(texts []string) bool {
		return slices.ContainsFunc(texts, func(s string) bool { return strings.Contains(s, "accept queue overflowed: 5 connection attempts") })
	}
	for _, test := range []struct {
		args             []string
		reasons, warning bool
	}{
		{nil, true, false},
		{[]string{"-max-workers=100"}, true, false},
		{[]string{"-accept-backlog=10"}, false, true},
		{[]string{"-max-connections=100"}, false, true},
	} {
		s, load := testSettings(t, test.args...), goodLoad()
		e := &evidence{settings: &s, load: &load}
		v := e.validity(result.Summary{Pool: result.Pool{AcceptDrops: 5}})
		if overflowed(v.Reasons) != test.reasons || overflowed(v.Warnings) != test.warning {
			t.Errorf("%v: reasons %q, warnings %q", test.args, v.Reasons, v.Warnings)
		}
	}
}
