package outbound

import (
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chokepoint/internal/adminapi"
	"chokepoint/internal/profile"
)

const (
	fast = profile.ClientFastHTTP
	std  = profile.ClientNetHTTP
)

// together answers only when n requests are there, so that each is on a connection of
// its own, and from then on as then does.
func together(n int, then func(c *net.TCPConn, onConn, hit int) bool) func(c *net.TCPConn, onConn, hit int) bool {
	var there sync.WaitGroup
	there.Add(n)
	return func(c *net.TCPConn, onConn, hit int) bool {
		if hit > n {
			return then(c, onConn, hit)
		}
		there.Done()
		there.Wait()
		return answerOK(c, onConn, hit)
	}
}

// What a dead connection costs, by what killed it, client, method and defence. The
// rows of the client libraries' own retries are the measured values of the
// dead-connection matrix (H1 to H4, X1 to X3, C4).
func TestDeadConnections(t *testing.T) {
	library := profile.Connections{Retry: profile.RetryLibrary}
	peek := profile.Connections{StaleCheck: profile.StalePeek}
	fin, rst := (*keeper).halfClose, (*keeper).reset
	dies := func(*net.TCPConn, int, int) bool { return false }
	diesReused := func(c *net.TCPConn, onConn, hit int) bool { return onConn == 1 && answerOK(c, onConn, hit) }
	resets := func(c *net.TCPConn, onConn, hit int) bool {
		c.SetLinger(0)
		return diesReused(c, onConn, hit)
	}
	type want struct {
		OK                    bool
		Sent, Discarded, Hits int // of the judged call
		Socket                string
	}
	for _, tc := range []struct {
		name    string
		warm    int
		on      func(c *net.TCPConn, onConn, hit int) bool // after the warm-up
		kill    func(*keeper)                              // nil: nothing, while they rest
		clients []profile.Client
		method  string
		key     string
		kept    profile.Connections
		want    want
	}{
		// net/http sees what comes while a connection rests, and drops it from its pool.
		{"H1", 1, answerOK, fin, []profile.Client{std}, "GET", "", library, want{OK: true, Sent: 1, Hits: 1}},
		{"H1", 1, answerOK, fin, []profile.Client{std}, "POST", "", profile.Connections{}, want{OK: true, Sent: 1, Hits: 1}},
		{"H1", 1, answerOK, fin, []profile.Client{fast}, "GET", "", library, want{OK: true, Sent: 2, Hits: 2}},
		{"H1", 1, answerOK, fin, []profile.Client{fast}, "POST", "", library, want{Sent: 1, Hits: 1, Socket: "EOF"}},
		{"H1", 1, answerOK, fin, []profile.Client{fast}, "GET", "", profile.Connections{}, want{Sent: 1, Hits: 1, Socket: "EOF"}},
		{"H2", 1, answerOK, rst, []profile.Client{std}, "POST", "", library, want{OK: true, Sent: 1, Hits: 1}},
		{"H2", 1, answerOK, rst, []profile.Client{fast}, "GET", "", library, want{OK: true, Sent: 1, Hits: 1}},
		{"H2", 1, answerOK, rst, []profile.Client{fast}, "POST", "", library, want{Socket: "ECONNRESET"}},
		{"H2 stale", 1, answerOK, rst, []profile.Client{fast}, "POST", "", profile.Connections{Retry: profile.RetryStale}, want{OK: true, Sent: 1, Hits: 1}},
		{"H3", 1, answerOK, fin, []profile.Client{fast}, "POST", "", peek, want{OK: true, Sent: 1, Discarded: 1, Hits: 1}},
		{"H3", 1, answerOK, rst, []profile.Client{fast}, "POST", "", peek, want{OK: true, Sent: 1, Discarded: 1, Hits: 1}},
		{"H3 tcp_info", 1, answerOK, fin, []profile.Client{fast}, "POST", "", profile.Connections{StaleCheck: profile.StaleTCPInfo}, want{OK: true, Sent: 1, Discarded: 1, Hits: 1}},
		{"H3 read", 1, answerOK, fin, []profile.Client{fast}, "POST", "", profile.Connections{StaleCheck: profile.StaleRead}, want{OK: true, Sent: 1, Discarded: 1, Hits: 1}},
		{"H3 within the window", 1, answerOK, fin, []profile.Client{fast}, "POST", "",
			profile.Connections{StaleCheck: profile.StalePeek, StaleCheckAfter: time.Hour}, want{Sent: 1, Hits: 1, Socket: "EOF"}},
		{"H4", 8, answerOK, fin, []profile.Client{std}, "POST", "", library, want{OK: true, Sent: 1, Hits: 1}},
		{"H4", 8, answerOK, fin, []profile.Client{fast}, "GET", "", library, want{Sent: 5, Hits: 5, Socket: "EOF"}},
		{"H4 of 64 attempts", 8, answerOK, fin, []profile.Client{fast}, "GET", "",
			profile.Connections{Retry: profile.RetryLibrary, RetryAttempts: 64}, want{OK: true, Sent: 9, Hits: 9}},
		{"H4 peek", 8, answerOK, fin, []profile.Client{fast}, "POST", "", peek, want{OK: true, Sent: 1, Discarded: 8, Hits: 1}},
		{"H4 peek beside the library", 8, answerOK, fin, []profile.Client{fast}, "GET", "",
			profile.Connections{StaleCheck: profile.StalePeek, Retry: profile.RetryLibrary}, want{OK: true, Sent: 1, Discarded: 8, Hits: 1}},
		{"H4 idempotent", 8, answerOK, fin, []profile.Client{fast}, "GET", "",
			profile.Connections{Retry: profile.RetryIdempotent}, want{Sent: 2, Hits: 2, Socket: "EOF"}},
		{"H4 idempotent, the last one fresh", 8, answerOK, fin, []profile.Client{fast}, "GET", "",
			profile.Connections{Retry: profile.RetryIdempotent, RetryFresh: true}, want{OK: true, Sent: 2, Hits: 2}},

		{"X1", 1, diesReused, nil, []profile.Client{std, fast}, "GET", "", library, want{OK: true, Sent: 2, Hits: 2}},
		{"X1", 1, diesReused, nil, []profile.Client{std, fast}, "POST", "", library, want{Sent: 1, Hits: 1, Socket: "EOF"}},
		{"X1", 1, diesReused, nil, []profile.Client{std}, "POST", "key", library, want{OK: true, Sent: 2, Hits: 2}},
		{"X1", 1, diesReused, nil, []profile.Client{fast}, "POST", "key", library, want{Sent: 1, Hits: 1, Socket: "EOF"}},
		{"X1 off", 1, diesReused, nil, []profile.Client{std, fast}, "GET", "", profile.Connections{}, want{Sent: 1, Hits: 1, Socket: "EOF"}},
		{"X1 off", 1, diesReused, nil, []profile.Client{std, fast}, "POST", "key", profile.Connections{}, want{Sent: 1, Hits: 1, Socket: "EOF"}},
		{"X1 stale", 1, diesReused, nil, []profile.Client{std, fast}, "GET", "", profile.Connections{Retry: profile.RetryStale}, want{Sent: 1, Hits: 1, Socket: "EOF"}},
		{"X1 idempotent", 1, diesReused, nil, []profile.Client{std, fast}, "PUT", "", profile.Connections{Retry: profile.RetryIdempotent}, want{OK: true, Sent: 2, Hits: 2}},
		{"X1 idempotent", 1, diesReused, nil, []profile.Client{std, fast}, "POST", "key", profile.Connections{Retry: profile.RetryIdempotent}, want{Sent: 1, Hits: 1, Socket: "EOF"}},
		{"X1 key", 1, diesReused, nil, []profile.Client{std, fast}, "POST", "key", profile.Connections{Retry: profile.RetryIdempotencyKey}, want{OK: true, Sent: 2, Hits: 2}},
		{"X1 key", 1, diesReused, nil, []profile.Client{std, fast}, "POST", "", profile.Connections{Retry: profile.RetryIdempotencyKey}, want{Sent: 1, Hits: 1, Socket: "EOF"}},
		{"X1 all", 1, diesReused, nil, []profile.Client{std, fast}, "POST", "", profile.Connections{Retry: profile.RetryAll}, want{OK: true, Sent: 2, Hits: 2}},
		{"X2", 1, dies, nil, []profile.Client{std}, "GET", "", library, want{Sent: 2, Hits: 2, Socket: "EOF"}},
		{"X2", 1, dies, nil, []profile.Client{fast}, "GET", "", library, want{Sent: 5, Hits: 5, Socket: "EOF"}},
		{"X2", 1, dies, nil, []profile.Client{std, fast}, "POST", "", library, want{Sent: 1, Hits: 1, Socket: "EOF"}},
		{"X2 idempotent", 1, dies, nil, []profile.Client{std, fast}, "GET", "", profile.Connections{Retry: profile.RetryIdempotent, RetryAttempts: 3}, want{Sent: 3, Hits: 3, Socket: "EOF"}},
		{"X3", 0, dies, nil, []profile.Client{std}, "GET", "", library, want{Sent: 1, Hits: 1, Socket: "EOF"}},
		{"X3", 0, dies, nil, []profile.Client{fast}, "GET", "", library, want{Sent: 5, Hits: 5, Socket: "EOF"}},
		{"X3", 0, dies, nil, []profile.Client{std, fast}, "POST", "", library, want{Sent: 1, Hits: 1, Socket: "EOF"}},
		{"C3b", 8, resets, nil, []profile.Client{std}, "GET", "", library, want{OK: true, Sent: 9, Hits: 9}},
		{"C3b", 8, resets, nil, []profile.Client{fast}, "GET", "", library, want{Sent: 5, Hits: 5, Socket: "ECONNRESET"}},
		{"C4", 1, resets, nil, []profile.Client{std}, "POST", "key", library, want{OK: true, Sent: 2, Hits: 2}},
		{"A3", 1, resets, nil, []profile.Client{std, fast}, "POST", "", library, want{Sent: 1, Hits: 1, Socket: "ECONNRESET"}},
	} {
		for _, which := range tc.clients {
			t.Run(tc.name+" "+string(which)+" "+tc.method+tc.key, func(t *testing.T) {
				t.Parallel()
				k := keep(t, together(tc.warm, tc.on))
				kept := tc.kept
				kept.Client = which
				c := client(t, k.url, kept)
				warm(t, c, tc.warm)
				if tc.kill != nil {
					tc.kill(k)
					if which == std {
						eventually(t, "net/http to see the end of its connections", func() bool { return c.Stats().Open == 0 })
					}
				}
				call := Call{Method: tc.method, Header: map[string]string{}}
				if tc.key != "" {
					call.Header[adminapi.HeaderIdempotencyKey] = tc.key
				}
				if tc.method == "POST" {
					call.Body = []byte("once")
				}
				before := k.seen()
				answer, err := c.Do(soon(), call)
				got := want{OK: err == nil, Hits: k.seen() - before}
				for _, a := range answer.Attempts {
					if a.Discarded != nil {
						got.Discarded++
					}
					if a.Sent {
						got.Sent++
					}
				}
				last := answer.Attempts[len(answer.Attempts)-1]
				got.Socket = last.SocketError()
				if tc.kill != nil && which == fast {
					// A half-closed peer still reads, so that what it runs is counted too; it
					// may do so after the client has given up.
					eventually(t, "the peer to have read all", func() bool { got.Hits = k.seen() - before; return got.Hits >= tc.want.Hits })
				}
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("(-want +got)\n%s%+v, %v", diff, answer, err)
				}
				if (err == nil) != (last.Err == nil) || err != nil && !errors.Is(err, last.Err) {
					t.Errorf("the call ended with %v, its last attempt with %v", err, last.Err)
				}
				if failure, ok := errors.AsType[*Error](err); err != nil && (!ok || failure.Kind != Reset) {
					t.Errorf("%v is not a reset", err)
				}
				if n := c.Stats().Discarded; n != tc.want.Discarded {
					t.Errorf("%d connections counted as discarded, want %d", n, tc.want.Discarded)
				}
			})
		}
	}
}

// A connection that rested for too long is not used, whatever the method, and the
// request goes out once.
func TestAgeCheck(t *testing.T) {
	for _, which := range []profile.Client{fast, std} {
		t.Run(string(which), func(t *testing.T) {
			k := keep(t, answerOK)
			c := client(t, k.url, profile.Connections{Client: which, MaxIdleAge: 50 * time.Millisecond})
			warm(t, c, 1)
			time.Sleep(80 * time.Millisecond)
			answer, err := c.Do(soon(), Call{Method: "POST", Body: []byte("x")})
			if err != nil || len(answer.Attempts) != 2 || k.seen() != 2 {
				t.Fatalf("%+v, %v, %d hits; want a discarded connection and an answer", answer, err, k.seen())
			}
			old, young := answer.Attempts[0], answer.Attempts[1]
			if !old.Reused || old.Sent || old.Discarded == nil || young.Reused || !young.Sent || old.LocalPort == young.LocalPort {
				t.Errorf("%+v", answer.Attempts)
			}
			if s := c.Stats(); s.Dialled != 2 || s.Discarded != 1 {
				t.Errorf("%+v, want 2 dialled and 1 discarded", s)
			}
		})
	}
}

func TestEviction(t *testing.T) {
	for _, which := range []profile.Client{fast, std} {
		t.Run(string(which), func(t *testing.T) {
			k := keep(t, together(2, answerOK))
			c := client(t, k.url, profile.Connections{Client: which, EvictIdle: 300 * time.Millisecond})
			warm(t, c, 2)
			eventually(t, "the eviction", func() bool { return c.Stats().Open == 0 && c.Stats().Idle == 0 })
		})
		t.Run(string(which)+" not running", func(t *testing.T) {
			k := keep(t, together(2, answerOK))
			c := client(t, k.url, profile.Connections{Client: which, EvictIdle: 20 * time.Millisecond, EvictNotRunning: true})
			warm(t, c, 2)
			time.Sleep(100 * time.Millisecond)
			if s := c.Stats(); s.Open != 2 || s.Idle != 2 {
				t.Errorf("%+v, want 2 idle connections", s)
			}
		})
	}
}

// A slow server: net/http gives up, fasthttp's own retries call it again, and ours
// do not.
func TestResponseTimeout(t *testing.T) {
	hang := func(c *net.TCPConn, _, _ int) bool { io.Copy(io.Discard, c); return false }
	for _, tc := range []struct {
		client profile.Client
		retry  profile.Retry
		hits   int
	}{
		{std, profile.RetryLibrary, 1}, {fast, profile.RetryLibrary, 5},
		{std, profile.RetryIdempotent, 1}, {fast, profile.RetryIdempotent, 1},
		{std, profile.RetryAll, 2}, {fast, profile.RetryAll, 2}, {std, "", 1}, {fast, "", 1},
	} {
		t.Run(string(tc.client)+" "+string(tc.retry), func(t *testing.T) {
			t.Parallel()
			k := keep(t, hang)
			c := client(t, k.url, profile.Connections{Client: tc.client, Retry: tc.retry, ResponseTimeout: 50 * time.Millisecond})
			answer, err := c.Do(time.Time{}, Call{})
			failure, ok := errors.AsType[*Error](err)
			if !ok || failure.Kind != Timeout || len(answer.Attempts) != tc.hits || k.seen() != tc.hits {
				t.Fatalf("%v after %d attempts and %d hits; want a timeout after %d", err, len(answer.Attempts), k.seen(), tc.hits)
			}
			for _, a := range answer.Attempts {
				if a.Err == nil || a.Socket != nil || a.Took < 50*time.Millisecond {
					t.Errorf("%+v, want a timeout of 50 ms that is not the socket's", a)
				}
			}
		})
	}
}

// The caller's deadline bounds all attempts of a call together.
func TestDeadlineBoundsTheRetries(t *testing.T) {
	for _, which := range clients {
		for _, retry := range []profile.Retry{profile.RetryAll, profile.RetryLibrary} {
			k := keep(t, func(c *net.TCPConn, _, _ int) bool { io.Copy(io.Discard, c); return false })
			kept := profile.Connections{Client: which, Retry: retry, ResponseTimeout: 100 * time.Millisecond}
			if retry == profile.RetryAll {
				kept.RetryAttempts = 1000
			}
			c := client(t, k.url, kept)
			_, err := c.Do(time.Now().Add(250*time.Millisecond), Call{})
			if failure, ok := errors.AsType[*Error](err); !ok || failure.Kind != Timeout || k.seen() > 3 {
				t.Errorf("%s %s: %v after %d requests, want a timeout after 3 at most", which, retry, err, k.seen())
			}
		}
	}
}

// ETIMEDOUT is the kernel's word that the connection is dead. Both clients call it a
// timeout, and it is sent again all the same.
func TestKernelTimeoutIsADeadConnection(t *testing.T) {
	c := &Client{kept: profile.Connections{Retry: profile.RetryIdempotent}}
	if !c.again(Call{Method: "GET"}, Attempt{Reused: true, Sent: true, Socket: syscall.ETIMEDOUT}, Timeout) {
		t.Error("a GET on a connection that the kernel gave up is not sent again")
	}
	if c.again(Call{Method: "GET"}, Attempt{Reused: true, Sent: true}, Timeout) {
		t.Error("a GET is sent again to a slow server")
	}
}
