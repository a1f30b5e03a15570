// Package victim is the service that dies: /fast reads one row of PostgreSQL,
// /upstream calls a slow peer, and both share one bounded worker pool. A profile
// says what protects them.
//
// The public listener passes every request through the pool. The admin listener
// never does, else a dump would queue behind the very exhaustion that it should
// show. The package does not decide what a run means; it serves, counts and
// tells.
package victim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/http"
	"time"

	"github.com/valyala/fasthttp"

	"chokepoint/internal/adminapi"
	"chokepoint/internal/profile"
	"chokepoint/internal/service/guard"
	"chokepoint/internal/service/outbound"
	"chokepoint/internal/service/pool"
)

// Config is everything a victim is told.
type Config struct {
	Listen, Admin string // host:port of the two listeners
	UpstreamURL   string
	DatabaseURL   string // empty: no database, /fast answers 503
	DatabaseConns int
	DatabasePool  DatabasePool
	Profile       profile.Profile // in real time
	// MinWorkers and MaxWorkers size the pool; a servlet container's
	// min-spare threads (10) and max threads (200).
	MinWorkers, MaxWorkers int
	AcceptBacklog          int // connections the kernel may hold unaccepted
	MaxConnections         int // connections accepted at a time
	Work                   WorkConfig
	Logger                 *slog.Logger
}

// Victim is a running service.
type Victim struct {
	cfg      Config
	pool     *pool.Pool
	guard    *guard.Guard
	upstream *outbound.Client
	items    *Items     // nil: no database
	work     *workTable // nil: no /work
	seen     seen
	counters counters
	answers  answers
	metrics  *metrics

	public   *listener
	server   *fasthttp.Server
	admin    net.Listener
	adminSrv *http.Server
	failed   chan error
}

// Start opens the database, the pool and both listeners. When it returns, the
// database connections are warm and both listeners serve.
func Start(ctx context.Context, cfg Config) (_ *Victim, err error) {
	v := &Victim{cfg: cfg, guard: guard.New(cfg.Profile), failed: make(chan error, 2)}
	defer func() {
		if err != nil {
			v.Close(context.Background())
		}
	}()
	if v.upstream, err = outbound.New(cfg.UpstreamURL, cfg.Profile.Connections); err != nil {
		return nil, err
	}
	// Listeners first: a port in use is the cheapest thing to be wrong.
	if v.public, err = listen(ctx, cfg.Listen, cfg.AcceptBacklog, cfg.MaxConnections, cfg.Logger); err != nil {
		return nil, listenError(cfg.Listen, "-listen", err)
	}
	var config net.ListenConfig
	if v.admin, err = config.Listen(ctx, "tcp", cfg.Admin); err != nil {
		return nil, listenError(cfg.Admin, "-admin", err)
	}
	if cfg.DatabaseURL != "" {
		if v.items, err = OpenItems(ctx, cfg.DatabaseURL, cfg.DatabaseConns, cfg.DatabasePool); err != nil {
			return nil, err
		}
	}
	if cfg.Work.Table != "" {
		if v.work, err = openWorkTable(ctx, v.items.pool, cfg.Work.Table); err != nil {
			return nil, err
		}
	}
	v.pool, err = pool.New(pool.Config{
		Min: cfg.MinWorkers, Max: cfg.MaxWorkers,
		MaxQueue: cfg.Profile.MaxQueue, MaxQueueWait: cfg.Profile.MaxQueueWait,
		SkipAbandoned: cfg.Profile.SkipAbandoned, Unbounded: cfg.Profile.Unbounded,
		Labels: endpointNames[:],
	})
	if err != nil {
		return nil, err
	}
	v.metrics = newMetrics(v)
	v.serve()
	return v, nil
}

// serve starts both servers on the open listeners.
func (v *Victim) serve() {
	v.server = &fasthttp.Server{
		Handler: v.handle,
		// The listener holds connections back; fasthttp would answer 503 itself.
		Concurrency:           math.MaxInt32,
		NoDefaultServerHeader: true,
		NoDefaultContentType:  true,
		CloseOnShutdown:       true,
		Logger:                fasthttpLogger{v.cfg.Logger},
	}
	v.adminSrv = &http.Server{Handler: v.adminHandler(), ReadHeaderTimeout: 10 * time.Second}
	go func() { v.failed <- v.server.Serve(v.public) }()
	go func() { v.failed <- v.adminSrv.Serve(v.admin) }()
}

// Listening says where the victim listens.
func (v *Victim) Listening() adminapi.Listening {
	return adminapi.Listening{Program: "victim", Public: v.public.Addr().String(), Admin: v.admin.Addr().String()}
}

// Wait blocks until a listener fails or ctx is done.
func (v *Victim) Wait(ctx context.Context) error {
	select {
	case err := <-v.failed:
		return fmt.Errorf("a listener ended: %w", err)
	case <-ctx.Done():
		return nil
	}
}

// Close stops accepting and gives up what is in flight when ctx is done: a
// worker that waits for a dead upstream would hold the process for as long.
func (v *Victim) Close(ctx context.Context) {
	if v.server != nil {
		v.adminSrv.Close()
		v.public.Close()
		v.pool.Close(ctx)
		v.server.ShutdownWithContext(ctx)
	} else {
		if v.public != nil {
			v.public.Close()
		}
		if v.admin != nil {
			v.admin.Close()
		}
		if v.pool != nil {
			v.pool.Close(ctx)
		}
	}
	if v.upstream != nil {
		v.upstream.Close()
	}
	if v.work != nil {
		v.work.close(ctx)
	}
	switch {
	case v.items == nil:
	case ctx.Err() == nil:
		v.items.Close()
	default:
		// It waits for the connections that held workers still use.
		go v.items.Close()
	}
}

// listenError turns a failed listen into one line that says what to do.
func listenError(addr, flag string, err error) error {
	var opErr *net.OpError
	if errors.As(err, &opErr) {
		err = opErr.Err
	}
	return fmt.Errorf("cannot listen on %s: %w; free the port or choose another with %s (port 0 takes a free one)", addr, err, flag)
}

// fasthttpLogger hands fasthttp's own messages to slog.
type fasthttpLogger struct{ *slog.Logger }

func (l fasthttpLogger) Printf(format string, args ...any) { l.Warn(fmt.Sprintf(format, args...)) }
