package victim

import (
	"net"
	"net/url"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// gate is a TCP way to the PostgreSQL of the tests. While it is shut, queries
// wait for their answer; once it is cut, there is no database.
type gate struct {
	url      string
	listener net.Listener
	network  string
	address  string
	running  sync.WaitGroup

	mu    sync.Mutex
	open  *sync.Cond // on mu
	shut  bool
	ended bool
	conns []net.Conn
}

func newGate(t *testing.T) *gate {
	t.Helper()
	config, err := pgx.ParseConfig(databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{}
	g.open = sync.NewCond(&g.mu)
	g.network, g.address = pgconn.NetworkAddress(config.Host, config.Port)
	if g.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword(config.User, config.Password),
		Host: g.listener.Addr().String(), Path: "/" + config.Database, RawQuery: "sslmode=disable",
	}
	g.url = u.String()
	g.running.Go(g.accept)
	t.Cleanup(func() {
		g.cut()
		g.running.Wait()
	})
	return g
}

func (g *gate) accept() {
	for {
		c, err := g.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial(g.network, g.address)
		if err != nil {
			c.Close()
			continue
		}
		g.mu.Lock()
		g.conns = append(g.conns, c, server)
		g.mu.Unlock()
		g.running.Go(func() { g.pass(server, c) })
		g.running.Go(func() { g.pass(c, server) })
	}
}

// pass copies while the gate is open.
func (g *gate) pass(to, from net.Conn) {
	defer to.Close()
	buf := make([]byte, 16<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		g.mu.Lock()
		for g.shut && !g.ended {
			g.open.Wait()
		}
		g.mu.Unlock()
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

func (g *gate) setShut(shut bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = shut
	g.open.Broadcast()
}

// cut ends the way for good.
func (g *gate) cut() {
	g.listener.Close()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ended = true
	g.open.Broadcast()
	for _, c := range g.conns {
		c.Close()
	}
}
