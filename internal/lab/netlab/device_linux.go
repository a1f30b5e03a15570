package netlab

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
)

// Router is a host that forwards between two of its interfaces, translates the
// addresses of one side (masquerade, IPv4), and is the device of the lab. It is
// the kernel's own conntrack and nftables. It ends with its Lab.
type Router struct {
	host  *Host
	rules rules

	mu     sync.Mutex // Set is called from one goroutine at a time
	device Device
	queue  queueKind  // how the kernel queues; none until a delay was asked for
	delay  *delayLine // nil until a delay was asked for
}

// Router makes host a NAT router from its interface inside, where the clients
// are, to outside, as a Device. The hosts of the inside need a route through it;
// those of the outside do not, since they see its own address. A host can be one
// router only.
func (l *Lab) Router(host *Host, inside, outside string, d Device) (*Router, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, fmt.Errorf("router %s: the lab is closed", host.name)
	}
	r := &Router{host: host, rules: newRules(inside, outside)}
	if err := host.WriteSysctl("net.ipv4.ip_forward", "1"); err != nil {
		return nil, fmt.Errorf("router %s: %w", host.name, err)
	}
	if err := host.Do(r.rules.create); err != nil {
		return nil, fmt.Errorf("router %s: %w", host.name, unavailableRules(err))
	}
	l.routers = append(l.routers, r)
	if err := r.Set(d); err != nil {
		return nil, err
	}
	return r, nil
}

// The kernel's settings of a device (Documentation/networking/nf_conntrack-sysctl.rst).
const (
	idleSysctl  = "net.netfilter.nf_conntrack_tcp_timeout_established"
	looseSysctl = "net.netfilter.nf_conntrack_tcp_loose"
)

// Host is the host that the router is.
func (r *Router) Host() *Host { return r.host }

// Set makes the device another one, while it runs. The rules change in one
// transaction, and together with conntrack's settings in such an order that no
// packet in the middle of an unknown connection passes that neither the old
// device nor the new would let pass. What the device remembers stays. Packets
// that are already held keep their delay.
func (r *Router) Set(d Device) error {
	if err := d.Validate(); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.set(d); err != nil {
		return fmt.Errorf("router %s: %w", r.host.name, err)
	}
	r.device = d
	return nil
}

func (r *Router) set(d Device) error {
	if d.Delay > 0 && r.delay == nil {
		if err := r.startDelay(); err != nil {
			return err
		}
	}
	if r.delay != nil {
		r.delay.set(d.Delay)
	}
	if err := r.host.WriteSysctl(idleSysctl, strconv.FormatInt(d.idleSeconds(), 10)); err != nil {
		return err
	}
	// A packet that conntrack does not know is either taken in (loose) or INVALID,
	// which a rule must then stop. So the rule comes before conntrack is strict, and
	// goes after it is loose.
	if d.Mode == Loose {
		if err := r.setLoose("1"); err != nil {
			return err
		}
	}
	if err := r.host.Do(func() error { return r.rules.replace(d, r.queue) }); err != nil {
		return unavailableRules(err)
	}
	if d.Mode != Loose {
		return r.setLoose("0")
	}
	return nil
}

func (r *Router) setLoose(value string) error {
	return r.host.WriteSysctl(looseSysctl, value)
}

// Device is what Set was last given.
func (r *Router) Device() Device {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.device
}

// Counters are what the device did since the router was made.
func (r *Router) Counters() (Counters, error) {
	var c Counters
	err := r.host.Do(func() (err error) {
		c, err = r.rules.counters()
		return err
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.delay != nil {
		lost, delayErr := r.delay.state()
		c.DelayLost = lost
		err = errors.Join(err, delayErr)
	}
	if err != nil {
		return c, fmt.Errorf("router %s: counters: %w", r.host.name, err)
	}
	return c, nil
}

// startDelay begins to take packets from the kernel.
func (r *Router) startDelay() error {
	kind, err := findQueue(r.host)
	if err != nil {
		return err
	}
	delay, err := startDelayLine(r.host)
	if err != nil {
		return err
	}
	r.queue, r.delay = kind, delay
	return nil
}

func (r *Router) close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.delay == nil {
		return nil
	}
	return r.delay.close()
}
