// Package upstream is the stub that the victim calls: an HTTP/1.1 server that
// is slow, fails, hangs, closes, resets or refuses, as told when it starts and,
// through its admin listener, while it runs. It counts what it received and
// what became of it.
//
// It answers every path and method alike, with a goroutine per connection and
// no limit of its own on connections or requests: whatever dies in a run, it is
// not for want of a stub that would take one more request. It has no timeouts but
// the one of idle connections, if it is told to have it. A request may bring its own
// delay and fault in headers.
// It refuses to be realistic: it does no work, speaks neither TLS nor HTTP/2,
// and shares nothing between requests but its seeded chance and its counters.
//
// Every request read ends as exactly one of answered, client_gone or one fault,
// so once nothing is in flight
//
//	sum(received) = answered + client_gone + sum(faults but tls_hang)
//
// A hang is counted when it begins and stays in flight until its caller leaves;
// requests that the stub's own end cuts off are counted as received only.
//
// Each request that was read whole is a run of its handler, and kept with its id,
// connection and end (adminapi.StubRequest), so that what the clients saw can be
// joined with what was done.
package upstream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"sync"
	"sync/atomic"
	"time"

	"chokepoint/internal/adminapi"
)

// Config says where a stub listens and how it begins.
type Config struct {
	// Listen is the public address and Admin the admin listener's, host:port.
	// Port 0 takes a free one. Default: 127.0.0.1:8081 and 127.0.0.1:9081.
	Listen, Admin string
	// Behaviour is what the stub does until it is told otherwise. An empty Delay
	// is none.
	Behaviour adminapi.Behaviour
	// Seed makes the draws of delays and faults repeatable: the same seed gives
	// the same sequence, in the order in which requests arrive.
	Seed uint64
	// Scale is a factor on every delay that is drawn, above 0 to 1. Default: 1.
	Scale float64
	// Name begins the ids of the connections. Default: upstream.
	Name string
	// RequestLog is a file to which each run of the handler is written, as lines of
	// adminapi.StubRequest. Default: none.
	RequestLog string
	// Logger gets the few things worth saying. Default: nobody.
	Logger *slog.Logger
}

// WithDefaults fills in what is not set.
func (c Config) WithDefaults() Config {
	if c.Listen == "" {
		c.Listen = "127.0.0.1:8081"
	}
	if c.Admin == "" {
		c.Admin = "127.0.0.1:9081"
	}
	if c.Behaviour.Delay == "" {
		c.Behaviour.Delay = "0s"
	}
	if c.Scale == 0 {
		c.Scale = 1
	}
	if c.Name == "" {
		c.Name = "upstream"
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// Validate refuses a config, defaults filled in, that cannot be had. It reads
// a delay file.
func (c Config) Validate() error {
	_, err := c.parse()
	return err
}

func (c Config) parse() (*behaviour, error) {
	// Written so that NaN is refused too.
	if !(c.Scale > 0 && c.Scale <= 1) {
		return nil, fmt.Errorf("scale %v: must be above 0, up to 1", c.Scale)
	}
	if !nameForm.MatchString(c.Name) {
		return nil, fmt.Errorf("name %q: want up to 64 letters, digits, dots, dashes and underscores", c.Name)
	}
	return parseBehaviour(c.Behaviour)
}

// nameForm is what can stand in a header's value, and be told from the number after it.
var nameForm = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// Server is a running stub.
type Server struct {
	name      string
	log       *slog.Logger
	requests  *requests
	counts    *counts
	draws     *draws
	behaviour atomic.Pointer[behaviour]
	stopping  chan struct{}
	running   sync.WaitGroup
	admin     *http.Server
	adminAddr string

	change sync.Mutex // serialises SetBehaviour and Close; guards port
	port   *port

	mu       sync.Mutex // guards what follows and the state of each conn
	conns    map[*conn]struct{}
	accepted int
	draining bool          // by Shutdown
	drained  chan struct{} // closed when the last connection of a drain has ended
	stopped  bool
}

// Start opens both listeners and serves until Close. If it fails, nothing stays
// open. ctx bounds the start only.
func Start(ctx context.Context, cfg Config) (_ *Server, err error) {
	cfg = cfg.WithDefaults()
	b, err := cfg.parse()
	if err != nil {
		return nil, err
	}
	requests, err := newRequests(cfg.Name, cfg.RequestLog)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			requests.close()
		}
	}()
	s := &Server{
		name:     cfg.Name,
		log:      cfg.Logger,
		requests: requests,
		counts:   newCounts(),
		draws:    newDraws(cfg.Seed, cfg.Scale),
		stopping: make(chan struct{}),
		drained:  make(chan struct{}),
		port:     newPort(cfg.Listen),
		conns:    map[*conn]struct{}{},
	}
	admin, err := listen(ctx, cfg.Admin)
	if err != nil {
		return nil, fmt.Errorf("admin listener: %w", err)
	}
	// Opened even if the stub is to refuse: that is how a port 0 gets its number.
	if err = s.port.open(ctx); err != nil {
		admin.Close()
		return nil, fmt.Errorf("public listener: %w", err)
	}
	s.behaviour.Store(b)
	if b.Fault == adminapi.FaultRefuse {
		s.refuse()
	} else {
		s.accept()
	}
	s.adminAddr = admin.Addr().String()
	s.admin = &http.Server{
		Handler:           s.adminHandler(),
		ReadHeaderTimeout: 10 * time.Second,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelWarn),
	}
	s.running.Go(func() {
		if err := s.admin.Serve(admin); !errors.Is(err, http.ErrServerClosed) {
			s.log.Error("the admin listener ended", "err", err)
		}
	})
	return s, nil
}

// Listening says where the stub listens, or would if it did not refuse.
func (s *Server) Listening() adminapi.Listening {
	s.change.Lock()
	defer s.change.Unlock()
	return adminapi.Listening{Program: "upstream", Public: s.port.address, Admin: s.adminAddr}
}

// Stats is what the stub has counted since it started.
func (s *Server) Stats() adminapi.StubStats {
	stats := s.counts.stats()
	stats.Now = time.Now()
	stats.Behaviour = s.Behaviour()
	stats.Name = s.name
	s.mu.Lock()
	defer s.mu.Unlock()
	stats.Open = len(s.conns)
	for c := range s.conns {
		if c.idle {
			stats.Idle++
		}
	}
	return stats
}

// Behaviour is what befalls a request that arrives now.
func (s *Server) Behaviour() adminapi.Behaviour { return s.behaviour.Load().Behaviour }

// ErrCannotReopen is wrapped by SetBehaviour's error when the stub should
// listen again but its address has been taken; it goes on refusing.
var ErrCannotReopen = errors.New("cannot listen again")

// SetBehaviour replaces the behaviour, for the requests that arrive afterwards;
// a request that waits keeps the one it arrived under. A connection fault
// closes idle connections at once and the others after their answer, so that it
// befalls every caller. If b is not valid, nothing changes.
func (s *Server) SetBehaviour(ctx context.Context, b adminapi.Behaviour) error {
	next, err := parseBehaviour(b)
	if err != nil {
		return err
	}
	s.change.Lock()
	defer s.change.Unlock()
	if s.isEnding() {
		return errors.New("the stub is stopping")
	}
	refusing := s.port.listener == nil
	reopen := refusing && next.Fault != adminapi.FaultRefuse
	if reopen {
		if err := s.port.open(ctx); err != nil {
			return fmt.Errorf("%w: %w", ErrCannotReopen, err)
		}
	}
	s.behaviour.Store(next)
	switch {
	case reopen:
		s.accept()
	case !refusing && next.Fault == adminapi.FaultRefuse:
		s.refuse()
	}
	if next.onConnections() {
		s.closeConns(func(c *conn) bool { return c.idle })
	}
	s.restartIdleTimeouts()
	s.log.Info("behaviour", "behaviour", fmt.Sprintf("%+v", next.Behaviour))
	return nil
}

// ErrCut is wrapped by Shutdown's error when it had to cut off requests in flight.
var ErrCut = errors.New("cut off at the end of the shutdown")

// Shutdown ends the stub without cutting off a request: nobody is accepted any more,
// idle connections are closed at once, and those with a request in flight after their
// answer, which says "Connection: close". When ctx ends first, the rest is cut off as
// by Close.
func (s *Server) Shutdown(ctx context.Context) error {
	s.change.Lock()
	s.mu.Lock()
	if s.stopped || s.draining {
		s.mu.Unlock()
		s.change.Unlock()
		return errors.New("the stub is stopping already")
	}
	s.draining = true
	if len(s.conns) == 0 {
		close(s.drained)
	}
	s.mu.Unlock()
	s.port.close()
	s.closeConns(func(c *conn) bool { return c.idle || c.hung })
	s.change.Unlock()

	var cut error
	select {
	case <-s.drained:
	case <-ctx.Done():
		if n := s.counts.stats().InFlight; n > 0 {
			cut = fmt.Errorf("requests in flight: %d, %w; give a longer -shutdown-timeout", n, ErrCut)
		}
	}
	return errors.Join(cut, s.Close())
}

// Close ends the stub at once: listeners and connections are closed, waiting
// requests are given up, and every goroutine of the public side has ended when
// it returns.
func (s *Server) Close() error {
	s.change.Lock()
	defer s.change.Unlock()
	s.mu.Lock()
	if s.stopped {
		s.mu.Unlock()
		return nil
	}
	s.stopped = true
	close(s.stopping)
	s.mu.Unlock()

	s.port.close()
	err := s.admin.Close()
	s.closeConns(func(*conn) bool { return true })
	s.running.Wait()
	return errors.Join(err, s.requests.close())
}

func (s *Server) isEnding() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stopped || s.draining
}

// keeps says whether a connection may wait for another request after an answer.
func (s *Server) keeps() bool {
	return !s.behaviour.Load().onConnections() && !s.isEnding()
}

// endOr is how a request ended whose connection has: EndCut if the stub closed it.
func (s *Server) endOr(end string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return adminapi.EndCut
	}
	return end
}

func (s *Server) refuse() {
	if err := s.port.refuse(); err != nil {
		s.log.Warn("closing the public listener", "err", err)
	}
}

// sleep waits for d. False: the server was stopped first.
func (s *Server) sleep(d time.Duration) bool {
	if d <= 0 {
		return true
	}
	due := time.NewTimer(d)
	defer due.Stop()
	select {
	case <-due.C:
		return true
	case <-s.stopping:
		return false
	}
}
