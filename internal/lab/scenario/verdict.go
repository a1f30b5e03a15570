package scenario

import (
	"fmt"

	"chokepoint/internal/adminapi"
	"chokepoint/internal/evidence/stacks"
	"chokepoint/internal/result"
)

// Bounds of "reproduced": /fast died, of exhaustion, on an idle machine.
const (
	// diedRatio is the share of /fast that must fail. The published outage lost
	// two thirds; a tenth is far outside what any healthy run loses, which is none.
	diedRatio = 0.10
	// heldRatio is the share of the workers that must stand in the upstream read in
	// some dump under load: at the least 195 of 200 (DESIGN section 4).
	heldRatio = 0.975
	// idleCPU is the share of the victim's CPUs under which it counts as idle.
	idleCPU = 0.5
)

// judge compares what the run shows with what its profile promises. A run that
// cannot be believed has no other outcome than invalid, though its checks are
// shown.
func judge(s *Settings, sum result.Summary) result.Verdict {
	p, err := s.Profile.Profile()
	if err != nil {
		return result.Verdict{Outcome: result.Invalid}
	}
	v := result.Verdict{Expected: s.Expected()}
	held, failed := result.Protected, result.NotProtected
	if v.Expected == result.Reproduced {
		held, failed = result.Reproduced, result.NotReproduced
		v.Checks = outageChecks(s, sum)
	} else {
		v.Checks = protectionChecks(sum)
	}
	v.Checks = append(v.Checks, recoveryCheck(s, sum))
	if p.Unbounded {
		v.Checks = append(v.Checks, inFlightCheck(sum))
	}
	v.Outcome = held
	for _, check := range v.Checks {
		if !check.OK && !check.Informative {
			v.Outcome = failed
		}
	}
	if !sum.Validity.Valid {
		v.Outcome = result.Invalid
	}
	return v
}

func outageChecks(s *Settings, sum result.Summary) []result.Check {
	fast := sum.Endpoints["fast"]
	died := failedShare(fast)
	most, workers := 0, 0
	for _, d := range sum.Dumps {
		if n := d.Where[stacks.UpstreamRead] + d.Where[stacks.UpstreamConnect]; n > most {
			most, workers = n, d.Workers
		}
	}
	call := "in the upstream read"
	if s.Loses() || s.Fault == string(adminapi.FaultTLSHang) {
		call = "in the connect to the upstream or its read"
	}
	cores := float64(max(s.GoMaxProcs, 1))
	return []result.Check{
		{
			Name: "fast_died", Want: fmt.Sprintf("at least %.0f %% of /fast failed", 100*diedRatio),
			Got: fmt.Sprintf("%.1f %% failed", 100*died) + interruptedNote(fast), OK: died >= diedRatio,
		},
		{
			Name: "pool_exhausted", Want: fmt.Sprintf("all %d workers busy at some time", sum.Pool.WorkerLimit),
			Got: fmt.Sprintf("%d busy at most", sum.Pool.MaxBusy), OK: sum.Pool.WorkerLimit > 0 && sum.Pool.MaxBusy >= sum.Pool.WorkerLimit,
		},
		{
			Name: "held_by_upstream", Want: fmt.Sprintf("at least %.1f %% of the workers %s in some dump", 100*heldRatio, call),
			Got: fmt.Sprintf("%d of %d", most, workers), OK: workers > 0 && float64(most) >= heldRatio*float64(workers),
		},
		{
			Name: "cpu_idle", Want: fmt.Sprintf("victim under %.0f %% CPU of %.0f %%", 100*idleCPU*cores, 100*cores),
			Got: fmt.Sprintf("%.1f %% on average", sum.Victim.CPUPercentMean), OK: sum.Victim.CPUPercentMean < 100*idleCPU*cores,
		},
	}
}

// failed counts the requests that the service failed. Those that the generator
// itself interrupted are failures in the ledger, since nobody got an answer, but
// they say nothing about the service.
func failed(e result.Endpoint) int { return e.Scheduled - e.OK - e.Interrupted }

func failedShare(e result.Endpoint) float64 {
	return float64(failed(e)) / float64(max(e.Scheduled, 1))
}

func interruptedNote(e result.Endpoint) string {
	if e.Interrupted == 0 {
		return ""
	}
	return fmt.Sprintf(", and the generator interrupted %d", e.Interrupted)
}

func protectionChecks(sum result.Summary) []result.Check {
	fast := sum.Endpoints["fast"]
	bound := unharmed(sum.Baselines).Seconds() * 1000
	source := "there is no baseline"
	if n := len(sum.Baselines); n > 0 {
		baseline := sum.Baselines[n-1]
		source = fmt.Sprintf("2x its baseline of %.1f ms, at the least 25 ms", baseline.Response.P95)
		if baseline.Disturbed {
			source = fmt.Sprintf("its baseline of %.1f ms was disturbed", baseline.Response.P95)
		}
	}
	return []result.Check{
		{
			Name: "fast_unharmed", Want: "0 of /fast failed",
			Got: fmt.Sprintf("%d of %d failed", failed(fast), fast.Scheduled) + interruptedNote(fast), OK: fast.OK > 0 && failed(fast) == 0,
		},
		{
			Name: "fast_p95", Want: fmt.Sprintf("p95 of /fast within %.1f ms (%s)", bound, source),
			Got: fmt.Sprintf("%.1f ms", fast.Response.P95), OK: fast.Response.Count > 0 && fast.Response.P95 <= bound,
		},
	}
}

// recoveryCheck is in scenario seconds. A watch that was cut short has not seen
// that the service did not recover.
func recoveryCheck(s *Settings, sum result.Summary) result.Check {
	wait := formatFloat(s.RecoveryWait.Seconds())
	c := result.Check{
		Name: "recovered", Want: "pool idle and /fast as before, within " + wait + " s",
		Got: "not within " + wait + " s", OK: sum.Recovery.Recovered, Informative: true,
	}
	switch {
	case sum.Recovery.Seconds != nil:
		c.Got = fmt.Sprintf("after %.1f s", *sum.Recovery.Seconds)
	case sum.Run.EndedEarly != "" && sum.Recovery.WaitedS == 0:
		c.Got = "not watched: the run was stopped early"
	case sum.Run.EndedEarly != "" && sum.Recovery.WaitedS < s.RecoveryWait.Seconds():
		c.Got = fmt.Sprintf("not within %.1f s, when the run was stopped", sum.Recovery.WaitedS)
	}
	return c
}

// inFlightCheck says what no pool means: nothing bounds what is in flight.
func inFlightCheck(sum result.Summary) result.Check {
	return result.Check{
		Name: "in_flight_bounded", Want: "true",
		Got: fmt.Sprintf("false: up to %d requests in flight", sum.Pool.MaxBusy), OK: false, Informative: true,
	}
}
