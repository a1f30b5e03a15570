package victim

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"chokepoint/internal/adminapi"
)

// workTable is the table of -work-table: a real one, unlike that of /fast, since its
// rows are the evidence of what was done and must outlive the victim.
type workTable struct {
	pool   *pgxpool.Pool
	name   string // quoted
	claims claims
}

const (
	workColumns = `request_id, idempotency_key, attempt, victim, connection, started_at, finished_at`

	createWorkTable = `
create table if not exists %[1]s (
	request_id text not null, idempotency_key text not null, attempt int not null, victim text not null, connection text not null,
	started_at timestamptz not null, finished_at timestamptz not null, once boolean not null);
create index if not exists %[2]s on %[1]s (request_id);
create unique index if not exists %[3]s on %[1]s (idempotency_key) where once`

	// The lock makes the count of a request id's rows exact; it is taken in a statement
	// of its own, since a statement sees what was committed before it began.
	lockWorkID = `select pg_advisory_xact_lock(hashtextextended($1, 0))`
	insertWork = `insert into %s (` + workColumns + `, once)
select $1, $2, 1 + count(*), $3, $4, $5, $6, $7 from %[1]s where request_id = $1
on conflict (idempotency_key) where once do nothing returning attempt`

	selectOnce = `select ` + workColumns + ` from %s where once and idempotency_key = $1`
)

// openWorkTable makes what is missing of the table, and checks that it can be used.
func openWorkTable(ctx context.Context, pool *pgxpool.Pool, table string) (*workTable, error) {
	w := &workTable{
		pool: pool, name: pgx.Identifier(strings.Split(table, ".")).Sanitize(),
		claims: claims{config: pool.Config().ConnConfig, table: table, local: map[string]chan struct{}{}},
	}
	if err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { return w.create(ctx, tx, table) }); err != nil {
		return nil, fmt.Errorf("-work-table %s: %w; give a table that is missing, in a schema where user %q may make one, or one that this program made",
			table, connectCause(err), pool.Config().ConnConfig.User)
	}
	return w, nil
}

func (w *workTable) create(ctx context.Context, tx pgx.Tx, table string) error {
	// Two victims may start at once, and "if not exists" alone does not serialise them.
	if _, err := tx.Exec(ctx, lockWorkID, "chokepoint "+table); err != nil {
		return err
	}
	schema := schemaOf(table)
	var hasSchema, hasTable bool
	if err := tx.QueryRow(ctx, `select $1 = '' or to_regnamespace($1) is not null, to_regclass($2) is not null`, schema, table).
		Scan(&hasSchema, &hasTable); err != nil {
		return err
	}
	// Asked for first: making what exists takes a right that using it does not.
	if !hasSchema {
		if _, err := tx.Exec(ctx, `create schema `+pgx.Identifier{schema}.Sanitize()); err != nil {
			return err
		}
	}
	if !hasTable {
		base := strings.TrimPrefix(table, schema+".")
		index := func(suffix string) string { return pgx.Identifier{base + suffix}.Sanitize() }
		if _, err := tx.Exec(ctx, fmt.Sprintf(createWorkTable, w.name, index("_request"), index("_key"))); err != nil {
			return err
		}
	}
	_, err := tx.Exec(ctx, fmt.Sprintf(`select `+workColumns+`, once from %s limit 0`, w.name))
	return err
}

// insert leaves the row of a piece of work and returns it with its attempt. With once
// and a key that has a row, nothing is added: it returns that row, and first is false.
func (w *workTable) insert(ctx context.Context, row adminapi.WorkResult, once bool) (stored adminapi.WorkResult, first bool, err error) {
	stored = row
	err = pgx.BeginFunc(ctx, w.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, lockWorkID, row.RequestID); err != nil {
			return err
		}
		return tx.QueryRow(ctx, fmt.Sprintf(insertWork, w.name),
			row.RequestID, row.IdempotencyKey, row.Victim, row.Connection, row.StartedAt, row.FinishedAt, once).Scan(&stored.Attempt)
	})
	if !errors.Is(err, pgx.ErrNoRows) {
		return stored, true, err
	}
	done, err := w.find(ctx, row.IdempotencyKey)
	if err == nil && done == nil {
		err = fmt.Errorf("the row of idempotency key %q has gone", row.IdempotencyKey)
	}
	if err != nil {
		return stored, false, err
	}
	return *done, false, nil
}

// find is the result that a key has, nil if none.
func (w *workTable) find(ctx context.Context, key string) (*adminapi.WorkResult, error) {
	var row adminapi.WorkResult
	err := w.pool.QueryRow(ctx, fmt.Sprintf(selectOnce, w.name), key).Scan(
		&row.RequestID, &row.IdempotencyKey, &row.Attempt, &row.Victim, &row.Connection, &row.StartedAt, &row.FinishedAt)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, nil
	case err != nil:
		return nil, err
	}
	row.StartedAt, row.FinishedAt = row.StartedAt.UTC(), row.FinishedAt.UTC()
	return &row, nil
}

// claimEvery is how often a request looks whether another victim has done its work.
const claimEvery = 20 * time.Millisecond

// claim makes the work of a key the caller's own until release is called. If the work
// is done already it returns the result instead, and while someone else is at it, here
// or in another victim, it waits for theirs.
func (w *workTable) claim(ctx context.Context, key string) (done *adminapi.WorkResult, release func(), err error) {
	w.claims.lockLocal(key)
	defer func() {
		if release == nil {
			w.claims.unlockLocal(key)
		}
	}()
	for {
		claimed, err := w.claims.try(ctx, key)
		if err != nil {
			return nil, nil, err
		}
		// Looked for after the lock: who held it before has committed by now.
		done, err := w.find(ctx, key)
		if err != nil || done != nil {
			if claimed {
				w.claims.giveBack(ctx, key)
			}
			return done, nil, err
		}
		if claimed {
			return nil, func() {
				w.claims.giveBack(ctx, key)
				w.claims.unlockLocal(key)
			}, nil
		}
		time.Sleep(claimEvery)
	}
}

func (w *workTable) close(ctx context.Context) { w.claims.close(ctx) }

// claims are the keys whose work is being done: within this victim by a map, and among
// the victims on one database by advisory locks. The locks belong to one session of the
// victim, so that they end with it however it dies, and no request holds a connection
// while it works. If that session is lost, two may work on one key; the unique index
// then still leaves one row.
type claims struct {
	config *pgx.ConnConfig
	table  string

	mu    sync.Mutex
	local map[string]chan struct{} // closed when its holder is done

	sessionMu sync.Mutex
	session   *pgx.Conn // nil: not connected
	closed    bool
}

// lockLocal waits until nobody else in this victim is at the key.
func (c *claims) lockLocal(key string) {
	for {
		c.mu.Lock()
		held, busy := c.local[key]
		if !busy {
			c.local[key] = make(chan struct{})
			c.mu.Unlock()
			return
		}
		c.mu.Unlock()
		<-held
	}
}

func (c *claims) unlockLocal(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.local[key])
	delete(c.local, key)
}

// try takes the lock of a key if no other victim has it.
func (c *claims) try(ctx context.Context, key string) (claimed bool, err error) {
	c.sessionMu.Lock()
	defer c.sessionMu.Unlock()
	if c.closed {
		return false, errors.New("the service is shutting down")
	}
	if c.session == nil {
		if c.session, err = pgx.ConnectConfig(ctx, c.config.Copy()); err != nil {
			c.session = nil
			return false, err
		}
	}
	err = c.session.QueryRow(ctx, `select pg_try_advisory_lock(hashtextextended($1, 0))`, c.lockName(key)).Scan(&claimed)
	if err != nil {
		c.drop(ctx)
	}
	return claimed, err
}

// giveBack gives up the lock of a key. If it cannot, the session ends, and its locks
// with it.
func (c *claims) giveBack(ctx context.Context, key string) {
	c.sessionMu.Lock()
	defer c.sessionMu.Unlock()
	if c.session == nil {
		return
	}
	if _, err := c.session.Exec(ctx, `select pg_advisory_unlock(hashtextextended($1, 0))`, c.lockName(key)); err != nil {
		c.drop(ctx)
	}
}

func (c *claims) lockName(key string) string { return c.table + " " + key }

// drop ends the session; the next claim has a new one.
func (c *claims) drop(ctx context.Context) {
	if c.session != nil {
		c.session.Close(ctx)
		c.session = nil
	}
}

func (c *claims) close(ctx context.Context) {
	c.sessionMu.Lock()
	defer c.sessionMu.Unlock()
	c.closed = true
	c.drop(ctx)
}
