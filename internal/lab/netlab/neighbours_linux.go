package netlab

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// neighbourStates are the kernel's states of a neighbour (linux/neighbour.h), in the
// words of ip-neighbour(8).
var neighbourStates = []struct {
	flag int
	word string
}{
	{unix.NUD_INCOMPLETE, "INCOMPLETE"}, {unix.NUD_REACHABLE, "REACHABLE"}, {unix.NUD_STALE, "STALE"},
	{unix.NUD_DELAY, "DELAY"}, {unix.NUD_PROBE, "PROBE"}, {unix.NUD_FAILED, "FAILED"},
	{unix.NUD_NOARP, "NOARP"}, {unix.NUD_PERMANENT, "PERMANENT"},
}

// Neighbour is the state in which the host's kernel has the link-layer address of an
// IPv4 address of its subnets, such as REACHABLE or FAILED; "none" if it has no entry.
func (h *Host) Neighbour(addr netip.Addr) (string, error) {
	entries, err := dump(func() ([]netlink.Neigh, error) { return h.handle.NeighList(0, netlink.FAMILY_V4) })
	if err != nil {
		return "", fmt.Errorf("host %s: read its neighbours: %w", h.name, err)
	}
	for _, e := range entries {
		if at, ok := netip.AddrFromSlice(e.IP); !ok || at.Unmap() != addr {
			continue
		}
		var words []string
		for _, s := range neighbourStates {
			if e.State&s.flag != 0 {
				words = append(words, s.word)
			}
		}
		if words != nil {
			return strings.Join(words, "+"), nil
		}
	}
	return "none", nil
}

// ForgetNeighbour removes the host's entry for an IPv4 address of its subnets, as
// "ip neighbour flush" does. That there is none is no error.
func (h *Host) ForgetNeighbour(addr netip.Addr) error {
	entries, err := dump(func() ([]netlink.Neigh, error) { return h.handle.NeighList(0, netlink.FAMILY_V4) })
	for _, e := range entries {
		if at, ok := netip.AddrFromSlice(e.IP); ok && at.Unmap() == addr {
			err = errors.Join(err, h.handle.NeighDel(&e))
		}
	}
	if err != nil {
		return fmt.Errorf("host %s: forget its neighbour %s: %w", h.name, addr, err)
	}
	return nil
}
