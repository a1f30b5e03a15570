package deadconn

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"syscall"
	"time"

	"chokepoint/internal/lab/netlab"
	"chokepoint/internal/lab/netlab/capture"
)

// The hosts of a case: the caller, a router that is the device, and the upstream. The
// upstream has no route to the caller's subnet; it sees the router's address.
var (
	callerAddr   = netip.MustParseAddr("10.81.0.10")
	insideAddr   = netip.MustParseAddr("10.81.0.2")
	outsideAddr  = netip.MustParseAddr("10.82.0.2")
	upstreamAddr = netip.MustParseAddr("10.82.0.10")

	hostNames = capture.Names{callerAddr: "caller", insideAddr: "router", outsideAddr: "router", upstreamAddr: "upstream"}
)

// Ports of the programs, each in a host of its own.
const (
	stubPort   = 8080
	victimPort = 8081
	adminPort  = 9080
	probePort  = 9 // nobody listens on it
)

// probeWait is how long an answer of the upstream's is waited for.
const probeWait = 100 * time.Millisecond

// interfaceName is that of the caller and of the upstream.
const interfaceName = "eth0"

// network is the hosts of one case, with what passes their interfaces.
type network struct {
	lab              *netlab.Lab
	caller, upstream *netlab.Host
	device           *netlab.Router
	atCaller, atStub *capture.Capture
}

func newNetwork(ctx context.Context, d netlab.Device) (n *network, err error) {
	n = &network{}
	if n.lab, err = netlab.New(); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, n.close())
			n = nil
		}
	}()
	if n.caller, err = n.lab.Host("caller"); err != nil {
		return n, err
	}
	router, err := n.lab.Host("router")
	if err != nil {
		return n, err
	}
	if n.upstream, err = n.lab.Host("upstream"); err != nil {
		return n, err
	}
	end := func(h *netlab.Host, name string, addr netip.Addr) netlab.End {
		return netlab.End{Host: h, Name: name, Addr: netip.PrefixFrom(addr, 24)}
	}
	if err = n.lab.Link(end(n.caller, interfaceName, callerAddr), end(router, "inside", insideAddr)); err != nil {
		return n, err
	}
	if err = n.lab.Link(end(n.upstream, interfaceName, upstreamAddr), end(router, "outside", outsideAddr)); err != nil {
		return n, err
	}
	if err = n.caller.Route(netip.PrefixFrom(netip.IPv4Unspecified(), 0), insideAddr); err != nil {
		return n, err
	}
	if n.device, err = n.lab.Router(router, "inside", "outside", d); err != nil {
		return n, err
	}
	if err = n.awaitPath(ctx); err != nil {
		return n, err
	}
	if n.atCaller, err = n.caller.Capture(interfaceName); err != nil {
		return n, err
	}
	n.atStub, err = n.upstream.Capture(interfaceName)
	return n, err
}

// close ends the captures and the hosts.
func (n *network) close() error {
	for _, c := range []*capture.Capture{n.atCaller, n.atStub} {
		if c != nil {
			c.Stop()
		}
	}
	return n.lab.Close()
}

// observation is what both ends and the device hold at one time.
type observation struct {
	client, server []netlab.Socket
	entries        []netlab.Entry
	counters       netlab.Counters
}

// awaitPath waits until the upstream answers the caller: interfaces throw packets away for
// a while after they came up, and the hosts do not know each other's addresses yet.
func (n *network) awaitPath(ctx context.Context) error {
	addr := netip.AddrPortFrom(upstreamAddr, probePort).String()
	return poll(ctx, "no packet came back from the upstream", func() (bool, error) {
		dialling, cancel := context.WithTimeout(ctx, probeWait)
		defer cancel()
		conn, err := n.caller.Dial(dialling, addr)
		if err == nil {
			return false, errors.Join(fmt.Errorf("something listens on %s of a host that was just made", addr), conn.Close())
		}
		return errors.Is(err, syscall.ECONNREFUSED), nil
	})
}

// awaitAcknowledgement waits until nothing that the caller has sent is unacknowledged:
// the server's kernel takes a while over it, and until then the caller's sends again.
func (n *network) awaitAcknowledgement(ctx context.Context) error {
	return poll(ctx, "the request was not acknowledged", func() (bool, error) {
		unacked, err := n.caller.Sockets(func(s netlab.Socket) bool { return s.HasPort(stubPort) && s.SendQueue > 0 })
		return len(unacked) == 0, err
	})
}

func (n *network) observe() (o observation, err error) {
	ofStub := func(s netlab.Socket) bool { return s.HasPort(stubPort) }
	if o.client, err = n.caller.Sockets(ofStub); err != nil {
		return o, err
	}
	if o.server, err = n.upstream.Sockets(ofStub); err != nil {
		return o, err
	}
	all, err := n.device.Entries()
	for _, e := range all {
		if e.HasPort(stubPort) {
			o.entries = append(o.entries, e)
		}
	}
	if err != nil {
		return o, err
	}
	o.counters, err = n.device.Counters()
	return o, err
}
