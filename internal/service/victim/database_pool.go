package victim

import (
	"context"
	"flag"
	"fmt"
	"math"
	"net"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"chokepoint/internal/profile"
	"chokepoint/internal/service/outbound"
)

// DatabasePool is how the connections to the database are kept. pgx pings a
// connection that rested for over a second before it hands it out
// (pgxpool.Config.ShouldPing).
type DatabasePool struct {
	// MaxConnIdleTime closes connections that rested for longer, when the health
	// check next looks; 0 keeps them, so that no request of a run pays for a new one.
	MaxConnIdleTime time.Duration
	// HealthCheckPeriod is how often connections that rest are looked at: at their
	// ages, not at the connections. 0 is pgx's own, one minute.
	HealthCheckPeriod time.Duration
	// PingAlways pings before every use, for a round trip each.
	PingAlways bool
	// PingTimeout bounds the ping; 0 is no bound, as in pgx.
	PingTimeout time.Duration
	// KeepAlive is TCP's; the zero value has none.
	KeepAlive profile.KeepAlive
	// UserTimeout is TCP_USER_TIMEOUT; 0 is the kernel's own.
	UserTimeout time.Duration
}

// Bind adds the flags of the pool to fs. Their defaults are pgx's own, but for the idle
// time, and without the keepalive of Go's dialer, which the client of the upstream has
// not got either.
func (p *DatabasePool) Bind(fs *flag.FlagSet) {
	fs.DurationVar(&p.MaxConnIdleTime, "db-max-conn-idle-time", 0, "close database connections that rested for longer, at the next health check; 0 keeps them")
	fs.DurationVar(&p.HealthCheckPeriod, "db-health-check-period", 0, "how often the database pool looks at the ages of its connections; 0 is pgx's own, 1m")
	fs.BoolVar(&p.PingAlways, "db-ping-always", false, "ping a database connection before every use, not only when it rested for over 1s")
	fs.DurationVar(&p.PingTimeout, "db-ping-timeout", 0, "bound on the ping of a database connection; 0 is none")
	fs.Func("db-keepalive", "TCP keepalive of database connections as `IDLE/INTERVAL/COUNT`, such as 15s/15s/9, which is Go's own, or off (default off)", func(s string) (err error) {
		p.KeepAlive, err = profile.ParseKeepAlive(s)
		return err
	})
	fs.DurationVar(&p.UserTimeout, "db-user-timeout", 0, "TCP_USER_TIMEOUT of database connections; 0 is the kernel's own")
}

// Validate refuses what cannot be had.
func (p DatabasePool) Validate() error {
	for _, d := range []struct {
		flag  string
		value time.Duration
	}{
		{"-db-max-conn-idle-time", p.MaxConnIdleTime}, {"-db-health-check-period", p.HealthCheckPeriod},
		{"-db-ping-timeout", p.PingTimeout}, {"-db-user-timeout", p.UserTimeout},
	} {
		if d.value < 0 {
			return fmt.Errorf("%s %v: must not be below 0", d.flag, d.value)
		}
	}
	return nil
}

// apply sets up a pool whose config has been read from the URL.
func (p DatabasePool) apply(config *pgxpool.Config) error {
	// MinConns would have pgx open connections in the background, where the caller's
	// context does not reach and Close waits for the database.
	config.MinConns, config.MaxConnLifetime = 0, 0
	config.MaxConnIdleTime = math.MaxInt64
	if p.MaxConnIdleTime > 0 {
		config.MaxConnIdleTime = p.MaxConnIdleTime
	}
	if p.HealthCheckPeriod > 0 {
		config.HealthCheckPeriod = p.HealthCheckPeriod
	}
	config.PingTimeout = p.PingTimeout
	if p.PingAlways {
		config.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return true }
	}
	if config.ConnConfig.ConnectTimeout == 0 {
		config.ConnConfig.ConnectTimeout = connectTimeout
	}
	tcp, err := outbound.NewDialer(p.KeepAlive, p.UserTimeout)
	if err != nil {
		return err
	}
	tcp.Timeout = config.ConnConfig.ConnectTimeout
	local := net.Dialer{Timeout: tcp.Timeout}
	config.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if network == "unix" { // it has none of TCP's options
			return local.DialContext(ctx, network, addr)
		}
		return tcp.DialContext(ctx, network, addr)
	}
	return nil
}
