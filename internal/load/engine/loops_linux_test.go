package engine

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chokepoint/internal/adminapi"
	"chokepoint/internal/load/arrival"
	"chokepoint/internal/result"
)

// counting is a server that counts the requests by their ids.
func counting(t *testing.T, answer http.HandlerFunc) (url string, seen func() map[string]int) {
	var mu sync.Mutex
	ids := map[string]int{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		ids[r.Header.Get(adminapi.HeaderID)]++
		mu.Unlock()
		answer(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL, func() map[string]int {
		mu.Lock()
		defer mu.Unlock()
		return ids
	}
}

// TestLoopsTogetherPlayThePlan: what several loops send and record is the plan, or
// the shard of it, whole and in due order.
func TestLoopsTogetherPlayThePlan(t *testing.T) {
	for _, loops := range []int{1, 2, 3} {
		for _, shard := range []arrival.Shard{{}, {Index: 1, Of: 2}} {
			t.Run(fmt.Sprintf("%d loops, shard %v", loops, shard), func(t *testing.T) {
				url, seen := counting(t, func(http.ResponseWriter, *http.Request) {})
				c := plan(Endpoint{Name: "fast", URL: url, Rate: 400}, Endpoint{Name: "slow", URL: url, Rate: 70})
				c.Duration, c.Arrivals, c.Seed = 500*time.Millisecond, Poisson, 7
				c.Engine, c.Loops, c.KeepRequests, c.Shard = Loop, loops, true, shard
				c.StartAt = time.Now().Add(100 * time.Millisecond)
				want := map[string]int{}
				var due []Request
				arrivals := c.arrivals()
				for a, ok := arrivals.Next(); ok; a, ok = arrivals.Next() {
					name := c.Endpoints[a.From].Name
					want[fmt.Sprintf("%s-%d", name, a.Index)] = 1
					due = append(due, Request{Endpoint: name, Index: a.Index, Due: a.Due})
				}
				r := live(t, c)
				var got []Request
				for _, kept := range r.Requests {
					got = append(got, Request{Endpoint: kept.Endpoint, Index: kept.Index, Due: kept.Due})
				}
				if diff := cmp.Diff(due, got); diff != "" {
					t.Errorf("the records are not the plan:\n%s", diff)
				}
				if diff := cmp.Diff(want, seen()); diff != "" {
					t.Errorf("the server's requests are not the plan:\n%s", diff)
				}
			})
		}
	}
}

// TestLoopsShareTheWorkers: of a server that never answers every loop fills its
// share of the workers, and drops what comes then.
func TestLoopsShareTheWorkers(t *testing.T) {
	for _, loops := range []int{1, 3} {
		p := newPeer(t, write(""))
		c := plan(Endpoint{Name: "fast", URL: p.url(), Rate: 100, Timeout: time.Hour, Workers: 7})
		c.Duration, c.Engine, c.Loops, c.KeepRequests = 300*time.Millisecond, Loop, loops, true
		c.GracefulStop = new(time.Duration)
		r := live(t, c)
		e := r.Load.Endpoints["fast"]
		if e.Scheduled != 30 || e.Interrupted != 7 || e.Dropped != 23 {
			t.Errorf("%d loops: %+v; want 7 interrupted and 23 dropped of 30", loops, e)
		}
		// The first seven arrivals find a worker, whichever loop they belong to.
		want := []result.DropSecond{{Second: 0, Dropped: 23, FirstDueNS: 70e6, LastDueNS: 290e6}}
		if diff := cmp.Diff(want, r.Load.DropTimes["fast"]); diff != "" {
			t.Errorf("%d loops: drops\n%s", loops, diff)
		}
		if len(r.Requests) != 30 {
			t.Errorf("%d loops: %d records, want 30", loops, len(r.Requests))
		}
	}
}

// TestStoppedLoopsLeaveAWholeResult: a run of several loops that is stopped has a
// record of every arrival that fell due, and no other.
func TestStoppedLoopsLeaveAWholeResult(t *testing.T) {
	arrived := make(chan struct{}, 10_000)
	url, seen := counting(t, func(http.ResponseWriter, *http.Request) { arrived <- struct{}{} })
	c := plan(Endpoint{Name: "fast", URL: url, Rate: 2000, Workers: 100})
	c.Engine, c.Loops, c.KeepRequests, c.MaxLag = Loop, 3, true, time.Hour
	r := stoppedAfter(t, c, arrived)
	e := r.Load.Endpoints["fast"]
	if !r.StoppedEarly || e.Scheduled < 1 || e.Scheduled >= 60_000 || len(r.Requests) != e.Scheduled {
		t.Errorf("%d records, %+v", len(r.Requests), e)
	}
	ids := map[int]bool{}
	for _, q := range r.Requests {
		ids[q.Index] = true
	}
	if len(ids) != e.Scheduled {
		t.Errorf("%d different arrivals of %d", len(ids), e.Scheduled)
	}
	if n := len(seen()); n < e.OK || n > e.Started {
		t.Errorf("the server saw %d requests of %d ok and %d started", n, e.OK, e.Started)
	}
}

func TestDropsOfSeveralLoopsComeInTheOrderOfTheirSeconds(t *testing.T) {
	tally := newTally(plan(Endpoint{Name: "fast", Rate: 1}), 0)
	for _, due := range []time.Duration{2500, 1900, 2100, 900, 2600, 1800} {
		tally.dropAt(due * time.Millisecond)
	}
	want := []result.DropSecond{
		{Second: 0, Dropped: 1, FirstDueNS: 900e6, LastDueNS: 900e6},
		{Second: 1, Dropped: 2, FirstDueNS: 1800e6, LastDueNS: 1900e6},
		{Second: 2, Dropped: 3, FirstDueNS: 2100e6, LastDueNS: 2600e6},
	}
	if diff := cmp.Diff(want, tally.drops); diff != "" {
		t.Error(diff)
	}
}

func TestHowManyLoops(t *testing.T) {
	for _, test := range []struct {
		name string
		c    Config
		most int // with processors to spare
	}{
		{"few arrivals", plan(Endpoint{Name: "a", Rate: 20_000}), 1},
		{"more than one carries", plan(Endpoint{Name: "a", Rate: 15_000}, Endpoint{Name: "b", Rate: 15_000}), 2},
		{"as asked", Config{Loops: 3, Endpoints: []Endpoint{{Name: "a", Rate: 1, Workers: 100}}}, 3},
		{"no more than workers", Config{Loops: 3, Endpoints: []Endpoint{{Name: "a", Rate: 1, Workers: 2}}}, 2},
		{"no workers", Config{Loops: 3, Endpoints: []Endpoint{{Name: "a", Rate: 1}}}, 3},
		{"closed", Config{Closed: 100, Endpoints: []Endpoint{{Name: "a"}}}, 1},
	} {
		c := test.c.WithDefaults()
		if got := c.loops(); got < 1 || got > test.most || c.Loops > 0 && got != test.most {
			t.Errorf("%s: %d loops, want %d", test.name, got, test.most)
		}
	}
}

// TestACancelledStartEndsEveryLoop: a context that has ended before the start.
func TestACancelledStartEndsEveryLoop(t *testing.T) {
	p := newPeer(t, write(okAnswer))
	c := plan(Endpoint{Name: "fast", URL: p.url(), Rate: 100})
	c.Engine, c.Loops, c.StartAt = Loop, 3, time.Now().Add(time.Hour)
	e, err := New(t.Context(), c.WithDefaults())
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r, err := e.Run(ctx)
	if err != nil || !r.StoppedEarly || r.Load.Endpoints["fast"].Scheduled != 0 {
		t.Errorf("error %v, %+v", err, r.Load)
	}
}

// TestAnAnswerThatHasComeFreesItsWorkerFirst: a loop that was kept from its CPU
// looks for answers before it drops what fell due meanwhile.
func TestAnAnswerThatHasComeFreesItsWorkerFirst(t *testing.T) {
	p := newPeer(t, write(okAnswer))
	l := loopAlone(t, p.url(), http.MethodGet, func(c *Config) { c.Endpoints[0].Workers = 1 })
	l.arrivals = arrival.Merge(arrival.Shard{}, arrival.Constant(1000, 3*time.Millisecond))
	l.draw()
	l.dispatch()
	for l.slots[0].phase == connecting {
		l.turn(time.Second) // sends the first, and may drop what falls due meanwhile
	}
	sent := l.lanes[0].tally.started.Load()
	dropped := l.lanes[0].tally.dropped.Load()
	eventually(t, "the server has the request", func() bool { _, requests, _ := p.counts(); return requests == 1 })
	time.Sleep(20 * time.Millisecond) // its answer comes, and nobody looks
	l.next.Due, l.next.leaves = l.now(), l.now()
	l.dispatch()
	if got := l.lanes[0].tally.dropped.Load(); got != dropped {
		t.Fatalf("%d dropped before the answer was looked for, want %d", got, dropped)
	}
	l.turn(0)
	if started := l.lanes[0].tally.started.Load(); started != sent+1 || l.lanes[0].tally.dropped.Load() != dropped {
		t.Errorf("%d started and %d dropped, want %d and %d", started, l.lanes[0].tally.dropped.Load(), sent+1, dropped)
	}
}
