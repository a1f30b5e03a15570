package netlab_test

import (
	"testing"
	"time"

	"chokepoint/internal/lab/netlab"
	"chokepoint/internal/lab/netlab/netlabtest"
)

func TestRouterRefuses(t *testing.T) {
	t.Parallel()
	n := newNATLab(t, netlab.Device{Mode: netlab.Loose})
	if _, err := n.lab.Router(n.router, "inside", "outside", netlab.Device{Mode: netlab.Loose}); err == nil {
		t.Error("a host became a router twice")
	}
	if err := n.device.Set(netlab.Device{Mode: "deny"}); err == nil {
		t.Error("an unknown mode was set")
	}
	if got := n.device.Device(); got.Mode != netlab.Loose {
		t.Errorf("a device that was refused is set: %+v", got)
	}
	if _, err := n.caller.Capture("eth7"); err == nil {
		t.Error("captured on an interface that is not there")
	}
}

// TestTries: where the tests above pass, so does each try, and it leaves nothing
// that a router would trip over.
func TestTries(t *testing.T) {
	t.Parallel()
	netlabtest.Need(t)
	top := build(t)
	defer top.lab.Close()
	for name, try := range map[string]func(*netlab.Host) error{
		"TryNAT": netlab.TryNAT, "TryReset": netlab.TryReset, "TryLoss": netlab.TryLoss, "TryDelay": netlab.TryDelay,
		"TryConntrack": netlab.TryConntrack, "TryCapture": netlab.TryCapture, "TrySockets": netlab.TrySockets,
	} {
		if err := try(top.router); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := top.lab.Router(top.router, "inside", "outside", netlab.Device{Mode: netlab.Drop, Delay: time.Millisecond}); err != nil {
		t.Error(err)
	}
}
