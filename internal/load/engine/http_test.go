package engine

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chokepoint/internal/adminapi"
	"chokepoint/internal/load/ledger"
)

// peer is a server that speaks TCP, so that it can misbehave in every way. It
// counts what reached it.
type peer struct {
	t        *testing.T
	listener net.Listener
	// answer deals with a request that was read; false closes the connection.
	answer func(conn *net.TCPConn, head string) bool
	wg     sync.WaitGroup

	mu          sync.Mutex
	connections int
	gone        int // connections that the client ended
	heads       []string
	open        map[net.Conn]bool
}

func newPeer(t *testing.T, answer func(conn *net.TCPConn, head string) bool) *peer {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &peer{t: t, listener: listener, answer: answer, open: make(map[net.Conn]bool)}
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
		if err != nil {
			return
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
		if !p.answer(conn, head.String()) {
			return
		}
	}
}

func (p *peer) url() string { return "http://" + p.listener.Addr().String() + "/path?q=1" }

func (p *peer) counts() (connections, requests, gone int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.connections, len(p.heads), p.gone
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

func sender(t *testing.T, url, method string) (*HTTP, Client) {
	t.Helper()
	h, err := NewHTTP(plan(Endpoint{Name: "fast", URL: url, Method: method, Rate: 1}).WithDefaults())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	return h, h.NewClient(0)
}

func TestEveryAnswerHasOneOutcomeAndIsAskedForOnce(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
	transport := func(cause string) ledger.Answer {
		return ledger.Answer{Outcome: ledger.TransportError, Cause: cause}
	}
	for _, tt := range []struct {
		name    string
		answer  func(*net.TCPConn, string) bool
		want    ledger.Answer
		dials   int // for three requests
		notHead bool
	}{
		{name: "ok", answer: write(ok), want: ledger.Answer{Outcome: ledger.OK, Status: 200}, dials: 1, notHead: true},
		{name: "no content", answer: write("HTTP/1.1 204 No Content\r\n\r\n"), want: ledger.Answer{Outcome: ledger.OK, Status: 204}, dials: 1},
		{name: "chunked", answer: write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"),
			want: ledger.Answer{Outcome: ledger.OK, Status: 200}, dials: 1, notHead: true},
		{name: "connection close", answer: writeAndClose("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"),
			want: ledger.Answer{Outcome: ledger.OK, Status: 200}, dials: 3},
		{name: "until close", answer: writeAndClose("HTTP/1.1 200 OK\r\n\r\nok"), want: ledger.Answer{Outcome: ledger.OK, Status: 200}, dials: 3, notHead: true},
		{name: "bytes beyond the answer", answer: write(ok + "HTTP/1.1 500 Not asked for\r\n\r\n"),
			want: ledger.Answer{Outcome: ledger.OK, Status: 200}, dials: 3, notHead: true},
		{name: "redirect is not followed", answer: write("HTTP/1.1 302 Found\r\nLocation: /\r\nContent-Length: 0\r\n\r\n"),
			want: ledger.Answer{Outcome: ledger.OK, Status: 302}, dials: 1},
		{name: "not found", answer: write("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"),
			want: ledger.Answer{Outcome: ledger.HTTPError, Status: 404}, dials: 1},
		{name: "error body", answer: write("HTTP/1.1 503 Busy\r\nContent-Length: 25\r\n\r\n{\"error\":\"bulkhead_full\"}"),
			want: ledger.Answer{Outcome: ledger.HTTPError, Status: 503, ErrorBody: "bulkhead_full"}, dials: 1, notHead: true},
		{name: "close before", answer: writeAndClose(""), want: transport(CauseEOF), dials: 3},
		{name: "close in the header", answer: writeAndClose("HTTP/1.1 200 OK\r\nContent-"), want: transport(CauseEOF), dials: 3},
		{name: "close in the body", answer: writeAndClose("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok"), want: transport(CauseEOF), dials: 3, notHead: true},
		{name: "close in a chunk", answer: writeAndClose("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nok"),
			want: transport(CauseEOF), dials: 3, notHead: true},
		{name: "reset before", answer: writeAndReset(""), want: transport(CauseReset), dials: 3},
		{name: "reset in the header", answer: writeAndReset("HTTP/1.1 200 OK\r\n"), want: transport(CauseReset), dials: 3},
		{name: "reset in the body", answer: writeAndReset("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok"), want: transport(CauseReset), dials: 3, notHead: true},
		{name: "not HTTP", answer: write("SSH-2.0-OpenSSH_9.9\r\n\r\n"), want: transport(CauseMalformed), dials: 3},
		{name: "bad chunk size", answer: write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n\r\n"),
			want: transport(CauseMalformed), dials: 3, notHead: true},
		{name: "oversized body", answer: write(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", MaxBody+1)),
			want: transport(CauseOversized), dials: 3, notHead: true},
		{name: "oversized header", answer: write("HTTP/1.1 200 OK\r\nX-Long: " + strings.Repeat("x", headerLimit)),
			want: transport(CauseOversized), dials: 3},
	} {
		for _, method := range []string{"GET", "HEAD", "PUT", "POST"} {
			if method == "HEAD" && tt.notHead {
				continue
			}
			t.Run(tt.name+"/"+method, func(t *testing.T) {
				p := newPeer(t, tt.answer)
				h, do := sender(t, p.url(), method)
				for i := range 3 {
					if x := do(i, time.Now().Add(10*time.Second)); x.Answer != tt.want {
						t.Errorf("request %d: got %+v, want %+v", i, x.Answer, tt.want)
					}
				}
				h.Close()
				connections, requests, _ := p.counts()
				if connections != tt.dials || requests != 3 {
					t.Errorf("the server saw %d connections and %d requests, want %d and 3", connections, requests, tt.dials)
				}
				for i, head := range p.heads {
					if !strings.HasPrefix(head, method+" /path?q=1 HTTP/1.1\r\n") ||
						!strings.Contains(head, fmt.Sprintf("\r\n%s: fast-%d\r\n", adminapi.HeaderID, i)) ||
						!strings.Contains(head, "\r\n"+adminapi.HeaderPhase+": load\r\n") ||
						!strings.Contains(head, "\r\nHost: "+p.listener.Addr().String()+"\r\n") {
						t.Errorf("request %d was\n%s", i, head)
					}
				}
			})
		}
	}
}

func TestAKeepAliveConnectionThatTheServerClosed(t *testing.T) {
	// The server answers, and then ends the idle connection. The next request
	// meets the closed connection: that is on record, and is not repeated.
	p := newPeer(t, writeAndClose("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"))
	_, do := sender(t, p.url(), "GET")
	for i, want := range []ledger.Outcome{ledger.OK, ledger.TransportError, ledger.OK} {
		if x := do(i, time.Now().Add(10*time.Second)); x.Answer.Outcome != want {
			t.Errorf("request %d: %+v, want %v", i, x.Answer, want)
		}
		// The FIN is on its way before the next request is.
		time.Sleep(20 * time.Millisecond)
	}
	if connections, requests, _ := p.counts(); connections != 2 || requests != 2 {
		t.Errorf("the server saw %d connections and %d requests, want 2 and 2", connections, requests)
	}
}

func TestAConnectionThatWasIdleTooLongIsNotUsedAgain(t *testing.T) {
	p := newPeer(t, write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"))
	h, do := sender(t, p.url(), "GET")
	do(0, time.Now().Add(10*time.Second))
	h.targets[0].idle[0].lastUsed = time.Now().Add(-maxIdle - time.Second)
	if x := do(1, time.Now().Add(10*time.Second)); x.Answer.Outcome != ledger.OK {
		t.Errorf("got %+v", x.Answer)
	}
	eventually(t, "the old connection is closed", func() bool { _, _, gone := p.counts(); return gone == 1 })
	if connections, requests, _ := p.counts(); connections != 2 || requests != 2 {
		t.Errorf("the server saw %d connections and %d requests, want 2 and 2", connections, requests)
	}
}

func TestRefused(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listener.Close()
	_, do := sender(t, "http://"+listener.Addr().String(), "GET")
	want := ledger.Answer{Outcome: ledger.ConnectError, Cause: CauseRefused}
	if x := do(0, time.Now().Add(10*time.Second)); x.Answer != want {
		t.Errorf("got %+v, want %+v", x.Answer, want)
	}
}

func TestTLS(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // the failed handshake is the test
	server.StartTLS()
	defer server.Close()
	plain := newPeer(t, write("HTTP/1.1 400 Bad Request\r\n\r\n"))
	mute := newPeer(t, write(""))
	for _, tt := range []struct {
		name, url string
		timeout   time.Duration
		want      ledger.Answer
	}{
		{"unknown authority", server.URL, 10 * time.Second, ledger.Answer{Outcome: ledger.ConnectError, Cause: CauseTLS}},
		{"not TLS", strings.Replace(plain.url(), "http:", "https:", 1), time.Second, ledger.Answer{Outcome: ledger.Timeout, Cause: CauseConnect}},
		{"handshake never ends", strings.Replace(mute.url(), "http:", "https:", 1), 200 * time.Millisecond, ledger.Answer{Outcome: ledger.Timeout, Cause: CauseConnect}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, do := sender(t, tt.url, "GET")
			if x := do(0, time.Now().Add(tt.timeout)); x.Answer != tt.want {
				t.Errorf("got %+v, want %+v", x.Answer, tt.want)
			}
		})
	}
	t.Run("trusted", func(t *testing.T) {
		h, do := sender(t, server.URL, "GET")
		h.targets[0].tls.RootCAs = server.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
		for i := range 2 {
			if x := do(i, time.Now().Add(10*time.Second)); x.Answer.Outcome != ledger.OK {
				t.Errorf("request %d: %+v", i, x.Answer)
			}
		}
	})
}

func TestATimeoutClosesTheConnection(t *testing.T) {
	p := newPeer(t, write("")) // reads on, never answers
	_, do := sender(t, p.url(), "GET")
	const timeout = 100 * time.Millisecond
	due := time.Now()
	x := do(0, due.Add(timeout))
	if want := (ledger.Answer{Outcome: ledger.Timeout, Cause: CauseResponse}); x.Answer != want {
		t.Errorf("got %+v, want %+v", x.Answer, want)
	}
	if waited := x.Done.Sub(due); waited < timeout {
		t.Errorf("gave up after %v, before the timeout of %v", waited, timeout)
	}
	eventually(t, "the server sees the FIN", func() bool { _, _, gone := p.counts(); return gone == 1 })
}

func TestADeadlineThatHasPassedSendsNothing(t *testing.T) {
	p := newPeer(t, write("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"))
	_, do := sender(t, p.url(), "GET")
	want := ledger.Answer{Outcome: ledger.Timeout, Cause: CauseUnsent}
	if x := do(0, time.Now().Add(-time.Second)); x.Answer != want {
		t.Errorf("got %+v, want %+v", x.Answer, want)
	}
	if connections, _, _ := p.counts(); connections != 0 {
		t.Errorf("%d connections, want none", connections)
	}
}

func TestCausesOfErrorsThatAreHardToCause(t *testing.T) {
	soon := time.Now().Add(time.Hour)
	dial := func(err error) error { return &net.OpError{Op: "dial", Net: "tcp", Err: err} }
	for _, tt := range []struct {
		err  error
		want ledger.Answer
	}{
		{dial(os.NewSyscallError("socket", syscall.EMFILE)), ledger.Answer{Outcome: ledger.ConnectError, Cause: CauseOutOfFiles}},
		{dial(os.NewSyscallError("socket", syscall.ENFILE)), ledger.Answer{Outcome: ledger.ConnectError, Cause: CauseOutOfFiles}},
		{dial(os.NewSyscallError("connect", syscall.EADDRNOTAVAIL)), ledger.Answer{Outcome: ledger.ConnectError, Cause: CauseOutOfPorts}},
		{dial(os.NewSyscallError("connect", syscall.EHOSTUNREACH)), ledger.Answer{Outcome: ledger.ConnectError, Cause: CauseUnreachable}},
		{dial(os.NewSyscallError("connect", syscall.ETIMEDOUT)), ledger.Answer{Outcome: ledger.ConnectError, Cause: CauseUnreachable}},
		{dial(os.NewSyscallError("connect", syscall.ECONNRESET)), ledger.Answer{Outcome: ledger.ConnectError, Cause: CauseReset}},
		{dial(&net.DNSError{Err: "no such host"}), ledger.Answer{Outcome: ledger.ConnectError, Cause: CauseDNS}},
		{dial(context.DeadlineExceeded), ledger.Answer{Outcome: ledger.Timeout, Cause: CauseConnect}},
		{&handshakeError{os.ErrDeadlineExceeded}, ledger.Answer{Outcome: ledger.Timeout, Cause: CauseConnect}},
		{errors.New("?"), ledger.Answer{Outcome: ledger.ConnectError, Cause: CauseOther}},
	} {
		if got := connectFailure(tt.err, soon); got != tt.want {
			t.Errorf("%v: got %+v, want %+v", tt.err, got, tt.want)
		}
	}
	// The kernel's own timeout on an open connection is not the client's.
	if got := transportFailure(io.EOF, os.NewSyscallError("read", syscall.ETIMEDOUT)); got.Outcome != ledger.TransportError || got.Cause != CauseUnreachable {
		t.Errorf("ETIMEDOUT: got %+v", got)
	}
}

// live runs a short plan over real sockets.
func live(t *testing.T, c Config) *Report {
	t.Helper()
	c = c.WithDefaults()
	e, err := New(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	r, err := e.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestRunAgainstAServer(t *testing.T) {
	p := newPeer(t, write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"))
	c := plan(Endpoint{Name: "fast", URL: p.url(), Rate: 200}, Endpoint{Name: "upstream", URL: p.url(), Rate: 100})
	c.Duration = 500 * time.Millisecond
	c.KeepRequests = true
	r := live(t, c)
	fast, upstream := r.Load.Endpoints["fast"], r.Load.Endpoints["upstream"]
	if fast.OK != 100 || upstream.OK != 50 {
		t.Errorf("fast %+v, upstream %+v; want 100 and 50 ok", fast, upstream)
	}
	if _, requests, _ := p.counts(); requests != 150 {
		t.Errorf("the server saw %d requests, want 150", requests)
	}
	ids := map[string]int{}
	for _, head := range p.heads {
		_, rest, _ := strings.Cut(head, adminapi.HeaderID+": ")
		id, _, _ := strings.Cut(rest, "\r\n")
		ids[id]++
	}
	want := map[string]int{}
	for _, q := range r.Requests {
		want[fmt.Sprintf("%s-%d", q.Endpoint, q.Index)] = 1
		if q.Lag < 0 || q.Service <= 0 || q.Response != q.Lag+q.Service {
			t.Errorf("times of %+v", q)
		}
	}
	if diff := cmp.Diff(want, ids); diff != "" {
		t.Errorf("ids:\n%s", diff)
	}
}

func TestGracefulStopClosesWhatIsInFlight(t *testing.T) {
	p := newPeer(t, write("")) // never answers
	c := plan(Endpoint{Name: "fast", URL: p.url(), Rate: 100, Timeout: time.Hour, Workers: 50})
	c.Duration = 200 * time.Millisecond
	grace := 100 * time.Millisecond
	c.GracefulStop = &grace
	r := live(t, c)
	if e := r.Load.Endpoints["fast"]; e.Started != 20 || e.Interrupted != 20 {
		t.Errorf("started %d, interrupted %d; want 20 of both", e.Started, e.Interrupted)
	}
	eventually(t, "the server sees every connection end", func() bool { _, _, gone := p.counts(); return gone == 20 })
}

func TestInterruptEndsADial(t *testing.T) {
	mute := newPeer(t, write(""))
	h, do := sender(t, strings.Replace(mute.url(), "http:", "https:", 1), "GET")
	done := make(chan Exchange)
	go func() { done <- do(0, time.Now().Add(time.Hour)) }()
	eventually(t, "the handshake has begun", func() bool { h.mu.Lock(); defer h.mu.Unlock(); return len(h.open) == 1 })
	h.Interrupt()
	if x := <-done; x.Answer.Outcome != ledger.Interrupted {
		t.Errorf("got %+v, want interrupted", x.Answer)
	}
	if x := do(1, time.Now().Add(time.Hour)); x.Answer.Outcome != ledger.Interrupted {
		t.Errorf("after the interrupt: got %+v, want interrupted", x.Answer)
	}
}
