package engine

import (
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"
)

// route is where the connections of an endpoint go to, and come from, in the form
// that the kernel takes.
type route struct {
	remote  netip.AddrPort
	family  int
	socket  unix.Sockaddr
	sources []unix.Sockaddr
}

func newRoute(to netip.AddrPort, c Connections) (route, error) {
	r := route{remote: to, family: unix.AF_INET6}
	if to.Addr().Is4() {
		r.family = unix.AF_INET
	}
	var err error
	if r.socket, err = socketAddress(to); err != nil {
		return route{}, err
	}
	for _, source := range c.Sources {
		local, err := socketAddress(netip.AddrPortFrom(source.Unmap(), 0))
		if err != nil {
			return route{}, err
		}
		r.sources = append(r.sources, local)
	}
	return r, nil
}

// own is the route with addresses that are one loop's alone: package unix writes
// into an address whenever it is used.
func (r route) own() route {
	r.socket = ownAddress(r.socket)
	r.sources = slices.Clone(r.sources)
	for i, source := range r.sources {
		r.sources[i] = ownAddress(source)
	}
	return r
}

func ownAddress(a unix.Sockaddr) unix.Sockaddr {
	switch a := a.(type) {
	case *unix.SockaddrInet4:
		return &unix.SockaddrInet4{Port: a.Port, Addr: a.Addr}
	case *unix.SockaddrInet6:
		return &unix.SockaddrInet6{Port: a.Port, ZoneId: a.ZoneId, Addr: a.Addr}
	}
	return a
}

// socketAddress is a in the form that the kernel takes.
func socketAddress(a netip.AddrPort) (unix.Sockaddr, error) {
	ip := a.Addr()
	if ip.Is4() {
		return &unix.SockaddrInet4{Port: int(a.Port()), Addr: ip.As4()}, nil
	}
	zone, err := zoneIndex(ip.Zone())
	if err != nil {
		return nil, err
	}
	return &unix.SockaddrInet6{Port: int(a.Port()), ZoneId: zone, Addr: ip.As16()}, nil
}
