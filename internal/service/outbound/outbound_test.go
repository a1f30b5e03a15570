package outbound

import (
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"chokepoint/internal/profile"
)

func TestMain(m *testing.M) {
	// fasthttp's idle-connection cleaner sleeps between its rounds and cannot be stopped.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*HostClient).connsCleaner"))
}

// peer is a raw TCP server: serve gets each accepted connection, and hits counts
// the requests that it read.
func peer(t *testing.T, answer func(c *net.TCPConn)) (url string, hits *atomic.Int32) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	hits = new(atomic.Int32)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			buf := make([]byte, 4096)
			if n, _ := c.Read(buf); n > 0 {
				hits.Add(1)
				answer(c.(*net.TCPConn))
			}
			c.Close()
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return "http://" + l.Addr().String() + "/", hits
}

// forBoth runs a test with each client.
func forBoth(t *testing.T, test func(t *testing.T, which profile.Client)) {
	for _, which := range clients {
		t.Run(string(which), func(t *testing.T) { test(t, which) })
	}
}

func TestEveryFailureIsSeenOnceAndNamed(t *testing.T) {
	forBoth(t, func(t *testing.T, which profile.Client) {
		for _, tc := range []struct {
			name   string
			answer func(c *net.TCPConn)
			want   Kind
		}{
			{"closes before the answer", func(*net.TCPConn) {}, Reset},
			{"resets before the answer", func(c *net.TCPConn) { c.SetLinger(0) }, Reset},
			{"closes in the middle", func(c *net.TCPConn) { io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf") }, Reset},
			{"answers 503", func(c *net.TCPConn) { io.WriteString(c, "HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n") }, Status},
			{"never answers", func(c *net.TCPConn) { io.Copy(io.Discard, c) }, Timeout},
		} {
			t.Run(tc.name, func(t *testing.T) {
				url, hits := peer(t, tc.answer)
				c, err := New(url, profile.Connections{Client: which})
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				_, err = c.Do(time.Now().Add(200*time.Millisecond), Call{})
				failure, ok := errors.AsType[*Error](err)
				if !ok || failure.Kind != tc.want {
					t.Errorf("got %v, want kind %d", err, tc.want)
				}
				if n := hits.Load(); n != 1 {
					t.Errorf("the peer saw %d requests, want 1", n)
				}
			})
		}
	})
}

// reserve is an address that refuses connections for as long as the test runs, but while
// somebody listens on it who asks for it by its number. A port that is merely free may
// be taken by another test, or be given to the very socket that dials it.
func reserve(t *testing.T) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Close(fd) })
	syscall.CloseOnExec(fd)
	// As Go's listeners have it: it lets one share the port.
	err = syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1)
	if err == nil {
		err = syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}})
	}
	if err != nil {
		t.Fatal(err)
	}
	addr, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(addr.(*syscall.SockaddrInet4).Port))
}

func TestRefusedIsAConnectFailure(t *testing.T) {
	forBoth(t, func(t *testing.T, which profile.Client) {
		c, err := New("http://"+reserve(t)+"/", profile.Connections{Client: which})
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.Do(time.Time{}, Call{})
		if failure, ok := errors.AsType[*Error](err); !ok || failure.Kind != Connect {
			t.Errorf("got %v, want a connect failure", err)
		}
	})
}

func TestTLSHandshakeThatNeverEndsTimesOut(t *testing.T) {
	forBoth(t, func(t *testing.T, which profile.Client) {
		url, _ := peer(t, func(c *net.TCPConn) { io.Copy(io.Discard, c) })
		c, err := New("https"+url[len("http"):], profile.Connections{Client: which})
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.Do(time.Now().Add(200*time.Millisecond), Call{})
		if failure, ok := errors.AsType[*Error](err); !ok || failure.Kind != Timeout {
			t.Errorf("got %v, want a timeout", err)
		}
		eventually(t, "the connection to be closed", func() bool { return c.Stats().Open == 0 })
	})
}

func TestAnswersReuseTheConnectionAndCarryHeaders(t *testing.T) {
	forBoth(t, func(t *testing.T, which profile.Client) {
		var connections atomic.Int32
		phases := make(chan string, 3)
		srv := &http.Server{
			Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { phases <- r.Header.Get("X-Phase") }),
			ConnState: func(_ net.Conn, s http.ConnState) {
				if s == http.StateNew {
					connections.Add(1)
				}
			},
		}
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		go srv.Serve(l)
		defer srv.Close()
		c, err := New("http://"+l.Addr().String()+"/", profile.Connections{Client: which})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		for range 3 {
			if _, err := c.Do(time.Time{}, Call{Header: map[string]string{"X-Phase": "load"}}); err != nil {
				t.Fatal(err)
			}
			if got := <-phases; got != "load" {
				t.Errorf("phase header %q, want load", got)
			}
		}
		if n := connections.Load(); n != 1 {
			t.Errorf("%d connections for three calls, want 1", n)
		}
	})
}

// A kept connection that the peer has closed meanwhile fails the call that finds
// out: trying again on another would be a retry that nobody asked for.
func TestStaleConnectionIsNotRetried(t *testing.T) {
	url, hits := peer(t, func(c *net.TCPConn) { io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n") })
	c, err := New(url, profile.Connections{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Do(time.Time{}, Call{}); err != nil {
		t.Fatal(err)
	}
	_, err = c.Do(time.Time{}, Call{}) // the peer closes after each answer
	if failure, ok := errors.AsType[*Error](err); !ok || failure.Kind != Reset {
		t.Errorf("got %v, want a reset", err)
	}
	if n := hits.Load(); n != 1 {
		t.Errorf("the peer saw %d requests, want 1", n)
	}
}

func TestAnswersBelow500AreNoFailure(t *testing.T) {
	forBoth(t, func(t *testing.T, which profile.Client) {
		for _, status := range []string{"200 OK", "302 Found", "404 Not Found", "429 Too Many Requests"} {
			url, hits := peer(t, func(c *net.TCPConn) { io.WriteString(c, "HTTP/1.1 "+status+"\r\nContent-Length: 0\r\n\r\n") })
			c, err := New(url, profile.Connections{Client: which})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := c.Do(time.Time{}, Call{}); err != nil || hits.Load() != 1 {
				t.Errorf("%s: %v after %d requests, want no error after 1", status, err, hits.Load())
			}
			c.Close()
		}
	})
}

func TestDeadlineThatHasPassedMakesNoCall(t *testing.T) {
	forBoth(t, func(t *testing.T, which profile.Client) {
		url, hits := peer(t, func(*net.TCPConn) {})
		c, err := New(url, profile.Connections{Client: which})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_, err = c.Do(time.Now().Add(-time.Second), Call{})
		if failure, ok := errors.AsType[*Error](err); !ok || failure.Kind != Timeout || hits.Load() != 0 {
			t.Errorf("got %v after %d requests, want a timeout after none", err, hits.Load())
		}
	})
}

func TestNotAURLIsRefused(t *testing.T) {
	for _, url := range []string{"", "stub", "127.0.0.1:8081", "ftp://stub/", "http://", "http://[::1", "/path"} {
		if _, err := New(url, profile.Connections{}); err == nil || !strings.Contains(err.Error(), "write it as http://") {
			t.Errorf("%q: %v, want an error with the remedy", url, err)
		}
	}
}
