package victim

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/valyala/fasthttp"

	"chokepoint/internal/adminapi"
	"chokepoint/internal/service/guard"
	"chokepoint/internal/service/outbound"
	"chokepoint/internal/service/pool"
)

// ownHeaders begin the headers that are the lab's and go on to the upstream, with
// those of passedOn.
var ownHeaders = []byte("X-Chokepoint-")

var passedOn = []string{adminapi.HeaderIdempotencyKey, fasthttp.HeaderContentType}

// admitCall refuses a request that the upstream cannot be asked; it is then answered.
func (r *request) admitCall() bool {
	switch string(r.ctx.Method()) {
	case "GET", "HEAD", "POST", "PUT", "DELETE":
		return true
	}
	r.ctx.Response.Header.Set(fasthttp.HeaderAllow, "GET, HEAD, POST, PUT, DELETE")
	r.fail(fasthttp.StatusMethodNotAllowed, adminapi.CauseMethod, "/upstream takes GET, HEAD, POST, PUT and DELETE")
	return false
}

// call is what the upstream is asked: the request as it came, with its method, its
// body and the lab's headers.
func (r *request) call() outbound.Call {
	header := map[string]string{}
	for name, value := range r.ctx.Request.Header.All() {
		if bytes.HasPrefix(name, ownHeaders) {
			header[string(name)] = string(value)
		}
	}
	for _, name := range passedOn {
		if value := r.ctx.Request.Header.Peek(name); len(value) > 0 {
			header[name] = string(value)
		}
	}
	header[adminapi.HeaderPhase] = phases[r.phase]
	return outbound.Call{Method: string(r.ctx.Method()), Header: header, Body: r.ctx.PostBody(), Keep: adminapi.HeaderConnection}
}

func (r *request) callUpstream(spot *pool.Spot) {
	call := r.call()
	if _, permits := r.victim.guard.Permits(); permits > 0 {
		spot.Enter(pool.PermitWait)
	}
	var told *adminapi.Call
	permit, err := r.victim.guard.Do(func(deadline time.Time) error {
		start := time.Now()
		spot.Enter(pool.UpstreamRead)
		answer, err := r.victim.upstream.Do(deadline, call)
		r.spent.upstream = time.Since(start)
		told = tell(answer)
		return err
	})
	spot.Enter(pool.Running)
	r.spent.permit = permit
	if told != nil {
		told.Client, told.MS = string(r.victim.upstream.Stats().Client), milliseconds(r.spent.upstream)
	}
	if err == nil {
		r.answer(fasthttp.StatusOK, adminapi.UpstreamAnswer{Upstream: "ok", Call: told})
		return
	}
	status, cause := explain(err)
	r.answer(status, adminapi.UpstreamAnswer{Error: cause, Detail: err.Error(), Call: told})
}

// tell is what a call met, for the one who asked.
func tell(answer outbound.Answer) *adminapi.Call {
	c := &adminapi.Call{Status: answer.Status, Connection: answer.Kept, Attempts: make([]adminapi.Attempt, 0, len(answer.Attempts))}
	for _, a := range answer.Attempts {
		one := adminapi.Attempt{LocalPort: a.LocalPort, Reused: a.Reused, Sent: a.Sent, Socket: a.SocketError(), MS: milliseconds(a.Took)}
		if a.Discarded != nil {
			one.Discarded = a.Discarded.Error()
		}
		if a.Err != nil {
			one.Error, one.ErrorType = a.Err.Error(), fmt.Sprintf("%T", a.Err)
		}
		if a.Sent {
			c.Sent++
		}
		c.Reused, c.LocalPort = a.Reused, a.LocalPort
		c.Attempts = append(c.Attempts, one)
	}
	return c
}

func milliseconds(d time.Duration) float64 { return d.Seconds() * 1000 }

// explain turns a guarded call's error into the status and cause that the client gets.
func explain(err error) (status int, cause string) {
	switch {
	case errors.Is(err, guard.ErrBulkheadFull):
		return fasthttp.StatusServiceUnavailable, adminapi.CauseBulkheadFull
	case errors.Is(err, guard.ErrBreakerOpen):
		return fasthttp.StatusServiceUnavailable, adminapi.CauseBreakerOpen
	}
	kind := outbound.Reset
	if failure, ok := errors.AsType[*outbound.Error](err); ok {
		kind = failure.Kind
	}
	switch kind {
	case outbound.Timeout:
		return fasthttp.StatusGatewayTimeout, adminapi.CauseUpstreamTimeout
	case outbound.Connect:
		return fasthttp.StatusBadGateway, adminapi.CauseUpstreamConnect
	case outbound.Status:
		return fasthttp.StatusBadGateway, adminapi.CauseUpstreamStatus
	default:
		return fasthttp.StatusBadGateway, adminapi.CauseUpstreamReset
	}
}
