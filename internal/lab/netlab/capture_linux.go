package netlab

import (
	"fmt"

	"chokepoint/internal/lab/netlab/capture"
)

// Capture captures the packets of one of the host's interfaces, until it is
// stopped. Stop it before the Lab is closed.
func (h *Host) Capture(name string) (*capture.Capture, error) {
	var c *capture.Capture
	err := h.Do(func() (err error) {
		c, err = capture.Start(name)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("host %s: %w", h.name, err)
	}
	return c, nil
}
