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
)

const (
	// resolveWait is the longest that names may take to resolve.
	resolveWait = 10 * time.Second
	// probeWait is how long each of several addresses has to accept a connection.
	probeWait = time.Second
)

// resolve finds the address that c leads connections for u to, before the start and
// for the whole run: what a name leads to in the middle of it would be load on its
// server too, and time that the server under test has no part in. Of several
// addresses it takes the first that accepts a connection, which is closed at once;
// if none does, the first, since that is for the run to show.
func resolve(ctx context.Context, u *url.URL, c Connections) (netip.AddrPort, error) {
	ctx, cancel := context.WithTimeout(ctx, resolveWait)
	defer cancel()
	host, port, err := c.destination(u)
	if err != nil {
		return netip.AddrPort{}, err
	}
	found, err := addresses(ctx, host)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("cannot resolve %s: %w; check the name, or give an address", host, err)
	}
	found = slices.DeleteFunc(found, func(to netip.Addr) bool { return !c.reaches(to) })
	if len(found) == 0 {
		return netip.AddrPort{}, fmt.Errorf("%s has no address of the family of source %v; give sources that are", host, c.Sources[0])
	}
	to := reachable(ctx, found, port, c)
	if _, err := zoneIndex(to.Addr().Zone()); err != nil {
		return netip.AddrPort{}, err
	}
	return netip.AddrPortFrom(to.Addr().Unmap(), to.Port()), nil
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
