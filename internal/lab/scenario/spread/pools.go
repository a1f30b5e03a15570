package spread

import (
	"context"
	"path/filepath"
	"sync"
	"time"

	"chokepoint/internal/adminapi"
	"chokepoint/internal/result"
)

// poolWatch asks a victim for its pool at every tick.
type poolWatch struct {
	place  *place
	victim victim
	loadOn time.Time
	tick   time.Duration

	mu      sync.Mutex
	samples []poolSample
}

// poolSample is one answer; at is in real time from the start of the load.
type poolSample struct {
	at    time.Duration
	stats adminapi.VictimStats
}

// run samples until ctx is done. A question without an answer leaves a gap: if the victim
// has died, that ends the cell.
func (p *poolWatch) run(ctx context.Context) {
	for next := time.Now(); sleepUntil(ctx, next); next = next.Add(p.tick) {
		if behind := time.Since(next); behind > p.tick {
			next = next.Add(behind.Truncate(p.tick))
		}
		var stats adminapi.VictimStats
		if err := p.place.getJSON(ctx, p.victim, adminapi.PathStats, &stats); err != nil {
			continue
		}
		p.mu.Lock()
		p.samples = append(p.samples, poolSample{time.Since(p.loadOn), stats})
		p.mu.Unlock()
	}
}

func (p *poolWatch) all() []poolSample {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.samples // what is appended later does not change these
}

// most are the extremes of the pool, as the victim has kept them.
func (p *poolWatch) most() (busy, queued int) {
	for _, s := range p.all() {
		busy, queued = max(busy, s.stats.Pool.MaxBusy), max(queued, s.stats.Pool.MaxQueued)
	}
	return busy, queued
}

// recovery is what was seen of a pool after the load, in real time.
type recovery struct {
	idle    bool
	after   time.Duration // how long after the load it became idle for good
	watched time.Duration
}

// watched is the pool after the load's end, by its last answer: the victim says itself
// since when it is idle.
func (p *poolWatch) watched(loadOff time.Time) recovery {
	samples := p.all()
	if len(samples) == 0 {
		return recovery{}
	}
	last := samples[len(samples)-1]
	if last.at < loadOff.Sub(p.loadOn) {
		return recovery{}
	}
	r := recovery{watched: last.at - loadOff.Sub(p.loadOn)}
	pool := last.stats.Pool
	if pool.Busy == 0 && pool.Queued == 0 && !pool.IdleSince.IsZero() {
		r.idle, r.after = true, max(pool.IdleSince.Sub(loadOff), 0)
	}
	return r
}

// writePools writes both pools over time into the cell's folder.
func (m *measurement) writePools() error {
	var rows []result.PoolRow
	for _, watch := range m.pools {
		for _, s := range watch.all() {
			rows = append(rows, result.PoolRow{
				AtS: m.settings.scenarioSeconds(s.at), Victim: watch.victim.name,
				Workers: s.stats.Pool.Workers, Busy: s.stats.Pool.Busy, Queued: s.stats.Pool.Queued,
				PermitsHeld: s.stats.PermitsHeld, Connections: s.stats.Listener.Connections,
			})
		}
	}
	return result.WritePools(filepath.Join(m.folder, result.PoolsFile), rows)
}
