package victim

import (
	"context"
	"net/http"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"

	"chokepoint/internal/adminapi"
	"chokepoint/internal/evidence/goroutines"
	"chokepoint/internal/service/admin"
	"chokepoint/internal/service/pool"
)

// adminHandler serves what must answer while the pool is exhausted.
func (v *Victim) adminHandler() http.Handler {
	mux := admin.NewMux(v.metrics.registry)
	mux.HandleFunc("GET "+adminapi.PathReady, v.ready)
	mux.HandleFunc("GET "+adminapi.PathStats, v.serveStats)
	mux.HandleFunc("GET "+adminapi.PathSeen, func(w http.ResponseWriter, r *http.Request) {
		admin.WriteJSON(w, http.StatusOK, v.seen.snapshot(phaseOf([]byte(r.FormValue("phase")))))
	})
	mux.HandleFunc("GET "+adminapi.PathVisits, func(w http.ResponseWriter, r *http.Request) {
		admin.WriteJSON(w, http.StatusOK, v.seen.visits(phaseOf([]byte(r.FormValue("phase")))))
	})
	mux.HandleFunc("POST "+adminapi.PathReset, func(w http.ResponseWriter, _ *http.Request) {
		v.pool.ResetExtremes()
		v.public.reset()
		w.WriteHeader(http.StatusNoContent)
	})
	mux.Handle("GET "+adminapi.PathGoroutines, &dumper{})
	return mux
}

// ready answers 200 if the database does, or if there is to be none. Start has warmed
// it, so this only fails when it went away since.
func (v *Victim) ready(w http.ResponseWriter, r *http.Request) {
	if v.items == nil {
		admin.OK(w, r)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), 2*time.Second)
	defer cancel()
	if err := v.items.Ping(ctx); err != nil {
		http.Error(w, "database: "+err.Error(), http.StatusServiceUnavailable)
		return
	}
	w.Write([]byte("ready\n"))
}

// dumper writes every goroutine. One dump at a time: each stops the world.
type dumper struct {
	mu       sync.Mutex
	capturer goroutines.Capturer
}

func (d *dumper) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	text, pause := d.capturer.Capture()
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set(adminapi.HeaderPauseNS, strconv.FormatInt(pause.Nanoseconds(), 10))
	w.Write(text)
}

// serveStats tells the victim's state, and the newest answers if it is asked for them.
func (v *Victim) serveStats(w http.ResponseWriter, r *http.Request) {
	after, asked, err := answersAfter(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	stats := v.Stats()
	if asked {
		stats.Answers = v.answers.after(after)
	}
	admin.WriteJSON(w, http.StatusOK, stats)
}

// letters are the places of the pool as PoolStats.Where has them.
var letters = [...]byte{
	pool.Idle: adminapi.WhereIdle, pool.Running: adminapi.WhereRunning, pool.PermitWait: adminapi.WherePermitWait,
	pool.UpstreamRead: adminapi.WhereUpstreamRead, pool.Database: adminapi.WhereDatabase,
}

func (v *Victim) where() string {
	places := v.pool.Where()
	text := make([]byte, len(places))
	for i, place := range places {
		text[i] = letters[place]
	}
	return string(text)
}

// Stats is the victim's state now, without answers.
func (v *Victim) Stats() adminapi.VictimStats {
	p := v.pool.Stats()
	limit := v.cfg.MaxWorkers
	if v.cfg.Profile.Unbounded {
		limit = 0
	}
	held, permits := v.guard.Permits()
	return adminapi.VictimStats{
		Now:     time.Now(),
		Profile: v.cfg.Profile.Name,
		Pool: adminapi.PoolStats{
			Workers: p.Workers, Limit: limit, Busy: p.Busy, Queued: p.Queued,
			MaxWorkers: p.MaxWorkers, MaxBusy: p.MaxBusy, MaxQueued: p.MaxQueue, Abandoned: p.Abandoned, Shed: p.Shed, IdleSince: p.IdleSince,
			Where: v.where(),
		},
		PermitsHeld: held, PermitLimit: permits, Breaker: v.guard.Breaker(),
		Outbound:  v.outboundStats(),
		Listener:  v.public.stats(),
		Process:   processStats(),
		Endpoints: v.counters.stats(),
	}
}

func (v *Victim) outboundStats() adminapi.OutboundStats {
	s := v.upstream.Stats()
	return adminapi.OutboundStats{Client: string(s.Client), Open: s.Open, Idle: s.Idle, Dialled: s.Dialled, Discarded: s.Discarded}
}

func processStats() adminapi.ProcessStats {
	s := adminapi.ProcessStats{RSSBytes: residentBytes(), Goroutines: runtime.NumGoroutine()}
	var usage syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &usage) == nil {
		s.CPUSeconds = time.Duration(usage.Utime.Nano() + usage.Stime.Nano()).Seconds()
	}
	return s
}
