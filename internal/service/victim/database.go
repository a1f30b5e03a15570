package victim

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

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

// Item is one row.
type Item struct {
	ID    int    `json:"id"`
	Name  string `json:"name"`
	Price string `json:"price"`
}

// openDatabase connects conns connections and reads one row through each, so
// that no request of a run pays for a connection or a plan.
func openDatabase(ctx context.Context, databaseURL string, conns int) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(databaseURL)
	if err != nil {
		return nil, fmt.Errorf("database %s: %w", withoutSecrets(databaseURL), connectCause(err))
	}
	config.MinConns, config.MaxConns = int32(conns), int32(conns)
	// A connection that is replaced in the middle of a run would be a fault that
	// nobody asked for.
	config.MaxConnLifetime, config.MaxConnIdleTime = 0, 0
	config.AfterConnect = func(ctx context.Context, c *pgx.Conn) error {
		_, err := c.Exec(ctx, createItems)
		return err
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("database %s: %w", withoutSecrets(databaseURL), connectCause(err))
	}
	if err := warm(ctx, pool, conns); err != nil {
		pool.Close()
		return nil, fmt.Errorf("database %s: %w", withoutSecrets(databaseURL), connectCause(err))
	}
	return pool, nil
}

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

// withoutSecrets is the database as it may stand in a log.
func withoutSecrets(databaseURL string) string {
	if u, err := url.Parse(databaseURL); err == nil && u.Scheme != "" {
		query := u.Query()
		if query.Has("password") {
			query.Set("password", "xxxxx")
			u.RawQuery = query.Encode()
		}
		return u.Redacted()
	}
	if strings.Contains(databaseURL, "password") {
		return "(key=value string with a password)"
	}
	return databaseURL
}

// connectCause is the telling part of pgx's error, on one line: pgx joins one
// error per address that it tried.
func connectCause(err error) error {
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok {
		return pgErr
	}
	if connectErr, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		err = connectErr.Unwrap()
	}
	line := strings.Join(strings.Fields(err.Error()), " ")
	return errors.New(line + "; check that the server runs and that the URL is right")
}
