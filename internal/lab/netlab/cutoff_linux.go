package netlab

import (
	"fmt"
	"net/netip"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
)

// cutOffTable is the table of CutOff in its host.
const cutOffTable = "cut_off"

// CutOff has the host throw away every TCP segment that comes from one of these ends,
// IPv4 addresses with ports, and answer it with a RST: the peer's connection is reset at
// its next segment. The host's own sockets learn nothing of it, and nothing is sent
// before a segment comes. It adds to what was cut off before, for the lab's life.
func (h *Host) CutOff(peers []netip.AddrPort) error {
	err := h.Do(func() error {
		conn, err := nftables.New()
		if err != nil {
			return err
		}
		table := conn.AddTable(&nftables.Table{Family: nftables.TableFamilyIPv4, Name: cutOffTable})
		arrives := conn.AddChain(&nftables.Chain{
			Table: table, Name: "arrives", Type: nftables.ChainTypeFilter,
			Hooknum: nftables.ChainHookInput, Priority: nftables.ChainPriorityFilter,
		})
		for _, peer := range peers {
			address := peer.Addr().As4()
			rule := isTCP()
			// Where the IPv4 header has the sender's address, and the TCP header its port.
			rule = append(rule, headerField(expr.PayloadBaseNetworkHeader, 12, 4), equal(address[:]), headerField(expr.PayloadBaseTransportHeader, 0, 2), equal(binaryutil.BigEndian.PutUint16(peer.Port())))
			conn.AddRule(&nftables.Rule{Table: table, Chain: arrives, Exprs: append(rule, reset()...)})
		}
		return conn.Flush()
	})
	if err != nil {
		return fmt.Errorf("host %s: cut off %v: %w", h.name, peers, unavailable("nftables", err))
	}
	return nil
}

func headerField(header expr.PayloadBase, offset, bytes uint32) expr.Any {
	return &expr.Payload{DestRegister: register, Base: header, Offset: offset, Len: bytes}
}
