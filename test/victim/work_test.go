package victim

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"chokepoint/internal/adminapi"
	"chokepoint/internal/service/victim"
)

// bench is a world with /work, whose table is the test's own.
type bench struct {
	*world
	table string
	db    *pgx.Conn
}

func newBench(t *testing.T, change func(*victim.Config)) *bench {
	t.Helper()
	db, err := pgx.Connect(t.Context(), databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{db: db, table: "work_test." + strings.ToLower(t.Name())}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if _, err := db.Exec(ctx, "drop table if exists "+b.table); err != nil {
			t.Error(err)
		}
		db.Close(ctx)
	})
	b.world = newWorld(t, answers, func(cfg *victim.Config) {
		cfg.Work = victim.WorkConfig{Table: b.table, Name: "was1"}
		if change != nil {
			change(cfg)
		}
	})
	return b
}

// post sends a piece of work on a connection of its own, and waits for no answer.
func (w *world) post(headers ...string) *client {
	w.t.Helper()
	c := w.dial()
	c.sent = time.Now()
	request := "POST /work HTTP/1.1\r\nHost: victim\r\nContent-Length: 2\r\n" + strings.Join(append(headers, "", ""), "\r\n") + "hi"
	if _, err := io.WriteString(c.conn, request); err != nil {
		w.t.Fatal(err)
	}
	return c
}

func workID(id string) string   { return adminapi.HeaderID + ": " + id }
func workKey(key string) string { return adminapi.HeaderIdempotencyKey + ": " + key }
func takes(text string) string  { return adminapi.HeaderDelay + ": " + text }
func (a answer) replayed() bool { return a.header.Get(adminapi.HeaderReplayed) == "true" }
func (a answer) hasWorked() bool {
	return strings.Contains(a.header.Get("Server-Timing"), ", work;dur=")
}

// rows are the rows of the table as the JSON of their answers, in the order of their ends.
func (b *bench) rows() (rows []string) {
	b.t.Helper()
	found, err := b.db.Query(b.t.Context(), "select request_id, idempotency_key, attempt, victim, connection, started_at, finished_at from "+b.table+" order by finished_at")
	if err != nil {
		b.t.Fatal(err)
	}
	results, err := pgx.CollectRows(found, pgx.RowToStructByPos[adminapi.WorkResult])
	if err != nil {
		b.t.Fatal(err)
	}
	for _, r := range results {
		r.StartedAt, r.FinishedAt = r.StartedAt.UTC(), r.FinishedAt.UTC()
		text, err := json.Marshal(r)
		if err != nil {
			b.t.Fatal(err)
		}
		rows = append(rows, string(text)+"\n")
	}
	return rows
}

// rowsWhen polls until the table has n rows.
func (b *bench) rowsWhen(n int) []string {
	b.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(2 * time.Millisecond) {
		if rows := b.rows(); len(rows) >= n {
			return rows
		}
		if time.Now().After(end) {
			b.t.Fatalf("%d rows after %v, want %d", len(b.rows()), patience, n)
		}
	}
}

// TestEachArrivalIsWorkAndARow: the anti-pattern, a retry that does the work twice. The
// rows outlive the victim.
func TestEachArrivalIsWorkAndARow(t *testing.T) {
	b := newBench(t, nil)
	var bodies, conns []string
	for attempt := 1; attempt <= 2; attempt++ {
		a := b.post(workID("a"), workKey("k"), takes("5ms")).receive()
		var got adminapi.WorkResult
		if err := json.Unmarshal(a.body, &got); err != nil || a.status != 200 || a.replayed() || !a.hasWorked() {
			t.Fatalf("%d %s (%v), headers %v", a.status, a.body, err, a.header)
		}
		if conn := a.header.Get(adminapi.HeaderConnection); got.Connection != conn || !strings.HasPrefix(conn, "was1-") || slices.Contains(conns, conn) {
			t.Errorf("attempt %d came on connection %q, and its row has %q; before it %q", attempt, conn, got.Connection, conns)
		}
		conns = append(conns, got.Connection)
		if got.RequestID != "a" || got.IdempotencyKey != "k" || got.Attempt != attempt || got.Victim != "was1" || got.FinishedAt.Sub(got.StartedAt) < 5*time.Millisecond {
			t.Errorf("attempt %d: %+v", attempt, got)
		}
		bodies = append(bodies, string(a.body))
	}
	b.victim.Close(t.Context())
	wantEqual(t, "rows", bodies, b.rows())
}

// TestAKeyIsWorkedOnOnce, by those who come at once and by those who come later, here
// and in another victim on the same table.
func TestAKeyIsWorkedOnOnce(t *testing.T) {
	once := func(cfg *victim.Config) { cfg.Work.Idempotent = true }
	b := newBench(t, once)
	other := newWorld(t, answers, func(cfg *victim.Config) {
		cfg.Work = victim.WorkConfig{Table: b.table, Name: "was2", Idempotent: true}
	})
	var clients []*client
	for i := range 6 {
		w := []*world{b.world, other}[i%2]
		clients = append(clients, w.post(workID(fmt.Sprint("r", i)), workKey("k"), takes("100ms")))
	}
	clients = append(clients, nil)
	first, body := 0, ""
	for _, c := range clients {
		if c == nil { // one that comes when all is done
			c = other.post(workID("late"), workKey("k"))
		}
		a := c.receive()
		if a.status != 200 {
			t.Fatalf("%d %s", a.status, a.body)
		}
		if !a.replayed() {
			first++
		}
		if body == "" {
			body = string(a.body)
		}
		if string(a.body) != body {
			t.Errorf("answers differ: %s and %s", a.body, body)
		}
	}
	if rows := b.rows(); first != 1 || len(rows) != 1 || rows[0] != body {
		t.Errorf("%d answers are the first one, want 1; rows %v, want %s", first, rows, body)
	}
	// Another key, and none at all, are other work.
	b.post(workID("x"), workKey("k2")).receive()
	b.post(workID("y")).receive()
	b.post(workID("y")).receive()
	if rows := b.rows(); len(rows) != 4 {
		t.Errorf("%d rows, want 4", len(rows))
	}
}

// TestALostClaimLeavesOneRow: the session that holds the claims ends while its victim is
// at work, and another victim does the work meanwhile.
func TestALostClaimLeavesOneRow(t *testing.T) {
	b := newBench(t, func(cfg *victim.Config) { cfg.Work.Idempotent = true })
	other := newWorld(t, answers, func(cfg *victim.Config) {
		cfg.Work = victim.WorkConfig{Table: b.table, Name: "was2", Idempotent: true}
	})
	slow := b.post(workID("a"), workKey("k"), takes("1500ms"))
	var ended bool
	for end := time.Now().Add(patience); !ended; time.Sleep(2 * time.Millisecond) {
		err := b.db.QueryRow(t.Context(), `select coalesce(bool_or(pg_terminate_backend(pid)), false) from pg_locks
			where locktype = 'advisory' and granted and (classid::bigint << 32 | objid::bigint) = hashtextextended($1, 0)`, b.table+" k").Scan(&ended)
		if err != nil || time.Now().After(end) {
			t.Fatalf("no claim was held: %v", err)
		}
	}
	a := other.post(workID("b"), workKey("k")).receive()
	late := slow.receive()
	if a.status != 200 || a.replayed() || late.status != 200 || !late.replayed() || string(late.body) != string(a.body) {
		t.Errorf("answers %d %s and %d %s, want the second victim's twice", a.status, a.body, late.status, late.body)
	}
	wantEqual(t, "rows", []string{string(a.body)}, b.rows())
	// The next claim has a session again.
	if a := b.post(workID("c"), workKey("k3")).receive(); a.status != 200 || a.replayed() {
		t.Errorf("afterwards: %d %s", a.status, a.body)
	}
}

// TestWorkGoesOnWhenItsClientHasGone, which is the dangerous class, unless it is told
// to stop.
func TestWorkGoesOnWhenItsClientHasGone(t *testing.T) {
	b := newBench(t, nil)
	c := b.post(workID("gone"), takes("100ms"))
	b.pooled(1, 0)
	c.conn.Close()
	if rows := b.rowsWhen(1); !strings.Contains(rows[0], `"request_id":"gone"`) {
		t.Errorf("rows %v", rows)
	}
}

func TestWorkCanBeCancelled(t *testing.T) {
	b := newBench(t, func(cfg *victim.Config) { cfg.Work.Cancel = true })
	c := b.post(workID("gone"), takes("1h"), adminapi.HeaderPhase+": "+adminapi.PhaseLoad)
	b.pooled(1, 0)
	c.conn.Close()
	b.statsWhen("the work given up", func(s adminapi.VictimStats) bool {
		return s.Endpoints["work"][adminapi.PhaseLoad].Status["499"] == 1
	})
	if a := b.post(workID("stays"), takes("30ms")).receive(); a.status != 200 {
		t.Errorf("%d %s", a.status, a.body)
	}
	if rows := b.rows(); len(rows) != 1 || !strings.Contains(rows[0], `"request_id":"stays"`) {
		t.Errorf("rows %v, want the one whose client stayed", rows)
	}
}

func TestWorkRefuses(t *testing.T) {
	b := newBench(t, nil)
	if a := b.get("/work"); a.status != 405 || a.cause(t) != adminapi.CauseMethod || a.header.Get("Allow") != "POST, PUT" {
		t.Errorf("GET: %d, headers %v", a.status, a.header)
	}
	if a := b.post(takes("soon")).receive(); a.status != 400 || !strings.Contains(string(a.body), `X-Chokepoint-Delay \"soon\": want a duration`) {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := newWorld(t, answers, nil).post().receive(); a.status != 404 || !strings.Contains(string(a.body), "/work needs -work-table") {
		t.Errorf("without a table: %d %s", a.status, a.body)
	}
	if rows := b.rows(); len(rows) != 0 {
		t.Errorf("rows %v", rows)
	}
}

// TestWorkTableThatIsNoneOfOurs is refused at the start, in one line.
func TestWorkTableThatIsNoneOfOurs(t *testing.T) {
	b := newBench(t, nil)
	foreign := b.table + "_foreign"
	if _, err := b.db.Exec(t.Context(), "create table "+foreign+" (id int)"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.db.Exec(context.Background(), "drop table "+foreign) })
	v, err := victim.Start(t.Context(), victim.Config{
		Listen: "127.0.0.1:0", Admin: "127.0.0.1:0", UpstreamURL: "http://127.0.0.1:1/", DatabaseURL: databaseURL, DatabaseConns: 1,
		MaxWorkers: 1, AcceptBacklog: 1, MaxConnections: 1, Logger: slog.New(slog.DiscardHandler), Work: victim.WorkConfig{Table: foreign},
	})
	if err == nil {
		v.Close(t.Context())
		t.Fatal("started")
	}
	if !strings.Contains(err.Error(), "-work-table "+foreign+":") || !strings.Contains(err.Error(), "request_id") || strings.Contains(err.Error(), "\n") {
		t.Errorf("%v", err)
	}
}
