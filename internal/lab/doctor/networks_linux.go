package doctor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"syscall"
	"time"

	"chokepoint/internal/lab/netlab"
)

// The network in which all is tried: a caller, a router and an upstream.
var (
	callerAddr   = netip.MustParsePrefix("10.0.1.2/24")
	insideAddr   = netip.MustParsePrefix("10.0.1.1/24")
	outsideAddr  = netip.MustParsePrefix("10.0.2.1/24")
	upstreamAddr = netip.MustParsePrefix("10.0.2.2/24")
	// What a bridge joins besides.
	bridgedAddr     = netip.MustParsePrefix("10.0.3.1/24")
	alsoBridgedAddr = netip.MustParsePrefix("10.0.3.2/24")
	everywhere      = netip.MustParsePrefix("0.0.0.0/0")
)

// answerWait bounds a connection attempt and the wait for an answer; a SYN that
// is lost is sent again after 1 s.
const answerWait = 3 * time.Second

// networkChecks are tried in a sandbox, each on hosts of its own.
var networkChecks = []check{
	{
		name: "hosts", neededFor: "deadconn, rolling, drain, drainmap",
		remedy: "the kernel needs network namespaces and veth (CONFIG_NET_NS, CONFIG_VETH); as root: modprobe veth",
		try:    onNetwork(tryHosts, "two veth pairs and a route"),
	},
	{
		name: "bridge", neededFor: "rolling, drain, drainmap",
		remedy: "the kernel needs CONFIG_BRIDGE; as root: modprobe bridge",
		try:    onNetwork(tryBridge, "two hosts on one subnet"),
	},
	{
		name: "NAT", neededFor: "deadconn",
		remedy: "as root: modprobe -a nf_tables nft_chain_nat nft_masq",
		try:    onHost(netlab.TryNAT, "nftables, masquerade"),
	},
	{
		name: "reject", neededFor: "deadconn",
		remedy: "as root: modprobe -a nf_tables nft_ct nft_reject_ipv4",
		try:    onHost(netlab.TryReset, "nftables, RST"),
	},
	{
		name: "conntrack", neededFor: "deadconn",
		remedy: "as root: modprobe -a nf_conntrack nf_conntrack_netlink nft_ct",
		try:    onHost(netlab.TryConntrack, "timeouts, entries, forgetting"),
	},
	{
		name: "device", neededFor: "deadconn",
		remedy: "the rules are there and do not work: see the checks before, and the kernel's log",
		try:    onNetwork(tryDevice, "a forgotten connection is reset"),
	},
	{
		name: "random loss", neededFor: "deadconn; compare -faults with loss",
		remedy: "as root: modprobe -a nf_tables nft_numgen",
		try:    onHost(netlab.TryLoss, "nftables, numgen"),
	},
	{
		name: "delay", neededFor: "cases with a distance between the hosts",
		remedy: "as root: modprobe -a nfnetlink_queue nft_queue xt_NFQUEUE nft_compat",
		try:    onHost(netlab.TryDelay, "NFQUEUE"),
	},
	{
		name: "packet sockets", neededFor: "the packets of every case",
		remedy: "the kernel needs CONFIG_PACKET; as root: modprobe af_packet",
		try:    onHost(netlab.TryCapture, "packets are captured"),
	},
	{
		name: "sock_diag", neededFor: "the sockets of every case",
		remedy: "the kernel needs CONFIG_INET_DIAG; as root: modprobe -a inet_diag tcp_diag",
		try:    onHost(netlab.TrySockets, "states and timers"),
	},
}

// onHost makes a host for a try, which finds what it is said to find.
func onHost(try func(*netlab.Host) error, finds string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) {
		lab, err := netlab.New()
		if err != nil {
			return "", err
		}
		defer lab.Close()
		host, err := lab.Host("host")
		if err != nil {
			return "", err
		}
		return finds, try(host)
	}
}

// network is a lab of a caller and an upstream with a router between them.
type network struct {
	lab                      *netlab.Lab
	caller, router, upstream *netlab.Host
}

// onNetwork makes a network for a try, which finds what it is said to find.
func onNetwork(try func(context.Context, network) error, finds string) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		lab, err := netlab.New()
		if err != nil {
			return "", err
		}
		defer lab.Close()
		n := network{lab: lab}
		if err := n.build(); err != nil {
			return "", err
		}
		return finds, try(ctx, n)
	}
}

func (n *network) build() (err error) {
	for _, step := range []func() error{
		func() error { n.caller, err = n.lab.Host("caller"); return err },
		func() error { n.router, err = n.lab.Host("router"); return err },
		func() error { n.upstream, err = n.lab.Host("upstream"); return err },
		func() error {
			return n.lab.Link(netlab.End{Host: n.caller, Name: "eth0", Addr: callerAddr}, netlab.End{Host: n.router, Name: "inside", Addr: insideAddr})
		},
		func() error {
			return n.lab.Link(netlab.End{Host: n.upstream, Name: "eth0", Addr: upstreamAddr}, netlab.End{Host: n.router, Name: "outside", Addr: outsideAddr})
		},
		func() error { return n.caller.Route(everywhere, insideAddr.Addr()) },
		func() error { return n.upstream.Route(everywhere, outsideAddr.Addr()) },
		func() error { return n.router.WriteSysctl("net.ipv4.ip_forward", "1") },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// connect makes a connection between two hosts and sends a byte each way. What is
// read later must come within answerWait, too.
func connect(ctx context.Context, from, to *netlab.Host, addr netip.Addr) (near, far net.Conn, err error) {
	listener, err := to.Listen(netip.AddrPortFrom(addr, 0).String())
	if err != nil {
		return nil, nil, err
	}
	defer listener.Close()
	ctx, cancel := context.WithTimeout(ctx, answerWait)
	defer cancel()
	near, err = from.Dial(ctx, listener.Addr().String())
	if err != nil {
		return nil, nil, err
	}
	far, err = listener.Accept()
	if err != nil {
		near.Close()
		return nil, nil, err
	}
	for _, way := range [][2]net.Conn{{near, far}, {far, near}} {
		_ = way[1].SetReadDeadline(time.Now().Add(answerWait))
		_, errWrite := way[0].Write([]byte{1})
		_, errRead := io.ReadFull(way[1], make([]byte, 1))
		err = errors.Join(err, errWrite, errRead)
	}
	if err != nil {
		near.Close()
		far.Close()
		return nil, nil, err
	}
	return near, far, nil
}

func tryHosts(ctx context.Context, n network) error {
	return exchange(ctx, n.caller, n.upstream, upstreamAddr.Addr())
}

func tryBridge(ctx context.Context, n network) error {
	err := n.lab.Bridge(n.router, "bridge", netip.Prefix{},
		netlab.End{Host: n.caller, Name: "eth1", Addr: bridgedAddr},
		netlab.End{Host: n.upstream, Name: "eth1", Addr: alsoBridgedAddr})
	if err != nil {
		return err
	}
	return exchange(ctx, n.caller, n.upstream, alsoBridgedAddr.Addr())
}

func exchange(ctx context.Context, from, to *netlab.Host, addr netip.Addr) error {
	near, far, err := connect(ctx, from, to, addr)
	if err != nil {
		return err
	}
	return errors.Join(near.Close(), far.Close())
}

// tryDevice has the router forget a connection, and puts something on it.
func tryDevice(ctx context.Context, n network) error {
	router, err := n.lab.Router(n.router, "inside", "outside", netlab.Device{Mode: netlab.Reset})
	if err != nil {
		return err
	}
	near, far, err := connect(ctx, n.caller, n.upstream, upstreamAddr.Addr())
	if err != nil {
		return err
	}
	defer near.Close()
	defer far.Close()
	switch forgotten, err := router.Forget(nil); {
	case err != nil:
		return err
	case forgotten != 1:
		return fmt.Errorf("the device forgot %d connections, and one had passed it", forgotten)
	}
	if _, err := near.Write([]byte{1}); err != nil {
		return err
	}
	if _, err := near.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		return fmt.Errorf("a request on a forgotten connection met %v, and not %w", err, syscall.ECONNRESET)
	}
	return nil
}
