package engine

import (
	"fmt"
	"net"
)

const (
	// memoryPerWorker is what a worker with a request in flight takes on
	// Goroutines: buffers, stack, connection. 10,000 in flight took 16 kB each on
	// amd64; twice that leaves room for the garbage collector.
	memoryPerWorker = 32 << 10
	// memoryPerSlot is the same on Loop. The slot itself is under 256 bytes; the
	// rest is the kernel's, for the socket.
	memoryPerSlot = 4 << 10
	// memoryPerRecord is a Request and its row.
	memoryPerRecord = 256
	// ownFiles is what the process has open besides its connections.
	ownFiles = 32
)

// Preflight says whether this machine can carry the plan, before the load
// starts: it raises the soft limit on open files to the hard one, and then counts
// files, local ports and memory. What it cannot find out it takes to be enough.
// The error is one line with the figures.
func Preflight(c Config) error {
	workers, records := 0, 0
	perAddress := map[string]int{}
	for i, e := range c.Endpoints {
		workers += e.Workers
		if u, err := target(e.URL); err == nil {
			perAddress[net.JoinHostPort(u.Hostname(), u.Port())] += e.Workers
		}
		if c.KeepRequests {
			if c.Pattern != nil {
				records += c.planned(i)
			} else {
				records += e.Rate.Count(c.Duration)
			}
		}
	}
	perWorker := float64(memoryPerWorker)
	if c.engine() == Loop {
		perWorker = memoryPerSlot
	}
	// Memory first: a plan that is absurd is absurd in memory.
	needed := float64(workers)*perWorker + float64(records)*memoryPerRecord
	if available := availableMemory(); available > 0 && needed > float64(available) {
		return fmt.Errorf("the plan needs about %.0f MB for %d workers and %d records, and %.0f MB are free; give fewer workers, a lower rate or a shorter timeout",
			needed/(1<<20), workers, records, float64(available)/(1<<20))
	}
	if limit := raiseFileLimit(); limit > 0 && workers+ownFiles > limit {
		return fmt.Errorf("the plan may need %d connections, and %d open files are allowed: %d are missing; raise the limit (ulimit -Hn), or give fewer workers, a lower rate or a shorter timeout",
			workers, limit, workers+ownFiles-limit)
	}
	for address, n := range perAddress {
		if ports := localPorts(); ports > 0 && n > ports {
			return fmt.Errorf("the plan may need %d connections to %s, and there are %d local ports: %d are missing; give fewer workers, a lower rate or a shorter timeout",
				n, address, ports, n-ports)
		}
	}
	return nil
}
