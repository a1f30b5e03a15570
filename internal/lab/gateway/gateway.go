// Package gateway is a reverse proxy as Go programs have it, on net/http, whose ways to
// end can be chosen: how long it serves on after it was told to end, how long it then
// drains, or that it waits until its clients have closed. It speaks HTTP/1.1 and HTTP/2
// without TLS, and keeps for each connection which requests it carried and who closed
// it.
//
// It refuses to be a balancer: it takes its servers in turn, knows nothing of their
// health, and repeats no request itself. What net/http's Transport repeats (a request
// of an idempotent method whose reused connection was closed) it repeats here too.
package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"syscall"
	"time"

	"chokepoint/internal/adminapi"
)

// Config is what a gateway is told.
type Config struct {
	Listen, Admin string // host:port; port 0 takes a free one
	To            []*url.URL
	Name          string // begins the ids of the connections
	// PreStop is how long it serves as before once it is told to end.
	PreStop time.Duration
	// Drain bounds http.Server's Shutdown after that: nobody is accepted, idle
	// connections are closed, requests in flight are answered.
	Drain time.Duration
	// ExitOnZero waits instead until the clients have closed every connection, for
	// MaxWait at the most: nobody is accepted, and idle connections are left alone.
	ExitOnZero bool
	MaxWait    time.Duration
	// Announce says with each answer of ExitOnZero that the connection closes
	// ("Connection: close", of HTTP/2 a GOAWAY). A drain always does.
	Announce bool
	// AccessLog is a file to which lines of adminapi.GatewayConnection and
	// adminapi.GatewayRequest are added; empty is none.
	AccessLog string
	Logger    *slog.Logger
}

// ErrCut is wrapped by the error of Run when connections had to be cut off.
var ErrCut = errors.New("cut off, since the time to end was over")

// lastWait bounds how long requests that were cut off may take to be logged.
const lastWait = 2 * time.Second

// Gateway is a running gateway.
type Gateway struct {
	cfg      Config
	log      *accessLog
	conns    *connections
	proxy    *httputil.ReverseProxy
	turn     atomic.Uint64
	draining atomic.Bool
	server   *http.Server
	admin    *http.Server
	public   net.Listener
	adminAt  net.Listener
	failed   chan error
}

// Start opens the log and both listeners, and serves. If it fails, nothing stays open.
func Start(ctx context.Context, cfg Config) (_ *Gateway, err error) {
	log, err := newAccessLog(cfg.AccessLog)
	if err != nil {
		return nil, err
	}
	g := &Gateway{cfg: cfg, log: log, conns: newConnections(cfg.Name, log), failed: make(chan error, 2)}
	defer func() {
		if err != nil {
			log.close()
		}
	}()
	if g.public, err = listen(ctx, cfg.Listen, "-listen"); err != nil {
		return nil, err
	}
	if g.adminAt, err = listen(ctx, cfg.Admin, "-admin"); err != nil {
		g.public.Close()
		return nil, err
	}
	errorLog := slog.NewLogLogger(cfg.Logger.Handler(), slog.LevelWarn)
	g.proxy = g.newProxy(errorLog)
	g.server = &http.Server{
		Handler:     http.HandlerFunc(g.handle),
		Protocols:   new(http.Protocols),
		ErrorLog:    errorLog,
		ConnContext: withConnection,
	}
	g.server.Protocols.SetHTTP1(true)
	g.server.Protocols.SetUnencryptedHTTP2(true)
	g.admin = &http.Server{Handler: g.adminHandler(), ReadHeaderTimeout: 10 * time.Second, ErrorLog: errorLog}
	go func() { g.failed <- g.server.Serve(g.conns.listen(g.public)) }()
	go func() { g.failed <- g.admin.Serve(g.adminAt) }()
	return g, nil
}

// listen opens a TCP listener without multipath TCP and without keepalive probes, as
// the other programs of the lab have it.
func listen(ctx context.Context, address, flag string) (net.Listener, error) {
	lc := net.ListenConfig{KeepAlive: -1}
	lc.SetMultipathTCP(false)
	l, err := lc.Listen(ctx, "tcp", address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("%s %s is in use; stop what listens there, or choose another port (0 takes a free one)", flag, address)
	case err != nil:
		return nil, fmt.Errorf("%s: cannot listen on %q: %w; write the address as host:port, with a host of this machine", flag, address, err)
	}
	return l, nil
}

// Listening says where the gateway listens.
func (g *Gateway) Listening() adminapi.Listening {
	return adminapi.Listening{Program: "gateway", Public: g.public.Addr().String(), Admin: g.adminAt.Addr().String()}
}

// Wait serves until ctx ends, and then ends as the config says. The error wraps ErrCut
// if connections had to be cut off.
func (g *Gateway) Wait(ctx context.Context) error {
	var failure error
	select {
	case <-ctx.Done():
	case err := <-g.failed:
		failure = fmt.Errorf("a listener ended: %w", err)
	}
	if failure == nil && g.cfg.PreStop > 0 {
		g.conns.setState(adminapi.GatewayPreStop)
		g.cfg.Logger.Info("told to end; serving on", "pre_stop", g.cfg.PreStop)
		select {
		case <-time.After(g.cfg.PreStop):
		case err := <-g.failed:
			failure = fmt.Errorf("a listener ended: %w", err)
		}
	}
	g.draining.Store(true)
	g.conns.setState(adminapi.GatewayDraining)
	if failure == nil {
		failure = g.drain()
	}
	g.cut()
	return errors.Join(failure, g.log.close())
}

// Close cuts everything off at once.
func (g *Gateway) Close() error {
	g.cut()
	return g.log.close()
}

// drain ends the public server as the config says, but for what it has to cut.
func (g *Gateway) drain() error {
	limit := g.cfg.Drain
	var ended error
	if g.cfg.ExitOnZero {
		limit = g.cfg.MaxWait
		g.public.Close()
		ended = g.conns.waitForZero(limit)
	} else {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		ended = g.server.Shutdown(ctx)
	}
	if ended == nil {
		g.cfg.Logger.Info("drained: no connection is left")
		return nil
	}
	open, inFlight, oldest := g.conns.left()
	return fmt.Errorf("connections: %d open after %v, requests in flight on them: %d, the oldest is %s: %w", open, limit, inFlight, oldest, ErrCut)
}

// cut closes everything, and waits until the requests that it cut off are logged.
func (g *Gateway) cut() {
	g.conns.cutRest()
	g.server.Close()
	g.admin.Close()
	for end := time.Now().Add(lastWait); g.conns.inFlight() > 0 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	g.proxy.Transport.(*http.Transport).CloseIdleConnections()
}

// adminHandler serves /healthz, /readyz and /connections.
func (g *Gateway) adminHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET "+adminapi.PathReady, func(w http.ResponseWriter, _ *http.Request) {
		state := g.conns.snapshot().State
		if state != adminapi.GatewayServing {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		fmt.Fprintln(w, state)
	})
	mux.HandleFunc("GET "+adminapi.PathConnections, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(g.conns.snapshot())
	})
	return mux
}
