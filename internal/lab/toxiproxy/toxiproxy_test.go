package toxiproxy

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	server "github.com/Shopify/toxiproxy/v2"
	"github.com/Shopify/toxiproxy/v2/client"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"
)

// api is the URL of a real Toxiproxy in this process.
var api string

func TestMain(m *testing.M) {
	// The server picks no port itself and cannot be stopped.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	host, port, _ := net.SplitHostPort(l.Addr().String())
	api = "http://" + l.Addr().String()
	l.Close()
	go server.NewServer(server.NewMetricsContainer(nil), zerolog.Nop()).Listen(host, port)
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		err := checkAPI(context.Background(), api)
		if err == nil {
			break
		}
		if time.Now().After(end) {
			panic(err)
		}
	}
	code := m.Run()
	http.DefaultClient.CloseIdleConnections()
	if err := goleak.Find(
		// Toxiproxy's server has no end.
		goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2.(*ApiServer).Listen"),
		// Its toxics stay behind when their connection ends under them.
		goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2/toxics.(*ToxicStub).Run"),
	); err != nil && code == 0 {
		os.Stderr.WriteString(err.Error() + "\n")
		code = 1
	}
	os.Exit(code)
}

// patience bounds every wait of these tests; nothing is expected to take it.
const patience = 20 * time.Second

// peer is a TCP server that gives each connection to serve.
func peer(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() {
				defer c.Close()
				serve(c)
			})
		}
	})
	t.Cleanup(func() { l.Close(); running.Wait() })
	return l.Addr().String()
}

// echo answers every line with the same line.
func echo(c net.Conn) { io.Copy(c, c) }

// unguarded is for proxies that the test itself removes.
func unguarded([]string) error { return nil }

func open(t *testing.T, upstream string, latency time.Duration) *Proxy {
	t.Helper()
	p, err := Open(t.Context(), api, upstream, latency, unguarded)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close(context.Background()) })
	return p
}

func dial(t *testing.T, address string) (net.Conn, *bufio.Reader) {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	c.SetDeadline(time.Now().Add(patience))
	t.Cleanup(func() { c.Close() })
	return c, bufio.NewReader(c)
}

func names(t *testing.T) []string {
	t.Helper()
	proxies, err := toxiproxy.NewClient(api).Proxies()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for name := range proxies {
		names = append(names, name)
	}
	return names
}

// TestLatency: every answer on a connection is held for the latency, the first
// and the later ones alike, and the proxy list is empty after Close.
func TestLatency(t *testing.T) {
	const latency = 50 * time.Millisecond
	p := open(t, peer(t, echo), latency)
	c, in := dial(t, p.Addr())
	for range 3 {
		asked := time.Now()
		if _, err := io.WriteString(c, "ping\n"); err != nil {
			t.Fatal(err)
		}
		if line, err := in.ReadString('\n'); line != "ping\n" {
			t.Fatalf("received %q, %v", line, err)
		}
		if seen := time.Since(asked); seen < latency {
			t.Errorf("the answer took %v, want at least the %v asked for", seen, latency)
		}
	}
	if got := names(t); len(got) != 1 || got[0] != p.name {
		t.Errorf("proxies %v, want only %s", got, p.name)
	}
	if err := p.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := names(t); len(got) != 0 {
		t.Errorf("proxies %v after Close, want none", got)
	}
	if _, err := in.ReadByte(); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a connection through a closed proxy: %v, want it closed", err)
	}
	if c, err := net.Dial("tcp", p.Addr()); err == nil {
		c.Close()
		t.Error("a closed proxy still listens")
	}
	if err := p.Close(t.Context()); err != nil {
		t.Errorf("closing again: %v", err)
	}
}

// TestLatencyIsPerTurn: what a server writes only after its caller has the part
// before is held at each turn.
func TestLatencyIsPerTurn(t *testing.T) {
	const latency, turns = 30 * time.Millisecond, 3
	p := open(t, peer(t, echo), latency)
	c, in := dial(t, p.Addr())
	began := time.Now()
	for range turns {
		io.WriteString(c, "x\n")
		in.ReadString('\n')
	}
	if seen := time.Since(began); seen < turns*latency {
		t.Errorf("%d turns took %v, want at least %v", turns, seen, turns*latency)
	}
}

// TestLatencyOnceForALargeAnswer: a hundred chunks that come at once are not
// held one after the other. Held so, they would take longer than patience.
func TestLatencyOnceForALargeAnswer(t *testing.T) {
	const latency, size = 500 * time.Millisecond, 100 * 32 << 10
	p := open(t, peer(t, func(c net.Conn) { c.Write(make([]byte, size)) }), latency)
	_, in := dial(t, p.Addr())
	if n, err := io.Copy(io.Discard, in); n != size || err != nil {
		t.Errorf("received %d bytes, %v, want %d within %v", n, err, size, patience)
	}
}

func TestTwoLabsAtOnce(t *testing.T) {
	upstream := peer(t, echo)
	a, b := open(t, upstream, time.Millisecond), open(t, upstream, time.Millisecond)
	if a.Addr() == b.Addr() || a.name == b.name {
		t.Errorf("both are %s at %s", a.name, a.Addr())
	}
	if err := a.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := names(t); len(got) != 1 || got[0] != b.name {
		t.Errorf("proxies %v after one of two closed, want %s", got, b.name)
	}
	c, in := dial(t, b.Addr())
	io.WriteString(c, "still\n")
	if line, err := in.ReadString('\n'); line != "still\n" {
		t.Errorf("through the one that stays: %q, %v", line, err)
	}
}

func TestLatencyIsRoundedUp(t *testing.T) {
	for asked, want := range map[time.Duration]time.Duration{
		0: 0, 1: time.Millisecond, 1500 * time.Microsecond: 2 * time.Millisecond, 3 * time.Millisecond: 3 * time.Millisecond,
	} {
		if got := roundUp(asked); got != want {
			t.Errorf("roundUp(%v) = %v, want %v", asked, got, want)
		}
	}
	p := open(t, peer(t, echo), 1500*time.Microsecond)
	if got := p.Latency(); got != 2*time.Millisecond {
		t.Errorf("Latency() = %v, want 2ms", got)
	}
	listed, err := p.client.Proxy(p.name)
	if err != nil {
		t.Fatal(err)
	}
	if got := listed.ActiveToxics[0].Attributes["latency"]; got != 2.0 {
		t.Errorf("Toxiproxy has a latency of %v ms, want 2", got)
	}
}

func TestOpenErrors(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := closed.Addr().String()
	closed.Close()
	other := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(other.Close)
	tests := []struct {
		name, api, upstream string
		latency             time.Duration
		want                []string
	}{
		{"nobody there", "http://" + nobody, "127.0.0.1:1", 0, []string{"http://" + nobody, "connection refused", "start toxiproxy-server"}},
		{"without scheme", nobody, "127.0.0.1:1", 0, []string{"http://" + nobody, "start toxiproxy-server"}},
		{"another server", other.URL, "127.0.0.1:1", 0, []string{other.URL, "404", "give the URL of a Toxiproxy API"}},
		{"no URL", "", "127.0.0.1:1", 0, []string{`""`, "write it as http://127.0.0.1:8474"}},
		{"other scheme", "ftp://x", "127.0.0.1:1", 0, []string{`"ftp://x"`, "write it as"}},
		{"no upstream", api, "stub", 0, []string{`"stub"`, "host:port"}},
		{"negative", api, "127.0.0.1:1", -1, []string{"-1ns is negative"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, err := Open(t.Context(), tt.api, tt.upstream, tt.latency, unguarded)
			if err == nil {
				p.Close(t.Context())
				t.Fatal("opened")
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
					t.Errorf("error %q, want one line with %q", err, want)
				}
			}
		})
	}
	if got := names(t); len(got) != 0 {
		t.Errorf("failed attempts left %v", got)
	}
}

// between is a Toxiproxy API that passes calls on to the real one, but may
// meddle.
func between(t *testing.T, meddle func(w http.ResponseWriter, r *http.Request, pass func())) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		meddle(w, r, func() {
			req, err := http.NewRequestWithContext(context.WithoutCancel(r.Context()), r.Method, api+r.URL.Path, r.Body)
			if err != nil {
				t.Error(err)
				return
			}
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Error(err)
				return
			}
			defer resp.Body.Close()
			w.WriteHeader(resp.StatusCode)
			io.Copy(w, resp.Body)
		})
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// TestOpenFailsHalfWay: a proxy whose toxic was refused, or not really put on,
// is removed again.
func TestOpenFailsHalfWay(t *testing.T) {
	tests := []struct {
		name, want string
		toxic      func(http.ResponseWriter, func())
	}{
		{"refused", "boom", func(w http.ResponseWriter, _ func()) {
			w.WriteHeader(500)
			io.WriteString(w, `{"error":"boom","status":500}`)
		}},
		{"not put on", "found []", func(w http.ResponseWriter, _ func()) { io.WriteString(w, `{}`) }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var created atomic.Bool
			url := between(t, func(w http.ResponseWriter, r *http.Request, pass func()) {
				if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/toxics") {
					created.Store(len(names(t)) == 1)
					tt.toxic(w, pass)
					return
				}
				pass()
			})
			p, err := Open(t.Context(), url, "127.0.0.1:1", time.Millisecond, unguarded)
			if err == nil {
				p.Close(t.Context())
				t.Fatal("opened")
			}
			if !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), url) {
				t.Errorf("error %q, want %q and the URL %s", err, tt.want, url)
			}
			if got := names(t); !created.Load() || len(got) != 0 {
				t.Errorf("created before the failure: %v, left after it: %v", created.Load(), got)
			}
		})
	}
}

// TestOpenInterrupted: ctx ends while the proxy is being made; the creation
// that is under way is undone before Open returns.
func TestOpenInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("stopped by hand")
	url := between(t, func(_ http.ResponseWriter, r *http.Request, pass func()) {
		if r.Method == http.MethodPost && r.URL.Path == "/proxies" {
			cancel(stop)
			// Open may have begun to clean up; it must wait for this creation.
			time.Sleep(50 * time.Millisecond)
		}
		pass()
	})
	if p, err := Open(ctx, url, "127.0.0.1:1", time.Millisecond, unguarded); !errors.Is(err, stop) {
		t.Errorf("Open = %v, %v, want %v", p, err, stop)
	}
	if got := names(t); len(got) != 0 {
		t.Errorf("left behind: %v", got)
	}
}

// TestGuard: the guard is called before there is a proxy, with what removes the
// one that is made then; it does no harm where there is none; its error is Open's,
// and no proxy is made.
func TestGuard(t *testing.T) {
	var removal []string
	remove := func() {
		var stderr strings.Builder
		if code := RunRemove(removal[1:], &stderr); removal[0] != RemoveArg || code != 0 {
			t.Errorf("%q: exit %d: %s", removal, code, stderr.String())
		}
	}
	_, err := Open(t.Context(), api, "127.0.0.1:1", 0, func(args []string) error {
		removal = args
		if got := names(t); len(got) != 0 {
			t.Errorf("the guard comes after %v", got)
		}
		remove()
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := names(t); len(got) != 1 {
		t.Fatalf("proxies %v, want one", got)
	}
	remove()
	if got := names(t); len(got) != 0 {
		t.Errorf("left behind: %v", got)
	}
	refused := errors.New("nobody guards")
	if _, err := Open(t.Context(), api, "127.0.0.1:1", 0, func([]string) error { return refused }); !errors.Is(err, refused) || len(names(t)) != 0 {
		t.Errorf("error %v, proxies %v; want the guard's error and none", err, names(t))
	}
}

// TestCloseFails: a proxy that may be left is named, with the way to remove it.
func TestCloseFails(t *testing.T) {
	var refuse atomic.Bool
	url := between(t, func(w http.ResponseWriter, r *http.Request, pass func()) {
		if refuse.Load() && r.Method == http.MethodDelete {
			w.WriteHeader(500)
			io.WriteString(w, `{"error":"not now","status":500}`)
			return
		}
		pass()
	})
	p, err := Open(t.Context(), url, "127.0.0.1:1", 0, unguarded)
	if err != nil {
		t.Fatal(err)
	}
	refuse.Store(true)
	want := "not now; remove it with: curl -X DELETE " + url + "/proxies/" + p.name
	if err := p.Close(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want %q", err, want)
	}
	refuse.Store(false)
	if err := p.Close(t.Context()); err != nil {
		t.Errorf("closing again: %v", err)
	}
	if got := names(t); len(got) != 0 {
		t.Errorf("left behind: %v", got)
	}
}
