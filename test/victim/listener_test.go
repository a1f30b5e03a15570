package victim

import (
	"errors"
	"net"
	"testing"
	"time"

	"chokepoint/internal/adminapi"
	"chokepoint/internal/service/victim"
)

// A victim of two connections and a backlog of 100: Linux keeps 101 more
// (sk_acceptq_is_full lets one over the backlog in) and drops what comes then.
// The figures are the socket's own, by /stats.
func TestConnectionsOverTheLimitWaitInTheBacklog(t *testing.T) {
	const limit, backlog = 2, 100
	w := newWorld(t, answers, func(c *victim.Config) { c.MaxConnections, c.AcceptBacklog = limit, backlog })
	var clients []*client
	for range limit + backlog + 1 {
		clients = append(clients, w.dial())
	}
	s := w.statsWhen("full", func(s adminapi.VictimStats) bool {
		return s.Listener.Connections == limit && s.Listener.AcceptQueue == backlog+1
	})
	want := adminapi.ListenerStats{
		Known: true, AcceptQueue: backlog + 1, MaxAcceptQueue: s.Listener.MaxAcceptQueue,
		Backlog: backlog, Connections: limit, MaxConnections: limit,
	}
	wantEqual(t, "listener, full", want, s.Listener)
	if s.Listener.MaxAcceptQueue < backlog+1 {
		t.Errorf("highest sample %d", s.Listener.MaxAcceptQueue)
	}

	const over = 3
	for range over {
		// The kernel drops the SYN of a full queue and the dialler repeats it, so
		// only a bound ends this.
		c, err := net.DialTimeout("tcp", w.public, 100*time.Millisecond)
		if err == nil {
			c.Close()
			t.Error("connected to a full queue")
		} else if failure, ok := errors.AsType[net.Error](err); !ok || !failure.Timeout() {
			t.Errorf("dial: %v, want its own timeout", err)
		}
	}
	if n := w.stats().Listener.Drops; n < over {
		t.Errorf("%d drops, want at least one for each of %d attempts", n, over)
	}

	// Who waits in the kernel is served as soon as another leaves.
	third := clients[limit]
	third.send("/fast")
	clients[0].conn.Close()
	if a := third.receive(); a.status != 200 {
		t.Errorf("%d %s", a.status, a.body)
	}
	s = w.stats()
	if s.Listener.Connections != limit || s.Listener.AcceptQueue != backlog {
		t.Errorf("after one left: %+v", s.Listener)
	}

	status, _, _ := w.adminDo("POST", adminapi.PathReset)
	if s := w.stats().Listener; status != 204 || s.MaxAcceptQueue != backlog {
		t.Errorf("after a reset (%d) the highest sample is %d, want that of now, %d", status, s.MaxAcceptQueue, backlog)
	}
}

func TestTheLimitsOfConnectionsAndWorkersAreIndependent(t *testing.T) {
	// 4 workers serve 100 idle connections: holding a connection holds no worker.
	w := newWorld(t, answers, nil)
	clients := w.hold(100, "/fast")
	for _, a := range receiveAll(clients) {
		if a.status != 200 {
			t.Errorf("%d %s", a.status, a.body)
		}
	}
	s := w.pooled(0, 0)
	if s.Listener.Connections != 100 || s.Pool.MaxBusy > 4 || s.Pool.Workers > 4 {
		t.Errorf("listener %+v, pool %+v", s.Listener, s.Pool)
	}
	for _, c := range clients {
		c.conn.Close()
	}
	w.statsWhen("without connections", func(s adminapi.VictimStats) bool { return s.Listener.Connections == 0 })
}
