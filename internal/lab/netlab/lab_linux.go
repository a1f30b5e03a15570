package netlab

import (
	"errors"
	"fmt"
	"net/netip"
	"sync"

	"github.com/vishvananda/netlink"
)

// Lab is a set of hosts and of links between them. Its methods may be called
// from any goroutine. Several labs may exist in one sandbox, and do not see each
// other.
type Lab struct {
	mu      sync.Mutex
	hosts   []*Host
	routers []*Router // they hold sockets of their hosts
	closed  bool
}

// errOutside is New's answer outside of a sandbox.
var errOutside = errors.New("netlab: hosts are made in a sandbox only, see RunIn: outside of one they would outlive the lab")

// New returns a Lab without hosts. Close ends it.
func New() (*Lab, error) {
	if !Inside() {
		return nil, errOutside
	}
	return &Lab{}, nil
}

// Host makes a host with nothing but its loopback, which is up. The name is for
// errors and reports, and must be new to the lab.
func (l *Lab) Host(name string) (*Host, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, fmt.Errorf("host %s: the lab is closed", name)
	}
	for _, h := range l.hosts {
		if h.name == name {
			return nil, fmt.Errorf("host %s: the lab has one already", name)
		}
	}
	h, err := newHost(name)
	if err != nil {
		return nil, fmt.Errorf("host %s: %w", name, err)
	}
	l.hosts = append(l.hosts, h)
	return h, nil
}

// Close ends the hosts, the last one first. Children that still run in them are
// killed: stop them before. The kernel keeps a namespace for as long as a
// socket of it is open, so close those too. It may be called more than once.
func (l *Lab) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	var errs []error
	for _, r := range l.routers {
		errs = append(errs, r.close())
	}
	l.routers = nil
	for i := len(l.hosts) - 1; i >= 0; i-- {
		errs = append(errs, l.hosts[i].close())
	}
	l.hosts = nil
	return errors.Join(errs...)
}

// End is one end of a link: an interface of a host.
type End struct {
	Host *Host
	// Name of the interface, at most 15 characters, new to the host.
	Name string
	// Addr is the interface's first IPv4 address, with the length of its subnet, as in
	// 10.0.1.2/24; the zero Prefix means none.
	Addr netip.Prefix
}

// Link joins two hosts by a veth pair: both interfaces are made, addressed and
// up, and carry packets.
func (l *Lab) Link(a, b End) error {
	pair := &netlink.Veth{
		LinkAttrs:     netlink.LinkAttrs{Name: a.Name, TxQLen: -1},
		PeerName:      b.Name,
		PeerNamespace: netlink.NsFd(b.Host.NetNS()),
	}
	if err := a.Host.handle.LinkAdd(pair); err != nil {
		return fmt.Errorf("link %s and %s: %w", a, b, err)
	}
	for _, end := range []End{a, b} {
		if err := end.configure(); err != nil {
			return fmt.Errorf("link %s and %s: %w", a, b, err)
		}
	}
	for _, end := range []End{a, b} {
		if err := end.Host.awaitCarrier(end.Name); err != nil {
			return fmt.Errorf("link %s and %s: %w", a, b, err)
		}
	}
	return nil
}

func (e End) String() string { return e.Host.name + "/" + e.Name }

// configure gives the end its address and brings it up.
func (e End) configure() error {
	if e.Addr.IsValid() {
		if err := e.Host.AddAddr(e.Name, e.Addr); err != nil {
			return err
		}
	}
	return e.Host.SetLinkUp(e.Name)
}

// Bridge puts several hosts on one subnet: the bridge is an interface of host,
// called name, and each port is an interface of its own host whose other end is
// in the bridge. With an address, host itself is on the subnet too; the zero
// Prefix makes it a mere switch. Further calls with the same host and name are
// an error.
func (l *Lab) Bridge(host *Host, name string, addr netip.Prefix, ports ...End) error {
	bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: name, TxQLen: -1}}
	if err := host.handle.LinkAdd(bridge); err != nil {
		return fmt.Errorf("bridge %s/%s: %w", host.name, name, err)
	}
	if err := (End{Host: host, Name: name, Addr: addr}).configure(); err != nil {
		return fmt.Errorf("bridge %s/%s: %w", host.name, name, err)
	}
	for i, port := range ports {
		inner := End{Host: host, Name: fmt.Sprintf("%.11s.%d", name, i)}
		if err := l.Link(inner, port); err != nil {
			return err
		}
		if err := host.enslave(inner.Name, bridge); err != nil {
			return fmt.Errorf("bridge %s/%s: port %s: %w", host.name, name, port, err)
		}
	}
	if len(ports) == 0 {
		return nil
	}
	if err := host.awaitCarrier(name); err != nil {
		return fmt.Errorf("bridge %s/%s: %w", host.name, name, err)
	}
	return nil
}
