package scenario

import (
	"context"
	"time"

	"chokepoint/internal/adminapi"
	"chokepoint/internal/result"
)

// protectedFloor is the answer time of /fast up to which it counts as unharmed,
// however fast its baseline is (DESIGN section 5): real, not scaled.
const protectedFloor = 25 * time.Millisecond

// unharmed is the bound on /fast: twice the p95 of its last baseline, which is
// the one at the load's own rate, or the floor. A disturbed baseline would only
// loosen the bound, so that the floor stands alone.
func unharmed(baselines []result.Baseline) time.Duration {
	if len(baselines) == 0 || baselines[len(baselines)-1].Disturbed {
		return protectedFloor
	}
	p95 := baselines[len(baselines)-1].Response.P95
	return max(protectedFloor, time.Duration(2*p95*float64(time.Millisecond)))
}

// recoveryWatch waits, from the end of the load, until the pool is idle and
// /fast answers as in the baseline.
type recoveryWatch struct {
	sampler  *sampler
	observer *observer
	fastURL  string
	bound    time.Duration // on /fast
	timeout  time.Duration // of a probe
	loadOff  time.Time
	wait     time.Duration // real
}

// run watches until recovery, or until the wait is over, or ctx is done. The
// moment of recovery is when the victim itself saw its pool become idle, if the
// first probe after it confirms it; else when a probe first did. One probe is in
// flight at a time.
func (w *recoveryWatch) run(ctx context.Context, scenarioSeconds func(time.Duration) float64) result.Recovery {
	ctx, cancel := context.WithDeadline(ctx, w.loadOff.Add(w.wait))
	defer cancel()
	probed := false
	for sleepUntil(ctx, time.Now().Add(w.sampler.tick)) {
		last, ok := w.sampler.last()
		if !ok || last.at < w.loadOff.Sub(w.sampler.loadOn) || !idle(last.stats.Pool) {
			continue
		}
		probeCtx, cancel := context.WithTimeout(ctx, w.timeout)
		took, err := w.observer.probe(probeCtx, w.fastURL, adminapi.PhaseRecovery)
		cancel()
		if err != nil || took > w.bound {
			probed = true
			continue
		}
		recovered := last.stats.Pool.IdleSince
		if probed {
			recovered = time.Now()
		}
		seconds := scenarioSeconds(max(recovered.Sub(w.loadOff), 0))
		return result.Recovery{Recovered: true, Seconds: &seconds, WaitedS: scenarioSeconds(time.Since(w.loadOff))}
	}
	return result.Recovery{WaitedS: scenarioSeconds(watchedFor(w.loadOff, w.wait))}
}

// watchedFor is for how long recovery was watched for, in vain: the last probe may end
// after the wait does, and decides nothing then.
func watchedFor(loadOff time.Time, wait time.Duration) time.Duration {
	return min(max(time.Since(loadOff), 0), wait)
}

func idle(p adminapi.PoolStats) bool { return p.Busy == 0 && p.Queued == 0 && !p.IdleSince.IsZero() }
