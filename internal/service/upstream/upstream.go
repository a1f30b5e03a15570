// Package upstream is the stub that the victim calls: an HTTP/1.1 server that
// is slow, fails, hangs, closes, resets or refuses, as told when it starts and,
// through its admin listener, while it runs. It counts what it received and
// what became of it.
//
// It answers every path and method alike, with a goroutine per connection and
// no limit of its own on connections or requests: whatever dies in a run, it is
// not for want of a stub that would take one more request. It has no timeouts.
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
package upstream

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
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
	return parseBehaviour(c.Behaviour)
}

// Server is a running stub.
type Server struct {
	log       *slog.Logger
	counts    *counts
	draws     *draws
	behaviour atomic.Pointer[behaviour]
	stopping  chan struct{}
	running   sync.WaitGroup
	admin     *http.Server
	adminAddr string

	change sync.Mutex // serialises SetBehaviour and Close; guards port
	port   *port

	mu      sync.Mutex // guards conns, stopped and the state of each conn
	conns   map[*conn]struct{}
	stopped bool
}

// Start opens both listeners and serves until Close. If it fails, nothing stays
// open. ctx bounds the start only.
func Start(ctx context.Context, cfg Config) (*Server, error) {
	cfg = cfg.WithDefaults()
	b, err := cfg.parse()
	if err != nil {
		return nil, err
	}
	s := &Server{
		log:      cfg.Logger,
		counts:   newCounts(),
		draws:    newDraws(cfg.Seed, cfg.Scale),
		stopping: make(chan struct{}),
		port:     newPort(cfg.Listen),
		conns:    map[*conn]struct{}{},
	}
	admin, err := listen(ctx, cfg.Admin)
	if err != nil {
		return nil, fmt.Errorf("admin listener: %w", err)
	}
	// Opened even if the stub is to refuse: that is how a port 0 gets its number.
	if err := s.port.open(ctx); err != nil {
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
	if s.isStopped() {
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
	s.log.Info("behaviour", "delay", next.Delay, "fault", next.Fault, "fault_rate", next.FaultRate, "body_bytes", next.BodyBytes)
	return nil
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
	return err
}

func (s *Server) isStopped() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stopped
}

func (s *Server) refuse() {
	if err := s.port.refuse(); err != nil {
		s.log.Warn("closing the public listener", "err", err)
	}
}

// accept serves the connections of the listener that is open now.
func (s *Server) accept() {
	l := s.port.listener
	s.running.Go(func() {
		const firstPause, longestPause = 5 * time.Millisecond, time.Second
		pause := firstPause
		for {
			tcp, err := l.AcceptTCP()
			switch {
			case errors.Is(err, net.ErrClosed):
				return
			case err != nil:
				// Out of files, or a connection that was gone before it was
				// accepted: neither is a reason to stop listening.
				s.log.Warn("accept; if files have run out, raise the hard limit (ulimit -Hn)", "err", err, "retry_in", pause)
				if !s.sleep(pause) {
					return
				}
				pause = min(2*pause, longestPause)
			default:
				pause = firstPause
				s.serve(tcp)
			}
		}
	})
}

// serve gives tcp a goroutine of its own.
func (s *Server) serve(tcp *net.TCPConn) {
	raw, err := tcp.SyscallConn()
	if err != nil {
		tcp.Close()
		return
	}
	c := &conn{srv: s, tcp: tcp, raw: raw, in: bufio.NewReader(tcp)}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		tcp.Close()
		return
	}
	s.conns[c] = struct{}{}
	s.counts.connected()
	s.running.Go(func() {
		c.serve()
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.conns, c)
	})
}

// setIdle marks c as between two requests, or not. False: c was closed, or is
// to be closed now rather than wait for another request.
func (s *Server) setIdle(c *conn, idle bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.idle = idle
	return !c.closed && !(idle && s.behaviour.Load().onConnections())
}

// closeConns closes the connections that which picks. Their goroutines end by
// themselves.
func (s *Server) closeConns(which func(*conn) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		if which(c) {
			c.closed = true
			c.tcp.Close()
		}
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
