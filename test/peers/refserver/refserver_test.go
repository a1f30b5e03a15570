//go:build linux

package refserver

import (
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"
)

// serving is a server that runs, and what ends it.
func serving(t *testing.T, c Config) (s *Server, stop func() Report) {
	t.Helper()
	s, err := Listen(c)
	if err != nil {
		t.Fatal(err)
	}
	stdin, end, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	type outcome struct {
		report Report
		err    error
	}
	done := make(chan outcome, 1)
	go func() {
		r, err := s.Serve(stdin)
		done <- outcome{r, err}
	}()
	return s, func() Report {
		t.Helper()
		end.Close()
		o := <-done
		stdin.Close()
		s.Close()
		if o.err != nil {
			t.Error(o.err)
		}
		return o.report
	}
}

func dial(t *testing.T, s *Server) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(10 * time.Second))
	return conn
}

const request = "GET / HTTP/1.1\r\nHost: x\r\n\r\n"

// read is n answers, or what came instead.
func read(t *testing.T, conn net.Conn, n int) {
	t.Helper()
	text := make([]byte, n*len(answer))
	if _, err := io.ReadFull(conn, text); err != nil || string(text) != strings.Repeat(answer, n) {
		t.Fatalf("%q, %v", text, err)
	}
}

func TestEveryRequestIsAnsweredAndKept(t *testing.T) {
	s, stop := serving(t, Config{Capacity: 4})
	a, b := dial(t, s), dial(t, s)
	io.WriteString(a, request)
	read(t, a, 1)
	io.WriteString(b, request+request) // pipelined
	read(t, b, 2)
	for _, piece := range []string{request[:5], request[5 : len(request)-2], request[len(request)-2:]} {
		io.WriteString(a, piece)
		time.Sleep(5 * time.Millisecond)
	}
	read(t, a, 1)
	io.WriteString(b, request)
	read(t, b, 1)
	r := stop()
	if r.Requests != 5 || r.Connections != 2 {
		t.Errorf("%+v, want 5 requests on 2 connections", r)
	}
	arrivals := s.Arrivals()
	if len(arrivals) != 4 {
		t.Fatalf("%d arrivals are kept, want the capacity of 4", len(arrivals))
	}
	for i := range arrivals {
		if arrivals[i] <= 0 || i > 0 && arrivals[i] < arrivals[i-1] {
			t.Errorf("arrivals %v", arrivals)
		}
	}
}

func TestADelayedAnswerKeepsNobodyWaiting(t *testing.T) {
	const delay = 100 * time.Millisecond
	s, stop := serving(t, Config{Capacity: 10, Delay: delay})
	a, b, gone := dial(t, s), dial(t, s), dial(t, s)
	began := time.Now()
	for _, conn := range []net.Conn{gone, a, b} {
		io.WriteString(conn, request)
	}
	gone.Close() // its answer has nobody to go to
	read(t, a, 1)
	read(t, b, 1)
	if took := time.Since(began); took < delay {
		t.Errorf("answered after %v", took)
	}
	if r := stop(); r.Requests != 3 {
		t.Errorf("%+v, want 3 requests", r)
	}
	if arrivals := s.Arrivals(); arrivals[2]-arrivals[0] >= delay {
		t.Errorf("arrivals %v wait for answers", arrivals)
	}
}

func TestAFrozenServerAcceptsAndReadsLater(t *testing.T) {
	const after, freeze = 50 * time.Millisecond, 200 * time.Millisecond
	s, stop := serving(t, Config{Capacity: 10, FreezeAfter: after, FreezeFor: freeze})
	a := dial(t, s)
	io.WriteString(a, request)
	read(t, a, 1)
	time.Sleep(after + 50*time.Millisecond)
	io.WriteString(a, request)
	b := dial(t, s)
	io.WriteString(b, request)
	read(t, a, 1)
	read(t, b, 1)
	io.WriteString(b, request)
	read(t, b, 1)
	if r := stop(); r.Requests != 4 || r.Connections != 2 {
		t.Errorf("%+v, want 4 requests on 2 connections", r)
	}
	arrivals := s.Arrivals()
	for i, at := range arrivals[1:] {
		if since := at - arrivals[0]; since < after+freeze {
			t.Errorf("request %d was read %v after the first, in the freeze", i+1, since)
		}
	}
}
