package victim

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"github.com/valyala/fasthttp"

	"chokepoint/internal/adminapi"
	"chokepoint/internal/service/pool"
)

// The endpoints behind the pool.
const (
	endpointFast = iota
	endpointUpstream
	endpointWork
	endpointCount
)

var endpointNames = [endpointCount]string{endpointFast: "fast", endpointUpstream: "upstream", endpointWork: "work"}

// handle runs on the connection's own goroutine and hands the request to a worker.
func (v *Victim) handle(ctx *fasthttp.RequestCtx) {
	r := &request{victim: v, ctx: ctx, received: time.Now()}
	switch string(ctx.Path()) {
	case "/fast":
		r.endpoint = endpointFast
	case "/upstream":
		if !r.admitCall() {
			return
		}
		r.endpoint = endpointUpstream
	case "/work":
		if !r.admitWork() {
			return
		}
		r.endpoint = endpointWork
	default:
		r.fail(fasthttp.StatusNotFound, adminapi.CauseNotFound, "want /fast or /upstream")
		return
	}
	r.phase = phaseOf(ctx.Request.Header.Peek(adminapi.HeaderPhase))
	v.counters.received(r.endpoint, r.phase)
	if id := ctx.Request.Header.Peek(adminapi.HeaderID); len(id) > 0 {
		r.visit = v.seen.add(r.phase, r.endpoint, string(id), r.received)
	}

	switch err := v.pool.Do(r.endpoint, r); {
	case errors.Is(err, pool.ErrAbandoned):
		// The client has gone: there is nobody to answer.
		r.spent.queue = time.Since(r.received)
		r.fail(statusClientClosedRequest, "abandoned_by_client", "")
		ctx.SetConnectionClose()
	case errors.Is(err, pool.ErrClosed):
		r.spent.queue = time.Since(r.received)
		r.fail(fasthttp.StatusServiceUnavailable, adminapi.CauseOverloaded, "the service is shutting down")
		ctx.SetConnectionClose()
	case err != nil:
		r.spent.queue = time.Since(r.received)
		r.fail(fasthttp.StatusServiceUnavailable, adminapi.CauseOverloaded, "no worker became free in time")
	}
	r.setServerTiming()
	v.finished(r)
}

// statusClientClosedRequest is nginx's status for a client that left; it is
// counted, and nobody receives it.
const statusClientClosedRequest = 499

// request is one request on its way through the victim; it is the pool's Work.
type request struct {
	victim   *Victim
	ctx      *fasthttp.RequestCtx
	endpoint int
	phase    int
	received time.Time
	visit    *visit // nil where it is not followed
	gone     bool   // the client had left when a worker reached the request
	spent    spent
}

// spent is where a request's time went.
type spent struct {
	queue, permit, upstream, database time.Duration
	work                              time.Duration // of /work, before its row
}

// Gone reports whether the client has left.
func (r *request) Gone() bool {
	c, ok := r.ctx.Conn().(*conn)
	r.gone = ok && c.gone()
	return r.gone
}

// Run does the endpoint's work, on a worker of the pool.
func (r *request) Run(wait time.Duration, spot *pool.Spot) {
	r.spent.queue = wait
	r.victim.seen.started(r.visit, time.Now())
	switch r.endpoint {
	case endpointFast:
		r.fast(spot)
	case endpointUpstream:
		r.callUpstream(spot)
	case endpointWork:
		r.work(spot)
	}
}

func (r *request) fast(spot *pool.Spot) {
	if r.victim.items == nil {
		r.fail(fasthttp.StatusServiceUnavailable, adminapi.CauseDatabase, "this victim runs with -no-database")
		return
	}
	id := 1
	if arg := r.ctx.QueryArgs().Peek("id"); len(arg) > 0 {
		n, err := strconv.Atoi(string(arg))
		if err != nil || n < 1 || n > itemRows {
			r.fail(fasthttp.StatusNotFound, adminapi.CauseNotFound, "id "+string(arg)+": want 1 to "+strconv.Itoa(itemRows))
			return
		}
		id = n
	}
	start := time.Now()
	spot.Enter(pool.Database)
	item, err := r.victim.items.Read(context.Background(), id)
	spot.Enter(pool.Running)
	r.spent.database = time.Since(start)
	if err != nil {
		r.fail(fasthttp.StatusInternalServerError, adminapi.CauseDatabase, err.Error())
		return
	}
	r.answer(fasthttp.StatusOK, item)
}

func (r *request) fail(status int, cause, detail string) {
	r.answer(status, adminapi.Error{Error: cause, Detail: detail})
}

func (r *request) answer(status int, body any) {
	r.ctx.SetStatusCode(status)
	r.ctx.SetContentType("application/json")
	if err := json.NewEncoder(r.ctx).Encode(body); err != nil {
		r.victim.cfg.Logger.Error("write a response", "error", err)
	}
}

// setServerTiming tells the client where its time went, in milliseconds.
func (r *request) setServerTiming() {
	var b []byte
	for _, part := range []struct {
		name string
		took time.Duration
	}{{"queue", r.spent.queue}, {"permit", r.spent.permit}, {"upstream", r.spent.upstream}, {"db", r.spent.database}} {
		if len(b) > 0 {
			b = append(b, ", "...)
		}
		b = append(b, part.name...)
		b = append(b, ";dur="...)
		b = strconv.AppendFloat(b, part.took.Seconds()*1000, 'f', 3, 64)
	}
	if r.endpoint == endpointWork {
		b = append(b, ", work;dur="...)
		b = strconv.AppendFloat(b, r.spent.work.Seconds()*1000, 'f', 3, 64)
	}
	r.ctx.Response.Header.SetBytesV("Server-Timing", b)
}
