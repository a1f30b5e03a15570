package engine

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"net/url"
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
	remote netip.AddrPort
	family int
	socket unix.Sockaddr
}

// findRoute resolves the host of u. Of several addresses it takes the first that
// accepts a connection, which is closed at once; if none does, the first, since
// that is for the run to show.
func findRoute(ctx context.Context, u *url.URL) (route, error) {
	ctx, cancel := context.WithTimeout(ctx, resolveWait)
	defer cancel()
	host, service, err := net.SplitHostPort(address(u))
	if err != nil {
		return route{}, fmt.Errorf("URL %q: %w", u.Redacted(), err)
	}
	port, err := net.DefaultResolver.LookupPort(ctx, "tcp", service)
	if err != nil {
		return route{}, fmt.Errorf("port %q is unknown: give a number", service)
	}
	found, err := addresses(ctx, host)
	if err != nil {
		return route{}, fmt.Errorf("cannot resolve %s: %w; check the name, or give an address", host, err)
	}
	return newRoute(reachable(ctx, found, uint16(port)))
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
func reachable(ctx context.Context, ips []netip.Addr, port uint16) netip.AddrPort {
	if len(ips) > 1 {
		for _, ip := range ips {
			if to := netip.AddrPortFrom(ip, port); accepts(ctx, to) {
				return to
			}
		}
	}
	return netip.AddrPortFrom(ips[0], port)
}

func accepts(ctx context.Context, to netip.AddrPort) bool {
	dialer := net.Dialer{Timeout: probeWait, KeepAlive: -1}
	conn, err := dialer.DialContext(ctx, "tcp", to.String())
	if err != nil {
		return false
	}
	conn.Close()
	return true
}

func newRoute(to netip.AddrPort) (route, error) {
	ip := to.Addr().Unmap()
	to = netip.AddrPortFrom(ip, to.Port())
	if ip.Is4() {
		return route{remote: to, family: unix.AF_INET, socket: &unix.SockaddrInet4{Port: int(to.Port()), Addr: ip.As4()}}, nil
	}
	zone, err := zoneIndex(ip.Zone())
	if err != nil {
		return route{}, err
	}
	return route{remote: to, family: unix.AF_INET6, socket: &unix.SockaddrInet6{Port: int(to.Port()), ZoneId: zone, Addr: ip.As16()}}, nil
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
