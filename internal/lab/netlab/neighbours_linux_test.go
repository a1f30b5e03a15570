package netlab_test

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"chokepoint/internal/lab/netlab"
	"chokepoint/internal/lab/netlab/netlabtest"
)

func TestNeighbours(t *testing.T) {
	netlabtest.Need(t)
	lab, hosts := newHosts(t, "a", "b")
	if err := lab.Link(
		netlab.End{Host: hosts[0], Name: "eth0", Addr: netip.MustParsePrefix("10.0.1.1/24")},
		netlab.End{Host: hosts[1], Name: "eth0", Addr: netip.MustParsePrefix("10.0.1.2/24")},
	); err != nil {
		t.Fatal(err)
	}
	there, nobody := netip.MustParseAddr("10.0.1.2"), netip.MustParseAddr("10.0.1.3")
	state := func(of netip.Addr, want string) {
		t.Helper()
		if got, err := hosts[0].Neighbour(of); got != want || err != nil {
			t.Errorf("neighbour %s: %s, %v; want %s", of, got, err, want)
		}
	}
	state(there, "none")
	exchange(t, hosts[0], hosts[1], "10.0.1.2:80")
	state(there, "REACHABLE")
	for range 2 {
		if err := hosts[0].ForgetNeighbour(there); err != nil {
			t.Fatal(err)
		}
		state(there, "none")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if conn, err := hosts[0].Dial(ctx, "10.0.1.3:80"); err == nil {
		conn.Close()
		t.Error("nobody answered")
	}
	state(nobody, "INCOMPLETE")
}
