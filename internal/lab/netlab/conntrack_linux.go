package netlab

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"chokepoint/internal/lab/netlab/capture"
)

// conntrackStates are the kernel's states of a TCP connection by their number
// (include/uapi/linux/netfilter/nf_conntrack_tcp.h).
var conntrackStates = [...]string{
	"NONE", "SYN_SENT", "SYN_RECV", "ESTABLISHED", "FIN_WAIT", "CLOSE_WAIT", "LAST_ACK", "TIME_WAIT", "CLOSE", "SYN_SENT2",
}

// Entries are the TCP and UDP connections that the device remembers, in the order
// of their clients' addresses.
func (r *Router) Entries() ([]Entry, error) {
	var entries []Entry
	err := r.host.Do(func() error {
		flows, err := dump(func() ([]*netlink.ConntrackFlow, error) {
			return netlink.ConntrackTableList(netlink.ConntrackTable, unix.AF_INET)
		})
		if err != nil {
			return err
		}
		for _, flow := range flows {
			if e, ok := entry(flow); ok {
				entries = append(entries, e)
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("router %s: read its conntrack table: %w", r.host.name, err)
	}
	slices.SortFunc(entries, func(a, b Entry) int {
		return cmp.Or(a.Original.Source.Compare(b.Original.Source), a.Original.Destination.Compare(b.Original.Destination))
	})
	return entries, nil
}

// forgotten is the filter of a deletion: the entries that match says true of.
type forgotten func(Entry) bool

// MatchConntrackFlow implements netlink.CustomConntrackFilter.
func (match forgotten) MatchConntrackFlow(flow *netlink.ConntrackFlow) bool {
	e, ok := entry(flow)
	return ok && (match == nil || match(e))
}

// Forget makes the device forget the connections that match says true of, now and
// without a word to either end; a nil match means all. It returns how many. With
// the modes Drop and Reset, what existed is dead from then on, and new
// connections pass.
func (r *Router) Forget(match func(Entry) bool) (int, error) {
	var n uint
	err := r.host.Do(func() (err error) {
		n, err = netlink.ConntrackDeleteFilters(netlink.ConntrackTable, unix.AF_INET, forgotten(match))
		return err
	})
	if err != nil {
		return int(n), fmt.Errorf("router %s: delete from its conntrack table: %w", r.host.name, err)
	}
	return int(n), nil
}

// entry is a row of the kernel's table; ok is false of what is neither TCP nor UDP.
func entry(flow *netlink.ConntrackFlow) (e Entry, ok bool) {
	e = Entry{
		Protocol:  capture.Protocol(flow.Forward.Protocol),
		Remaining: time.Duration(flow.TimeOut) * time.Second,
		Original:  tuple(flow.Forward),
		Reply:     tuple(flow.Reverse),
	}
	if tcp, ok := flow.ProtoInfo.(*netlink.ProtoInfoTCP); ok {
		e.State = named(conntrackStates[:], tcp.State)
	}
	return e, e.Protocol == capture.TCP || e.Protocol == capture.UDP
}

func tuple(t netlink.IPTuple) Tuple {
	return Tuple{addrPort(t.SrcIP, t.SrcPort), addrPort(t.DstIP, t.DstPort)}
}
