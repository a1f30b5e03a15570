package engine

import (
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

func TestRequestsAreSentAsTheyAreWritten(t *testing.T) {
	const identity = "X-Chokepoint-Phase: load\r\n"
	for _, tt := range []struct {
		name     string
		endpoint Endpoint
		want     string // of the request, with HOST for the host, up to its id
	}{
		{"by default", Endpoint{},
			"GET /path?q=1 HTTP/1.1\r\nHost: HOST\r\nUser-Agent: chokepoint-loadgen\r\n" + identity},
		{"header in its order", Endpoint{Header: []Field{{"x-b", "2"}, {"Accept", "text/html"}, {"X-A", "1"}, {"x-b", " 3 "}, {"Empty", ""}}},
			"GET /path?q=1 HTTP/1.1\r\nHost: HOST\r\nUser-Agent: chokepoint-loadgen\r\nx-b: 2\r\nAccept: text/html\r\nX-A: 1\r\nx-b:  3 \r\nEmpty: \r\n" + identity},
		{"defaults replaced", Endpoint{Header: []Field{{"user-agent", "me"}, {"HOST", "example.com"}}},
			"GET /path?q=1 HTTP/1.1\r\nuser-agent: me\r\nHOST: example.com\r\n" + identity},
		{"content type without a body", Endpoint{Header: []Field{{"Content-Type", "a/b"}}},
			"GET /path?q=1 HTTP/1.1\r\nHost: HOST\r\nUser-Agent: chokepoint-loadgen\r\nContent-Type: a/b\r\n" + identity},
		{"POST", Endpoint{Method: "POST"},
			"POST /path?q=1 HTTP/1.1\r\nHost: HOST\r\nUser-Agent: chokepoint-loadgen\r\nContent-Length: 0\r\n" + identity},
		{"body of a GET", Endpoint{Body: []byte("{}"), Header: []Field{{"Content-Type", "application/json"}}},
			"GET /path?q=1 HTTP/1.1\r\nHost: HOST\r\nUser-Agent: chokepoint-loadgen\r\nContent-Type: application/json\r\nContent-Length: 2\r\n" + identity},
		{"unknown method", Endpoint{Method: "PURGE", Body: []byte("all")},
			"PURGE /path?q=1 HTTP/1.1\r\nHost: HOST\r\nUser-Agent: chokepoint-loadgen\r\nContent-Length: 3\r\n" + identity},
	} {
		withEachEngine(t, func(t *testing.T, _ Kind, client newClient) {
			t.Run(tt.name, func(t *testing.T) {
				p := newPeer(t, write(okAnswer))
				do, _ := client(t, p.url(), tt.endpoint.Method, func(c *Config) {
					c.Endpoints[0].Header, c.Endpoints[0].Body = tt.endpoint.Header, tt.endpoint.Body
				})
				if x := do(7, time.Now().Add(10*time.Second)); x.Answer.Outcome != ledger.OK {
					t.Fatalf("got %+v", x.Answer)
				}
				heads, bodies := p.requests()
				want := strings.Replace(tt.want, "HOST", p.listener.Addr().String(), 1)
				if tt.name == "defaults replaced" {
					want = tt.want
				}
				if diff := cmp.Diff([]string{want + "X-Chokepoint-Id: fast-7\r\n\r\n"}, heads); diff != "" {
					t.Error(diff)
				}
				if diff := cmp.Diff([]string{string(tt.endpoint.Body)}, bodies); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

func TestAHeaderReplacesTheCredentialsOfTheURL(t *testing.T) {
	withEachEngine(t, func(t *testing.T, _ Kind, client newClient) {
		p := newPeer(t, write(okAnswer))
		do, _ := client(t, strings.Replace(p.url(), "//", "//user:secret@", 1), "GET", func(c *Config) {
			c.Endpoints[0].Header = []Field{{"Authorization", "Bearer token"}}
		})
		do(0, time.Now().Add(10*time.Second))
		heads, _ := p.requests()
		if head := strings.Join(heads, ""); strings.Count(head, "Authorization") != 1 || !strings.Contains(head, "\r\nAuthorization: Bearer token\r\n") {
			t.Errorf("the request was\n%s", head)
		}
	})
}

// patterned is a body in which a piece that is lost, doubled or moved shows.
func patterned(size int) []byte {
	var b []byte
	for i := 0; len(b) < size; i++ {
		b = fmt.Appendf(b, "%d,", i)
	}
	return b[:size]
}

func TestBodies(t *testing.T) {
	readSlowly := func(conn *net.TCPConn, _ string) bool {
		// A small window and a pause: what is written does not fit.
		conn.SetReadBuffer(256 << 10)
		time.Sleep(20 * time.Millisecond)
		return true
	}
	goOn := func(conn *net.TCPConn, head string) bool {
		// The client does not wait for it, and it is not the answer.
		if !strings.Contains(head, "\r\nExpect: 100-continue\r\n") {
			return false
		}
		_, err := io.WriteString(conn, "HTTP/1.1 100 Continue\r\n\r\n")
		return err == nil
	}
	expect := []Field{{"Expect", "100-continue"}}
	for _, tt := range []struct {
		name   string
		method string
		size   int
		header []Field
		early  func(*net.TCPConn, string) bool
	}{
		{"one byte", "POST", 1, nil, nil},
		{"HEAD", "HEAD", 100, nil, nil},
		{"all in one write", "POST", maxJoined - 300, nil, nil},
		{"just beyond one write", "PUT", maxJoined, nil, nil},
		{"one MB", "POST", 1_000_000, nil, nil},
		{"one MB of a GET", "GET", 1_000_000, nil, nil},
		{"one MB of a HEAD", "HEAD", 1_000_000, nil, nil},
		{"read slowly", "POST", 12_000_000, nil, readSlowly},
		{"expected", "POST", 10, expect, goOn},
		{"one MB expected", "POST", 1_000_000, expect, goOn},
	} {
		body := patterned(tt.size)
		withEachEngine(t, func(t *testing.T, _ Kind, client newClient) {
			t.Run(tt.name, func(t *testing.T) {
				p := newEarlyPeer(t, tt.early, write("HTTP/1.1 204 No Content\r\n\r\n"))
				do, _ := client(t, p.url(), tt.method, func(c *Config) {
					c.Endpoints[0].Body, c.Endpoints[0].Header = body, tt.header
				})
				for i := range 3 {
					want := ledger.Answer{Outcome: ledger.OK, Status: 204}
					if x := do(i, time.Now().Add(10*time.Second)); x.Answer != want {
						t.Errorf("request %d: %+v, want %+v", i, x.Answer, want)
					}
				}
				_, bodies := p.requests()
				if len(bodies) != 3 {
					t.Fatalf("the server read %d bodies, want 3", len(bodies))
				}
				for i, got := range bodies {
					if got != string(body) {
						t.Errorf("body %d has %d bytes and is not that of %d bytes which was sent", i, len(got), tt.size)
					}
				}
				if connections, _, _ := p.counts(); connections != 1 {
					t.Errorf("%d connections, want 1", connections)
				}
			})
		})
	}
}

func TestAnswersBeforeTheRequestIsWritten(t *testing.T) {
	body := patterned(16_000_000) // more than the kernel takes
	const refusal = "HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n"
	readOn := func(conn *net.TCPConn) { io.CopyN(io.Discard, conn, 100_000) }
	status := ledger.Answer{Outcome: ledger.HTTPError, Status: 413}
	reset := ledger.Answer{Outcome: ledger.TransportError, Cause: CauseReset}
	for _, tt := range []struct {
		name  string
		early func(*net.TCPConn, string) bool
		want  ledger.Answer
	}{
		{"answers and closes", writeAndClose(refusal), status},
		{"reads some, answers and closes", func(conn *net.TCPConn, _ string) bool {
			readOn(conn)
			io.WriteString(conn, refusal)
			return false
		}, status},
		// It could have been cut off.
		{"answers until close", writeAndClose("HTTP/1.1 413 Too Large\r\n\r\nno"), reset},
		{"answers and reads on", write(refusal), status},
		{"answers and reads no more", func(conn *net.TCPConn, _ string) bool {
			io.WriteString(conn, refusal)
			var b [1]byte
			for err := error(nil); err == nil; time.Sleep(10 * time.Millisecond) {
				// One byte now and then keeps the window shut and shows the end.
				_, err = conn.Read(b[:])
			}
			return false
		}, status},
		{"answers what is no HTTP", write("SSH-2.0-OpenSSH_9.9\r\n\r\n"), ledger.Answer{Outcome: ledger.TransportError, Cause: CauseMalformed}},
		{"resets", func(conn *net.TCPConn, _ string) bool {
			readOn(conn)
			conn.SetLinger(0)
			return false
		}, reset},
		{"answers in part and resets", func(conn *net.TCPConn, _ string) bool {
			io.WriteString(conn, "HTTP/1.1 413 Too")
			time.Sleep(20 * time.Millisecond)
			conn.SetLinger(0)
			return false
		}, reset},
	} {
		withEachEngine(t, func(t *testing.T, _ Kind, client newClient) {
			t.Run(tt.name, func(t *testing.T) {
				p := newEarlyPeer(t, func(conn *net.TCPConn, head string) bool {
					conn.SetReadBuffer(8 << 10)
					return tt.early(conn, head)
				}, write(""))
				do, _ := client(t, p.url(), "POST", func(c *Config) { c.Endpoints[0].Body = body })
				for i := range 3 {
					if x := do(i, time.Now().Add(10*time.Second)); x.Answer != tt.want {
						t.Errorf("request %d: %+v, want %+v", i, x.Answer, tt.want)
					}
				}
				if connections, requests, _ := p.counts(); connections != 3 || requests != 3 {
					t.Errorf("%d connections and %d requests, want 3 of both: half a request must not be followed by another", connections, requests)
				}
			})
		})
	}
}

func TestARequestThatNobodyReadsRunsIntoItsTimeout(t *testing.T) {
	withEachEngine(t, func(t *testing.T, _ Kind, client newClient) {
		release := make(chan struct{})
		p := newEarlyPeer(t, func(conn *net.TCPConn, _ string) bool {
			conn.SetReadBuffer(8 << 10)
			<-release
			return false
		}, write(okAnswer))
		t.Cleanup(func() { close(release) })
		do, _ := client(t, p.url(), "POST", func(c *Config) { c.Endpoints[0].Body = patterned(16_000_000) })
		due := time.Now()
		x := do(0, due.Add(200*time.Millisecond))
		if want := (ledger.Answer{Outcome: ledger.Timeout, Cause: CauseResponse}); x.Answer != want {
			t.Errorf("got %+v, want %+v", x.Answer, want)
		}
		if waited := x.Done.Sub(due); waited < 200*time.Millisecond {
			t.Errorf("gave up after %v", waited)
		}
	})
}

func TestRowsTakeTurns(t *testing.T) {
	withEachRun(t, func(t *testing.T, _ Kind, on func(*Config)) {
		p := newPeer(t, write(okAnswer))
		c := plan(Endpoint{Name: "fast", URL: p.url(), Method: "POST", Rate: 70})
		c.Duration = 100 * time.Millisecond
		on(&c)
		c.Endpoints[0].Body = []byte("endpoint's")
		c.Endpoints[0].Rows = []Row{
			{URL: "/a?x=%20"},
			{URL: "b", Body: []byte("row's")},
			{URL: p.url() + "&r=3"},
			{Body: []byte("only a body")},
		}
		if ok := live(t, c).Load.Endpoints["fast"].OK; ok != 7 {
			t.Fatalf("%d ok, want 7", ok)
		}
		var got []string
		heads, bodies := p.requests()
		for i, head := range heads {
			line, _, _ := strings.Cut(head, "\r\n")
			_, id, _ := strings.Cut(strings.TrimSpace(head), adminapi.HeaderID+": ")
			got = append(got, id+" "+line+" "+bodies[i])
		}
		slices.Sort(got)
		want := []string{
			"fast-0 POST /a?x=%20 HTTP/1.1 endpoint's",
			"fast-1 POST /b HTTP/1.1 row's",
			"fast-2 POST /path?q=1&r=3 HTTP/1.1 endpoint's",
			"fast-3 POST /path?q=1 HTTP/1.1 only a body",
			"fast-4 POST /a?x=%20 HTTP/1.1 endpoint's",
			"fast-5 POST /b HTTP/1.1 row's",
			"fast-6 POST /path?q=1&r=3 HTTP/1.1 endpoint's",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}
