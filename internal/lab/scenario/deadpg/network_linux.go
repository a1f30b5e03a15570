package deadpg

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"chokepoint/internal/lab/netlab"
	"chokepoint/internal/lab/netlab/capture"
	"chokepoint/internal/lab/pghost"
	"chokepoint/internal/result"
)

// The hosts of a case: a caller and a router of its own, and the server, which has an
// address on the case's own subnet.
var (
	callerAddr = netip.MustParseAddr("10.81.0.10")
	insideAddr = netip.MustParseAddr("10.81.0.2")
)

// postgresPort is the server's.
const postgresPort = 5432

// network is what a case has of hosts, and what passes its ends.
type network struct {
	lab                *netlab.Lab
	caller, server     *netlab.Host
	device             *netlab.Router
	serverAddr         netip.Addr
	names              capture.Names
	atCaller, atServer *capture.Capture
}

func newNetwork(d netlab.Device, at pghost.Seat) (n *network, err error) {
	outsideAddr := at.Addr(2)
	n = &network{server: at.Host, serverAddr: at.Addr(10)}
	n.names = capture.Names{callerAddr: "caller", insideAddr: "router", outsideAddr: "router", n.serverAddr: "postgres"}
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
	end := func(h *netlab.Host, name string, addr netip.Addr) netlab.End {
		return netlab.End{Host: h, Name: name, Addr: netip.PrefixFrom(addr, 24)}
	}
	if err = n.lab.Link(end(n.caller, "eth0", callerAddr), end(router, "inside", insideAddr)); err != nil {
		return n, err
	}
	port := at.Interface()
	if err = n.lab.Link(end(n.server, port, n.serverAddr), end(router, "outside", outsideAddr)); err != nil {
		return n, err
	}
	if err = n.caller.Route(netip.PrefixFrom(netip.IPv4Unspecified(), 0), insideAddr); err != nil {
		return n, err
	}
	if n.device, err = n.lab.Router(router, "inside", "outside", d); err != nil {
		return n, err
	}
	if n.atCaller, err = n.caller.Capture("eth0"); err != nil {
		return n, err
	}
	n.atServer, err = n.server.Capture(port)
	return n, err
}

// close ends the captures and the case's hosts.
func (n *network) close() error {
	for _, c := range []*capture.Capture{n.atCaller, n.atServer} {
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
}

func (n *network) observe() (o observation, err error) {
	if o.client, err = n.caller.Sockets(func(s netlab.Socket) bool { return s.HasPort(postgresPort) }); err != nil {
		return o, err
	}
	if o.server, err = n.server.Sockets(func(s netlab.Socket) bool {
		return s.HasPort(postgresPort) && s.Local.Addr() == n.serverAddr
	}); err != nil {
		return o, err
	}
	o.entries, err = n.device.Entries()
	return o, err
}

// ports are the local ports of the client's open connections.
func (o observation) ports() (ports []uint16) {
	for _, s := range o.client {
		if s.State == established {
			ports = append(ports, s.Local.Port())
		}
	}
	return ports
}

func (o observation) ends() ends {
	return ends{
		client:    distinct(o.client, func(s netlab.Socket) string { return s.State }),
		server:    distinct(o.server, func(s netlab.Socket) string { return s.State }),
		conntrack: distinct(o.entries, func(e netlab.Entry) string { return e.State }),
	}
}

// distinct are the states, each once, in the order of the alphabet.
func distinct[T any](all []T, state func(T) string) string {
	if len(all) == 0 {
		return nothing
	}
	var states []string
	for _, one := range all {
		states = append(states, state(one))
	}
	slices.Sort(states)
	return strings.Join(slices.Compact(states), "+")
}

func (o observation) observed() *result.Observed {
	return &result.Observed{Client: texts(o.client), Server: texts(o.server), Conntrack: texts(o.entries)}
}

func texts[T fmt.Stringer](all []T) []string {
	out := []string{}
	for _, one := range all {
		out = append(out, one.String())
	}
	return out
}
