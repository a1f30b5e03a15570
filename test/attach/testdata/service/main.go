// Command service is a small net/http service with the fault that the lab is about:
// one bounded pool of workers for everything, and a call without a timeout in one
// place. It is nobody's victim: it has what any Go service may have, pprof and
// Prometheus metrics on a listener of their own.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	_ "net/http/pprof" // on http.DefaultServeMux, which is the admin listener's
	"os/signal"
	"syscall"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/semaphore"
)

// shop is the service: every request needs one of its workers.
type shop struct {
	workers    *semaphore.Weighted
	busy, wait prometheus.Gauge
	upstream   string
	permits    chan struct{} // calls of the upstream at a time; nil is no limit
}

// withWorker runs a handler when a worker is free. That is the line where everything
// waits for everything else.
func (s *shop) withWorker(handle http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.wait.Inc()
		err := s.workers.Acquire(r.Context(), 1)
		s.wait.Dec()
		if err != nil {
			return // the client has gone
		}
		s.busy.Inc()
		defer func() {
			s.busy.Dec()
			s.workers.Release(1)
		}()
		handle(w, r)
	}
}

func (s *shop) fast(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") }

// recommendations call the upstream and wait for it as long as it likes. The call
// does not end when the client goes away, as in most services.
func (s *shop) recommendations(w http.ResponseWriter, _ *http.Request) {
	if s.permits != nil {
		select {
		case s.permits <- struct{}{}:
			defer func() { <-s.permits }()
		default:
			http.Error(w, "too many calls of the upstream", http.StatusServiceUnavailable)
			return
		}
	}
	response, err := http.Get(s.upstream)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer response.Body.Close()
	io.Copy(w, response.Body)
}

func main() {
	listen := flag.String("listen", "127.0.0.1:8080", "public address")
	admin := flag.String("admin", "127.0.0.1:6060", "address of pprof and metrics")
	upstream := flag.String("upstream", "http://127.0.0.1:9090/", "URL that /recommendations calls")
	workers := flag.Int64("workers", 200, "requests at a time")
	permits := flag.Int("permits", 0, "calls of the upstream at a time; 0 is no limit, the fault")
	flag.Parse()

	gauge := func(name string) prometheus.Gauge {
		g := prometheus.NewGauge(prometheus.GaugeOpts{Name: name})
		prometheus.MustRegister(g)
		return g
	}
	s := &shop{workers: semaphore.NewWeighted(*workers), upstream: *upstream, busy: gauge("shop_workers_busy"), wait: gauge("shop_requests_waiting")}
	gauge("shop_workers_limit").Set(float64(*workers))
	if *permits > 0 {
		s.permits = make(chan struct{}, *permits)
	}
	public := http.NewServeMux()
	public.HandleFunc("/fast", s.withWorker(s.fast))
	public.HandleFunc("/recommendations", s.withWorker(s.recommendations))
	http.Handle("/metrics", promhttp.Handler())

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	publicListener, adminListener := open(*listen), open(*admin)
	fmt.Println(publicListener.Addr(), adminListener.Addr())
	go http.Serve(adminListener, nil)
	go http.Serve(publicListener, public)
	<-ctx.Done()
}

func open(address string) net.Listener {
	l, err := net.Listen("tcp", address)
	if err != nil {
		log.Fatal(err)
	}
	return l
}
