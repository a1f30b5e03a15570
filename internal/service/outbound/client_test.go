package outbound

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"chokepoint/internal/profile"
)

var clients = []profile.Client{fast, std}

// What is sent is what was asked for, and nothing of a client's own.
func TestBothClientsSendTheSame(t *testing.T) {
	type request struct {
		Method, Body string
		Length       int64
		Header       http.Header
	}
	for _, retry := range []profile.Retry{profile.RetryOff, profile.RetryLibrary} {
		for _, tc := range []struct {
			call Call
			want request
		}{
			{Call{}, request{"GET", "", 0, http.Header{}}},
			{Call{Method: "GET", Header: map[string]string{"X-Phase": "load"}}, request{"GET", "", 0, http.Header{"X-Phase": {"load"}}}},
			{Call{Method: "HEAD"}, request{"HEAD", "", 0, http.Header{}}},
			{Call{Method: "DELETE"}, request{"DELETE", "", 0, http.Header{}}},
			{Call{Method: "POST", Body: []byte(`{"a":1}`), Header: map[string]string{"Content-Type": "application/json", "Idempotency-Key": "k"}},
				request{"POST", `{"a":1}`, 7, http.Header{"Content-Type": {"application/json"}, "Idempotency-Key": {"k"}}}},
			{Call{Method: "PUT", Body: []byte(strings.Repeat("x", 100_000)), Header: map[string]string{"Content-Type": "a/b"}},
				request{"PUT", strings.Repeat("x", 100_000), 100_000, http.Header{"Content-Type": {"a/b"}}}},
		} {
			for _, which := range clients {
				got := make(chan request, 1)
				server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					body, _ := io.ReadAll(r.Body)
					r.Header.Del("Content-Length") // fasthttp says 0 where net/http says nothing
					got <- request{r.Method, string(body), max(r.ContentLength, 0), r.Header}
					w.Header().Add("X-Kept", "one")
					w.Header().Add("X-Kept", "two")
					w.WriteHeader(429)
				}))
				c := client(t, server.URL+"/", profile.Connections{Client: which, Retry: retry})
				tc.call.Keep = "X-Kept"
				answer, err := c.Do(soon(), tc.call)
				if err != nil || answer.Status != 429 || answer.Kept != "one, two" || len(answer.Attempts) != 1 {
					t.Errorf("%s %s %s: %+v, %v; want 429 and the header that is kept", which, retry, tc.call.Method, answer, err)
				}
				if diff := cmp.Diff(tc.want, <-got); diff != "" {
					t.Errorf("%s %s (-want +got)\n%s", which, retry, diff)
				}
				c.Close()
				server.Close()
			}
		}
	}
}

// An answer is never a reason to send again.
func TestAnswersAreNotRetried(t *testing.T) {
	for _, which := range clients {
		for _, retry := range []profile.Retry{profile.RetryLibrary, profile.RetryAll} {
			for _, status := range []string{"429 Too Many Requests", "503 Service Unavailable"} {
				k := keep(t, func(c *net.TCPConn, _, _ int) bool {
					io.WriteString(c, "HTTP/1.1 "+status+"\r\nContent-Length: 0\r\n\r\n")
					return true
				})
				c := client(t, k.url, profile.Connections{Client: which, Retry: retry})
				answer, err := c.Do(soon(), Call{})
				if k.seen() != 1 || len(answer.Attempts) != 1 || (err != nil) != (answer.Status == 503) {
					t.Errorf("%s, %s, %s: %+v, %v after %d requests", which, retry, status, answer, err, k.seen())
				}
			}
		}
	}
}

// The pool hands out the connection that was used last.
func TestPoolTakesTheLastUsed(t *testing.T) {
	for _, which := range clients {
		k := keep(t, together(3, answerOK))
		c := client(t, k.url, profile.Connections{Client: which})
		warm(t, c, 3)
		ports := map[int]bool{}
		for range 5 {
			answer, err := c.Do(soon(), Call{})
			if err != nil || !answer.Attempts[0].Reused {
				t.Fatalf("%+v, %v", answer, err)
			}
			ports[answer.Attempts[0].LocalPort] = true
			eventually(t, "the connection to rest", func() bool { return c.Stats().Idle == 3 })
		}
		if len(ports) != 1 {
			t.Errorf("%s used ports %v, want one", which, ports)
		}
		if s := c.Stats(); s.Client != which || s.Open != 3 || s.Dialled != 3 {
			t.Errorf("%+v, want 3 open of 3 dialled", s)
		}
	}
}

// Over TLS a connection is kept, looked at and counted as a plain one is.
func TestTLS(t *testing.T) {
	for _, which := range clients {
		listener, err := net.Listen("tcp", reserve(t))
		if err != nil {
			t.Fatal(err)
		}
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		server.Listener.Close()
		server.Listener = listener
		server.StartTLS()
		u, err := url.Parse(server.URL + "/")
		if err != nil {
			t.Fatal(err)
		}
		roots := x509.NewCertPool()
		roots.AddCert(server.Certificate())
		kept := profile.Connections{Client: which, StaleCheck: profile.StalePeek}
		c := &Client{kept: kept}
		d, err := newDialer(kept, &tls.Config{RootCAs: roots, ServerName: "example.com"}, which == fast, &c.tally)
		if err != nil {
			t.Fatal(err)
		}
		if which == fast {
			c.transport = newFastHTTP(u, d, kept)
		} else {
			c.transport = newNetHTTP(u, d, kept)
		}
		for i := range 3 {
			answer, err := c.Do(soon(), Call{})
			if err != nil || len(answer.Attempts) != 1 || answer.Attempts[0].Reused != (i > 0) {
				t.Fatalf("%s, call %d: %+v, %v", which, i, answer, err)
			}
			eventually(t, "the connection to rest", func() bool { return c.Stats().Idle == 1 })
		}
		if s := c.Stats(); s.Dialled != 1 || s.Open != 1 || s.Discarded != 0 {
			t.Errorf("%s: %+v, want one connection", which, s)
		}
		server.CloseClientConnections()
		if which == std {
			eventually(t, "the end to be seen", func() bool { return c.Stats().Open == 0 })
		}
		server.Close()
		if answer, err := c.Do(soon(), Call{}); err == nil || classify(err) != Connect {
			t.Errorf("%s: %+v, %v; want a refused connection", which, answer, err)
		}
		if s := c.Stats(); which == fast && s.Discarded != 1 {
			t.Errorf("%+v, want the connection that the server has closed discarded", s)
		}
		eventually(t, "no connection to be open", func() bool { return c.Stats().Open == 0 && c.Stats().Idle == 0 })
		c.Close()
	}
}

// Many callers on connections that die at random: each call is sent once, and ends
// once, and no connection is lost count of.
func TestCallsAreCountedUnderConcurrency(t *testing.T) {
	for _, which := range clients {
		k := keep(t, func(c *net.TCPConn, onConn, hit int) bool { return hit%5 != 0 && answerOK(c, onConn, hit) })
		c := client(t, k.url, profile.Connections{Client: which, StaleCheck: profile.StalePeek})
		var mu sync.Mutex
		sent, failed := 0, 0
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				for range 50 {
					answer, err := c.Do(soon(), Call{Method: "POST", Body: []byte("x")})
					mu.Lock()
					for _, a := range answer.Attempts {
						if a.Sent {
							sent++
						}
					}
					if err != nil {
						failed++
					}
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		if sent != 1000 || k.seen() != 1000 || failed != 200 {
			t.Errorf("%s: %d sent, %d read, %d failed; want 1000, 1000 and 200", which, sent, k.seen(), failed)
		}
		c.Close()
		eventually(t, "every connection to be closed", func() bool { s := c.Stats(); return s.Open == 0 && s.Idle == 0 })
	}
}

func TestNewRefusesWhatCannotBeHad(t *testing.T) {
	if _, err := New("https://127.0.0.1:1/", profile.Connections{StaleCheck: profile.StaleRead}); err == nil || !strings.Contains(err.Error(), "use peek") {
		t.Errorf("%v, want the remedy", err)
	}
}
