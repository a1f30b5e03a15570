package netlab

import (
	"fmt"
	"net/netip"
	"time"

	"chokepoint/internal/lab/netlab/capture"
)

// Tuple is one direction of a connection.
type Tuple struct{ Source, Destination netip.AddrPort }

// Entry is what a device remembers of a connection: a row of the kernel's
// conntrack table.
type Entry struct {
	Protocol capture.Protocol
	// State is the connection as the device sees it, in the kernel's words, such as
	// ESTABLISHED; empty of a protocol without states.
	State string
	// Remaining is after how long the entry is forgotten if nothing passes, in whole
	// seconds, rounded down by the kernel.
	Remaining time.Duration
	// Original is the connection as its client made it.
	Original Tuple
	// Reply is what an answer looks like before the device has translated it: its
	// destination is the address and port that the server sees as its client's.
	Reply Tuple
}

// String is the entry as result.Observed has it:
//
//	ESTABLISHED 2s 10.81.0.10:40112 -> 10.82.0.10:8080 as 10.82.0.2:40112
func (e Entry) String() string {
	state := e.State
	if state == "" && e.Protocol == capture.UDP {
		state = "UDP"
	}
	return fmt.Sprintf("%s %ds %s -> %s as %s", state, int64(e.Remaining/time.Second),
		e.Original.Source, e.Original.Destination, e.Reply.Destination)
}

// HasPort says whether the connection's client or server has the port, on either
// side of the device.
func (e Entry) HasPort(port uint16) bool {
	return e.Original.Source.Port() == port || e.Original.Destination.Port() == port || e.Reply.Destination.Port() == port
}
