package closerace

import (
	"errors"
	"net/netip"
	"time"

	"chokepoint/internal/lab/netlab"
)

// distant has a router between both ends that holds every packet for half a round trip.
// It is for a lab in a sandbox.
func distant(roundTrip time.Duration) (_ place, err error) {
	lab, err := netlab.New()
	if err != nil {
		return place{}, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, lab.Close())
		}
	}()
	var hosts [3]*netlab.Host
	for i, name := range []string{"caller", "router", "server"} {
		if hosts[i], err = lab.Host(name); err != nil {
			return place{}, err
		}
	}
	caller, router, server := hosts[0], hosts[1], hosts[2]
	at := func(h *netlab.Host, name, address string) netlab.End {
		return netlab.End{Host: h, Name: name, Addr: netip.MustParsePrefix(address)}
	}
	if err = lab.Link(at(caller, "eth0", "10.81.0.10/24"), at(router, "inside", "10.81.0.2/24")); err != nil {
		return place{}, err
	}
	if err = lab.Link(at(server, "eth0", "10.82.0.10/24"), at(router, "outside", "10.82.0.2/24")); err != nil {
		return place{}, err
	}
	if err = caller.Route(netip.PrefixFrom(netip.IPv4Unspecified(), 0), netip.MustParseAddr("10.81.0.2")); err != nil {
		return place{}, err
	}
	if _, err = lab.Router(router, "inside", "outside", netlab.Device{Mode: netlab.Loose, Delay: roundTrip / 2}); err != nil {
		return place{}, err
	}
	return place{
		caller: end{caller.Launcher(), "10.81.0.10", caller.Dial},
		server: end{server.Launcher(), "10.82.0.10", server.Dial},
		close:  lab.Close,
	}, nil
}
