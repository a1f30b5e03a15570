package engine

import (
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chokepoint/internal/adminapi"
	"chokepoint/internal/load/ledger"
)

// The tests of this file hold for every engine.

// newClient makes a client of one engine, with what changes its plan, and what
// closes its connections.
type newClient func(t *testing.T, url, method string, with ...func(*Config)) (do Client, hangUp func())

func goroutineClient(t *testing.T, url, method string, with ...func(*Config)) (Client, func()) {
	h, do := sender(t, url, method, with...)
	return do, h.Close
}

// withEachEngine runs the test for each engine.
func withEachEngine(t *testing.T, test func(t *testing.T, kind Kind, client newClient)) {
	for kind, client := range clients {
		t.Run(string(kind), func(t *testing.T) { test(t, kind, client) })
	}
}

// withEachRun runs the test for each engine as a whole, Loop also on three threads;
// on makes it the engine of a Config.
func withEachRun(t *testing.T, test func(t *testing.T, kind Kind, on func(*Config))) {
	for kind := range clients {
		t.Run(string(kind), func(t *testing.T) { test(t, kind, func(c *Config) { c.Engine = kind }) })
	}
	if loopSupported {
		t.Run("three loops", func(t *testing.T) { test(t, Loop, func(c *Config) { c.Engine, c.Loops = Loop, 3 }) })
	}
}

// withEachClient runs the test for a client of each engine.
func withEachClient(t *testing.T, url string, test func(t *testing.T, do Client)) {
	withEachEngine(t, func(t *testing.T, _ Kind, client newClient) {
		do, _ := client(t, url, "GET")
		test(t, do)
	})
}

// behaviour is a way for a server to answer, and what must come of it.
type behaviour struct {
	name     string
	greeting string // sent before the request is read
	answer   func(*net.TCPConn, string) bool
	want     ledger.Answer
	dials    int  // for three requests
	notHead  bool // it has a body
}

const okAnswer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

func behaviours() []behaviour {
	status := func(status int) ledger.Answer { return ledger.Answer{Outcome: ledger.OK, Status: status} }
	transport := func(cause string) ledger.Answer {
		return ledger.Answer{Outcome: ledger.TransportError, Cause: cause}
	}
	const chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
	return []behaviour{
		{name: "ok", answer: write(okAnswer), want: status(200), dials: 1, notHead: true},
		{name: "keep-alive of HTTP/1.0", answer: write("HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok"), want: status(200), dials: 1, notHead: true},
		{name: "HTTP/1.0", answer: writeAndClose("HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n"), want: status(200), dials: 3},
		{name: "no content", answer: write("HTTP/1.1 204 No Content\r\n\r\n"), want: status(204), dials: 1},
		{name: "not modified", answer: write("HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n"), want: status(304), dials: 1},
		{name: "continue", answer: write("HTTP/1.1 100 Continue\r\n\r\n" + okAnswer), want: status(200), dials: 1, notHead: true},
		{name: "chunked", answer: write(chunked + "2\r\nok\r\n0\r\n\r\n"), want: status(200), dials: 1, notHead: true},
		{name: "trailers", answer: write(chunked + "2\r\nok\r\n0\r\nX-Sum: 1\r\nX-More: 2\r\n\r\n"), want: status(200), dials: 1, notHead: true},
		{name: "connection close", answer: writeAndClose("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"), want: status(200), dials: 3},
		{name: "connection close, but left open", answer: write("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"), want: status(200), dials: 3},
		{name: "until close", answer: writeAndClose("HTTP/1.1 200 OK\r\n\r\nok"), want: status(200), dials: 3, notHead: true},
		{name: "byte by byte", answer: writeSlowly(okAnswer), want: status(200), dials: 1, notHead: true},
		{name: "chunks byte by byte", answer: writeSlowly(chunked + "2\r\nok\r\n0\r\n\r\n"), want: status(200), dials: 1, notHead: true},
		{name: "large body", answer: write("HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n" + strings.Repeat("x", 1_000_000)), want: status(200), dials: 1, notHead: true},
		{name: "before the request", greeting: "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok", answer: write(""), want: status(200), dials: 3, notHead: true},
		{name: "bytes beyond the answer", answer: write(okAnswer + "HTTP/1.1 500 Not asked for\r\n\r\n"), want: status(200), dials: 3, notHead: true},
		{name: "redirect is not followed", answer: write("HTTP/1.1 302 Found\r\nLocation: /\r\nContent-Length: 0\r\n\r\n"), want: status(302), dials: 1},
		{name: "not found", answer: write("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"),
			want: ledger.Answer{Outcome: ledger.HTTPError, Status: 404}, dials: 1},
		{name: "error body", answer: write("HTTP/1.1 503 Busy\r\nContent-Length: 25\r\n\r\n{\"error\":\"bulkhead_full\"}"),
			want: ledger.Answer{Outcome: ledger.HTTPError, Status: 503, ErrorBody: "bulkhead_full"}, dials: 1, notHead: true},
		{name: "error body byte by byte", answer: writeSlowly("HTTP/1.1 503 Busy\r\nContent-Length: 25\r\n\r\n{\"error\":\"bulkhead_full\"}"),
			want: ledger.Answer{Outcome: ledger.HTTPError, Status: 503, ErrorBody: "bulkhead_full"}, dials: 1, notHead: true},
		{name: "close before", answer: writeAndClose(""), want: transport(CauseEOF), dials: 3},
		{name: "close in the header", answer: writeAndClose("HTTP/1.1 200 OK\r\nContent-"), want: transport(CauseEOF), dials: 3},
		{name: "close after continue", answer: writeAndClose("HTTP/1.1 100 Continue\r\n\r\n"), want: transport(CauseEOF), dials: 3},
		{name: "close in the body", answer: writeAndClose("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok"), want: transport(CauseEOF), dials: 3, notHead: true},
		{name: "close in a chunk", answer: writeAndClose(chunked + "9\r\nok"), want: transport(CauseEOF), dials: 3, notHead: true},
		{name: "close between chunks", answer: writeAndClose(chunked + "2\r\nok\r\n"), want: transport(CauseEOF), dials: 3, notHead: true},
		{name: "reset before", answer: writeAndReset(""), want: transport(CauseReset), dials: 3},
		{name: "reset in the header", answer: writeAndReset("HTTP/1.1 200 OK\r\n"), want: transport(CauseReset), dials: 3},
		{name: "reset in the body", answer: writeAndReset("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok"), want: transport(CauseReset), dials: 3, notHead: true},
		{name: "not HTTP", answer: write("SSH-2.0-OpenSSH_9.9\r\n\r\n"), want: transport(CauseMalformed), dials: 3},
		{name: "bad status", answer: write("HTTP/1.1 2x0 OK\r\n\r\n"), want: transport(CauseMalformed), dials: 3},
		{name: "bad length", answer: write("HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n"), want: transport(CauseMalformed), dials: 3},
		{name: "negative length", answer: write("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n"), want: transport(CauseMalformed), dials: 3},
		{name: "bad chunk size", answer: write(chunked + "zz\r\n\r\n"), want: transport(CauseMalformed), dials: 3, notHead: true},
		{name: "chunk longer than its size", answer: write(chunked + "2\r\nokay\r\n0\r\n\r\n"), want: transport(CauseMalformed), dials: 3, notHead: true},
		{name: "length and chunks", answer: write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"), want: transport(CauseMalformed), dials: 3},
		{name: "space before the colon", answer: write("HTTP/1.1 200 OK\r\nContent-Length : 2\r\n\r\nok"), want: transport(CauseMalformed), dials: 3},
		{name: "continued line", answer: write("HTTP/1.1 200 OK\r\nX: a\r\n b\r\nContent-Length: 2\r\n\r\nok"), want: transport(CauseMalformed), dials: 3},
		{name: "status 000", answer: write("HTTP/1.1 000 Nothing\r\nContent-Length: 2\r\n\r\nok"), want: transport(CauseMalformed), dials: 3},
		{name: "lone line feeds", answer: write("HTTP/1.1 200 OK\nContent-Length: 2\n\nok"), want: status(200), dials: 1, notHead: true},
		{name: "chunks of another coding", answer: write("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"), want: status(200), dials: 1, notHead: true},
		{name: "HTTP/0.9", answer: write("it works"), want: transport(CauseMalformed), dials: 3},
		{name: "HTTP/2", answer: write("\x00\x00\x12\x04\x00\x00\x00\x00\x00"), want: transport(CauseMalformed), dials: 3},
		{name: "empty line before the answer", answer: write("\r\n" + okAnswer), want: transport(CauseMalformed), dials: 3},
		{name: "chunk of no end", answer: write(chunked + "ffffffffffffffffff\r\n"), want: transport(CauseOversized), dials: 3, notHead: true},
		{name: "extension of no end", answer: write(chunked + "2;" + strings.Repeat("x", headerLimit)), want: transport(CauseOversized), dials: 3, notHead: true},
		{name: "interim answers without an end", answer: write(strings.Repeat("HTTP/1.1 102 Processing\r\n\r\n", 1000)), want: transport(CauseOversized), dials: 3},
		{name: "oversized body", answer: write(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", MaxBody+1)),
			want: transport(CauseOversized), dials: 3, notHead: true},
		{name: "oversized header", answer: write("HTTP/1.1 200 OK\r\nX-Long: " + strings.Repeat("x", headerLimit)),
			want: transport(CauseOversized), dials: 3},
	}
}

func TestEveryAnswerHasOneOutcomeAndIsAskedForOnce(t *testing.T) {
	withEachEngine(t, func(t *testing.T, _ Kind, client newClient) {
		for _, b := range behaviours() {
			for _, method := range []string{"GET", "HEAD", "PUT", "POST"} {
				if method == "HEAD" && b.notHead {
					continue
				}
				t.Run(b.name+"/"+method, func(t *testing.T) {
					t.Parallel()
					b.check(t, client, method)
				})
			}
		}
	})
}

func (b behaviour) check(t *testing.T, client newClient, method string) {
	p := newGreetingPeer(t, b.greeting, b.answer)
	do, hangUp := client(t, p.url(), method)
	for i := range 3 {
		if x := do(i, time.Now().Add(10*time.Second)); x.Answer != b.want {
			t.Errorf("request %d: got %+v, want %+v", i, x.Answer, b.want)
		}
	}
	hangUp()
	// An answer that came before its request may be over before that is read.
	eventually(t, "the server has read three requests", func() bool { _, requests, _ := p.counts(); return requests == 3 })
	if connections, _, _ := p.counts(); connections != b.dials {
		t.Errorf("the server saw %d connections, want %d", connections, b.dials)
	}
	slices.Sort(p.heads) // an answer may overtake the request before it
	for i, head := range p.heads {
		if !strings.HasPrefix(head, method+" /path?q=1 HTTP/1.1\r\n") ||
			!strings.Contains(head, fmt.Sprintf("\r\n%s: fast-%d\r\n", adminapi.HeaderID, i)) ||
			!strings.Contains(head, "\r\n"+adminapi.HeaderPhase+": load\r\n") ||
			!strings.Contains(head, "\r\nHost: "+p.listener.Addr().String()+"\r\n") ||
			strings.Contains(head, "\r\nContent-Length: 0\r\n") != (method == "PUT" || method == "POST") {
			t.Errorf("request %d was\n%s", i, head)
		}
	}
}

func TestAnAnswerToHeadHasNoBody(t *testing.T) {
	withEachEngine(t, func(t *testing.T, _ Kind, client newClient) {
		behaviour{
			answer: write("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"),
			want:   ledger.Answer{Outcome: ledger.OK, Status: 200}, dials: 1,
		}.check(t, client, "HEAD")
	})
}

func TestCredentialsOfTheURLAreSent(t *testing.T) {
	p := newPeer(t, write(okAnswer))
	withEachClient(t, strings.Replace(p.url(), "//", "//user:secret@", 1), func(t *testing.T, do Client) {
		do(0, time.Now().Add(10*time.Second))
	})
	if _, requests, _ := p.counts(); requests != len(clients) {
		t.Errorf("%d requests, want one of each engine", requests)
	}
	for _, head := range p.heads {
		if !strings.Contains(head, "\r\nAuthorization: Basic dXNlcjpzZWNyZXQ=\r\n") || strings.Contains(head, "@") {
			t.Errorf("the request was\n%s", head)
		}
	}
}

func TestRefused(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listener.Close()
	withEachClient(t, "http://"+listener.Addr().String(), func(t *testing.T, do Client) {
		want := ledger.Answer{Outcome: ledger.ConnectError, Cause: CauseRefused}
		if x := do(0, time.Now().Add(10*time.Second)); x.Answer != want {
			t.Errorf("got %+v, want %+v", x.Answer, want)
		}
	})
}

func TestATimeoutClosesTheConnection(t *testing.T) {
	for _, text := range []string{"", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok"} {
		withEachEngine(t, func(t *testing.T, _ Kind, client newClient) {
			p := newPeer(t, write(text)) // reads on, never answers in full
			do, _ := client(t, p.url(), "GET")
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
		})
	}
}

func TestADeadlineThatHasPassedSendsNothing(t *testing.T) {
	p := newPeer(t, write(okAnswer))
	withEachClient(t, p.url(), func(t *testing.T, do Client) {
		want := ledger.Answer{Outcome: ledger.Timeout, Cause: CauseUnsent}
		if x := do(0, time.Now().Add(-time.Second)); x.Answer != want {
			t.Errorf("got %+v, want %+v", x.Answer, want)
		}
	})
	if connections, _, _ := p.counts(); connections != 0 {
		t.Errorf("%d connections, want none", connections)
	}
}

// live runs a short plan over real sockets.
func live(t *testing.T, c Config) *Report {
	t.Helper()
	c = c.WithDefaults()
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	e, err := New(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	r, err := e.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	balanced(t, r)
	return r
}

func TestRunAgainstAServer(t *testing.T) {
	withEachRun(t, func(t *testing.T, kind Kind, on func(*Config)) {
		p := newPeer(t, write(okAnswer))
		c := plan(Endpoint{Name: "fast", URL: p.url(), Rate: 200}, Endpoint{Name: "upstream", URL: p.url(), Rate: 100})
		c.Duration = 500 * time.Millisecond
		c.KeepRequests = true
		on(&c)
		r := live(t, c)
		fast, upstream := r.Load.Endpoints["fast"], r.Load.Endpoints["upstream"]
		if fast.OK != 100 || upstream.OK != 50 || r.Load.Engine != string(kind) {
			t.Errorf("fast %+v, upstream %+v; want 100 and 50 ok of engine %s", fast, upstream, kind)
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
	})
}

func TestAQuantumSendsOnItsGrid(t *testing.T) {
	withEachRun(t, func(t *testing.T, _ Kind, on func(*Config)) {
		p := newPeer(t, write(okAnswer))
		c := plan(Endpoint{Name: "fast", URL: p.url(), Rate: 1000})
		c.Duration, c.Quantum, c.MaxLag = 200*time.Millisecond, 50*time.Millisecond, time.Second
		c.KeepRequests = true
		on(&c)
		r := live(t, c)
		if ok := r.Load.Endpoints["fast"].OK; ok != 200 {
			t.Errorf("%d ok, want 200", ok)
		}
		for _, q := range r.Requests {
			if sent := q.Due + q.Lag; sent < c.sendAt(q.Due) {
				t.Errorf("due at %v and sent at %v, before the grid's %v", q.Due, sent, c.sendAt(q.Due))
			}
		}
	})
}

func TestDropsOfARealRun(t *testing.T) {
	withEachRun(t, func(t *testing.T, _ Kind, on func(*Config)) {
		p := newPeer(t, write("")) // never answers
		c := plan(Endpoint{Name: "fast", URL: p.url(), Rate: 100, Timeout: time.Hour, Workers: 3})
		c.Duration = 200 * time.Millisecond
		c.KeepRequests = true
		on(&c)
		var grace time.Duration
		c.GracefulStop = &grace
		r := live(t, c)
		e := r.Load.Endpoints["fast"]
		if e.Scheduled != 20 || e.Started != 3 || e.Dropped != 17 || e.Interrupted != 3 {
			t.Errorf("got %+v, want 3 started and interrupted, and 17 dropped", e)
		}
		for i, q := range r.Requests {
			want := ledger.Interrupted
			if i >= 3 {
				want = ledger.Dropped
			}
			if q.Index != i || q.Due != time.Duration(i)*10*time.Millisecond || q.Answer.Outcome != want {
				t.Errorf("arrival %d: %+v, want %v", i, q, want)
			}
		}
	})
}

func TestGracefulStopClosesWhatIsInFlight(t *testing.T) {
	withEachRun(t, func(t *testing.T, _ Kind, on func(*Config)) {
		p := newPeer(t, write("")) // never answers
		c := plan(Endpoint{Name: "fast", URL: p.url(), Rate: 100, Timeout: time.Hour, Workers: 50})
		c.Duration = 200 * time.Millisecond
		on(&c)
		grace := 100 * time.Millisecond
		c.GracefulStop = &grace
		r := live(t, c)
		if e := r.Load.Endpoints["fast"]; e.Started != 20 || e.Interrupted != 20 {
			t.Errorf("started %d, interrupted %d; want 20 of both", e.Started, e.Interrupted)
		}
		eventually(t, "the server sees every connection end", func() bool { _, _, gone := p.counts(); return gone == 20 })
	})
}

func TestTimeoutsOfARealRun(t *testing.T) {
	withEachRun(t, func(t *testing.T, _ Kind, on func(*Config)) {
		p := newPeer(t, write("")) // never answers
		c := plan(Endpoint{Name: "fast", URL: p.url(), Rate: 100, Timeout: 100 * time.Millisecond},
			Endpoint{Name: "upstream", URL: p.url(), Rate: 50, Timeout: 200 * time.Millisecond})
		c.Duration = 200 * time.Millisecond
		c.KeepRequests = true
		on(&c)
		r := live(t, c)
		fast, upstream := r.Load.Endpoints["fast"], r.Load.Endpoints["upstream"]
		if fast.Timeout != 20 || upstream.Timeout != 10 || fast.Response.Min < 100 || upstream.Response.Min < 200 {
			t.Errorf("fast %+v, upstream %+v; want 20 and 10 timeouts, none early", fast, upstream)
		}
		// On a crowded machine some could not be sent before their timeout.
		sent := 30 - fast.Causes[CauseUnsent] - upstream.Causes[CauseUnsent]
		eventually(t, "the server sees every connection end", func() bool { _, _, gone := p.counts(); return gone == sent })
	})
}

func TestCancelOfARealRun(t *testing.T) {
	withEachRun(t, func(t *testing.T, _ Kind, on func(*Config)) {
		arrived := make(chan struct{}, 1000)
		p := newPeer(t, func(*net.TCPConn, string) bool { arrived <- struct{}{}; return true })
		c := plan(Endpoint{Name: "fast", URL: p.url(), Rate: 100, Timeout: time.Hour, Workers: 50})
		on(&c)
		var grace time.Duration
		c.GracefulStop = &grace
		r := stoppedAfter(t, c, arrived)
		e := r.Load.Endpoints["fast"]
		if !r.StoppedEarly || r.Load.Validity.Valid || e.Scheduled < 1 || e.Scheduled >= 3000 || e.Interrupted != e.Started {
			t.Errorf("stopped early: %v, %+v, validity %+v", r.StoppedEarly, e, r.Load.Validity)
		}
		eventually(t, "the server sees every connection end", func() bool { connections, _, gone := p.counts(); return gone == connections })
	})
}

// stoppedAfter runs c and ends its context once something has arrived.
func stoppedAfter(t *testing.T, c Config, arrived <-chan struct{}) *Report {
	t.Helper()
	e, err := New(t.Context(), c.WithDefaults())
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-arrived
		cancel()
	}()
	r, err := e.Run(ctx)
	if err != nil {
		t.Fatal(err)
	}
	balanced(t, r)
	return r
}

func TestAnAnswerWithoutAnEndEndsAtItsDeadline(t *testing.T) {
	// One byte of body in 8 KB of chunk: within every bound for a hundred gigabytes. A
	// server without a CPU of its own is at times too slow to keep a loop busy.
	chunk := []byte("1;" + strings.Repeat("x", headerLimit-8) + "\r\nx\r\n")
	flood := slices.Repeat(chunk, 100)
	withEachEngine(t, func(t *testing.T, _ Kind, client newClient) {
		p := newPeer(t, func(conn *net.TCPConn, _ string) bool {
			_, err := io.WriteString(conn, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
			for range 100_000 {
				if err != nil {
					break
				}
				_, err = conn.Write(flood)
			}
			return false
		})
		do, _ := client(t, p.url(), "GET")
		due := time.Now()
		x := do(0, due.Add(200*time.Millisecond))
		if want := (ledger.Answer{Outcome: ledger.Timeout, Cause: CauseResponse}); x.Answer != want {
			t.Errorf("got %+v, want %+v", x.Answer, want)
		}
		if waited := x.Done.Sub(due); waited > 2*time.Second {
			t.Errorf("gave up after %v", waited)
		}
	})
}
