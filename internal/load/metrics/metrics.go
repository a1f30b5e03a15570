// Package metrics serves a load to Prometheus while it runs.
//
// It is told of every second when it is over, and a scrape sees the state at that
// moment: no request waits for a scrape, and after the last second the figures are
// exactly those of the ledger. It refuses to be a source of results: buckets are
// coarse, and a scrape can miss the end of a run.
package metrics

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"chokepoint/internal/load/engine"
	"chokepoint/internal/load/latency"
	"chokepoint/internal/load/ledger"
)

// responseBounds reach from an answer on the same machine to the longest timeout
// that is usual, lagBounds from a punctual send over the warning (1 ms) and the
// limit (5 ms) to a standstill.
var (
	responseBounds = []time.Duration{
		250 * time.Microsecond, 500 * time.Microsecond, time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond,
		10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond,
		500 * time.Millisecond, time.Second, 2500 * time.Millisecond, 5 * time.Second, 10 * time.Second, 30 * time.Second, time.Minute,
	}
	lagBounds = []time.Duration{
		10 * time.Microsecond, 25 * time.Microsecond, 50 * time.Microsecond, 100 * time.Microsecond, 250 * time.Microsecond,
		500 * time.Microsecond, time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond, 10 * time.Millisecond,
		25 * time.Millisecond, 100 * time.Millisecond, time.Second,
	}
)

// The outcomes of started requests; a dropped arrival was not started.
var finished = []ledger.Outcome{ledger.OK, ledger.HTTPError, ledger.Timeout, ledger.ConnectError, ledger.TransportError, ledger.Interrupted}

var (
	plannedDesc   = desc("loadgen_arrivals_planned_total", "Arrivals that the plan has had so far.", "endpoint")
	scheduledDesc = desc("loadgen_arrivals_scheduled_total", "Arrivals that fell due.", "endpoint")
	droppedDesc   = desc("loadgen_arrivals_dropped_total", "Arrivals that found no free worker when they fell due. One makes the run invalid.", "endpoint")
	startedDesc   = desc("loadgen_requests_started_total", "Arrivals that a worker took.", "endpoint")
	finishedDesc  = desc("loadgen_requests_total", "Started requests by their outcome.", "endpoint", "outcome")
	inFlightDesc  = desc("loadgen_requests_in_flight", "Started requests without an outcome.", "endpoint")
	responseDesc  = desc("loadgen_response_seconds", "From the due time until the answer or its failure: result is ok or failed.", "endpoint", "result")
	serviceDesc   = desc("loadgen_service_seconds", "From the first connect or write call until the answer or its failure.", "endpoint")
	lagDesc       = desc("loadgen_lag_seconds", "From the due time until the first connect or write call: how late the generator was.", "endpoint")
	pacerDesc     = desc("loadgen_pacer_busy_ratio", "Share of the last second that the thread which paces ran; near 1 the generator is at its limit.")
	elapsedDesc   = desc("loadgen_elapsed_seconds", "Seconds since the first due time.")
	windowDesc    = desc("loadgen_window_seconds", "Length of the load window.")
)

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

// distribution is a histogram of Prometheus's as it grows.
type distribution struct {
	bounds []time.Duration
	counts []int64 // up to each bound
	all    int64
	sum    time.Duration
}

func (d *distribution) add(h *latency.Histogram) {
	for i, n := range h.CountsUpTo(d.bounds) {
		d.counts[i] += n
	}
	d.all += h.Count()
	d.sum += h.Sum()
}

func (d *distribution) metric(desc *prometheus.Desc, labels ...string) prometheus.Metric {
	buckets := make(map[float64]uint64, len(d.bounds))
	for i, bound := range d.bounds {
		buckets[bound.Seconds()] = uint64(d.counts[i])
	}
	return prometheus.MustNewConstHistogram(desc, uint64(d.all), d.sum.Seconds(), buckets, labels...)
}

func newDistribution(bounds []time.Duration) distribution {
	return distribution{bounds: bounds, counts: make([]int64, len(bounds))}
}

// endpoint is what has become of one endpoint's arrivals.
type endpoint struct {
	planned, scheduled, started, dropped, inFlight int
	outcomes                                       ledger.Outcomes
	ok, failed, service, lag                       distribution
}

// load is the state of a load at the end of a second, as a Prometheus collector.
type load struct {
	mu              sync.Mutex
	endpoints       map[string]*endpoint
	elapsed, window time.Duration
	pacer           float64 // share of the last second
}

func newLoad(endpoints []string) *load {
	l := &load{endpoints: map[string]*endpoint{}}
	for _, name := range endpoints {
		l.endpoints[name] = &endpoint{
			ok: newDistribution(responseBounds), failed: newDistribution(responseBounds),
			service: newDistribution(responseBounds), lag: newDistribution(lagBounds),
		}
	}
	return l
}

func (l *load) second(s engine.Second) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.elapsed, l.window, l.pacer = s.To, s.Window, s.Generator.PacerPercent/100
	for _, now := range s.Endpoints {
		e := l.endpoints[now.Name]
		e.planned += now.Planned
		e.scheduled += now.Scheduled
		e.started += now.Started
		e.dropped += now.Dropped
		e.inFlight = now.InFlight
		for outcome, n := range now.Outcomes {
			e.outcomes[outcome] += n
		}
		e.ok.add(now.Timings.OKResponse)
		e.failed.add(now.Timings.FailedResponse)
		e.service.add(now.Timings.Service)
		e.lag.add(now.Timings.Lag)
	}
}

// Describe implements prometheus.Collector.
func (l *load) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		plannedDesc, scheduledDesc, droppedDesc, startedDesc, finishedDesc, inFlightDesc,
		responseDesc, serviceDesc, lagDesc, pacerDesc, elapsedDesc, windowDesc,
	} {
		ch <- d
	}
}

// Collect implements prometheus.Collector: all figures are of one moment.
func (l *load) Collect(ch chan<- prometheus.Metric) {
	l.mu.Lock()
	defer l.mu.Unlock()
	number := func(d *prometheus.Desc, t prometheus.ValueType, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, t, v, labels...)
	}
	number(elapsedDesc, prometheus.GaugeValue, l.elapsed.Seconds())
	number(windowDesc, prometheus.GaugeValue, l.window.Seconds())
	number(pacerDesc, prometheus.GaugeValue, l.pacer)
	for name, e := range l.endpoints {
		number(plannedDesc, prometheus.CounterValue, float64(e.planned), name)
		number(scheduledDesc, prometheus.CounterValue, float64(e.scheduled), name)
		number(droppedDesc, prometheus.CounterValue, float64(e.dropped), name)
		number(startedDesc, prometheus.CounterValue, float64(e.started), name)
		number(inFlightDesc, prometheus.GaugeValue, float64(e.inFlight), name)
		for _, outcome := range finished {
			number(finishedDesc, prometheus.CounterValue, float64(e.outcomes[outcome]), name, outcome.String())
		}
		ch <- e.ok.metric(responseDesc, name, "ok")
		ch <- e.failed.metric(responseDesc, name, "failed")
		ch <- e.service.metric(serviceDesc, name)
		ch <- e.lag.metric(lagDesc, name)
	}
}
