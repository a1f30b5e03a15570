package engine

import (
	"bufio"
	"errors"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// peer is a server that speaks TCP, so that it can misbehave in every way. It
// counts what reached it.
type peer struct {
	t        *testing.T
	listener net.Listener
	// greeting is sent before a request is read.
	greeting string
	// early deals with a request whose body has not been read; nil reads it. False
	// closes the connection.
	early func(conn *net.TCPConn, head string) bool
	// answer deals with a request that was read; false closes the connection.
	answer func(conn *net.TCPConn, head string) bool
	wg     sync.WaitGroup

	mu          sync.Mutex
	connections int
	gone        int // connections that the client ended
	heads       []string
	bodies      []string
	open        map[net.Conn]bool
}

func newPeer(t *testing.T, answer func(conn *net.TCPConn, head string) bool) *peer {
	t.Helper()
	return newGreetingPeer(t, "", answer)
}

func newGreetingPeer(t *testing.T, greeting string, answer func(conn *net.TCPConn, head string) bool) *peer {
	t.Helper()
	return startPeer(t, &peer{greeting: greeting, answer: answer})
}

func newEarlyPeer(t *testing.T, early, answer func(conn *net.TCPConn, head string) bool) *peer {
	t.Helper()
	return startPeer(t, &peer{early: early, answer: answer})
}

func startPeer(t *testing.T, p *peer) *peer {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p.t, p.listener, p.open = t, listener, make(map[net.Conn]bool)
	p.wg.Go(p.accept)
	t.Cleanup(func() {
		p.listener.Close()
		p.mu.Lock()
		for conn := range p.open {
			conn.Close()
		}
		p.mu.Unlock()
		p.wg.Wait()
	})
	return p
}

func (p *peer) accept() {
	for {
		conn, err := p.listener.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil: // a test has taken the files away
			time.Sleep(time.Millisecond)
			continue
		}
		p.mu.Lock()
		p.connections++
		p.open[conn] = true
		p.mu.Unlock()
		p.wg.Go(func() { p.serve(conn.(*net.TCPConn)) })
	}
}

func (p *peer) serve(conn *net.TCPConn) {
	defer conn.Close()
	if _, err := io.WriteString(conn, p.greeting); err != nil {
		return
	}
	r := bufio.NewReader(conn)
	for {
		var head strings.Builder
		for !strings.HasSuffix(head.String(), "\r\n\r\n") {
			line, err := r.ReadString('\n')
			if err != nil {
				p.mu.Lock()
				p.gone++
				p.mu.Unlock()
				return
			}
			head.WriteString(line)
		}
		p.mu.Lock()
		p.heads = append(p.heads, head.String())
		p.mu.Unlock()
		if p.early != nil && !p.early(conn, head.String()) {
			return
		}
		body := make([]byte, contentLength(head.String()))
		if _, err := io.ReadFull(r, body); err != nil {
			return
		}
		p.mu.Lock()
		p.bodies = append(p.bodies, string(body))
		p.mu.Unlock()
		if !p.answer(conn, head.String()) {
			return
		}
	}
}

// contentLength is that of a request's header; 0 if it gives none.
func contentLength(head string) int {
	_, rest, _ := strings.Cut(head, "\r\nContent-Length: ")
	digits, _, _ := strings.Cut(rest, "\r\n")
	n, _ := strconv.Atoi(digits)
	return n
}

func (p *peer) url() string { return "http://" + p.listener.Addr().String() + "/path?q=1" }

func (p *peer) counts() (connections, requests, gone int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.connections, len(p.heads), p.gone
}

// requests are the headers and bodies read so far.
func (p *peer) requests() (heads, bodies []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.heads), slices.Clone(p.bodies)
}

// eventually waits for what another goroutine is about to do.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never happened: %s", what)
		}
	}
}

func write(text string) func(*net.TCPConn, string) bool {
	return func(conn *net.TCPConn, _ string) bool {
		_, err := io.WriteString(conn, text)
		return err == nil
	}
}

func writeAndClose(text string) func(*net.TCPConn, string) bool {
	return func(conn *net.TCPConn, _ string) bool {
		io.WriteString(conn, text)
		return false
	}
}

func writeAndReset(text string) func(*net.TCPConn, string) bool {
	return func(conn *net.TCPConn, _ string) bool {
		io.WriteString(conn, text)
		// Let the client read the text: an RST throws away what it has not.
		time.Sleep(20 * time.Millisecond)
		conn.SetLinger(0)
		return false
	}
}

// writeSlowly sends every byte on its own.
func writeSlowly(text string) func(*net.TCPConn, string) bool {
	return func(conn *net.TCPConn, _ string) bool {
		for i := range text {
			if _, err := io.WriteString(conn, text[i:i+1]); err != nil {
				return false
			}
			time.Sleep(100 * time.Microsecond)
		}
		return true
	}
}
