package metrics

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"chokepoint/internal/load/engine"
)

// requestTime bounds what a scrape may take of the server.
const requestTime = 10 * time.Second

// Server answers GET /metrics for one load.
type Server struct {
	load     *load
	listener net.Listener
	http     http.Server
	served   chan struct{} // closed when the server has ended

	mu    sync.Mutex
	last  bool          // there will be no further second
	taken chan struct{} // closed when the last second was scraped
}

// ParseAddress is the address to listen on. Without a host it is on loopback;
// 0.0.0.0 or [::] is every interface. The error is that of a usage.
func ParseAddress(text string) (string, error) {
	host, port, err := net.SplitHostPort(text)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return "", fmt.Errorf("%q is not an address; write 127.0.0.1:9464, or :9464 for the same", text)
	}
	if host == "" {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port), nil
}

// Listen opens address, a host and a port, and serves a load with those endpoints.
// The error is one line with the remedy.
func Listen(address string, endpoints []string) (*Server, error) {
	listener, err := net.Listen("tcp", address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("%s is in use; choose another port, or 0 for any that is free", address)
	case err != nil:
		return nil, fmt.Errorf("cannot listen on %s: %w; choose an address of this machine and a free port", address, cause(err))
	}
	s := &Server{load: newLoad(endpoints), listener: listener, served: make(chan struct{}), taken: make(chan struct{})}
	registry := prometheus.NewRegistry()
	registry.MustRegister(s.load, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	handler := promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		last := s.ended()
		handler.ServeHTTP(w, r)
		if last {
			s.take()
		}
	})
	s.http = http.Server{
		Handler: mux, ReadTimeout: requestTime, WriteTimeout: requestTime,
		// A scraper that breaks off is no news of the load.
		ErrorLog: log.New(io.Discard, "", 0),
	}
	go func() {
		defer close(s.served)
		s.http.Serve(listener)
	}()
	return s, nil
}

// cause is what the system said, without the operation that it said it of.
func cause(err error) error {
	if number, ok := errors.AsType[syscall.Errno](err); ok {
		return number
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		return errors.New(dns.Err)
	}
	return err
}

// Address is where the server listens, with the port that it was given.
func (s *Server) Address() string { return s.listener.Addr().String() }

// Second takes what happened in a second, as engine.Config.EachSecond.
func (s *Server) Second(second engine.Second) { s.load.second(second) }

func (s *Server) ended() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

func (s *Server) take() {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.taken:
	default:
		close(s.taken)
	}
}

// Linger waits after the last second until it has been scraped once, for at most
// d, or until ctx ends.
func (s *Server) Linger(ctx context.Context, d time.Duration) {
	s.mu.Lock()
	s.last = true
	s.mu.Unlock()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-s.taken:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// Close ends the server. A scrape that is being answered has a second to be.
func (s *Server) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if s.http.Shutdown(ctx) != nil {
		s.http.Close()
	}
	<-s.served
}
