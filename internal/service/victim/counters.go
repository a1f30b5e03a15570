package victim

import (
	"strconv"
	"sync"
	"time"

	"chokepoint/internal/adminapi"
)

// phases are the phases that are told apart; the last takes all others.
var phases = [...]string{
	adminapi.PhaseReadiness, adminapi.PhaseBaseline, adminapi.PhaseWarmup, adminapi.PhaseLoad,
	adminapi.PhaseRecovery, adminapi.PhaseDose, adminapi.PhaseOther,
}

// phaseOf finds a phase's index by the header's value.
func phaseOf(header []byte) int {
	for i, name := range phases {
		if string(header) == name {
			return i
		}
	}
	return len(phases) - 1
}

// counters counts requests by endpoint and phase.
type counters struct {
	mu    sync.Mutex
	cells [endpointCount][len(phases)]cell
}

type cell struct {
	received int
	status   map[int]int
	finished int
	spent    spent
}

func (c *counters) received(endpoint, phase int) {
	c.mu.Lock()
	c.cells[endpoint][phase].received++
	c.mu.Unlock()
}

func (c *counters) finished(r *request, status int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	cell := &c.cells[r.endpoint][r.phase]
	if cell.status == nil {
		cell.status = map[int]int{}
	}
	cell.status[status]++
	cell.finished++
	cell.spent.queue += r.spent.queue
	cell.spent.permit += r.spent.permit
	cell.spent.upstream += r.spent.upstream
	cell.spent.database += r.spent.database
}

func (c *counters) stats() map[string]map[string]adminapi.EndpointStats {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := map[string]map[string]adminapi.EndpointStats{}
	for endpoint, name := range endpointNames {
		all[name] = map[string]adminapi.EndpointStats{}
		for phase, cell := range c.cells[endpoint] {
			if cell.received == 0 {
				continue
			}
			s := adminapi.EndpointStats{Received: cell.received, Status: map[string]int{}}
			for status, n := range cell.status {
				s.Status[strconv.Itoa(status)] = n
			}
			mean := func(d time.Duration) float64 {
				return d.Seconds() * 1000 / float64(max(cell.finished, 1))
			}
			s.QueueMS, s.PermitMS = mean(cell.spent.queue), mean(cell.spent.permit)
			s.UpstreamMS, s.DatabaseMS = mean(cell.spent.upstream), mean(cell.spent.database)
			all[name][phases[phase]] = s
		}
	}
	return all
}

// seen counts how often each request id was read, so that the client's ledger
// can be reconciled with what really arrived.
type seen struct {
	mu  sync.Mutex
	ids [len(phases)][endpointCount]map[string]int
}

func (s *seen) add(phase, endpoint int, id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ids[phase][endpoint] == nil {
		s.ids[phase][endpoint] = map[string]int{}
	}
	s.ids[phase][endpoint][id]++
}

// snapshot copies one phase.
func (s *seen) snapshot(phase int) adminapi.Seen {
	s.mu.Lock()
	defer s.mu.Unlock()
	copied := adminapi.Seen{}
	for endpoint, name := range endpointNames {
		copied[name] = map[string]int{}
		for id, n := range s.ids[phase][endpoint] {
			copied[name][id] = n
		}
	}
	return copied
}
