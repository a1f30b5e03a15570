package engine

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// TestTheLoopsMemoryStaysFlat answers as fast as the loop asks, and looks at the
// heap after the first and the second second. The server is in the same process, and
// what it has in its hands at those moments differs by some hundred kB; of thousands
// of requests a leak would be more.
func TestTheLoopsMemoryStaysFlat(t *testing.T) {
	const bound = 2 << 20
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	c := Config{Endpoints: []Endpoint{{Name: "fast", URL: server.URL}}, Duration: 2100 * time.Millisecond, Closed: 20, Engine: Loop}
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
