package victim

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"chokepoint/internal/adminapi"
	"chokepoint/internal/service/pool"
)

// WorkConfig is what /work is told. Its zero value has no /work.
type WorkConfig struct {
	// Table is where each piece of work leaves its row, [schema.]table; what is missing
	// of it is made, and nothing removes it.
	Table string
	// Name is the victim's name in the rows, and begins the ids of its connections.
	Name string
	// Time is how long a piece of work takes, unless a request says otherwise by
	// adminapi.HeaderDelay.
	Time time.Duration
	// Idempotent answers a request whose adminapi.HeaderIdempotencyKey has been seen with
	// the first result, and does no second work for it.
	Idempotent bool
	// Cancel gives a piece of work up, without a row, when its client has gone. Without
	// it the work goes on, as it does in most services.
	Cancel bool
}

// Bind adds the flags of /work to fs.
func (c *WorkConfig) Bind(fs *flag.FlagSet) {
	fs.StringVar(&c.Table, "work-table", "", "PostgreSQL `table` of what POST /work does, [schema.]table; made if missing, never removed (default: no /work)")
	fs.StringVar(&c.Name, "name", "victim", "`name` of this victim in the rows of -work-table")
	fs.DurationVar(&c.Time, "work-time", 0, "how long a piece of work takes, unless "+adminapi.HeaderDelay+" says otherwise")
	fs.BoolVar(&c.Idempotent, "idempotency-key", false, "answer a repeated "+adminapi.HeaderIdempotencyKey+" with the first result, and work once")
	fs.BoolVar(&c.Cancel, "work-cancel", false, "give up work whose client has gone")
}

// nameForm is what can stand in a header's value, and be told from the number after it.
var nameForm = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

var tableForm = regexp.MustCompile(`^([a-z_][a-z0-9_]{0,62}\.)?[a-z_][a-z0-9_]{0,62}$`)

// Validate refuses what cannot be had.
func (c WorkConfig) Validate() error {
	switch {
	case c.Table == "" && (c.Idempotent || c.Cancel || c.Time != 0):
		return errors.New("-work-time, -idempotency-key and -work-cancel are about /work, which needs -work-table")
	case c.Table == "":
		return nil
	case !tableForm.MatchString(c.Table):
		return fmt.Errorf("-work-table %q: want [schema.]table, of lower case letters, digits and underscores", c.Table)
	case !nameForm.MatchString(c.Name):
		return fmt.Errorf("-name %q: want up to 64 letters, digits, dots, dashes and underscores", c.Name)
	case c.Time < 0:
		return fmt.Errorf("-work-time %v: must not be below 0", c.Time)
	}
	return nil
}

// admitWork refuses a request that is none of /work's; it is then answered.
func (r *request) admitWork() bool {
	switch {
	case r.victim.work == nil:
		r.fail(fasthttp.StatusNotFound, adminapi.CauseNotFound, "/work needs -work-table")
	case !r.ctx.IsPost() && !r.ctx.IsPut():
		r.ctx.Response.Header.Set(fasthttp.HeaderAllow, "POST, PUT")
		r.fail(fasthttp.StatusMethodNotAllowed, adminapi.CauseMethod, "/work takes POST and PUT")
	default:
		return true
	}
	return false
}

// work does one piece of work, on a worker of the pool: it takes its time, and leaves
// its row at the end.
func (r *request) work(spot *pool.Spot) {
	v := r.victim
	took, err := r.workTime()
	if err != nil {
		r.fail(fasthttp.StatusBadRequest, adminapi.CauseBadRequest, err.Error())
		return
	}
	asked := adminapi.WorkResult{
		RequestID:      string(r.ctx.Request.Header.Peek(adminapi.HeaderID)),
		IdempotencyKey: string(r.ctx.Request.Header.Peek(adminapi.HeaderIdempotencyKey)),
		Victim:         v.cfg.Work.Name,
		Connection:     fmt.Sprintf("%s-%d", v.cfg.Work.Name, r.ctx.ConnID()),
	}
	r.ctx.Response.Header.Set(adminapi.HeaderConnection, asked.Connection)
	// The client may leave and the work goes on: its end is not bound to the request.
	ctx := context.Background()
	inDatabase := func(do func() error) error {
		start := time.Now()
		spot.Enter(pool.Database)
		err := do()
		spot.Enter(pool.Running)
		r.spent.database += time.Since(start)
		return err
	}

	once := v.cfg.Work.Idempotent && asked.IdempotencyKey != ""
	if once {
		var done *adminapi.WorkResult
		var release func()
		err := inDatabase(func() (err error) {
			done, release, err = v.work.claim(ctx, asked.IdempotencyKey)
			return err
		})
		switch {
		case err != nil:
			r.fail(fasthttp.StatusInternalServerError, adminapi.CauseDatabase, err.Error())
			return
		case done != nil:
			r.replay(*done)
			return
		}
		defer release()
	}

	asked.StartedAt = workClock()
	finished := r.take(took)
	r.spent.work = time.Since(asked.StartedAt)
	if !finished {
		r.fail(statusClientClosedRequest, "abandoned_by_client", "")
		r.ctx.SetConnectionClose()
		return
	}
	asked.FinishedAt = workClock()
	var stored adminapi.WorkResult
	var first bool
	err = inDatabase(func() (err error) {
		stored, first, err = v.work.insert(ctx, asked, once)
		return err
	})
	switch {
	case err != nil:
		r.fail(fasthttp.StatusInternalServerError, adminapi.CauseDatabase, err.Error())
	case !first:
		r.replay(stored)
	default:
		r.answer(fasthttp.StatusOK, stored)
	}
}

// replay answers with what was answered first.
func (r *request) replay(done adminapi.WorkResult) {
	r.ctx.Response.Header.Set(adminapi.HeaderReplayed, "true")
	r.answer(fasthttp.StatusOK, done)
}

// workTime is how long this piece of work takes.
func (r *request) workTime() (time.Duration, error) {
	text := string(r.ctx.Request.Header.Peek(adminapi.HeaderDelay))
	if text == "" {
		return r.victim.cfg.Work.Time, nil
	}
	took, err := time.ParseDuration(text)
	if err != nil || took < 0 {
		return 0, fmt.Errorf("%s %q: want a duration such as 2s", adminapi.HeaderDelay, text)
	}
	return took, nil
}

// goneEvery is how often work that may be cancelled looks for its client.
const goneEvery = 20 * time.Millisecond

// take lets the time of a piece of work pass. False: it was given up, since its client
// has gone.
func (r *request) take(took time.Duration) bool {
	if !r.victim.cfg.Work.Cancel {
		time.Sleep(took)
		return true
	}
	for end := time.Now().Add(took); ; {
		if r.Gone() {
			return false
		}
		left := time.Until(end)
		if left <= 0 {
			return true
		}
		time.Sleep(min(left, goneEvery))
	}
}

// workClock is the time as PostgreSQL keeps it, so that an answer is the same to the
// letter when it is made anew from its row.
func workClock() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }

// schemaOf is the schema of a table's name; empty if it names none.
func schemaOf(table string) string {
	schema, _, named := strings.Cut(table, ".")
	if !named {
		return ""
	}
	return schema
}
