package loadgen

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"chokepoint/internal/result"
)

// answer reads one request from r and answers it, or says false if there is none.
func answer(conn net.Conn, r *bufio.Reader, seen *ids, text string) bool {
	request, err := http.ReadRequest(r)
	if err != nil {
		return false
	}
	seen.read(request.Header)
	_, err = io.WriteString(conn, text)
	return err == nil
}

// TestServerKilledInTheMiddle: from one moment on the server is gone, as a process that
// was killed is: its connections are reset and nobody listens.
func TestServerKilledInTheMiddle(t *testing.T) {
	onBothEngines(t, func(t *testing.T, engine string) {
		seen := &ids{}
		var mu sync.Mutex
		var open []*net.TCPConn
		answered, dead := 0, false
		var listener *net.TCPListener
		kill := func() { // under the mutex
			dead = true
			listener.Close()
			for _, conn := range open {
				conn.SetLinger(0)
				conn.Close()
			}
		}
		mu.Lock() // nobody dies before the listener is known
		listener = listen(t, func(conn *net.TCPConn, _ int) {
			mu.Lock()
			open = append(open, conn)
			late := dead
			mu.Unlock()
			if late { // it was accepted while the server died
				conn.SetLinger(0)
				return
			}
			r := bufio.NewReader(conn)
			for {
				request, err := http.ReadRequest(r)
				if err != nil {
					return
				}
				mu.Lock()
				if !dead {
					seen.read(request.Header)
					io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
					if answered++; answered == 60 {
						kill()
					}
				}
				mu.Unlock()
			}
		})
		mu.Unlock()
		o := play(t, engine, "http://"+listener.Addr().String(), "-rate=200", "-duration=600ms", "-timeout=2s", anyLag)
		o.checkIdentities(t, 120, seen)
		e := o.endpoint()
		// The last answer may be lost with its connection.
		if e.OK != 60 && e.OK != 59 || e.OK+e.ConnectError+e.TransportError != 120 || e.ConnectError == 0 {
			t.Errorf("%d ok, %d connect errors, %d transport errors (%v); want 60 answered, and the others to fail", e.OK, e.ConnectError, e.TransportError, e.Causes)
		}
		if n := len(seen.reads()); n != 60 {
			t.Errorf("the server read %d requests, want 60", n)
		}
		first := slices.IndexFunc(o.requests, func(r result.Request) bool { return r.Outcome == "connect_error" })
		if first < 50 {
			t.Errorf("the first connect error is that of request %d, long before the server died", first)
		}
	})
}

// TestEverySeventhConnectionIsReset: the server answers once on each connection, and on
// every seventh it sends a reset in place of the answer.
func TestEverySeventhConnectionIsReset(t *testing.T) {
	onBothEngines(t, func(t *testing.T, engine string) {
		seen := &ids{}
		listener := listen(t, func(conn *net.TCPConn, number int) {
			text := "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
			if number%7 == 0 {
				text = ""
			}
			if answer(conn, bufio.NewReader(conn), seen, text) && text == "" {
				conn.SetLinger(0)
			}
		})
		o := play(t, engine, "http://"+listener.Addr().String(), "-rate=280", "-duration=500ms", anyLag)
		o.checkIdentities(t, 140, seen)
		e := o.endpoint()
		if e.OK != 120 || e.TransportError != 20 || e.Causes["reset"] != 20 || len(e.Causes) != 1 {
			t.Errorf("%d ok, %d transport errors of %v; want 120, and 20 of reset", e.OK, e.TransportError, e.Causes)
		}
		if n := len(seen.reads()); n != 140 {
			t.Errorf("the server read %d requests, want 140", n)
		}
	})
}

// TestSlowBodies: 100 kB come in ten parts, 20 ms apart, on many connections at once. A
// response ends with its last byte.
func TestSlowBodies(t *testing.T) {
	const pause = 20 * time.Millisecond
	onBothEngines(t, func(t *testing.T, engine string) {
		part := make([]byte, 10_240)
		url, seen := serve(t, func(w http.ResponseWriter, r *http.Request) {
			for i := range 10 {
				if i > 0 {
					time.Sleep(pause)
				}
				w.Write(part)
				w.(http.Flusher).Flush()
			}
		})
		o := play(t, engine, url, "-rate=100", "-duration=500ms", anyLag)
		o.checkIdentities(t, 50, seen)
		e := o.endpoint()
		if e.OK != 50 || len(seen.reads()) != 50 {
			t.Errorf("%d ok, %d read by the server (%v); want 50 and 50", e.OK, len(seen.reads()), e.Causes)
		}
		if least := 9 * pause; e.Service.Min < float64(least.Milliseconds()) {
			t.Errorf("the fastest took %v ms, and no body is whole before %v", e.Service.Min, least)
		}
	})
}
