package victim

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// itemRows is the size of the table: enough for the planner to use the index.
const itemRows = 1000

// The table is temporary, one per connection: it is gone with the connection,
// so a database that is not ours keeps nothing of a run, however the run ends.
const createItems = `
create temporary table chokepoint_item (id int primary key, name text not null, price numeric(10, 2) not null);
insert into chokepoint_item select n, 'item ' || n, n * 1.25 from generate_series(1, 1000) as n;
analyze chokepoint_item`

const selectItem = `select id, name, price::text from chokepoint_item where id = $1`

// connectTimeout bounds one connection to the database where its URL sets no
// connect_timeout.
const connectTimeout = 10 * time.Second

// Item is one row.
type Item struct {
	ID    int    `json:"id"`
	Name  string `json:"name"`
	Price string `json:"price"`
}

// Items is the table that /fast reads, behind a pool of warm connections. It is
// safe for concurrent use.
type Items struct{ pool *pgxpool.Pool }

// OpenItems connects conns connections and reads one row through each, so that
// no request of a run pays for a connection or a plan, unless kept says that they
// do not last. The error is one line without the URL's password.
func OpenItems(ctx context.Context, databaseURL string, conns int, kept DatabasePool) (*Items, error) {
	config, err := parseDatabaseURL(databaseURL)
	if err != nil {
		return nil, err
	}
	if err := kept.apply(config); err != nil {
		return nil, err
	}
	config.MaxConns = int32(conns) // opened by warm, on ctx
	config.AfterConnect = func(ctx context.Context, c *pgx.Conn) error {
		_, err := c.Exec(ctx, createItems)
		return err
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err == nil {
		if err = warm(ctx, pool, conns); err != nil {
			pool.Close()
		}
	}
	if err != nil {
		c := config.ConnConfig
		return nil, fmt.Errorf("database %s on %s as user %s: %w; check that the server runs and that -database-url is right",
			strconv.Quote(c.Database), net.JoinHostPort(c.Host, strconv.Itoa(int(c.Port))), strconv.Quote(c.User), connectCause(err))
	}
	return &Items{pool}, nil
}

// Read reads one row by primary key. An id that is not in 1 to 1000 is
// pgx.ErrNoRows.
func (i *Items) Read(ctx context.Context, id int) (Item, error) { return readItem(ctx, i.pool, id) }

// Ping asks the database whether it is there.
func (i *Items) Ping(ctx context.Context) error { return i.pool.Ping(ctx) }

// Close closes the connections, and waits for those that are in use.
func (i *Items) Close() { i.pool.Close() }

// warm holds every connection at once and reads a row through each.
func warm(ctx context.Context, pool *pgxpool.Pool, conns int) error {
	held := make([]*pgxpool.Conn, 0, conns)
	defer func() {
		for _, c := range held {
			c.Release()
		}
	}()
	for range conns {
		c, err := pool.Acquire(ctx)
		if err != nil {
			return err
		}
		held = append(held, c)
		if _, err := readItem(ctx, c, 1); err != nil {
			return err
		}
	}
	return nil
}

type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

func readItem(ctx context.Context, db querier, id int) (Item, error) {
	var item Item
	err := db.QueryRow(ctx, selectItem, id).Scan(&item.ID, &item.Name, &item.Price)
	return item, err
}

// parseDatabaseURL reads a connection string. Its error names the host and the
// reason where that is safe: of a string that is no URL nobody knows where the
// password begins or ends, so nothing of it is repeated.
func parseDatabaseURL(databaseURL string) (*pgxpool.Config, error) {
	config, err := pgxpool.ParseConfig(databaseURL)
	if err == nil {
		return config, nil
	}
	const remedy = "want postgres://user:password@host:port/database, the special characters of the password " +
		"percent-encoded (%23 for #, %2F for /)"
	u, urlErr := url.Parse(databaseURL)
	if urlErr != nil || u.Host == "" {
		return nil, errors.New("-database-url cannot be read; " + remedy)
	}
	reason := errors.Unwrap(err)
	password, _ := u.User.Password()
	for _, secret := range []string{password, u.Query().Get("password")} {
		if reason == nil || secret != "" && strings.Contains(reason.Error(), secret) {
			return nil, fmt.Errorf("-database-url for %s cannot be read; %s", u.Host, remedy)
		}
	}
	return nil, fmt.Errorf("-database-url for %s cannot be read: %w; %s", u.Host, reason, remedy)
}

// connectCause is the telling part of pgx's error, on one line: pgx joins one
// error per address that it tried. Neither it nor PostgreSQL puts a password
// into one.
func connectCause(err error) error {
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok {
		return pgErr
	}
	if connectErr, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		err = connectErr.Unwrap()
	}
	// With TLS optional, pgx tries each address twice and says the same twice.
	var reasons []string
	for line := range strings.Lines(err.Error()) {
		if line = strings.TrimSpace(line); line != "" && !slices.Contains(reasons, line) {
			reasons = append(reasons, line)
		}
	}
	return errors.New(strings.Join(reasons, "; "))
}
