// Package queueing predicts a run from its configuration alone, before the run:
// a discrete-event simulation of the clients, the worker pool and its queue,
// the circuit breaker, the bulkhead, the timeouts and the upstream's delay.
//
// All of it happens in scenario seconds. What does not scale with them, the time
// that a message travels, that a timer or a read wakes up late, that one row
// costs, is real time and is divided by the scale on the way in, so a small
// scale is predicted with its own distortion.
//
// A figure that a tie decides (does the permit come free before the wait for it
// ends?) is no number but a range. So the model runs many times: once with
// typical overheads, and then as an ensemble in which the overheads are drawn
// small and large, ties are settled the other way, the observer looks a little
// early or late, and the machine stalls. A Figure holds the nominal case and the
// ensemble's range. The same Config gives the same Prediction, always.
//
// Compare puts a prediction beside a run's summary. It never adjusts the one to
// the other, and what the run lacks is a row that disagrees.
//
// What the model leaves out: TCP but for the cap on connections, the accept queue
// behind it, and a path to the upstream that loses packets (handshakes on a good path,
// loss between client and victim, a victim that is too slow to accept), the CPU (work that outgrows it, the scheduler, the garbage
// collector), contention for the database's own connections, and the baselines
// before the load. A run that hits one of these will disagree, which is the
// point. It also does not predict how many workers idle at a dump under load:
// that is how far the pool once grew, which the briefest burst decides.
package queueing

import (
	"math/rand/v2"
	"strconv"
	"time"
)

// Where a worker or a connection stands in a dump; the words are those that
// evidence/goroutines reads from real dumps. Serving is this package's own: the
// workers that answer by themselves, which a dump shows as "database" or
// "running".
const (
	WhereIdle            = "idle"
	WhereUpstreamConnect = "upstream_connect"
	WhereUpstreamRead    = "upstream_read"
	WherePermitWait      = "permit_wait"
	WhereQueued          = "queued"
	WhereServing         = "serving"
)

// Figure is one predicted number: the nominal case, and the range that ties and
// overheads leave. Low <= Nominal <= High.
type Figure struct{ Nominal, Low, High float64 }

// Prediction is what a run should show.
type Prediction struct {
	Scale        float64
	PoolMax      int           // 0: unbounded
	RecoveryWait time.Duration // scenario time; how long the run will watch
	Endpoints    map[string]Endpoint
	Dumps        []Dump // in the order of Config.DumpAt
	Pool         Pool
	// RecoverySeconds is in scenario seconds from the end of the load window until
	// nothing is busy or queued. Where NeverRecovers is set, some case ends with
	// workers that are held for ever; such a case counts as the recovery wait.
	RecoverySeconds Figure
	NeverRecovers   bool
	// FullSeconds is in scenario seconds from the start of the load until every
	// worker is busy. Exhausted says that some case comes to that; one that does not
	// counts as the end of the load.
	FullSeconds Figure
	Exhausted   bool
	// StallArrivals is how many requests arrive in the longest stall that leaves a
	// run valid, where the wait in the queue is bounded; else 0. What waits longer
	// than the bound in such a stall leaves the queue all at once.
	StallArrivals float64
}

// Endpoint is the ledger of one stream and what its answers were. Counts are of
// requests; P50MS and P95MS are nearest-rank percentiles of the response time in
// real milliseconds, over all but the dropped and the interrupted.
type Endpoint struct {
	Scheduled, Dropped, Started         Figure
	OK, HTTPError, Timeout, Interrupted Figure
	FailedRatio, CompletedFailedRatio   Figure
	P50MS, P95MS                        Figure
	Status                              map[string]Figure // by status code, "200"
	Causes                              map[string]Figure // of error answers, by adminapi.Cause...
}

// Dump is what a goroutine dump should count, by where.
type Dump struct {
	Point string
	Where map[string]Figure
}

// Pool holds the extremes of the worker pool, the bulkhead and the kernel's queue of
// connections, which is 0 unless the cap on connections fills it.
type Pool struct{ MaxBusy, MaxQueued, MaxWorkers, MaxPermits, MaxAcceptQueue Figure }

// Predict runs the model. The error names the setting that makes no sense and
// what would.
func Predict(cfg Config) (Prediction, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return Prediction{}, err
	}
	cases := []*tally{simulate(&cfg, nominal(&cfg))}
	for i := range cfg.variants() {
		cases = append(cases, simulate(&cfg, variant(&cfg, i)))
	}
	p := Prediction{
		Scale:        cfg.Scale,
		PoolMax:      cfg.PoolMax,
		RecoveryWait: cfg.RecoveryWait,
		Endpoints:    make(map[string]Endpoint, len(cfg.Streams)),
		Pool: Pool{
			MaxBusy:    count(cases, func(t *tally) int { return t.maxBusy }),
			MaxQueued:  count(cases, func(t *tally) int { return t.maxQueued }),
			MaxWorkers: count(cases, func(t *tally) int { return t.maxWorkers }),
			MaxPermits: count(cases, func(t *tally) int { return t.maxPermits }),

			MaxAcceptQueue: count(cases, func(t *tally) int { return t.maxAcceptQueue }),
		},
		RecoverySeconds: figure(cases, func(t *tally) float64 {
			if t.stuck {
				return cfg.RecoveryWait.Seconds()
			}
			return max(0, (t.idleSince - cfg.Duration).Seconds())
		}),
	}
	if cfg.Profile.Unbounded {
		p.PoolMax = 0
	}
	if cfg.Profile.MaxQueueWait > 0 {
		for _, s := range cfg.Streams {
			p.StallArrivals += s.Rate.PerSecond() * cfg.scenario(mostStall).Seconds()
		}
	}
	p.FullSeconds = figure(cases, func(t *tally) float64 {
		if !t.full {
			return cfg.Duration.Seconds()
		}
		return t.fullAt.Seconds()
	})
	for _, t := range cases {
		p.NeverRecovers = p.NeverRecovers || t.stuck
		p.Exhausted = p.Exhausted || t.full
	}
	for i, s := range cfg.Streams {
		p.Endpoints[s.Name] = endpoint(&cfg, cases, i)
	}
	for i, d := range cfg.DumpAt {
		p.Dumps = append(p.Dumps, Dump{Point: d.Name, Where: dump(&cfg, cases, i)})
	}
	return p, nil
}

// figure takes one number from every case; the first case is the nominal one.
func figure(cases []*tally, of func(*tally) float64) Figure {
	v := of(cases[0])
	f := Figure{Nominal: v, Low: v, High: v}
	for _, t := range cases[1:] {
		v := of(t)
		f.Low, f.High = min(f.Low, v), max(f.High, v)
	}
	return f
}

func count(cases []*tally, of func(*tally) int) Figure {
	return figure(cases, func(t *tally) float64 { return float64(of(t)) })
}

func endpoint(cfg *Config, cases []*tally, i int) Endpoint {
	book := func(of func(*ledger) int) Figure {
		return count(cases, func(t *tally) int { return of(&t.ledgers[i]) })
	}
	e := Endpoint{
		Scheduled:   book(func(l *ledger) int { return l.scheduled }),
		Dropped:     book(func(l *ledger) int { return l.dropped }),
		Started:     book(func(l *ledger) int { return l.scheduled - l.dropped }),
		OK:          book((*ledger).ok),
		HTTPError:   book((*ledger).httpError),
		Timeout:     book(func(l *ledger) int { return l.timeout }),
		Interrupted: book(func(l *ledger) int { return l.interrupted }),
		FailedRatio: figure(cases, func(t *tally) float64 { return t.ledgers[i].failedRatio() }),
		CompletedFailedRatio: figure(cases, func(t *tally) float64 {
			return t.ledgers[i].completedFailedRatio()
		}),
		P50MS:  percentile(cfg, cases, i, 0.50),
		P95MS:  percentile(cfg, cases, i, 0.95),
		Status: map[string]Figure{},
		Causes: map[string]Figure{},
	}
	for _, t := range cases {
		for a := range t.ledgers[i].answers {
			status := strconv.Itoa(a.status)
			if _, done := e.Status[status]; !done {
				e.Status[status] = book(func(l *ledger) int { return l.withStatus(a.status) })
			}
			if _, done := e.Causes[a.cause]; a.cause != "" && !done {
				e.Causes[a.cause] = book(func(l *ledger) int { return l.withCause(a.cause) })
			}
		}
	}
	return e
}

// percentile is the nearest-rank percentile (the value at rank ceil(q*n), which
// is HdrHistogram's own definition). Where half of the answers take 0.1 s and
// half 2 s, one request more or less moves the median from one to the other, so
// the range takes the rank as uncertain as the counts are.
func percentile(cfg *Config, cases []*tally, i int, q float64) Figure {
	at := func(q float64) Figure {
		return figure(cases, func(t *tally) float64 {
			scenario := t.ledgers[i].percentile(q)
			return scenario.Seconds() * cfg.Scale * 1000
		})
	}
	return Figure{
		Nominal: at(q).Nominal,
		Low:     at(max(0, q-countTolerance)).Low,
		High:    at(min(1, q+countTolerance)).High,
	}
}

// baselineWorkers is how far the pool may have grown before the load: a stall of
// 200 ms in the baseline of 100 requests a second holds 20 workers at once.
const baselineWorkers = 20

// dump is the count of each where at one dump point. Only before the load is the
// number of idle workers known.
func dump(cfg *Config, cases []*tally, i int) map[string]Figure {
	where := map[string]Figure{
		WhereUpstreamConnect: count(cases, func(t *tally) int { return t.dumps[i].upstreamConnect }),
		WhereUpstreamRead:    count(cases, func(t *tally) int { return t.dumps[i].upstreamRead }),
		WherePermitWait:      count(cases, func(t *tally) int { return t.dumps[i].permitWait }),
		WhereQueued:          count(cases, func(t *tally) int { return t.dumps[i].queued }),
		WhereServing:         count(cases, func(t *tally) int { return t.dumps[i].serving }),
	}
	if cfg.DumpAt[i].At < 0 {
		var idle Figure
		if !cfg.Profile.Unbounded {
			least := max(cfg.PoolMin, 1)
			most := min(max(least, baselineWorkers), cfg.PoolMax)
			idle = Figure{Nominal: float64(least), Low: float64(least), High: float64(most)}
		}
		where[WhereIdle] = idle
	}
	return where
}

// newRand is a generator of its own for each purpose, so that drawing more for
// one does not change another.
func newRand(cfg *Config, variant, purpose int) *rand.Rand {
	return rand.New(rand.NewPCG(cfg.Seed, uint64(variant)<<16|uint64(purpose)))
}
