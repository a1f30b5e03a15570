package netlab

import (
	"errors"
	"fmt"
	"math"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// tableName is the router's table in its host.
const tableName = "chokepoint"

// The router's counters. They are objects of the table, so that they outlive the
// rules that count.
const (
	counterLost           = "lost"
	counterInvalidDropped = "invalid_dropped"
	counterInvalidReset   = "invalid_reset"
	counterPassed         = "passed"
)

// lossScale is the number of equal parts that the loss is drawn from.
const lossScale = 1_000_000

// rules are the router's nftables rules. Its methods run on the host's thread.
//
//	arriving (raw, before conntrack)   loss
//	forwarded, received                 packets in the middle of an unknown connection; delay
//	leaving (NAT)                       masquerade
type rules struct {
	inside, outside string
	table           *nftables.Table
	arriving        *nftables.Chain
	forwarded       *nftables.Chain
	received        *nftables.Chain
	leaving         *nftables.Chain
}

func newRules(inside, outside string) rules {
	table := &nftables.Table{Name: tableName, Family: nftables.TableFamilyIPv4}
	chain := func(name string, kind nftables.ChainType, hook *nftables.ChainHook, priority *nftables.ChainPriority) *nftables.Chain {
		return &nftables.Chain{Name: name, Table: table, Type: kind, Hooknum: hook, Priority: priority}
	}
	return rules{
		inside: inside, outside: outside, table: table,
		arriving:  chain("arriving", nftables.ChainTypeFilter, nftables.ChainHookPrerouting, nftables.ChainPriorityRaw),
		forwarded: chain("forwarded", nftables.ChainTypeFilter, nftables.ChainHookForward, nftables.ChainPriorityFilter),
		received:  chain("received", nftables.ChainTypeFilter, nftables.ChainHookInput, nftables.ChainPriorityFilter),
		leaving:   chain("leaving", nftables.ChainTypeNAT, nftables.ChainHookPostrouting, nftables.ChainPriorityNATSource),
	}
}

func (r *rules) chains() []*nftables.Chain {
	return []*nftables.Chain{r.arriving, r.forwarded, r.received, r.leaving}
}

// create makes the table with its chains and counters, and no rule.
func (r *rules) create() error {
	conn, err := nftables.New()
	if err != nil {
		return err
	}
	conn.CreateTable(r.table)
	for _, c := range r.chains() {
		conn.AddChain(c)
	}
	for _, name := range []string{counterLost, counterInvalidDropped, counterInvalidReset, counterPassed} {
		conn.AddObj(&nftables.CounterObj{Table: r.table, Name: name})
	}
	if err := conn.Flush(); errors.Is(err, unix.EEXIST) {
		return errors.New("the host is a router already; use Router.Set")
	} else if err != nil {
		return fmt.Errorf("make nftables' table: %w", err)
	}
	return nil
}

// replace puts the device's rules in the place of those that there are, in one
// transaction: a packet meets all of the old ones or all of the new.
func (r *rules) replace(d Device, queue queueKind) error {
	conn, err := nftables.New()
	if err != nil {
		return err
	}
	for _, c := range r.chains() {
		conn.FlushChain(c)
	}
	add := func(c *nftables.Chain, parts ...[]expr.Any) {
		var all []expr.Any
		for _, part := range parts {
			all = append(all, part...)
		}
		conn.AddRule(&nftables.Rule{Table: r.table, Chain: c, Exprs: all})
	}
	if d.Loss > 0 {
		for _, port := range lossPorts(d.LossPort) {
			add(r.arriving, port, lossy(d.Loss), counted(counterLost), drop())
		}
	}
	for _, c := range []*nftables.Chain{r.forwarded, r.received} {
		switch d.Mode {
		case Drop:
			add(c, invalid(), counted(counterInvalidDropped), drop())
		case Reset:
			add(c, isTCP(), invalid(), counted(counterInvalidReset), reset())
			add(c, invalid(), counted(counterInvalidDropped), drop())
		}
	}
	add(r.forwarded, counted(counterPassed))
	if d.Delay > 0 {
		// The last rule: a packet that comes back from the queue goes on behind this
		// chain.
		add(r.forwarded, queue.exprs())
	}
	add(r.leaving, leavesBy(r.outside), []expr.Any{&expr.Masq{FullyRandom: d.NewPort}})
	if err := conn.Flush(); err != nil {
		return fmt.Errorf("set nftables' rules: %w", err)
	}
	return nil
}

// counters reads the table's counters.
func (r *rules) counters() (Counters, error) {
	conn, err := nftables.New()
	if err != nil {
		return Counters{}, err
	}
	objects, err := conn.GetObjects(r.table)
	if err != nil {
		return Counters{}, err
	}
	packets := map[string]uint64{}
	for _, o := range objects {
		if c, ok := o.(*nftables.CounterObj); ok {
			packets[c.Name] = c.Packets
		}
	}
	return Counters{
		Lost:           packets[counterLost],
		InvalidDropped: packets[counterInvalidDropped],
		InvalidReset:   packets[counterInvalidReset],
		Passed:         packets[counterPassed],
	}, nil
}

// The expressions that rules are made of. Register 1 is nftables' first.
const register = 1

func equal(data []byte) expr.Any {
	return &expr.Cmp{Op: expr.CmpOpEq, Register: register, Data: data}
}

func drop() []expr.Any { return []expr.Any{&expr.Verdict{Kind: expr.VerdictDrop}} }

func reset() []expr.Any { return []expr.Any{&expr.Reject{Type: unix.NFT_REJECT_TCP_RST}} }

func counted(counter string) []expr.Any {
	return []expr.Any{&expr.Objref{Type: unix.NFT_OBJECT_COUNTER, Name: counter}}
}

// invalid is true of a packet that conntrack cannot assign to a connection.
func invalid() []expr.Any {
	return []expr.Any{
		&expr.Ct{Key: expr.CtKeySTATE, Register: register},
		&expr.Bitwise{
			SourceRegister: register, DestRegister: register, Len: 4,
			Mask: binaryutil.NativeEndian.PutUint32(expr.CtStateBitINVALID),
			Xor:  binaryutil.NativeEndian.PutUint32(0),
		},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: register, Data: binaryutil.NativeEndian.PutUint32(0)},
	}
}

func isTCP() []expr.Any {
	return []expr.Any{&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: register}, equal([]byte{unix.IPPROTO_TCP})}
}

func leavesBy(interfaceName string) []expr.Any {
	name := make([]byte, unix.IFNAMSIZ)
	copy(name, interfaceName)
	return []expr.Any{&expr.Meta{Key: expr.MetaKeyOIFNAME, Register: register}, equal(name)}
}

// lossy is true of a share of packets, drawn anew for each.
func lossy(share float64) []expr.Any {
	if share >= 1 {
		return nil
	}
	limit := uint32(math.Round(share * lossScale))
	return []expr.Any{
		&expr.Numgen{Register: register, Type: unix.NFT_NG_RANDOM, Modulus: lossScale},
		// Registers are compared as memory is, so that numbers must be big-endian.
		&expr.Byteorder{SourceRegister: register, DestRegister: register, Op: expr.ByteorderHton, Len: 4, Size: 4},
		&expr.Cmp{Op: expr.CmpOpLt, Register: register, Data: binaryutil.BigEndian.PutUint32(limit)},
	}
}

// lossPorts are the conditions that a packet goes to or comes from a port, one for
// each of the two; 0 is one condition that is always true. ICMP has no ports.
func lossPorts(port uint16) [][]expr.Any {
	if port == 0 {
		return [][]expr.Any{nil}
	}
	condition := func(offset uint32) []expr.Any {
		return []expr.Any{
			&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: register},
			&expr.Cmp{Op: expr.CmpOpNeq, Register: register, Data: []byte{unix.IPPROTO_ICMP}},
			&expr.Payload{DestRegister: register, Base: expr.PayloadBaseTransportHeader, Offset: offset, Len: 2},
			equal(binaryutil.BigEndian.PutUint16(port)),
		}
	}
	return [][]expr.Any{condition(0), condition(2)}
}

// unavailableRules says what a kernel lacks that refused the rules.
func unavailableRules(err error) error {
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EPROTONOSUPPORT) || errors.Is(err, unix.EPERM) {
		return &Unavailable{
			What:   "NAT router",
			Err:    err,
			Remedy: "the kernel needs nftables with NAT, conntrack, reject and numgen (modules nf_tables, nft_ct, nft_masq, nft_reject_ipv4, nft_numgen, nft_objref: load them as root with modprobe)",
		}
	}
	return err
}
