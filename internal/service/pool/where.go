package pool

import "sync/atomic"

// Where is a place in which a worker can stand. The words are those of a dump,
// which is the evidence: a worker that says where it stands only spares a reader
// who asks several times a second from stopping the world.
type Where uint32

// The places, each as a dump has it.
const (
	Idle         Where = iota
	Running            // it has a request and stands in none of the others
	PermitWait         // before the bulkhead
	UpstreamRead       // in a call to the upstream, its connect included
	Database           // at the database, or waiting for a connection to it
)

// Spot is where one worker says that it stands. Enter costs one atomic store.
type Spot struct{ where atomic.Uint32 }

// Enter says that the worker now stands in w.
func (s *Spot) Enter(w Where) { s.where.Store(uint32(w)) }

// Where tells where each worker stands, in the order in which they were made. Of
// an unbounded pool there are only those that hold a request. Each is read at a
// moment of its own: the places of one answer need not have been at one time.
func (p *Pool) Where() []Where {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make([]Where, 0, len(p.spots))
	for _, s := range p.spots {
		w := Where(s.where.Load())
		if w == Idle && p.cfg.Unbounded {
			continue // vacant
		}
		all = append(all, w)
	}
	return all
}

// claimSpot gives a request of an unbounded pool a spot. The caller holds the lock.
func (p *Pool) claimSpot() *Spot {
	var s *Spot
	if n := len(p.vacant); n > 0 {
		s, p.vacant = p.vacant[n-1], p.vacant[:n-1]
	} else {
		s = &Spot{}
		p.spots = append(p.spots, s)
	}
	s.Enter(Running)
	return s
}

// releaseSpot takes it back. The caller holds the lock.
func (p *Pool) releaseSpot(s *Spot) {
	s.Enter(Idle)
	p.vacant = append(p.vacant, s)
}
