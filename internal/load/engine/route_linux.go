package engine

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// resolveWait is the longest that names may take to resolve.
	resolveWait = 10 * time.Second
	// probeWait is how long each of several addresses has to accept a connection.
	probeWait = time.Second
)

// route is where the connections of an endpoint go to.
type route struct {
	remote  netip.AddrPort
	family  int
	socket  unix.Sockaddr
	sources []unix.Sockaddr
}

// findRoute resolves the host that c leads connections for u to. Of several
// addresses it takes the first that accepts a connection, which is closed at once;
// if none does, the first, since that is for the run to show.
func findRoute(ctx context.Context, u *url.URL, c Connections) (route, error) {
	ctx, cancel := context.WithTimeout(ctx, resolveWait)
	defer cancel()
	host, port, err := c.destination(u)
	if err != nil {
		return route{}, err
	}
	found, err := addresses(ctx, host)
	if err != nil {
		return route{}, fmt.Errorf("cannot resolve %s: %w; check the name, or give an address", host, err)
	}
	found = slices.DeleteFunc(found, func(to netip.Addr) bool { return !c.reaches(to) })
	if len(found) == 0 {
		return route{}, fmt.Errorf("%s has no address of the family of source %v; give sources that are", host, c.Sources[0])
	}
	r, err := newRoute(reachable(ctx, found, port, c))
	if err != nil {
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

// addresses are those of a host, which may be an address itself, at least one.
func addresses(ctx context.Context, host string) ([]netip.Addr, error) {
	if ip, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{ip}, nil // the resolver would lose its zone
	}
	return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
}

// reachable is the first of several addresses that accepts a connection on the
// port, or the first of all; a single one is not tried.
func reachable(ctx context.Context, ips []netip.Addr, port uint16, c Connections) netip.AddrPort {
	if len(ips) > 1 {
		for _, ip := range ips {
			if to := netip.AddrPortFrom(ip, port); accepts(ctx, to, c) {
				return to
			}
		}
	}
	return netip.AddrPortFrom(ips[0], port)
}

func accepts(ctx context.Context, to netip.AddrPort, c Connections) bool {
	dialer := c.dialer(min(0, len(c.Sources)-1))
	dialer.Timeout = probeWait
	conn, err := dialer.DialContext(ctx, "tcp", to.String())
	if err != nil {
		return false
	}
	conn.Close()
	return true
}

func newRoute(to netip.AddrPort) (route, error) {
	to = netip.AddrPortFrom(to.Addr().Unmap(), to.Port())
	family := unix.AF_INET6
	if to.Addr().Is4() {
		family = unix.AF_INET
	}
	socket, err := socketAddress(to)
	return route{remote: to, family: family, socket: socket}, err
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

// zoneIndex is the index of the interface that a link-local address belongs to.
func zoneIndex(zone string) (uint32, error) {
	if zone == "" {
		return 0, nil
	}
	if n, err := strconv.ParseUint(zone, 10, 32); err == nil {
		return uint32(n), nil
	}
	device, err := net.InterfaceByName(zone)
	if err != nil {
		return 0, fmt.Errorf("zone %q of the address is no interface here", zone)
	}
	return uint32(device.Index), nil
}
