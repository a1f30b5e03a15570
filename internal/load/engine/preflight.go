package engine

import (
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"strconv"
	"strings"
	"time"
)

const (
	// memoryPerWorker is what a worker with a request in flight takes on
	// Goroutines: buffers, stack, connection. 10,000 in flight took 16 kB each on
	// amd64; twice that leaves room for the garbage collector.
	memoryPerWorker = 32 << 10
	// memoryPerSecureWorker is the same with TLS: 2,000 in flight took 60 kB each.
	memoryPerSecureWorker = 96 << 10
	// memoryPerSlot is the same on Loop. The slot itself is under 256 bytes; the
	// rest is the kernel's, for the socket.
	memoryPerSlot = 4 << 10
	// memoryPerRecord is a Request and its row.
	memoryPerRecord = 256
	// ownFiles is what the process has open besides its connections.
	ownFiles = 32
)

// Limits is what the machine lets this process have; what is not known is 0.
type Limits struct {
	Files  int   // open at once
	Ports  int   // local ports of the connections from one address to one destination
	Memory int64 // bytes that can be had without swapping
	CPUs   int   // that this process can use
	// TimeWait is how long the port of a connection that was closed here cannot be
	// used for its destination again, and LoopbackTimeWait the same on loopback.
	TimeWait, LoopbackTimeWait time.Duration
}

// Needs is what a plan takes from the machine at the most, and what there is.
type Needs struct {
	Connections  int   // open at once: one for each worker, of the warm-up too
	Records      int   // arrivals that are kept
	Files        int   // open at once
	Memory       int64 // bytes
	Loops        int   // threads of Loop, each of which wants a CPU; 0 on Goroutines
	Destinations []Destination
	Limits       Limits
}

// Destination is what the connections to one host and port need.
type Destination struct {
	Address     string // host:port
	Connections int    // open at once
	// Closed is how many local ports cannot be used since their connections were
	// closed a moment ago. It is an estimate from above: a port is free at once
	// where the server is the first to close.
	Closed int
	Ports  int // local ports of all sources; 0 if that is not known
}

// Preflight says what the plan needs, and whether this machine can carry it,
// before the load starts. It raises the soft limit on open files to the hard one.
// What it cannot find out it takes to be enough. The error is one line with the
// figures.
func Preflight(c Config) (Needs, error) {
	limits := Limits{Files: raiseFileLimit(), Ports: localPorts(), Memory: availableMemory(), CPUs: runtime.NumCPU()}
	limits.TimeWait, limits.LoopbackTimeWait = timeWaits()
	n := c.needs(limits)
	if err := n.check(); err != nil {
		return n, err
	}
	for _, source := range c.Connections.Sources {
		if err := bindable(source); err != nil {
			return n, fmt.Errorf("source %v is not an address of this machine: %w; give one that it has", source, err)
		}
	}
	return n, nil
}

// bindable says why connections cannot come from the address.
func bindable(source netip.Addr) error {
	// A UDP socket takes no port that a connection could want.
	probe, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(source, 0)))
	if err != nil {
		return err
	}
	return probe.Close()
}

// needs is what c, with its defaults and valid, takes of a machine with the limits.
func (c Config) needs(limits Limits) Needs {
	n := Needs{Limits: limits}
	_, n.Loops = c.Plays()
	at := map[string]int{} // places of the destinations in n
	for i, e := range c.Endpoints {
		n.Connections += c.slots(e)
		if c.KeepRequests {
			n.Records += c.planned(i)
		}
		u, err := target(e.URL)
		if err != nil {
			continue
		}
		host, port, err := c.Connections.destination(u)
		if err != nil {
			continue
		}
		address := net.JoinHostPort(strings.ToLower(host), strconv.Itoa(int(port)))
		if _, ok := at[address]; !ok {
			at[address] = len(n.Destinations)
			n.Destinations = append(n.Destinations, Destination{
				Address: address, Ports: limits.Ports * max(1, len(c.Connections.Sources)),
			})
		}
		d := &n.Destinations[at[address]]
		d.Connections += c.slots(e)
		wait := limits.TimeWait
		if ip, err := netip.ParseAddr(host); host == "localhost" || (err == nil && ip.IsLoopback()) {
			wait = limits.LoopbackTimeWait
		}
		d.Closed += c.closed(i, wait)
		perWorker := int64(memoryPerWorker)
		switch {
		case c.engine() == Loop:
			perWorker = memoryPerSlot
		case u.Scheme == "https":
			perWorker = memoryPerSecureWorker
		}
		n.Memory += int64(c.slots(e)) * perWorker
	}
	n.Files = n.Connections + ownFiles
	n.Memory += int64(n.Records) * memoryPerRecord
	return n
}

// closed bounds how many connections of endpoint i the plan itself ends in any
// stretch of time of that length. Of a closed model, which has no rate, it knows
// nothing.
func (c Config) closed(i int, stretch time.Duration) int {
	e := c.Endpoints[i]
	requests := e.Rate.Count(min(stretch, c.Duration))
	if c.Pattern != nil {
		requests = c.Pattern.Most(e.Name, stretch)
	}
	requests = c.Shard.Most(requests + c.initialRate(i).Count(min(stretch, c.Warmup)))
	closed := 0
	switch {
	case c.Connections.DisableKeepAlive:
		closed = requests
	case c.Connections.MaxRequests > 0:
		closed = requests/c.Connections.MaxRequests + 1
	}
	if age := c.Connections.MaxAge; age > 0 {
		closed += c.slots(e) * int(min(stretch, c.Warmup+c.Duration)/age+1)
	}
	return min(closed, requests)
}

// check says what there is too little of.
func (n Needs) check() error {
	const remedy = "give fewer workers, a lower rate or a shorter timeout"
	// Memory first: a plan that is absurd is absurd in memory.
	if n.Limits.Memory > 0 && n.Memory > n.Limits.Memory {
		return fmt.Errorf("the plan needs about %d MB for %d workers and %d records, and %d MB are free; %s",
			megabytes(n.Memory), n.Connections, n.Records, megabytes(n.Limits.Memory), remedy)
	}
	if n.Limits.Files > 0 && n.Files > n.Limits.Files {
		return fmt.Errorf("the plan may need %d connections, and %d open files are allowed: %d are missing; raise the limit (ulimit -Hn), or %s",
			n.Connections, n.Limits.Files, n.Files-n.Limits.Files, remedy)
	}
	for _, d := range n.Destinations {
		if d.Ports > 0 && d.Connections > d.Ports {
			return fmt.Errorf("the plan may need %d connections to %s, and there are %d local ports: %d are missing; add source addresses, or %s",
				d.Connections, d.Address, d.Ports, d.Connections-d.Ports, remedy)
		}
	}
	return nil
}

// Warnings are what may run out, though it need not.
func (n Needs) Warnings() []string {
	var all []string
	if n.Limits.CPUs > 0 && n.Loops > n.Limits.CPUs {
		all = append(all, fmt.Sprintf("%d loops are threads that want a CPU each, and there are %d of those: they keep each other waiting; give fewer loops, or none to have them computed",
			n.Loops, n.Limits.CPUs))
	}
	for _, d := range n.Destinations {
		if d.Ports > 0 && d.Connections+d.Closed > d.Ports {
			all = append(all, fmt.Sprintf("up to %d connections to %s are open or were closed so lately that their ports are not free, and there are %d local ports; add source addresses, or keep connections alive for longer",
				d.Connections+d.Closed, d.Address, d.Ports))
		}
	}
	return all
}

// String is what is needed and what there is, in one line.
func (n Needs) String() string {
	parts := []string{
		fmt.Sprintf("%d connections", n.Connections),
		"files " + share(int64(n.Files), int64(n.Limits.Files)),
		"memory " + share(megabytes(n.Memory), megabytes(n.Limits.Memory)) + " MB",
	}
	for _, d := range n.Destinations {
		parts = append(parts, fmt.Sprintf("ports to %s %s", d.Address, share(int64(d.Connections+d.Closed), int64(d.Ports))))
	}
	return "needs at most " + strings.Join(parts, ", ")
}

// share is a need beside what there is, if that is known.
func share(need, limit int64) string {
	if limit == 0 {
		return strconv.FormatInt(need, 10)
	}
	return fmt.Sprintf("%d of %d", need, limit)
}

// megabytes rounds up: something is never nothing.
func megabytes(bytes int64) int64 { return (bytes + 1<<20 - 1) >> 20 }
