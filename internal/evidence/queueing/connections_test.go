package queueing

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"chokepoint/internal/adminapi"
)

// fewConnections draws a run whose victim accepts only a few connections.
func fewConnections() *rapid.Generator[Config] {
	return rapid.Custom(func(t *rapid.T) Config {
		cfg := anyConfig().Draw(t, "config")
		cfg.MaxConnections = rapid.IntRange(1, 20).Draw(t, "max connections")
		cfg.AcceptBacklog = rapid.IntRange(0, 10).Draw(t, "accept backlog")
		return cfg
	})
}

// The cap on connections and the backlog hold after every event, nothing waits in
// the kernel that could be accepted, and at the end every connection is closed and
// the ledger balances.
func TestConnectionsAreBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := fewConnections().Draw(t, "config")
		s := newSimulation(&cfg, variant(&cfg, rapid.IntRange(0, fullEnsemble-1).Draw(t, "variant")))
		c := &s.connections
		for s.step() {
			switch {
			case c.limit == 0:
				return // they are more than the arrivals
			case c.open < 0 || c.open > cfg.MaxConnections:
				t.Fatalf("at %v %d of %d connections are open", s.now, c.open, cfg.MaxConnections)
			case c.queued > cfg.AcceptBacklog+1:
				t.Fatalf("at %v %d connections are in a backlog of %d", s.now, c.queued, cfg.AcceptBacklog)
			case c.queued > 0 && c.open < cfg.MaxConnections:
				t.Fatalf("at %v %d connections wait while %d of %d are open", s.now, c.queued, c.open, cfg.MaxConnections)
			}
		}
		if hangs := cfg.Fault == adminapi.FaultHang && cfg.Profile.Timeout == 0; !hangs && (c.open != 0 || c.queued != 0) {
			t.Fatalf("%d connections are left open and %d unaccepted", c.open, c.queued)
		}
		for i, l := range s.tally.ledgers {
			if got := l.dropped + l.ok() + l.httpError() + l.timeout + l.interrupted; got != l.scheduled {
				t.Fatalf("%s: %d outcomes of %d scheduled: %+v", cfg.Streams[i].Name, got, l.scheduled, l)
			}
		}
	})
}

// A cap above what can ever be connected changes no figure.
func TestACapThatCannotBindChangesNothing(t *testing.T) {
	for _, name := range []string{"anti", "fixed"} {
		cfg := exhaustion(t, name, 0.1)
		without := predict(t, cfg)
		cfg.MaxConnections, cfg.AcceptBacklog = 8192, 10
		if diff := cmp.Diff(without, predict(t, cfg)); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
	}
}

// TestAcceptQueue is the outage behind 100 connections. The two endpoints share
// them: /fast keeps one on which it is answered, the others stand in the upstream,
// twice 30 s long, and whoever comes then waits in the kernel, or gets no answer from
// it at all.
func TestAcceptQueue(t *testing.T) {
	for _, test := range []struct {
		backlog int
		want    float64
	}{{10, 11}, {1000, 1001}} { // the kernel holds one more
		cfg := exhaustion(t, "anti", 0.1)
		cfg.MaxConnections, cfg.AcceptBacklog = 100, test.backlog
		p := predict(t, cfg)
		if p.Pool.MaxAcceptQueue != (Figure{test.want, test.want, test.want}) {
			t.Errorf("backlog %d: %+v connections in the accept queue, want %v", test.backlog, p.Pool.MaxAcceptQueue, test.want)
		}
		expect(t, p, map[string]want{
			"upstream.status_200": among(190, 200), "upstream.timeout": among(1000, 1010),
			"fast.timeout": among(0, 30), "pool.max_busy": among(98, 100), "pool.max_queued": exactly(0),
		})
	}
}

// The times of net/ipv4 since Linux 6.5, as ip-sysctl.rst has them: the last of ten
// is sent after 67 s.
func TestConnectIsTriedAgain(t *testing.T) {
	var at []int
	var sum time.Duration
	for n := range uint8(maxRetries) {
		sum += retryAfter(n)
		at = append(at, int(sum/time.Second))
	}
	if diff := cmp.Diff([]int{1, 2, 3, 4, 5, 7, 11, 19, 35, 67}, at); diff != "" {
		t.Errorf("seconds of the attempts (-want +got):\n%s", diff)
	}
}
