package upstream

import (
	"sync"

	"chokepoint/internal/adminapi"

	"github.com/prometheus/client_golang/prometheus"
)

// outcome is how a request ended: outcomeAnswered, outcomeClientGone or the
// name of the fault that befell it.
type outcome string

const (
	outcomeAnswered   outcome = "answered"
	outcomeClientGone outcome = "client_gone"
)

// counts is everything that a server counts, in one place: /stats and /metrics
// are two views of it and cannot disagree.
type counts struct {
	mu          sync.Mutex
	connections int
	tlsHung     int
	received    map[string]int
	ended       map[ending]int
	inFlight    int
	maxInFlight int
	seen        prometheus.Histogram
}

type ending struct {
	phase   string
	outcome outcome
}

func newCounts() *counts {
	return &counts{
		received: map[string]int{},
		ended:    map[ending]int{},
		seen: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "chokepoint_upstream_delay_seconds",
			Help: "Time from the request read until its answer was due, as measured.",
			// 1 ms to 131 s.
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 18),
		}),
	}
}

func (c *counts) connected() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.connections++
}

func (c *counts) handshakeHung() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tlsHung++
}

// arrived counts a request that was read, and holds it in flight until left.
func (c *counts) arrived(phase string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.received[phase]++
	c.inFlight++
	c.maxInFlight = max(c.maxInFlight, c.inFlight)
}

// befell counts a fault that has begun while its request stays in flight.
func (c *counts) befell(phase string, f adminapi.Fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended[ending{phase, outcome(f)}]++
}

// left ends a request whose outcome is counted already, or never will be.
func (c *counts) left() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.inFlight--
}

// finished counts a request's outcome and ends it.
func (c *counts) finished(phase string, o outcome) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended[ending{phase, o}]++
	c.inFlight--
}

// stats fills in all of adminapi.StubStats but the clock and the behaviour.
func (c *counts) stats() adminapi.StubStats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := adminapi.StubStats{
		Connections: c.connections,
		Received:    map[string]int{},
		Faults:      map[string]int{},
		InFlight:    c.inFlight,
		MaxInFlight: c.maxInFlight,
	}
	for phase, n := range c.received {
		s.Received[phase] = n
	}
	for e, n := range c.ended {
		switch e.outcome {
		case outcomeAnswered:
			s.Answered += n
		case outcomeClientGone:
			s.ClientGone += n
		default:
			s.Faults[string(e.outcome)] += n
		}
	}
	if c.tlsHung > 0 {
		s.Faults[string(adminapi.FaultTLSHang)] = c.tlsHung
	}
	return s
}

var (
	connectionsDesc = prometheus.NewDesc("chokepoint_upstream_connections_total", "Connections accepted.", nil, nil)
	tlsHungDesc     = prometheus.NewDesc("chokepoint_upstream_tls_hung_total", "Connections accepted and never spoken to.", nil, nil)
	receivedDesc    = prometheus.NewDesc("chokepoint_upstream_received_total", "Requests read, by phase.", []string{"phase"}, nil)
	requestsDesc    = prometheus.NewDesc("chokepoint_upstream_requests_total", "Requests ended, by phase and outcome.", []string{"phase", "outcome"}, nil)
	inFlightDesc    = prometheus.NewDesc("chokepoint_upstream_in_flight", "Requests read and not yet ended.", nil, nil)
	maxInFlightDesc = prometheus.NewDesc("chokepoint_upstream_max_in_flight", "The most requests in flight at once since the start.", nil, nil)
)

// Describe implements prometheus.Collector.
func (c *counts) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{connectionsDesc, tlsHungDesc, receivedDesc, requestsDesc, inFlightDesc, maxInFlightDesc} {
		ch <- d
	}
	c.seen.Describe(ch)
}

// Collect implements prometheus.Collector.
func (c *counts) Collect(ch chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	counter := func(d *prometheus.Desc, n int, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
	}
	gauge := func(d *prometheus.Desc, n int) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(n))
	}
	counter(connectionsDesc, c.connections)
	counter(tlsHungDesc, c.tlsHung)
	for phase, n := range c.received {
		counter(receivedDesc, n, phase)
	}
	for e, n := range c.ended {
		counter(requestsDesc, n, e.phase, string(e.outcome))
	}
	gauge(inFlightDesc, c.inFlight)
	gauge(maxInFlightDesc, c.maxInFlight)
	c.seen.Collect(ch)
}
