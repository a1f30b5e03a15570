package victim

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"chokepoint/internal/service/admin"
)

// metrics is the victim's Prometheus registry. What the counters and the pool
// count already is read from them when it is asked for.
type metrics struct {
	registry *prometheus.Registry
	// By endpoint: looked up once, not per request.
	queueWait, duration [endpointCount]prometheus.Observer
}

// waitBuckets reach from a hand-over to the longest client timeout, in seconds.
var waitBuckets = []float64{.0001, .0005, .001, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120}

func newMetrics(v *Victim) *metrics {
	m := &metrics{registry: admin.NewRegistry()}
	queueWait := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "victim_queue_wait_seconds", Help: "From the request read until a pool worker had it.", Buckets: waitBuckets,
	}, []string{"endpoint"})
	duration := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "victim_request_duration_seconds", Help: "From the request read until its answer was made.", Buckets: waitBuckets,
	}, []string{"endpoint"})
	for endpoint, name := range endpointNames {
		m.queueWait[endpoint], m.duration[endpoint] = queueWait.WithLabelValues(name), duration.WithLabelValues(name)
	}
	gauge := func(name, help string, read func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, read)
	}
	m.registry.MustRegister(
		queueWait, duration, requestCounts{&v.counters},
		gauge("victim_pool_workers", "Workers alive.", func() float64 { return float64(v.pool.Stats().Workers) }),
		gauge("victim_pool_workers_busy", "Workers that hold a request.", func() float64 { return float64(v.pool.Stats().Busy) }),
		gauge("victim_pool_queued", "Requests that wait for a worker.", func() float64 { return float64(v.pool.Stats().Queued) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "victim_abandoned_by_client_total",
			Help: "Requests whose client had gone when their worker reached them."},
			func() float64 { return float64(v.pool.Stats().Abandoned) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "victim_shed_total",
			Help: "Requests refused for a full queue or a long wait."},
			func() float64 { return float64(v.pool.Stats().Shed) }),
		gauge("victim_permits_held", "Permits of the bulkhead in use.", func() float64 { held, _ := v.guard.Permits(); return float64(held) }),
		gauge("victim_permits_limit", "Permits of the bulkhead; 0 without one.", func() float64 { _, limit := v.guard.Permits(); return float64(limit) }),
		gauge("victim_accept_queue", "Connections that wait to be accepted.", func() float64 { return float64(v.public.stats().AcceptQueue) }),
		gauge("victim_connections", "Connections accepted and open.", func() float64 { return float64(v.public.stats().Connections) }),
		breakerState{v},
	)
	return m
}

// breakerState is one gauge per state of the breaker, 1 for the one it is in.
type breakerState struct{ v *Victim }

var breakerDesc = prometheus.NewDesc("victim_breaker_state", "1 for the state that the circuit breaker is in.", []string{"state"}, nil)

func (breakerState) Describe(ch chan<- *prometheus.Desc) { ch <- breakerDesc }

func (b breakerState) Collect(ch chan<- prometheus.Metric) {
	now := b.v.guard.Breaker()
	for _, state := range []string{"none", "closed", "half-open", "open"} {
		value := 0.0
		if state == now {
			value = 1
		}
		ch <- prometheus.MustNewConstMetric(breakerDesc, prometheus.GaugeValue, value, state)
	}
}

// requestCounts is a counter per endpoint and status, of all phases.
type requestCounts struct{ counters *counters }

var requestsDesc = prometheus.NewDesc("victim_requests_total", "Finished requests.", []string{"endpoint", "status"}, nil)

func (requestCounts) Describe(ch chan<- *prometheus.Desc) { ch <- requestsDesc }

func (r requestCounts) Collect(ch chan<- prometheus.Metric) {
	for endpoint, phases := range r.counters.stats() {
		byStatus := map[string]int{}
		for _, s := range phases {
			for status, n := range s.Status {
				byStatus[status] += n
			}
		}
		for status, n := range byStatus {
			ch <- prometheus.MustNewConstMetric(requestsDesc, prometheus.CounterValue, float64(n), endpoint, status)
		}
	}
}

// finished counts a request whose answer has been made.
func (v *Victim) finished(r *request) {
	status := r.ctx.Response.StatusCode()
	v.counters.finished(r, status)
	v.seen.finished(r.visit, r.spent)
	v.answers.add(r, status)
	v.metrics.queueWait[r.endpoint].Observe(r.spent.queue.Seconds())
	v.metrics.duration[r.endpoint].Observe(time.Since(r.received).Seconds())
}
