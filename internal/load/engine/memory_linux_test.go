package engine

import (
	"net"
	"testing"
	"time"
)

// thrifty is the URL of a server that allocates nothing for a request: it is in the same
// process, and net/http has some hundred kB in its hands at any moment.
func thrifty(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				// A request of the loop is one write, and comes in one piece on loopback.
				buffer, answer := make([]byte, 4096), []byte(okAnswer)
				for {
					if _, err := conn.Read(buffer); err != nil {
						return
					}
					if _, err := conn.Write(answer); err != nil {
						return
					}
				}
			}()
		}
	}()
	return "http://" + listener.Addr().String()
}

// TestTheLoopsMemoryStaysFlat answers as fast as the loop asks, and looks at the
// heap after the first and the second second.
func TestTheLoopsMemoryStaysFlat(t *testing.T) {
	const bound = 512 << 10
	url := thrifty(t)
	c := Config{Endpoints: []Endpoint{{Name: "fast", URL: url}}, Duration: 2100 * time.Millisecond, Closed: 20, Engine: Loop}
	var heaps []int64
	c.EachSecond = func(s Second) {
		heaps = append(heaps, heapInUse())
	}
	c = c.WithDefaults()
	player, err := New(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer player.Close()
	r, err := player.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if e := r.Load.Endpoints["fast"]; e.OK < 2000 || len(heaps) != 3 {
		t.Fatalf("%d answers in %d seconds: this test shows nothing", e.OK, len(heaps))
	}
	if heaps[1]-heaps[0] > bound {
		t.Errorf("the heap went from %d to %d bytes in a second, by more than %d", heaps[0], heaps[1], bound)
	}
}
