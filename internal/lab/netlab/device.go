package netlab

import (
	"fmt"
	"time"
)

// Mode is what a device does with a packet in the middle of a connection that it
// does not know, or knows no more.
type Mode string

const (
	// Loose takes the packet for the beginning of a connection, and lets it pass:
	// nf_conntrack_tcp_loose, which is Linux's default.
	Loose Mode = "loose"
	// Drop throws the packet away and says nothing.
	Drop Mode = "drop"
	// Reset throws the packet away and answers its sender with RST.
	Reset Mode = "reset"
)

// Limits of a Device.
const (
	maxIdle  = 5 * 24 * time.Hour // the kernel's own default
	maxDelay = 10 * time.Second
)

// Device is what is between two subnets: a NAT gateway, a firewall, a load
// balancer of layer 4, and the lines on both sides of it.
type Device struct {
	// Mode is required.
	Mode Mode
	// Idle is how long the device remembers an established connection on which
	// nothing passes, in whole seconds (nf_conntrack_tcp_timeout_established). The
	// zero value is the kernel's default, 5 days. It is given to a connection with
	// its next packet: what the device remembers already keeps its time until then.
	Idle time.Duration
	// NewPort makes the NAT draw a random source port for every connection that it
	// meets for the first time. Without it the client's own port is kept wherever
	// it is free, so that a connection which was forgotten and is met again looks
	// to the server as it did before.
	NewPort bool
	// Loss is the share of packets that are lost before they reach the device, in
	// both directions, each by itself: 0 is none, 1 is all. A lost packet refreshes
	// nothing that the device remembers.
	Loss float64
	// LossPort limits the loss to TCP and UDP packets from or to this port; 0 means
	// every packet. Use the server's: the NAT does not change it.
	LossPort uint16
	// Delay is for how long the device holds each packet, in both directions, so
	// that a round trip takes twice as long. Packets are never reordered.
	Delay time.Duration
}

// Validate returns an error that names the value which is wrong.
func (d Device) Validate() error {
	switch d.Mode {
	case Loose, Drop, Reset:
	default:
		return fmt.Errorf("device: mode %q is unknown; use %s, %s or %s", d.Mode, Loose, Drop, Reset)
	}
	switch {
	case d.Idle < 0 || d.Idle > maxIdle || d.Idle%time.Second != 0:
		return fmt.Errorf("device: idle timeout %v: the kernel takes whole seconds, from 1s to %v", d.Idle, maxIdle)
	case !(d.Loss >= 0 && d.Loss <= 1):
		return fmt.Errorf("device: loss %v is no share; use 0 (none) to 1 (all)", d.Loss)
	case d.Delay < 0 || d.Delay > maxDelay:
		return fmt.Errorf("device: delay %v; use 0 to %v", d.Delay, maxDelay)
	}
	return nil
}

// idleSeconds is the value of nf_conntrack_tcp_timeout_established.
func (d Device) idleSeconds() int64 {
	if d.Idle == 0 {
		return int64(maxIdle / time.Second)
	}
	return int64(d.Idle / time.Second)
}

// Counters are what a device did with packets since the Router was made. They
// are not reset by Router.Set.
type Counters struct {
	// Lost is how many packets were lost before the device.
	Lost uint64
	// InvalidDropped and InvalidReset are how many packets in the middle of an
	// unknown connection were thrown away, and how many of those got an RST.
	InvalidDropped, InvalidReset uint64
	// Passed is how many packets were forwarded, those included that were delayed.
	Passed uint64
	// DelayLost is how many packets the kernel threw away since the lab was too
	// late to take them for their delay. It should be 0.
	DelayLost uint64
}
