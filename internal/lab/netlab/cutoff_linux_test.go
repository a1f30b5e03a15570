package netlab_test

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"chokepoint/internal/lab/netlab"
	"chokepoint/internal/lab/netlab/netlabtest"
)

// TestCutOff: of two connections of one client the one that is cut off is reset at its
// next segment, and the server's end of it stays as it is.
func TestCutOff(t *testing.T) {
	netlabtest.Need(t)
	lab, hosts := newHosts(t, "client", "server")
	client, server := hosts[0], hosts[1]
	end := func(h *netlab.Host, addr string) netlab.End {
		return netlab.End{Host: h, Name: "eth0", Addr: netip.MustParsePrefix(addr)}
	}
	if err := lab.Link(end(client, "10.9.0.1/24"), end(server, "10.9.0.2/24")); err != nil {
		t.Fatal(err)
	}
	listener, err := server.Listen("10.9.0.2:80")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	var conns [2]net.Conn
	for i := range conns {
		if conns[i], err = client.Dial(t.Context(), "10.9.0.2:80"); err != nil {
			t.Fatal(err)
		}
		defer conns[i].Close()
		accepted, err := listener.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer accepted.Close()
		go io.Copy(accepted, accepted)
	}
	cut := netip.MustParseAddrPort(conns[0].LocalAddr().String())
	if err := server.CutOff([]netip.AddrPort{cut}); err != nil {
		t.Fatal(err)
	}
	for i, want := range []error{syscall.ECONNRESET, nil} {
		c := conns[i]
		c.SetDeadline(time.Now().Add(10 * time.Second))
		if _, err := io.WriteString(c, "hello"); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(c, make([]byte, 5)); !errors.Is(err, want) {
			t.Errorf("connection %d: %v, want %v", i, err, want)
		}
	}
	open, err := server.Sockets(func(s netlab.Socket) bool { return s.State == "ESTABLISHED" })
	if err != nil || len(open) != 2 {
		t.Errorf("the server has %v, %v; want both connections", open, err)
	}
	// A second call adds to the first.
	if err := server.CutOff([]netip.AddrPort{netip.MustParseAddrPort(conns[1].LocalAddr().String())}); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conns[1], "hello"); err != nil {
		t.Fatal(err)
	}
	if _, err := conns[1].Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("after the second call: %v", err)
	}
}
