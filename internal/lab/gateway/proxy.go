package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"time"

	"chokepoint/internal/adminapi"
)

// passage is one request on its way through.
type passage struct {
	adminapi.GatewayRequest
	conn *connection
}

type passageKey struct{}

// newProxy passes requests to the servers in turn. No proxy of the environment is used:
// what is measured is the way to the server.
func (g *Gateway) newProxy(errorLog *log.Logger) *httputil.ReverseProxy {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.Proxy = nil
	transport.DialContext = (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: -1}).DialContext
	return &httputil.ReverseProxy{
		Transport: transport,
		ErrorLog:  errorLog,
		Rewrite: func(pr *httputil.ProxyRequest) {
			to := g.cfg.To[(g.turn.Add(1)-1)%uint64(len(g.cfg.To))]
			pr.SetURL(to)
			pr.SetXForwarded()
			passageOf(pr.In).To = to.Host
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			passageOf(r).UpstreamError = err.Error()
			if r.Context().Err() != nil {
				return // there is nobody to answer
			}
			cause := adminapi.CauseUpstreamReset
			if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
				cause = adminapi.CauseUpstreamConnect
			}
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadGateway)
			json.NewEncoder(w).Encode(adminapi.Error{Error: cause, Detail: err.Error()})
		},
	}
}

func passageOf(r *http.Request) *passage { return r.Context().Value(passageKey{}).(*passage) }

// handle passes one request on and logs what became of it.
func (g *Gateway) handle(w http.ResponseWriter, r *http.Request) {
	p := &passage{conn: connectionOf(r.Context()), GatewayRequest: adminapi.GatewayRequest{
		Event: "request", ID: r.Header.Get(adminapi.HeaderID), Method: r.Method, Path: r.URL.Path, Protocol: r.Proto, BeganAt: time.Now(),
	}}
	p.Connection = p.conn.begin(p.ID, p.Protocol)
	defer func() {
		// ReverseProxy panics with http.ErrAbortHandler where an answer breaks off.
		broken := recover()
		p.EndedAt, p.End = time.Now(), adminapi.EndAnswered
		switch failed := broken != nil || p.UpstreamError != ""; {
		case failed && p.conn.isCut():
			p.End = adminapi.EndCut
		case failed && r.Context().Err() != nil:
			p.End = adminapi.EndClientGone
		case broken != nil:
			// The client sees it too: net/http closes its connection, or resets its stream.
			p.End, p.UpstreamError = adminapi.EndDied, "the answer broke off"
		}
		g.log.write(p.GatewayRequest)
		p.conn.end() // after it is logged: whoever cuts waits for this
		if broken != nil {
			panic(broken)
		}
	}()
	g.proxy.ServeHTTP(&answer{ResponseWriter: w, gateway: g, passage: p}, r.WithContext(context.WithValue(r.Context(), passageKey{}, p)))
}

// answer is the writer of an answer, which adds what the gateway says itself.
type answer struct {
	http.ResponseWriter
	gateway *Gateway
	passage *passage
}

// WriteHeader says which connection carries the answer, and whether it closes. That is
// decided here, as late as can be: a drain may have begun since the request came.
func (a *answer) WriteHeader(status int) {
	if status >= 200 {
		a.passage.Status = status
		a.Header().Add(adminapi.HeaderConnection, a.passage.Connection)
		if a.gateway.draining.Load() && (a.gateway.cfg.Announce || !a.gateway.cfg.ExitOnZero) {
			// net/http closes the connection after it, and of HTTP/2 sends a GOAWAY.
			a.Header().Set("Connection", "close")
			a.passage.Announced = true
		}
	}
	a.ResponseWriter.WriteHeader(status)
}

// Unwrap lets ReverseProxy flush.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }
