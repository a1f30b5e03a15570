package victim

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"chokepoint/internal/adminapi"
	"chokepoint/internal/service/victim"
)

// Close ends although nothing will ever free the workers: it answers the queue,
// stops listening, and leaves what is held to itself.
func TestCloseEndsWhileWorkersAreHeld(t *testing.T) {
	w := newWorld(t, hang, nil)
	held := w.hold(4, "/upstream")
	w.pooled(4, 0)
	queued := w.hold(3, "/fast")
	w.pooled(4, 3)

	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	closed := make(chan struct{})
	go func() { w.victim.Close(ctx); close(closed) }()
	select {
	case <-closed:
	case <-time.After(patience):
		t.Fatal("Close waits for workers that nothing frees")
	}
	refused := receiveAll(queued)
	wantEqual(t, "the queue", map[outcome]int{{503, adminapi.CauseOverloaded}: 3}, outcomes(t, refused...))
	for _, a := range refused {
		if !strings.Contains(string(a.body), "shutting down") || !a.close {
			t.Errorf("a queued request got %s with %v", a.body, a.header)
		}
	}
	for _, address := range []string{w.public, strings.TrimPrefix(w.admin, "http://")} {
		if c, err := net.Dial("tcp", address); err == nil {
			c.Close()
			t.Errorf("%s still listens", address)
		}
	}
	// Whoever frees them later gets an answer through; nothing else stays behind,
	// which TestMain checks.
	w.stub.Close()
	wantEqual(t, "held", map[outcome]int{{502, adminapi.CauseUpstreamReset}: 4}, outcomes(t, receiveAll(held)...))
}

func TestCloseWaitsForWhatEnds(t *testing.T) {
	w := newWorld(t, adminapi.Behaviour{Delay: "100ms"}, nil)
	held := w.hold(4, "/upstream")
	w.pooled(4, 0)
	w.victim.Close(context.Background())
	wantEqual(t, "held", map[outcome]int{{Status: 200}: 4}, outcomes(t, receiveAll(held)...))
}

// A victim that cannot start says why in one line without the password, and
// leaves neither a listener nor a goroutine.
func TestStartThatFailsLeavesNothing(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	nobody := (&url.URL{Scheme: "postgres", User: url.UserPassword("u", "hunter2"), Host: closedPort(t), Path: "/db"}).String()
	listen := closedPort(t)
	for _, tc := range []struct {
		name   string
		change func(*victim.Config)
		want   []string
	}{
		{"public port in use", func(c *victim.Config) { c.Listen = taken.Addr().String() }, []string{taken.Addr().String(), "in use", "-listen"}},
		{"admin port in use", func(c *victim.Config) { c.Admin = taken.Addr().String() }, []string{taken.Addr().String(), "in use", "-admin"}},
		{"no upstream", func(c *victim.Config) { c.UpstreamURL = "nowhere" }, []string{`"nowhere"`, "http://"}},
		{"no database", func(c *victim.Config) { c.DatabaseURL = nobody }, []string{`database "db" on 127.0.0.1:`, `user "u"`, "refused", "check that the server runs"}},
		{"not a URL", func(c *victim.Config) { c.DatabaseURL = "postgres://u:hunter2@host:port/" }, []string{"-database-url cannot be read", "want postgres://"}},
		{"a password with a slash", func(c *victim.Config) { c.DatabaseURL = "postgres://u:hunter2/hunter2@host/" }, []string{"percent-encoded"}},
		{"a password that is named", func(c *victim.Config) { c.DatabaseURL = "postgres://u@host/?sslmode=hunter2&password=hunter2" }, []string{"for host cannot be read"}},
		{"not an sslmode", func(c *victim.Config) { c.DatabaseURL = "postgres://u:hunter2@host/?sslmode=some" }, []string{"for host cannot be read", "sslmode"}},
		{"not key=value", func(c *victim.Config) { c.DatabaseURL = "host=127.0.0.1 port=nine password=hunter2" }, []string{"-database-url cannot be read"}},
		{"no such database", func(c *victim.Config) { c.DatabaseURL = otherDatabase(t, "absent") }, []string{`"absent"`, "does not exist"}},
		{"no workers", func(c *victim.Config) { c.MinWorkers, c.MaxWorkers = 5, 4 }, []string{"5 to 4 workers", "want 0 <= min <= max"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cfg := victim.Config{
				Listen: listen, Admin: "127.0.0.1:0", UpstreamURL: "http://127.0.0.1:1/",
				DatabaseURL: databaseURL, DatabaseConns: 1, MinWorkers: 1, MaxWorkers: 1,
				AcceptBacklog: 1, MaxConnections: 1, Logger: slog.New(slog.DiscardHandler),
			}
			tc.change(&cfg)
			v, err := victim.Start(t.Context(), cfg)
			if err == nil {
				v.Close(context.Background())
				t.Fatal("it started")
			}
			for _, part := range tc.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error %q lacks %q", err, part)
				}
			}
			if strings.ContainsAny(err.Error(), "\n") || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("error %q: want one line without the password", err)
			}
			l, err := net.Listen("tcp", listen)
			if err != nil {
				t.Fatalf("a listener is left: %v", err)
			}
			l.Close()
		})
	}
}

// A start that is told to end, ends.
func TestStartIsInterrupted(t *testing.T) {
	gate := newGate(t)
	gate.setShut(true) // a database that accepts and never answers
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := victim.Start(ctx, victim.Config{
		Listen: "127.0.0.1:0", Admin: "127.0.0.1:0", UpstreamURL: "http://127.0.0.1:1/",
		DatabaseURL: gate.url, DatabaseConns: 3, MaxWorkers: 1,
		AcceptBacklog: 1, MaxConnections: 1, Logger: slog.New(slog.DiscardHandler),
	})
	if err == nil || !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		t.Errorf("start before a database that hangs: %v (context: %v)", err, ctx.Err())
	}
}

// closedPort is an address on which nothing listens.
func closedPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// otherDatabase is the server of the tests with another database's name.
func otherDatabase(t *testing.T, name string) string {
	t.Helper()
	gate := newGate(t)
	u, err := url.Parse(gate.url)
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/" + name
	return u.String()
}
