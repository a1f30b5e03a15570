package closerace

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"chokepoint/internal/adminapi"
)

func TestADeckDealsEachOffsetAsOftenAsItsWeight(t *testing.T) {
	d := newDeck(1, 2)
	for round := range 3 {
		dealt := map[time.Duration]int{}
		for range d.cards {
			dealt[d.deal()]++
		}
		for _, s := range sweep {
			if got := dealt[time.Duration(s.offsetMS)*time.Millisecond]; got != s.weight {
				t.Errorf("round %d: %d ms came %d times, want %d", round, s.offsetMS, got, s.weight)
			}
		}
	}
}

func TestADeckIsOfItsSeedAndStream(t *testing.T) {
	order := func(seed, stream uint64) string {
		d := newDeck(seed, stream)
		var b strings.Builder
		for range d.cards {
			fmt.Fprint(&b, d.deal(), " ")
		}
		return b.String()
	}
	first := order(1, 1)
	if again := order(1, 1); again != first {
		t.Error("the same seed and stream give two orders")
	}
	if first == order(1, 2) || first == order(2, 1) {
		t.Error("another stream, or another seed, gives the same order")
	}
}

func TestAnAimLearnsHowLateItIs(t *testing.T) {
	const way = 300 * time.Microsecond
	var a aim
	for range 100 {
		a.learn(idle+way-a.late, idle)
	}
	if off := a.late - way; off.Abs() > 5*time.Microsecond {
		t.Errorf("it takes %v off, want %v", a.late, way)
	}
	// A busy moment does not mislead it for long.
	a.learn(idle+time.Second, idle)
	if a.late > way+wildest/gain+5*time.Microsecond {
		t.Errorf("after one late call it takes %v off", a.late)
	}
	for range 100 {
		a.learn(0, idle)
	}
	if a.late != 0 {
		t.Errorf("it is %v early: a call cannot come before it is sent", a.late)
	}
}

// fakeVictim answers as a victim does, and says how long its upstream took.
func fakeVictim(t *testing.T, upstream time.Duration, answer func(n int, r *http.Request) (int, adminapi.UpstreamAnswer)) (address string, requests func() []*http.Request) {
	t.Helper()
	var mu sync.Mutex
	var got []*http.Request
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		mu.Lock()
		got = append(got, r)
		n := len(got)
		mu.Unlock()
		status, text := answer(n, r)
		start := time.Now()
		time.Sleep(upstream)
		w.Header().Set("Server-Timing", fmt.Sprintf("queue;dur=0.010, permit;dur=0.000, upstream;dur=%.3f, db;dur=0.000", time.Since(start).Seconds()*1000))
		w.WriteHeader(status)
		json.NewEncoder(w).Encode(text)
	}))
	t.Cleanup(server.Close)
	return server.Listener.Addr().String(), func() []*http.Request {
		mu.Lock()
		defer mu.Unlock()
		return got
	}
}

func TestACallerMeasuresTheRestAndNotTheWay(t *testing.T) {
	const upstream = 100 * time.Millisecond
	address, requests := fakeVictim(t, upstream, func(n int, r *http.Request) (int, adminapi.UpstreamAnswer) {
		if n == 3 {
			return http.StatusBadGateway, adminapi.UpstreamAnswer{Error: adminapi.CauseUpstreamReset, Call: &adminapi.Call{
				Reused: true, Attempts: []adminapi.Attempt{{Reused: true, Sent: true, Error: "EOF", Socket: "ECONNRESET"}},
			}}
		}
		return http.StatusOK, adminapi.UpstreamAnswer{Upstream: "ok", Call: &adminapi.Call{Reused: n > 1 && n != 4, Attempts: []adminapi.Attempt{{}}}}
	})
	c := &caller{name: "c", method: http.MethodPost, key: true, victim: address, dial: loopback(nil).caller.dial, idle: idle, deck: newDeck(1, 1)}
	calls, err := c.run(context.Background(), time.Now().Add(1500*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	if len(calls) < 4 || len(calls) != len(requests()) {
		t.Fatalf("%d calls, and the victim had %d; want as many, and 4 at the least", len(calls), len(requests()))
	}
	var off []time.Duration
	for i, one := range calls {
		r := requests()[i]
		body, _ := io.ReadAll(r.Body)
		if want := fmt.Sprintf("c-%d", i+1); one.ID != want || r.Header.Get(adminapi.HeaderID) != want ||
			r.Header.Get(adminapi.HeaderIdempotencyKey) != want || string(body) != "order="+want || r.Method != http.MethodPost {
			t.Errorf("call %d is %s, and came as %s %v %q", i+1, one.ID, r.Method, r.Header, body)
		}
		if rested := i > 0 && i != 3; one.Rested != rested {
			t.Errorf("call %d: rested %v, want %v: call 3 failed", i+1, one.Rested, rested)
		}
		if i > 0 {
			off = append(off, (one.Rest - one.Planned).Abs())
		}
	}
	// Without the upstream's share taken out all would be off by that.
	if slices.Sort(off); off[len(off)/2] > upstream/2 {
		t.Errorf("rests are off by %v", off)
	}
	if failed := calls[2]; failed.ok() || failed.Error != "EOF" || failed.Socket != "ECONNRESET" || failed.Connection != connectionReused {
		t.Errorf("the failed call is %+v", failed)
	}
	if calls[0].Connection != connectionNew || calls[1].Connection != connectionReused {
		t.Errorf("the connections are %s and %s", calls[0].Connection, calls[1].Connection)
	}
}

func TestACallerSaysWhatIsNoAnswerOfAVictim(t *testing.T) {
	address, _ := fakeVictim(t, 0, func(int, *http.Request) (int, adminapi.UpstreamAnswer) {
		return http.StatusServiceUnavailable, adminapi.UpstreamAnswer{Error: adminapi.CauseOverloaded}
	})
	c := &caller{name: "c", method: http.MethodGet, victim: address, dial: loopback(nil).caller.dial, idle: idle, deck: newDeck(1, 1)}
	calls, err := c.run(context.Background(), time.Now().Add(time.Second))
	if err == nil || !strings.Contains(err.Error(), "call c-1: the victim made no call: 503 overloaded") || len(calls) != 0 {
		t.Errorf("%d calls, error %v", len(calls), err)
	}
}

func TestUpstreamTimeIsReadFromServerTiming(t *testing.T) {
	if d, err := upstreamTime("queue;dur=1.000, upstream;dur=2.500, db;dur=0.000"); d != 2500*time.Microsecond || err != nil {
		t.Errorf("%v, %v", d, err)
	}
	for _, header := range []string{"", "db;dur=1", "upstream;dur=x"} {
		if _, err := upstreamTime(header); err == nil {
			t.Errorf("%q is read", header)
		}
	}
}
