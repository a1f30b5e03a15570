package upstream

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"time"
)

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
	if s.stopped || s.draining {
		tcp.Close()
		return
	}
	s.conns[c] = struct{}{}
	s.accepted++
	c.id = fmt.Sprintf("%s-%d", s.name, s.accepted)
	s.counts.connected()
	s.running.Go(func() {
		c.serve()
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.conns, c)
		if s.draining && len(s.conns) == 0 {
			close(s.drained)
		}
	})
}

// setIdle marks c as waiting for a request; if it has carried an answer, from now on
// for as long as the idle timeout says. False: c was closed, or is to be closed now
// rather than wait.
func (s *Server) setIdle(c *conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.behaviour.Load()
	if c.closed || s.draining || b.onConnections() {
		return false
	}
	c.idle, c.idleSince = true, time.Now()
	c.setIdleDeadline(b)
	return true
}

// setBusy marks c as having begun to receive a request. False: c was closed.
func (s *Server) setBusy(c *conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.idle, c.answered = false, true
	c.tcp.SetReadDeadline(time.Time{})
	return !c.closed
}

// setHung marks c as one that is never spoken to. False: c was closed.
func (s *Server) setHung(c *conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.idle, c.hung = false, true
	c.tcp.SetReadDeadline(time.Time{})
	return !c.closed && !s.draining
}

// restartIdleTimeouts makes the behaviour's idle timeout hold for the connections that
// are idle now.
func (s *Server) restartIdleTimeouts() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		if c.idle {
			c.setIdleDeadline(s.behaviour.Load())
		}
	}
}

// setIdleDeadline lets the read of an idle connection end when its time is over.
func (c *conn) setIdleDeadline(b *behaviour) {
	var deadline time.Time
	if c.answered && b.idleTimeout > 0 {
		deadline = c.idleSince.Add(b.idleTimeout)
	}
	c.tcp.SetReadDeadline(deadline)
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
