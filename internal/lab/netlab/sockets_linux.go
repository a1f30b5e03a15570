package netlab

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// dumpTries is how often a kernel's table is read when it changes meanwhile.
const dumpTries = 5

// dump reads a table of the kernel. One that changed while it was read may lack
// rows, and is read again.
func dump[T any](read func() ([]T, error)) (rows []T, err error) {
	for range dumpTries {
		rows, err = read()
		if !errors.Is(err, netlink.ErrDumpInterrupted) {
			break
		}
	}
	return rows, err
}

// Sockets are the host's TCP sockets that match says true of, in the order of
// their ports; a nil match means all of them. TIME_WAIT and sockets that no
// program holds any more are among them.
func (h *Host) Sockets(match func(Socket) bool) ([]Socket, error) {
	var sockets []Socket
	err := h.Do(func() error {
		// A listener without an address is a socket of IPv6, and so are its connections.
		for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
			rows, err := dump(func() ([]*netlink.InetDiagTCPInfoResp, error) {
				return netlink.SocketDiagTCPInfo(family)
			})
			if err != nil {
				return err
			}
			for _, row := range rows {
				if s := socket(row); match == nil || match(s) {
					sockets = append(sockets, s)
				}
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("host %s: read its sockets: %w", h.name, err)
	}
	slices.SortFunc(sockets, func(a, b Socket) int {
		return cmp.Or(a.Local.Compare(b.Local), a.Remote.Compare(b.Remote))
	})
	return sockets, nil
}

// socket is a row of the kernel's table. TIME_WAIT has no TCP_INFO.
func socket(row *netlink.InetDiagTCPInfoResp) Socket {
	diag := row.InetDiagMsg
	s := Socket{
		State:          named(tcpStates[:], diag.State),
		Local:          addrPort(diag.ID.Source, diag.ID.SourcePort),
		Remote:         addrPort(diag.ID.Destination, diag.ID.DestinationPort),
		Timer:          named(timers[:], diag.Timer),
		TimerRemaining: time.Duration(diag.Expires) * time.Millisecond,
		ReceiveQueue:   int(diag.RQueue),
		SendQueue:      int(diag.WQueue),
	}
	if info := row.TCPInfo; info != nil && s.State != stateListen {
		s.Retransmits = int(info.Retransmits)
		s.TotalRetransmits = int(info.Total_retrans)
		s.RetransmitTimeout = time.Duration(info.Rto) * time.Microsecond
		s.Probes = int(info.Probes)
		s.Unacked = int(info.Unacked)
	}
	return s
}

// addrPort is an address as the kernel's tables have it; an IPv4 address that a
// socket of IPv6 has is written as IPv4.
func addrPort(ip net.IP, port uint16) netip.AddrPort {
	addr, _ := netip.AddrFromSlice(ip)
	return netip.AddrPortFrom(addr.Unmap(), port)
}
