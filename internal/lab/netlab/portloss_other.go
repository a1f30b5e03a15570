//go:build !linux

package netlab

import "errors"

// PortLoss is for Linux only.
type PortLoss struct{}

// LosePort is for Linux only.
func LosePort(uint16, float64) (*PortLoss, error) {
	return nil, &Unavailable{What: "nftables", Err: errors.ErrUnsupported, Remedy: "run the lab on Linux"}
}

// Counts is for Linux only.
func (*PortLoss) Counts() (lost, passed uint64, err error) { return 0, 0, errors.ErrUnsupported }

// End is for Linux only.
func (*PortLoss) End() error { return errors.ErrUnsupported }
