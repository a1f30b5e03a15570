package rolling

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

// The hosts of a case: the client, the balancer, and behind it the two servers on one
// subnet, as in the published experiment.
var (
	clientAddr = netip.MustParseAddr("10.82.0.20")
	frontAddr  = netip.MustParseAddr("10.82.0.10")
	lbAddr     = netip.MustParseAddr("10.83.0.10")
	wasAddrs   = [2]netip.Addr{netip.MustParseAddr("10.83.0.11"), netip.MustParseAddr("10.83.0.12")}

	hostNames = capture.Names{clientAddr: "client", frontAddr: "lb", lbAddr: "lb", wasAddrs[0]: was1, wasAddrs[1]: was2}
)

// The servers' names. The first is the one that goes.
const (
	was1 = "was1"
	was2 = "was2"
)

// Ports of the programs, each in a host of its own. probePort has no listener.
const (
	lbPort    = 8080
	wasPort   = 8080
	adminPort = 9080
	probePort = 9
)

const (
	interfaceName = "eth0" // of the client and the servers, and of the balancer towards these
	frontName     = "front"
	probeWait     = 250 * time.Millisecond
	pathWait      = 20 * time.Second
	pollEvery     = 10 * time.Millisecond
)

func onSubnet(h *netlab.Host, name string, addr netip.Addr) netlab.End {
	return netlab.End{Host: h, Name: name, Addr: netip.PrefixFrom(addr, 24)}
}

// network is the hosts of one case, with what passes between the balancer and its servers.
type network struct {
	lab        *netlab.Lab
	client, lb *netlab.Host
	was        [2]*netlab.Host
	packets    *capture.Capture
}

func newNetwork(ctx context.Context) (n *network, err error) {
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
	var between *netlab.Host
	for _, h := range []struct {
		name string
		host **netlab.Host
	}{{"client", &n.client}, {"lb", &n.lb}, {"switch", &between}, {was1, &n.was[0]}, {was2, &n.was[1]}} {
		if *h.host, err = n.lab.Host(h.name); err != nil {
			return n, err
		}
	}
	if err = n.lab.Link(onSubnet(n.client, interfaceName, clientAddr), onSubnet(n.lb, frontName, frontAddr)); err != nil {
		return n, err
	}
	err = n.lab.Bridge(between, "br0", netip.Prefix{}, onSubnet(n.lb, interfaceName, lbAddr),
		onSubnet(n.was[0], interfaceName, wasAddrs[0]), onSubnet(n.was[1], interfaceName, wasAddrs[1]))
	if err != nil {
		return n, err
	}
	for _, path := range []struct {
		from *netlab.Host
		to   netip.Addr
	}{{n.client, frontAddr}, {n.lb, wasAddrs[0]}, {n.lb, wasAddrs[1]}} {
		if err = awaitPath(ctx, path.from, path.to); err != nil {
			return n, err
		}
	}
	n.packets, err = n.lb.Capture(interfaceName)
	return n, err
}

// close ends the capture and the hosts.
func (n *network) close() error {
	if n.packets != nil {
		n.packets.Stop()
	}
	return n.lab.Close()
}

// awaitPath waits until a host answers another: interfaces throw packets away for a while
// after they came up.
func awaitPath(ctx context.Context, from *netlab.Host, to netip.Addr) error {
	addr := netip.AddrPortFrom(to, probePort).String()
	return poll(ctx, fmt.Sprintf("no packet came back from %s", to), func() (bool, error) {
		dialling, cancel := context.WithTimeout(ctx, probeWait)
		defer cancel()
		conn, err := from.Dial(dialling, addr)
		if err == nil {
			return false, errors.Join(fmt.Errorf("something listens on %s of a host that was just made", addr), conn.Close())
		}
		return errors.Is(err, syscall.ECONNREFUSED), nil
	})
}

// poll asks done again and again until it is true. What says what has not come if it
// never is.
func poll(ctx context.Context, what string, done func() (bool, error)) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for deadline := time.Now().Add(pathWait); time.Now().Before(deadline); {
		if is, err := done(); err != nil || is {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return fmt.Errorf("%s within %v", what, pathWait)
}

// observation is the sockets of the balancer towards its servers, and of the server that
// goes, and what the balancer's kernel has of that one's address.
type observation struct {
	lb, was1  []netlab.Socket
	neighbour string
}

func (n *network) observe() (o observation, err error) {
	ofServer := func(s netlab.Socket) bool {
		return s.HasPort(wasPort) && (s.Remote.Addr() == wasAddrs[0] || s.Remote.Addr() == wasAddrs[1])
	}
	if o.lb, err = n.lb.Sockets(ofServer); err != nil {
		return o, err
	}
	if o.was1, err = n.was[0].Sockets(func(s netlab.Socket) bool { return s.Local.Port() == wasPort }); err != nil {
		return o, err
	}
	o.neighbour, err = n.lb.Neighbour(wasAddrs[0])
	return o, err
}

// kept are the balancer's ports of its connections to the server that goes.
func (o observation) kept() map[uint16]bool {
	ports := map[uint16]bool{}
	for _, s := range o.lb {
		if s.Remote.Addr() == wasAddrs[0] && s.State == "ESTABLISHED" {
			ports[s.Local.Port()] = true
		}
	}
	return ports
}
