package outbound

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"chokepoint/internal/profile"
)

const ok = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX-Kept: this\r\n\r\n"

// keeper is a server of kept connections. on gets each request, with its number on
// its connection and over all, both from 1, and whether the connection goes on.
type keeper struct {
	t   *testing.T
	url string
	on  func(c *net.TCPConn, onConn, hit int) bool

	mu    sync.Mutex
	hits  int
	keys  []string // the methods, and bodies, in the order of the requests
	conns []*net.TCPConn
	wg    sync.WaitGroup
}

func answerOK(c *net.TCPConn, _, _ int) bool {
	_, err := io.WriteString(c, ok)
	return err == nil
}

func keep(t *testing.T, on func(c *net.TCPConn, onConn, hit int) bool) *keeper {
	t.Helper()
	var config net.ListenConfig
	config.SetMultipathTCP(false)
	l, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	k := &keeper{t: t, url: "http://" + l.Addr().String() + "/", on: on}
	k.wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			k.mu.Lock()
			k.conns = append(k.conns, c.(*net.TCPConn))
			k.mu.Unlock()
			k.wg.Go(func() { k.serve(c.(*net.TCPConn)) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		k.mu.Lock()
		for _, c := range k.conns {
			c.Close()
		}
		k.mu.Unlock()
		k.wg.Wait()
	})
	return k
}

func (k *keeper) serve(c *net.TCPConn) {
	r := bufio.NewReader(c)
	for n := 1; ; n++ {
		req, err := http.ReadRequest(r)
		if err != nil {
			return // the connection stays as it is: half-closed, if it is that
		}
		body, _ := io.ReadAll(req.Body)
		k.mu.Lock()
		k.hits++
		hit := k.hits
		k.keys = append(k.keys, req.Method+" "+string(body))
		k.mu.Unlock()
		if !k.on(c, n, hit) {
			c.Close()
			return
		}
	}
}

func (k *keeper) seen() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.hits
}

// halfClose sends a FIN on every connection and waits until the client's kernel has it.
func (k *keeper) halfClose() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, c := range k.conns {
		if err := c.CloseWrite(); err != nil {
			k.t.Error(err)
		}
		eventually(k.t, "the FIN to be acknowledged", func() bool { return acknowledged(c) })
	}
}

// reset sends an RST on every connection.
func (k *keeper) reset() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, c := range k.conns {
		c.SetLinger(0)
		c.Close()
	}
}

func eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !so(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited 10 s for %s", what)
		}
	}
}

func client(t *testing.T, url string, kept profile.Connections) *Client {
	t.Helper()
	if err := kept.Validate(); err != nil {
		t.Fatal(err)
	}
	c, err := New(url, kept)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// warm makes n connections, at once, and leaves them in the pool.
func warm(t *testing.T, c *Client, n int) {
	t.Helper()
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			if _, err := c.Do(soon(), Call{}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	eventually(t, "the connections to be in the pool", func() bool { return c.Stats().Idle == n && c.Stats().Open == n })
}

func soon() time.Time { return time.Now().Add(10 * time.Second) }
