package drain

import (
	"errors"
	"net/netip"

	"chokepoint/internal/lab/netlab"
	"chokepoint/internal/lab/netlab/capture"
	"chokepoint/internal/lab/pghost"
)

// interfaceName is that of each host on the subnet.
const interfaceName = "eth0"

// hosts are those of a world.
type hosts struct {
	lab                         *netlab.Lab
	client, edge, balancer, app *netlab.Host
	gateways                    []*netlab.Host
	atClient                    *capture.Capture
	names                       capture.Names
}

func newHosts(s Setup, at pghost.Seat) (h *hosts, err error) {
	h = &hosts{names: capture.Names{}}
	if h.lab, err = netlab.New(); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, h.close())
			h = nil
		}
	}()
	var ports []netlab.End
	add := func(into **netlab.Host, name string, addr netip.Addr) {
		if err != nil {
			return
		}
		if *into, err = h.lab.Host(name); err == nil {
			h.names[addr] = name
			ports = append(ports, netlab.End{Host: *into, Name: interfaceName, Addr: netip.PrefixFrom(addr, subnet.Bits())})
		}
	}
	add(&h.client, "client", clientAddr)
	if s.Edge > 0 {
		add(&h.edge, "edge", edgeAddr)
	}
	add(&h.balancer, "balancer", balancerAddr)
	h.gateways = make([]*netlab.Host, s.Gateways)
	for i := range h.gateways {
		add(&h.gateways[i], gatewayName(i), gatewayAddr(i))
	}
	add(&h.app, "app", appAddr)
	if err != nil {
		return h, err
	}
	middle, err := h.lab.Host("switch")
	if err != nil {
		return h, err
	}
	if err = h.lab.Bridge(middle, "bridge", netip.Prefix{}, ports...); err != nil {
		return h, err
	}
	err = h.lab.Link(
		netlab.End{Host: at.Host, Name: at.Interface(), Addr: netip.PrefixFrom(at.Addr(10), 24)},
		netlab.End{Host: h.app, Name: "database", Addr: netip.PrefixFrom(at.Addr(20), 24)})
	if err != nil {
		return h, err
	}
	h.atClient, err = h.client.Capture(interfaceName)
	return h, err
}

func (h *hosts) close() error {
	if h.atClient != nil {
		h.atClient.Stop()
	}
	return h.lab.Close()
}
