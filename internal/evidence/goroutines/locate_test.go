package goroutines

import (
	"strings"
	"testing"

	"chokepoint/internal/evidence/stacks"
)

// stack makes a goroutine of functions, the innermost first, as in a dump.
func stack(state string, functions ...string) Goroutine {
	g := Goroutine{ID: 1, State: state}
	for _, f := range functions {
		g.Frames = append(g.Frames, Frame{Func: f})
	}
	return g
}

const (
	work       = "chokepoint/internal/service/pool.(*Pool).work"
	unbounded  = "chokepoint/internal/service/pool.(*Pool).runUnbounded"
	handle     = "chokepoint/internal/service/victim.(*Server).upstream"
	do         = "chokepoint/internal/service/outbound.(*Client).Do"
	pollWait   = "internal/poll.runtime_pollWait"
	fdRead     = "internal/poll.(*FD).Read"
	semAcquire = "golang.org/x/sync/semaphore.(*Weighted).Acquire"
)

func TestLocate(t *testing.T) {
	for _, tt := range []struct {
		name   string
		g      Goroutine
		where  string
		worker bool
		frame  string
	}{
		{"idle", stack("chan receive", "chokepoint/internal/service/pool.(*worker).awaitTask", work),
			stacks.Idle, true, "chokepoint/internal/service/pool.(*worker).awaitTask"},
		{"idle in a condition variable", stack("sync.Cond.Wait", "sync.runtime_notifyListWait", "sync.(*Cond).Wait", "chokepoint/internal/service/pool.(*worker).awaitTask", work),
			stacks.Idle, true, "chokepoint/internal/service/pool.(*worker).awaitTask"},
		{"a loop that is no worker's", stack("chan receive", "chokepoint/internal/service/pool.(*worker).awaitTask", "main.main"),
			stacks.Other, false, "chokepoint/internal/service/pool.(*worker).awaitTask"},

		{"upstream read", stack("IO wait", pollWait, "internal/poll.(*pollDesc).wait", fdRead, "net.(*netFD).Read", "net.(*conn).Read",
			"chokepoint/internal/service/outbound.(*conn).Read", "bufio.(*Reader).Peek",
			"github.com/valyala/fasthttp.(*ResponseHeader).tryRead", "github.com/valyala/fasthttp.(*HostClient).Do", do, handle, work),
			stacks.UpstreamRead, true, "github.com/valyala/fasthttp.(*ResponseHeader).tryRead"},
		{"upstream read, woken", stack("runnable", fdRead, "net.(*conn).Read", "github.com/valyala/fasthttp.(*ResponseHeader).tryRead", do, handle, work),
			stacks.UpstreamRead, true, "github.com/valyala/fasthttp.(*ResponseHeader).tryRead"},
		{"upstream read over TLS", stack("IO wait", pollWait, fdRead, "net.(*conn).Read", "crypto/tls.(*atLeastReader).Read", "crypto/tls.(*Conn).Read", do, work),
			stacks.UpstreamRead, true, do},
		{"upstream read, unbounded", stack("IO wait", pollWait, fdRead, do, handle, unbounded, "github.com/valyala/fasthttp.(*Server).serveConn"),
			stacks.UpstreamRead, true, do},
		{"net/http waits for its reader", stack("select", "net/http.(*persistConn).roundTrip", "net/http.(*Transport).roundTrip", do, handle, work),
			stacks.UpstreamRead, true, "net/http.(*persistConn).roundTrip"},
		{"net/http reads the body", stack("IO wait", pollWait, fdRead, "net.(*conn).Read", "chokepoint/internal/service/outbound.(*conn).Read", "net/http.(*persistConn).Read",
			"bufio.(*Reader).fill", "net/http.(*body).Read", "io.Copy", "chokepoint/internal/service/outbound.(*throughNetHTTP).attempt", do, handle, work),
			stacks.UpstreamRead, true, "net/http.(*persistConn).Read"},
		{"outbound waits itself", stack("chan receive", do, handle, work), stacks.UpstreamRead, true, do},
		{"before the request is sent", stack("running", "github.com/valyala/fasthttp.(*URI).Parse", do, handle, work),
			stacks.Running, true, "github.com/valyala/fasthttp.(*URI).Parse"},
		{"for a lock of the client", stack("sync.Mutex.Lock", "internal/sync.(*Mutex).lockSlow", "sync.(*Mutex).Lock", "github.com/valyala/fasthttp.(*HostClient).ReleaseConn", do, work),
			stacks.Running, true, "github.com/valyala/fasthttp.(*HostClient).ReleaseConn"},
		{"connect", stack("IO wait", pollWait, "internal/poll.(*FD).WaitWrite", "net.(*netFD).connect", "net.(*sysDialer).dialTCP", "net.(*Dialer).DialContext",
			"chokepoint/internal/service/outbound.(*Client).dial", "github.com/valyala/fasthttp.(*HostClient).dialHostHard", do, work),
			stacks.UpstreamConnect, true, "chokepoint/internal/service/outbound.(*Client).dial"},
		{"TLS handshake", stack("IO wait", pollWait, fdRead, "crypto/tls.(*Conn).handshakeContext", "crypto/tls.(*Conn).Handshake", "github.com/valyala/fasthttp.tlsClientHandshake", do, work),
			stacks.UpstreamConnect, true, "github.com/valyala/fasthttp.tlsClientHandshake"},
		{"net/http connects", stack("select", "net/http.(*Transport).getConn", "net/http.(*Transport).roundTrip", do, work),
			stacks.UpstreamConnect, true, "net/http.(*Transport).getConn"},
		{"for a connection within the client's limit", stack("select", "github.com/valyala/fasthttp.(*HostClient).AcquireConn", do, work),
			stacks.Other, true, "github.com/valyala/fasthttp.(*HostClient).AcquireConn"},
		{"write", stack("IO wait", pollWait, "internal/poll.(*FD).Write", "net.(*conn).Write", "bufio.(*Writer).Flush", "github.com/valyala/fasthttp.(*Request).Write", do, work),
			stacks.Other, true, "github.com/valyala/fasthttp.(*Request).Write"},
		{"a read of no worker", stack("IO wait", pollWait, fdRead, do, "main.probe"), stacks.Other, false, do},
		{"a read of the connection", stack("IO wait", pollWait, fdRead, "github.com/valyala/fasthttp.(*Server).serveConn"),
			stacks.Other, false, "github.com/valyala/fasthttp.(*Server).serveConn"},

		{"permit", stack("select", semAcquire, "chokepoint/internal/service/guard.(*Bulkhead).acquire", "chokepoint/internal/service/guard.(*Guard).Do", handle, work),
			stacks.PermitWait, true, "chokepoint/internal/service/guard.(*Bulkhead).acquire"},
		{"behind the permit", stack("IO wait", pollWait, fdRead, do, "chokepoint/internal/service/guard.(*Guard).Do", handle, work), stacks.UpstreamRead, true, do},
		{"a semaphore of another", stack("select", semAcquire, handle, work), stacks.Running, true, handle},

		{"row", stack("IO wait", pollWait, fdRead, "net.(*conn).Read", "github.com/jackc/pgx/v5/pgconn/internal/bgreader.(*BGReader).Read", "io.ReadAtLeast",
			"github.com/jackc/pgx/v5/pgproto3.(*chunkReader).Next", "github.com/jackc/pgx/v5/pgconn.(*PgConn).peekMessage", "github.com/jackc/pgx/v5/pgxpool.(*Pool).QueryRow", handle, work),
			stacks.Database, true, "github.com/jackc/pgx/v5/pgconn.(*PgConn).peekMessage"},
		{"connection of pgx's pool", stack("select", semAcquire, "github.com/jackc/puddle/v2.(*Pool[...]).acquire", "github.com/jackc/pgx/v5/pgxpool.(*Pool).Acquire", handle, work),
			stacks.Database, true, "github.com/jackc/puddle/v2.(*Pool[...]).acquire"},
		{"the pool's own goroutine", stack("select", "github.com/jackc/pgx/v5/pgxpool.(*Pool).backgroundHealthCheck"),
			stacks.Other, false, "github.com/jackc/pgx/v5/pgxpool.(*Pool).backgroundHealthCheck"},

		{"queued", stack("select", "chokepoint/internal/service/pool.(*task).awaitWorker", "chokepoint/internal/service/pool.(*Pool).Run", "github.com/valyala/fasthttp.(*Server).serveConn"),
			stacks.Queued, false, "chokepoint/internal/service/pool.(*task).awaitWorker"},
		{"its request runs", stack("chan receive", "chokepoint/internal/service/pool.(*task).awaitDone", "chokepoint/internal/service/pool.(*Pool).Run", "github.com/valyala/fasthttp.(*Server).serveConn"),
			stacks.Other, false, "chokepoint/internal/service/pool.(*task).awaitDone"},

		{"running", stack("running", "main.spin", handle, work), stacks.Running, true, "main.spin"},
		{"between two tasks", stack("runnable", work), stacks.Running, true, work},
		{"a closure of the worker's is not the worker", stack("running", work+".func1"), stacks.Other, false, work + ".func1"},

		{"net/http service: upstream", stack("select", "net/http.(*persistConn).roundTrip", "net/http.(*Client).Do", "main.handler", "net/http.(*conn).serve"),
			stacks.UpstreamRead, false, "net/http.(*persistConn).roundTrip"},
		{"net/http service: database/sql", stack("IO wait", pollWait, fdRead, "github.com/lib/pq.(*conn).recv", "database/sql.(*DB).QueryContext", "main.handler", "net/http.(*conn).serve"),
			stacks.Database, false, "github.com/lib/pq.(*conn).recv"},
		{"net/http service: pgx", stack("select", semAcquire, "github.com/jackc/puddle/v2.(*Pool[...]).acquire", "main.handler", "net/http.(*conn).serve"),
			stacks.Database, false, "github.com/jackc/puddle/v2.(*Pool[...]).acquire"},
		{"fasthttp service: upstream", stack("IO wait", pollWait, fdRead, "github.com/valyala/fasthttp.(*ResponseHeader).tryRead", "github.com/valyala/fasthttp.(*HostClient).doNonNilReqResp", "main.handler", "github.com/valyala/fasthttp.(*Server).serveConn"),
			stacks.UpstreamRead, false, "github.com/valyala/fasthttp.(*ResponseHeader).tryRead"},
		{"fasthttp service: connect", stack("IO wait", pollWait, "net.(*netFD).connect", "github.com/valyala/fasthttp.(*TCPDialer).tryDial", "github.com/valyala/fasthttp.(*HostClient).doNonNilReqResp", "main.handler", "github.com/valyala/fasthttp.(*Server).serveConn"),
			stacks.UpstreamConnect, false, "github.com/valyala/fasthttp.(*TCPDialer).tryDial"},

		{"all plumbing", stack("IO wait", pollWait, fdRead, "net.(*Resolver).goLookupIP.func1", "runtime.goexit"), stacks.Other, false, "net.(*Resolver).goLookupIP.func1"},
		{"no frame", stack("running"), stacks.Other, false, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			// Labels are inherited, so they may not decide.
			tt.g.Labels = map[string]string{"endpoint": "/upstream", "worker": "7"}
			got := Locate(tt.g)
			if got.Where != tt.where || got.Worker != tt.worker || got.Frame.Func != tt.frame {
				t.Errorf("at %s, worker %v, in %s; want %s, %v, %s", got.Where, got.Worker, got.Frame.Func, tt.where, tt.worker, tt.frame)
			}
			// With every frame that GOTRACEBACK=system adds, too.
			if len(tt.g.Frames) > 0 {
				full := stack(tt.g.State, "runtime.gopark", "runtime.selectgo")
				full.Frames = append(append(full.Frames, tt.g.Frames...), Frame{Func: "runtime.goexit"})
				if got := Locate(full); got.Where != tt.where || got.Worker != tt.worker || got.Frame.Func != tt.frame {
					t.Errorf("with runtime frames at %s, worker %v, in %s", got.Where, got.Worker, got.Frame.Func)
				}
			}
		})
	}
}

// Every alternative of every rule decides for the stack of its own frames: none
// is hidden by a rule before it.
func TestEveryAlternativeDecides(t *testing.T) {
	known := map[string]bool{}
	for _, where := range stacks.Wheres() {
		known[where] = true
	}
	for i, r := range rules.Places {
		if !known[r.Where] {
			t.Errorf("rule %d: where is %q", i, r.Where)
		}
		state := "IO wait"
		if r.States != nil {
			state = r.States[0]
		}
		for p, alternatives := range r.Frames {
			for a := range alternatives {
				var functions []string // the innermost first
				for q, other := range r.Frames {
					function := other[0]
					if q == p {
						function = other[a]
					}
					if prefix, ok := strings.CutSuffix(function, "*"); ok {
						function = prefix + "x"
					}
					functions = append([]string{function}, functions...)
				}
				g := stack(state, functions...)
				for j := range rules.Places[:i] {
					if rules.Places[j].Fits(g.Stack()) {
						t.Errorf("rule %d hides rule %d for %q", j, i, functions)
					}
				}
				if got := Locate(g); got.Where != r.Where || got.Worker != r.Worker {
					t.Errorf("rule %d: %q is at %s, worker %v", i, functions, got.Where, got.Worker)
				}
			}
		}
	}
}

// An order that is not the rule's does not fit.
func TestFramesOutOfOrder(t *testing.T) {
	g := stack("IO wait", work, do, fdRead)
	if got := Locate(g); got.Where != stacks.Running {
		t.Errorf("at %s, want %s", got.Where, stacks.Running)
	}
}
