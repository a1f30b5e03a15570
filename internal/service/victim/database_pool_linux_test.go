package victim

import (
	"math"
	"net"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sys/unix"

	"chokepoint/internal/profile"
)

// applied is a pool's configuration with the settings put on.
func applied(t *testing.T, p DatabasePool) *pgxpool.Config {
	t.Helper()
	config, err := pgxpool.ParseConfig("postgres://user@127.0.0.1:5432/postgres?sslmode=disable&pool_min_conns=3")
	if err != nil {
		t.Fatal(err)
	}
	if err := p.apply(config); err != nil {
		t.Fatal(err)
	}
	return config
}

func TestDatabasePoolSettings(t *testing.T) {
	c := applied(t, DatabasePool{})
	if c.MinConns != 0 || c.MaxConnLifetime != 0 || c.MaxConnIdleTime != math.MaxInt64 || c.HealthCheckPeriod != time.Minute || c.PingTimeout != 0 || c.ShouldPing != nil {
		t.Errorf("without settings: min %d, lifetime %v, idle %v, check %v, ping %v",
			c.MinConns, c.MaxConnLifetime, c.MaxConnIdleTime, c.HealthCheckPeriod, c.PingTimeout)
	}
	c = applied(t, DatabasePool{MaxConnIdleTime: time.Second, HealthCheckPeriod: 2 * time.Second, PingTimeout: 3 * time.Second, PingAlways: true})
	if c.MaxConnIdleTime != time.Second || c.HealthCheckPeriod != 2*time.Second || c.PingTimeout != 3*time.Second || c.ShouldPing == nil || !c.ShouldPing(t.Context(), pgxpool.ShouldPingParams{}) {
		t.Errorf("idle %v, check %v, ping %v; want 1s, 2s, 3s and a ping of what has not rested", c.MaxConnIdleTime, c.HealthCheckPeriod, c.PingTimeout)
	}
}

// TestDatabaseSocketsHaveTheOptions looks at the sockets that the pool would dial, by
// TCP and by a Unix socket, which has none of the options.
func TestDatabaseSocketsHaveTheOptions(t *testing.T) {
	c := applied(t, DatabasePool{
		KeepAlive:   profile.KeepAlive{Idle: 4 * time.Second, Interval: 2 * time.Second, Count: 3},
		UserTimeout: 1500 * time.Millisecond,
	})
	plain := applied(t, DatabasePool{})
	local := t.TempDir() + "/.s.PGSQL.5432"
	for _, at := range []struct{ network, addr string }{{"tcp", "127.0.0.1:0"}, {"unix", local}} {
		listener, err := net.Listen(at.network, at.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		dial := func(config *pgxpool.Config) net.Conn {
			conn, err := config.ConnConfig.DialFunc(t.Context(), at.network, listener.Addr().String())
			if err != nil {
				t.Fatalf("%s: %v", at.network, err)
			}
			t.Cleanup(func() { conn.Close() })
			return conn
		}
		conn, bare := dial(c), dial(plain)
		if at.network == "unix" {
			continue
		}
		for _, o := range []struct {
			name          string
			level, option int
			want, without int
		}{
			{"SO_KEEPALIVE", unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1, 0},
			{"TCP_KEEPIDLE", unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, 4, -1},
			{"TCP_KEEPINTVL", unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, 2, -1},
			{"TCP_KEEPCNT", unix.IPPROTO_TCP, unix.TCP_KEEPCNT, 3, -1},
			{"TCP_USER_TIMEOUT", unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, 1500, 0},
		} {
			if got := option(t, conn, o.level, o.option); got != o.want {
				t.Errorf("%s is %d, want %d", o.name, got, o.want)
			}
			// The kernel's own values of what is not switched on are the machine's.
			if got := option(t, bare, o.level, o.option); o.without >= 0 && got != o.without {
				t.Errorf("%s without settings is %d, want %d", o.name, got, o.without)
			}
		}
	}
}

func option(t *testing.T, conn net.Conn, level, option int) (value int) {
	t.Helper()
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if ctlErr := raw.Control(func(fd uintptr) { value, err = unix.GetsockoptInt(int(fd), level, option) }); ctlErr != nil || err != nil {
		t.Fatal(ctlErr, err)
	}
	return value
}
