package netlab

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
)

// WriteSysctl sets a kernel parameter of the host, such as
// net.ipv4.ip_forward. Only those under net are a host's own; others are refused.
func (h *Host) WriteSysctl(name, value string) error {
	if !strings.HasPrefix(name, "net.") {
		return fmt.Errorf("host %s: sysctl %s: only net.* is a host's own", h.name, name)
	}
	path := "/proc/sys/" + strings.ReplaceAll(name, ".", "/")
	err := h.Do(func() error { return os.WriteFile(path, []byte(value), 0) })
	if err != nil {
		return fmt.Errorf("host %s: sysctl %s=%s: %w", h.name, name, value, err)
	}
	return nil
}

// Route sends what is for dst to via, which must be on a subnet of the host.
// 0.0.0.0/0 is the default route. A route for the same dst is replaced.
func (h *Host) Route(dst netip.Prefix, via netip.Addr) error {
	err := h.handle.RouteReplace(&netlink.Route{Dst: ipNet(dst), Gw: via.AsSlice()})
	if err != nil {
		return fmt.Errorf("host %s: route to %s via %s: %w", h.name, dst, via, err)
	}
	return nil
}

// AddAddr gives an interface one more IPv4 address, with the length of its
// subnet. It can be used at once, which an IPv6 address could not: those are
// refused.
func (h *Host) AddAddr(link string, addr netip.Prefix) error {
	if !addr.Addr().Is4() {
		return fmt.Errorf("host %s: add %s to %s: not an IPv4 address, and the lab's networks have no other", h.name, addr, link)
	}
	err := h.onLink(link, func(l netlink.Link) error {
		return h.handle.AddrAdd(l, &netlink.Addr{IPNet: ipNet(addr)})
	})
	if err != nil {
		return fmt.Errorf("host %s: add %s to %s: %w", h.name, addr, link, err)
	}
	return nil
}

// RemoveAddr takes an address away from an interface. Its connections stay,
// and their packets are neither received nor answered: the machine is gone.
func (h *Host) RemoveAddr(link string, addr netip.Prefix) error {
	err := h.onLink(link, func(l netlink.Link) error {
		return h.handle.AddrDel(l, &netlink.Addr{IPNet: ipNet(addr)})
	})
	if err != nil {
		return fmt.Errorf("host %s: remove %s from %s: %w", h.name, addr, link, err)
	}
	return nil
}

// SetLinkUp brings an interface up.
func (h *Host) SetLinkUp(link string) error {
	if err := h.onLink(link, h.handle.LinkSetUp); err != nil {
		return fmt.Errorf("host %s: set %s up: %w", h.name, link, err)
	}
	return nil
}

// SetLinkDown takes an interface down: the kernel forgets its routes, and the
// other end of its link loses the carrier.
func (h *Host) SetLinkDown(link string) error {
	if err := h.onLink(link, h.handle.LinkSetDown); err != nil {
		return fmt.Errorf("host %s: set %s down: %w", h.name, link, err)
	}
	return nil
}

const (
	// carrierWait bounds the wait for an interface, carrierPoll is how often it is
	// asked.
	carrierWait = 5 * time.Second
	carrierPoll = 100 * time.Microsecond
)

// awaitCarrier waits until an interface that is up, and whose other end is,
// carries packets. The kernel switches its queue on in the background
// (net/core/link_watch.c) and drops what is sent before: a SYN comes again after
// a second.
func (h *Host) awaitCarrier(link string) error {
	for end := time.Now().Add(carrierWait); ; time.Sleep(carrierPoll) {
		l, err := h.handle.LinkByName(link)
		switch {
		case err != nil:
			return err
		case l.Attrs().OperState == netlink.OperUp:
			return nil
		case time.Now().After(end):
			return fmt.Errorf("%s is %s after %s, and not up", link, l.Attrs().OperState, carrierWait)
		}
	}
}

// enslave puts an interface into a bridge of the same host.
func (h *Host) enslave(port string, bridge netlink.Link) error {
	return h.onLink(port, func(l netlink.Link) error { return h.handle.LinkSetMaster(l, bridge) })
}

func (h *Host) onLink(name string, f func(netlink.Link) error) error {
	link, err := h.handle.LinkByName(name)
	if err != nil {
		return err
	}
	return f(link)
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}
