package goroutines

import (
	"context"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/valyala/fasthttp"
	"golang.org/x/sync/semaphore"

	"chokepoint/internal/evidence/stacks"
)

// These stand for the victim's frames, and renamed gives them its names: so the
// rules meet the frames that the libraries of go.mod really have.
func fakeWork(run func())                                      { run() }
func fakeDo(run func())                                        { run() }
func fakeAcquire(ctx context.Context, sem *semaphore.Weighted) { sem.Acquire(ctx, 1) }

var renamed = map[string]string{
	thisPackage + "fakeWork":    work,
	thisPackage + "fakeDo":      do,
	thisPackage + "fakeAcquire": acquire[0],
}

// silent is a server that calls greet and then only reads.
func silent(t *testing.T, greet func(net.Conn)) (addr string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	var conns []net.Conn
	wg.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns = append(conns, conn)
			mu.Unlock()
			if greet != nil {
				greet(conn)
			}
		}
	})
	t.Cleanup(func() {
		listener.Close()
		wg.Wait()
		for _, conn := range conns {
			conn.Close()
		}
	})
	return listener.Addr().String()
}

func TestLocateLibraries(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var workers sync.WaitGroup
	var pool *pgxpool.Pool
	t.Cleanup(func() { // after the servers' own, so nothing waits any more
		cancel()
		workers.Wait()
		pool.Close()
	})
	web := silent(t, nil)
	database := silent(t, func(conn net.Conn) {
		backend := pgproto3.NewBackend(conn, conn)
		if _, err := backend.ReceiveStartupMessage(); err != nil {
			return
		}
		backend.Send(&pgproto3.AuthenticationOk{})
		backend.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
		backend.Flush()
	})
	// The default dialler starts a goroutine that never ends, and the client's
	// cleaner sleeps for the idle time.
	dial := func(addr string) (net.Conn, error) { return net.Dial("tcp", addr) }
	fast := &fasthttp.HostClient{Addr: web, Dial: dial, MaxIdleConnDuration: time.Millisecond, MaxConns: 1, MaxConnWaitTimeout: time.Minute}
	secure := &fasthttp.HostClient{Addr: web, Dial: dial, MaxIdleConnDuration: time.Millisecond, IsTLS: true, WriteTimeout: time.Minute}
	transport := &http.Transport{}
	t.Cleanup(fast.CloseIdleConnections)
	t.Cleanup(transport.CloseIdleConnections)
	var err error
	pool, err = pgxpool.New(ctx, "postgres://u@"+database+"/d?sslmode=disable&pool_max_conns=1")
	if err != nil {
		t.Fatal(err)
	}
	sem := semaphore.NewWeighted(1)
	if !sem.TryAcquire(1) {
		t.Fatal("no permit")
	}

	get := func(c *fasthttp.HostClient, scheme string) func() {
		return func() {
			fakeDo(func() {
				req, resp := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
				req.SetRequestURI(scheme + "://" + web + "/")
				_ = c.DoDeadline(req, resp, time.Now().Add(time.Minute))
			})
		}
	}
	query := func() {
		var n int
		_ = pool.QueryRow(ctx, "select 1").Scan(&n)
	}
	for _, tt := range []struct {
		name         string
		run          func()
		state, where string
		frame, wait  string
	}{
		{"fasthttp reads", get(fast, "http"), "IO wait", stacks.UpstreamRead, "github.com/valyala/fasthttp.(*ResponseHeader).tryRead", stacks.WaitHTTP},
		{"fasthttp has no connection", get(fast, "http"), "select", stacks.Other, "github.com/valyala/fasthttp.(*HostClient).AcquireConn", stacks.WaitConnection},
		{"fasthttp shakes hands", get(secure, "https"), "IO wait", stacks.UpstreamConnect, "github.com/valyala/fasthttp.tlsClientHandshake", stacks.WaitConnect},
		{"net/http waits", func() {
			fakeDo(func() {
				req, _ := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+web+"/", nil)
				if resp, err := transport.RoundTrip(req); err == nil {
					resp.Body.Close()
				}
			})
		}, "select", stacks.UpstreamRead, "net/http.(*persistConn).roundTrip", stacks.WaitHTTP},
		{"bulkhead", func() { fakeAcquire(ctx, sem) }, "select", stacks.PermitWait, acquire[0], stacks.WaitSemaphore},
		{"pgx reads", query, "IO wait", stacks.Database, "github.com/jackc/pgx/v5/pgconn.(*PgConn).peekMessage", stacks.WaitDatabase},
		{"pgx has no connection", query, "select", stacks.Database, "github.com/jackc/puddle/v2.(*Pool[...]).acquire", stacks.WaitConnection},
	} {
		t.Run(tt.name, func(t *testing.T) {
			workers.Go(func() { fakeWork(tt.run) })
			var last []Place
			var c Capturer
			for range 200 {
				last = nil
				for _, g := range capture(t, &c) {
					if !slices.ContainsFunc(g.Frames, func(f Frame) bool { return f.Func == thisPackage+"fakeWork" }) {
						continue
					}
					for i, f := range g.Frames {
						if name, ok := renamed[f.Func]; ok {
							g.Frames[i].Func = name
						}
					}
					p := Locate(g)
					if p.Worker && p.Where == tt.where && p.Wait == tt.wait && p.Frame.Func == tt.frame && g.State == tt.state {
						return
					}
					last = append(last, p)
				}
				time.Sleep(5 * time.Millisecond)
			}
			t.Errorf("no worker at %s, %s in %s for %s: %+v", tt.where, tt.state, tt.frame, tt.wait, last)
		})
	}
}
