package queueing

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"chokepoint/internal/profile"
	"chokepoint/internal/rate"
)

// replications are independent runs of one configuration, for its mean and how
// far that may be off.
const replications = 30

// estimate is the mean of a figure over the replications, and its standard error.
func estimate(cfg Config, of func(*tally) float64) (mean, stderr float64) {
	var sum, squares float64
	for i := range replications {
		cond := nominal(&cfg)
		cond.variant = i
		v := of(simulate(&cfg, cond))
		sum += v
		squares += v * v
	}
	mean = sum / replications
	variance := (squares - sum*mean) / (replications - 1)
	return mean, math.Sqrt(variance / replications)
}

// agree asks for a mean within four standard errors of the formula's value, and
// for an estimate sharp enough (2 % of it) that a wrong model would be seen.
func agree(t *testing.T, what string, mean, stderr, want float64) {
	t.Helper()
	t.Logf("%s %.5g +- %.2g", what, mean, stderr)
	if stderr > 0.02*want {
		t.Errorf("%s: the estimate %.5g +- %.2g is too blunt to tell", what, mean, stderr)
	}
	if math.Abs(mean-want) > 4*stderr {
		t.Errorf("%s = %.5g +- %.2g, the formula says %.5g", what, mean, stderr, want)
	}
}

// M/D/1: the mean wait of Poisson arrivals before one worker with a constant
// service time s at the utilisation rho is rho*s / (2*(1-rho)) (Pollaczek and
// Khinchine).
func TestMeanWaitOfOneWorker(t *testing.T) {
	const service, hop, wake = 10 * time.Millisecond, time.Microsecond, time.Microsecond
	for _, rho := range []float64{0.3, 0.7} {
		cfg := Config{
			Streams: []Stream{{
				Name: "fast", Poisson: true, Rate: rate.Rate(rho / service.Seconds()), Timeout: time.Hour, Workers: 1 << 20,
			}},
			Duration: 100 * time.Second, GracefulStop: WaitForAll,
			PoolMin: 1, PoolMax: 1,
			Delay:     Constant(0),
			Scale:     1,
			Overheads: Overheads{Hop: hop, Wake: wake, Service: service},
			Seed:      7,
		}
		mean, stderr := estimate(cfg, func(t *tally) float64 {
			var sum time.Duration
			for _, r := range t.ledgers[0].responses {
				sum += r - service - 2*hop - wake
			}
			return sum.Seconds() / float64(len(t.ledgers[0].responses))
		})
		agree(t, "mean wait", mean, stderr, rho*service.Seconds()/(2*(1-rho)))
	}
}

// erlangB is the share of Poisson arrivals that n servers without a queue turn
// away at the offered load a, whatever the distribution of the service time.
func erlangB(n int, a float64) float64 {
	b := 1.0
	for k := 1; k <= n; k++ {
		b = a * b / (float64(k) + a*b)
	}
	return b
}

// A bulkhead without a wait and a generator with few workers are such systems.
func TestTurnedAwayByErlang(t *testing.T) {
	const servers, offered = 5, 4.0
	base := Config{
		Streams: []Stream{{
			Name: "upstream", Poisson: true, Rate: offered, Timeout: time.Hour, Workers: 1 << 20, CallsUpstream: true,
		}},
		Duration: 300 * time.Second, GracefulStop: WaitForAll,
		PoolMin: 1, PoolMax: 1000,
		Scale:     1,
		Overheads: Overheads{Hop: time.Microsecond, Wake: time.Microsecond, Service: time.Microsecond},
		Seed:      7,
	}
	delays := map[string]Delay{ // each with a mean of one second
		"constant":    Constant(time.Second),
		"exponential": func(r *rand.Rand) time.Duration { return time.Duration(r.ExpFloat64() * float64(time.Second)) },
		"uniform":     func(r *rand.Rand) time.Duration { return time.Duration(2 * r.Float64() * float64(time.Second)) },
	}
	turnedAway := func(t *tally) float64 { return t.ledgers[0].failedRatio() }
	for name, delay := range delays {
		t.Run(name, func(t *testing.T) {
			cfg := base
			cfg.Delay = delay
			cfg.Profile = profile.Profile{Permits: servers}
			mean, stderr := estimate(cfg, turnedAway)
			agree(t, "refused by the bulkhead", mean, stderr, erlangB(servers, offered))

			cfg = base
			cfg.Delay = delay
			cfg.Streams = []Stream{base.Streams[0]}
			cfg.Streams[0].Workers = servers
			mean, stderr = estimate(cfg, turnedAway)
			agree(t, "dropped by the generator", mean, stderr, erlangB(servers, offered))
		})
	}
}
