//go:build linux

// Package refserver is the server that load generators are measured against: one
// thread around epoll that answers every request with the same few bytes and
// keeps the moment at which it read each, in memory that was taken before the
// first came.
//
// It refuses to be a web server: a request is whatever ends in an empty line, so
// one with a body would be counted twice.
package refserver

import (
	"encoding/binary"
	"fmt"
	"io"
	"net/netip"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// answer is what every request gets.
const answer = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nok"

const (
	// backlog is the accept queue asked for; the kernel cuts it to somaxconn.
	backlog   = 1 << 16
	maxEvents = 512
	readSize  = 64 << 10
	// freezeTick is how often a frozen server accepts what waits. Connections are
	// accepted meanwhile, so that the kernel's queue does not decide who is let in.
	freezeTick = 10 * time.Millisecond
)

// Config is how the server behaves.
type Config struct {
	// Capacity is how many arrivals are kept; later ones are only counted.
	Capacity int
	// Delay is the time from the arrival of a request to its answer.
	Delay time.Duration
	// FreezeAfter is when, counted from the first request, the server stops
	// reading and answering for FreezeFor; 0 of that is never.
	FreezeAfter, FreezeFor time.Duration
}

// Report is what the server saw until its input ended.
type Report struct {
	Requests    int     `json:"requests"`
	Connections int     `json:"connections"`
	CPUSeconds  float64 `json:"cpu_seconds"`
}

// Server listens, and serves once.
type Server struct {
	c        Config
	listener int
	epoll    int
	port     uint16
	start    time.Time
	arrivals []int64 // since start, in nanoseconds
	requests int
	accepted int
	conns    []conn      // by file descriptor
	pending  []answerDue // in the order of their due times; from first on
	first    int
	frozen   bool // it has been, once
	answers  []byte
	buffer   [readSize]byte
}

// conn is what is known of an open connection.
type conn struct {
	open       bool
	generation uint32
	matched    uint8 // bytes of the empty line that ends a request
}

// answerDue is an answer that is owed.
type answerDue struct {
	at         time.Duration
	fd         int32
	generation uint32
}

// Listen opens a server on a free port of the IPv4 loopback.
func Listen(c Config) (*Server, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("socket: %w", err)
	}
	s := &Server{c: c, listener: fd, epoll: -1}
	if err := s.listen(); err != nil {
		s.Close()
		return nil, err
	}
	// Written to, so that no page of it is missing while requests arrive.
	s.arrivals = make([]int64, c.Capacity)
	for i := range s.arrivals {
		s.arrivals[i] = -1
	}
	if c.Delay > 0 {
		s.pending = make([]answerDue, 0, c.Capacity)
	}
	return s, nil
}

func (s *Server) listen() error {
	if err := unix.Bind(s.listener, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return fmt.Errorf("bind: %w", err)
	}
	if err := unix.Listen(s.listener, backlog); err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	name, err := unix.Getsockname(s.listener)
	if err != nil {
		return fmt.Errorf("getsockname: %w", err)
	}
	s.port = uint16(name.(*unix.SockaddrInet4).Port)
	if s.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return fmt.Errorf("epoll_create1: %w", err)
	}
	return s.watch(s.listener)
}

func (s *Server) watch(fd int) error {
	event := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)}
	return unix.EpollCtl(s.epoll, unix.EPOLL_CTL_ADD, fd, &event)
}

// Addr is where it listens.
func (s *Server) Addr() netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), s.port)
}

// Serve answers until stdin, a pipe or a socket, has something to read or ends.
func (s *Server) Serve(stdin *os.File) (Report, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	stop := int(stdin.Fd())
	if err := s.watch(stop); err != nil {
		return Report{}, fmt.Errorf("epoll_ctl: %w", err)
	}
	s.start = time.Now()
	events := make([]unix.EpollEvent, maxEvents)
	for {
		n, err := unix.EpollWait(s.epoll, events, s.timeout())
		if err != nil && err != unix.EINTR {
			return Report{}, fmt.Errorf("epoll_wait: %w", err)
		}
		for _, event := range events[:max(n, 0)] {
			switch int(event.Fd) {
			case stop:
				return s.report(), nil
			case s.listener:
				if err := s.accept(); err != nil {
					return Report{}, err
				}
			default:
				s.read(int(event.Fd))
			}
		}
		s.answerDue()
		if err := s.freeze(); err != nil {
			return Report{}, err
		}
	}
}

func (s *Server) report() Report {
	r := Report{Requests: s.requests, Connections: s.accepted}
	var used unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &used) == nil {
		r.CPUSeconds = time.Duration(used.Utime.Nano() + used.Stime.Nano()).Seconds()
	}
	return r
}

// timeout is how long nothing falls due, in milliseconds; -1 is for ever.
func (s *Server) timeout() int {
	until := time.Duration(-1)
	if s.first < len(s.pending) {
		until = s.pending[s.first].at
	}
	if s.c.FreezeFor > 0 && !s.frozen && s.requests > 0 {
		if at := s.freezeAt(); until < 0 || at < until {
			until = at
		}
	}
	if until < 0 {
		return -1
	}
	// Rounded up, or the last millisecond would be spent spinning.
	return int(max(0, until-time.Since(s.start)+time.Millisecond-1) / time.Millisecond)
}

func (s *Server) freezeAt() time.Duration { return time.Duration(s.arrivals[0]) + s.c.FreezeAfter }

// freeze lets FreezeFor pass, if its time has come.
func (s *Server) freeze() error {
	if s.c.FreezeFor == 0 || s.frozen || s.requests == 0 || time.Since(s.start) < s.freezeAt() {
		return nil
	}
	s.frozen = true
	for end := time.Now().Add(s.c.FreezeFor); time.Now().Before(end); time.Sleep(min(freezeTick, time.Until(end))) {
		if err := s.accept(); err != nil {
			return err
		}
	}
	return nil
}

func (s *Server) accept() error {
	for {
		fd, _, err := unix.Accept4(s.listener, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
		switch err {
		case nil:
		case unix.EAGAIN:
			return nil
		case unix.EINTR, unix.ECONNABORTED:
			continue
		default:
			return fmt.Errorf("accept: %w", err)
		}
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
		for len(s.conns) <= fd {
			s.conns = append(s.conns, conn{})
		}
		s.conns[fd] = conn{open: true, generation: s.conns[fd].generation + 1}
		s.accepted++
		if err := s.watch(fd); err != nil {
			return fmt.Errorf("epoll_ctl: %w", err)
		}
	}
}

// read takes what has come on a connection and answers it, now or later.
func (s *Server) read(fd int) {
	n, err := unix.Read(fd, s.buffer[:])
	if err == unix.EAGAIN || err == unix.EINTR {
		return // it is reported again
	}
	if err != nil || n == 0 {
		s.hangUp(fd)
		return
	}
	now := time.Since(s.start)
	ended := s.conns[fd].ends(s.buffer[:n])
	for range ended {
		if s.requests < len(s.arrivals) {
			s.arrivals[s.requests] = int64(now)
		}
		s.requests++
		if s.c.Delay > 0 {
			s.pending = append(s.pending, answerDue{now + s.c.Delay, int32(fd), s.conns[fd].generation})
		}
	}
	if s.c.Delay == 0 {
		s.write(fd, ended)
	}
}

// ends is how many requests end within p.
func (c *conn) ends(p []byte) int {
	const end = "\r\n\r\n"
	n := 0
	for _, b := range p {
		switch {
		case b == end[c.matched]:
			c.matched++
		case b == end[0]:
			c.matched = 1
		default:
			c.matched = 0
		}
		if int(c.matched) == len(end) {
			c.matched = 0
			n++
		}
	}
	return n
}

// write sends n answers. A client that does not read them loses its connection.
func (s *Server) write(fd, n int) {
	for len(s.answers) < n*len(answer) {
		s.answers = append(s.answers, answer...)
	}
	if written, err := unix.Write(fd, s.answers[:n*len(answer)]); err != nil || written < n*len(answer) {
		s.hangUp(fd)
	}
}

// answerDue sends the answers whose time has come.
func (s *Server) answerDue() {
	if s.first == len(s.pending) {
		return
	}
	for now := time.Since(s.start); s.first < len(s.pending) && s.pending[s.first].at <= now; s.first++ {
		owed := s.pending[s.first]
		if c := s.conns[owed.fd]; c.open && c.generation == owed.generation {
			s.write(int(owed.fd), 1)
		}
	}
}

func (s *Server) hangUp(fd int) {
	s.conns[fd].open = false
	unix.Close(fd)
}

// Arrivals are the moments at which the requests were read, in order, from an
// arbitrary zero; no more than Capacity.
func (s *Server) Arrivals() []time.Duration {
	all := make([]time.Duration, min(s.requests, len(s.arrivals)))
	for i := range all {
		all[i] = time.Duration(s.arrivals[i])
	}
	return all
}

// WriteArrivals writes them as little-endian int64, in nanoseconds.
func WriteArrivals(w io.Writer, arrivals []time.Duration) error {
	return binary.Write(w, binary.LittleEndian, arrivals)
}

// ReadArrivals reads what WriteArrivals wrote.
func ReadArrivals(text []byte) ([]time.Duration, error) {
	arrivals := make([]time.Duration, len(text)/8)
	if _, err := binary.Decode(text, binary.LittleEndian, arrivals); err != nil || len(text)%8 != 0 {
		return nil, fmt.Errorf("%d bytes of arrivals are not whole numbers of 8 bytes", len(text))
	}
	return arrivals, nil
}

// Close frees what Listen took, and closes every connection.
func (s *Server) Close() {
	for fd := range s.conns {
		if s.conns[fd].open {
			s.hangUp(fd)
		}
	}
	if s.epoll >= 0 {
		unix.Close(s.epoll)
	}
	unix.Close(s.listener)
}
