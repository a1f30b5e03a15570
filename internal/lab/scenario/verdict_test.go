package scenario

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"chokepoint/internal/result"
)

// check finds a check by its name.
func check(t *testing.T, v result.Verdict, name string) result.Check {
	t.Helper()
	for _, c := range v.Checks {
		if c.Name == name {
			return c
		}
	}
	t.Fatalf("no check %s in %+v", name, v.Checks)
	return result.Check{}
}

// TestBoundOnFast: the bound is drawn from a baseline only if that can be believed.
func TestBoundOnFast(t *testing.T) {
	baseline := func(p95 float64, disturbed bool) result.Baseline {
		return result.Baseline{Response: result.Percentiles{P95: p95}, Disturbed: disturbed}
	}
	for _, test := range []struct {
		name      string
		baselines []result.Baseline
		want      string
		bound     time.Duration
		ok        bool // for a p95 of 100 ms under load
	}{
		{"a quick baseline", []result.Baseline{baseline(130, false), baseline(3, false)},
			"p95 of /fast within 25.0 ms (2x its baseline of 3.0 ms, at the least 25 ms)", 25 * time.Millisecond, false},
		{"a slow one", []result.Baseline{baseline(3, false), baseline(60, false)},
			"p95 of /fast within 120.0 ms (2x its baseline of 60.0 ms, at the least 25 ms)", 120 * time.Millisecond, true},
		{"a disturbed one", []result.Baseline{baseline(60, false), baseline(130, true)},
			"p95 of /fast within 25.0 ms (its baseline of 130.0 ms was disturbed)", 25 * time.Millisecond, false},
		{"none", nil, "p95 of /fast within 25.0 ms (there is no baseline)", 25 * time.Millisecond, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := testSettings(t)
			sum := result.Summary{
				Baselines: test.baselines, Validity: result.Validity{Valid: true},
				Endpoints: map[string]result.Endpoint{"fast": {Scheduled: 80, OK: 80, Response: result.Percentiles{P95: 100, Count: 80}}},
			}
			want := result.Check{Name: "fast_p95", Want: test.want, Got: "100.0 ms", OK: test.ok}
			if diff := cmp.Diff(want, check(t, judge(&s, sum), "fast_p95")); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if got := unharmed(test.baselines); got != test.bound {
				t.Errorf("recovery is held to %v, want %v", got, test.bound)
			}
		})
	}
}

// TestRecoveryCheck: what is wanted is the setting; what was seen is told from
// what was not watched.
func TestRecoveryCheck(t *testing.T) {
	after := 1.25
	for _, test := range []struct {
		name     string
		recovery result.Recovery
		ended    string
		want     string
	}{
		{"recovered", result.Recovery{Recovered: true, Seconds: &after, WaitedS: 1.4}, "", "after 1.2 s"},
		{"not in time", result.Recovery{WaitedS: 45.03}, "", "not within 45 s"},
		{"stopped before the end of the load", result.Recovery{}, "interrupted", "not watched: the run was stopped early"},
		{"stopped while it watched", result.Recovery{WaitedS: 12.3}, "interrupted", "not within 12.3 s, when the run was stopped"},
		{"stopped after it had watched", result.Recovery{WaitedS: 45.03}, "interrupted", "not within 45 s"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := testSettings(t, "-recovery-wait=45s")
			got := recoveryCheck(&s, result.Summary{Recovery: test.recovery, Run: result.Run{EndedEarly: test.ended}})
			want := result.Check{
				Name: "recovered", Want: "pool idle and /fast as before, within 45 s", Got: test.want,
				OK: test.recovery.Recovered, Informative: true,
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// The report and the verdict speak of the same wait, also where the last probe ended
// after it.
func TestWatchedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for since, want := range map[time.Duration]time.Duration{-time.Second: 0, 12 * time.Second: 12 * time.Second, 46 * time.Second: 45 * time.Second} {
			if got := watchedFor(time.Now().Add(-since), 45*time.Second); got != want {
				t.Errorf("%v after the end of the load: %v, want %v", since, got, want)
			}
		}
	})
}

// TestInterruptedRequestsDecideNothing: that the generator stopped waiting is no
// failure of the service.
func TestInterruptedRequestsDecideNothing(t *testing.T) {
	fast := result.Endpoint{
		Planned: 400, Scheduled: 400, Started: 400, OK: 200, Interrupted: 200, FailedRatio: 0.5,
		Response: result.Percentiles{P95: 1, Count: 200},
	}
	for profile, want := range map[string]result.Check{
		"anti":  {Name: "fast_died", Want: "at least 10 % of /fast failed", Got: "0.0 % failed, and the generator interrupted 200"},
		"fixed": {Name: "fast_unharmed", Want: "0 of /fast failed", Got: "0 of 400 failed, and the generator interrupted 200", OK: true},
	} {
		s := testSettings(t)
		s.Profile.Name = profile
		sum := result.Summary{Validity: result.Validity{Valid: true}, Endpoints: map[string]result.Endpoint{"fast": fast}}
		if diff := cmp.Diff(want, check(t, judge(&s, sum), want.Name)); diff != "" {
			t.Errorf("%s (-want +got)\n%s", profile, diff)
		}
	}
}
