package netlab

import (
	"errors"
	"fmt"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// PortLoss drops packets to and from a TCP port of the loopback, in the sandbox that
// this process is in.
type PortLoss struct {
	table *nftables.Table
	path  *nftables.Chain
}

// LosePort has the kernel drop a share, above 0 and up to 1, of the TCP packets to and
// from the port, in both directions and on every connection, new or open, until End.
// They are dropped where they arrive: the sender's kernel has sent them, and learns
// nothing, as on a wire. One transaction makes all of it, so no packet slips through
// between two rules. It refuses to work outside of a sandbox.
func LosePort(port uint16, share float64) (*PortLoss, error) {
	if !Inside() {
		return nil, errors.New("packets are dropped in a sandbox only, never on the machine's own loopback")
	}
	conn, err := nftables.New()
	if err != nil {
		return nil, unavailable("nftables", err)
	}
	l := &PortLoss{table: conn.AddTable(&nftables.Table{Family: nftables.TableFamilyINet, Name: fmt.Sprintf("lose_port_%d", port)})}
	arrives := conn.AddChain(&nftables.Chain{
		Table: l.table, Name: "arrives", Type: nftables.ChainTypeFilter,
		Hooknum: nftables.ChainHookInput, Priority: nftables.ChainPriorityFilter,
	})
	l.path = conn.AddChain(&nftables.Chain{Table: l.table, Name: "path"})
	// Where a TCP header has the port that a packet comes from, and the one it goes to.
	for _, offset := range []uint32{0, 2} {
		conn.AddRule(&nftables.Rule{Table: l.table, Chain: arrives, Exprs: []expr.Any{
			&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1},
			&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{unix.IPPROTO_TCP}},
			&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: offset, Len: 2},
			&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: binaryutil.BigEndian.PutUint16(port)},
			&expr.Verdict{Kind: expr.VerdictJump, Chain: l.path.Name},
		}})
	}
	conn.AddRule(&nftables.Rule{Table: l.table, Chain: l.path, Exprs: append(lossy(share), &expr.Counter{}, &expr.Verdict{Kind: expr.VerdictDrop})})
	conn.AddRule(&nftables.Rule{Table: l.table, Chain: l.path, Exprs: []expr.Any{&expr.Counter{}, &expr.Verdict{Kind: expr.VerdictReturn}}})
	if err := conn.Flush(); err != nil {
		return nil, unavailable("nftables", err)
	}
	return l, nil
}

// Counts are the packets that were dropped and that passed, both directions together,
// those that were sent again too.
func (l *PortLoss) Counts() (lost, passed uint64, err error) {
	conn, err := nftables.New()
	if err != nil {
		return 0, 0, unavailable("nftables", err)
	}
	rules, err := conn.GetRules(l.table, l.path)
	if err != nil {
		return 0, 0, fmt.Errorf("nftables: %w", err)
	}
	var counts []uint64
	for _, rule := range rules {
		for _, e := range rule.Exprs {
			if counter, ok := e.(*expr.Counter); ok {
				counts = append(counts, counter.Packets)
			}
		}
	}
	if len(counts) != 2 {
		return 0, 0, fmt.Errorf("nftables: %d counters in the rules of %s, want 2: somebody has changed them", len(counts), l.table.Name)
	}
	return counts[0], counts[1], nil
}

// End lets all packets pass again.
func (l *PortLoss) End() error {
	conn, err := nftables.New()
	if err != nil {
		return unavailable("nftables", err)
	}
	conn.DelTable(l.table)
	if err := conn.Flush(); err != nil {
		return fmt.Errorf("nftables: %w", err)
	}
	return nil
}
