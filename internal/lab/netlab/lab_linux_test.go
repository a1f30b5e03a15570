package netlab_test

import (
	"io"
	"net/netip"
	"testing"

	"chokepoint/internal/lab/netlab"
	"chokepoint/internal/lab/netlab/netlabtest"
)

var prefix = netip.MustParsePrefix

// topology is a lab of two hosts with a router between them.
type topology struct {
	lab                      *netlab.Lab
	caller, router, upstream *netlab.Host
}

// build makes a topology; Close of its lab is the caller's.
func build(t testing.TB) topology {
	t.Helper()
	lab, err := netlab.New()
	if err != nil {
		t.Fatal(err)
	}
	host := func(name string) *netlab.Host {
		h, err := lab.Host(name)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	top := topology{lab, host("caller"), host("router"), host("upstream")}
	for _, err := range []error{
		lab.Link(netlab.End{Host: top.caller, Name: "eth0", Addr: prefix("10.0.1.2/24")}, netlab.End{Host: top.router, Name: "inside", Addr: prefix("10.0.1.1/24")}),
		lab.Link(netlab.End{Host: top.upstream, Name: "eth0", Addr: prefix("10.0.2.2/24")}, netlab.End{Host: top.router, Name: "outside", Addr: prefix("10.0.2.1/24")}),
		top.router.WriteSysctl("net.ipv4.ip_forward", "1"),
		top.caller.Route(prefix("0.0.0.0/0"), netip.MustParseAddr("10.0.1.1")),
		top.upstream.Route(prefix("0.0.0.0/0"), netip.MustParseAddr("10.0.2.1")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return top
}

func TestHostsReachEachOtherThroughTheRouter(t *testing.T) {
	netlabtest.Need(t)
	top := build(t)
	defer top.lab.Close()
	listener, err := top.upstream.Listen("10.0.2.2:80")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	conn, err := top.caller.Dial(t.Context(), "10.0.2.2:80")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	accepted, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if got := accepted.RemoteAddr().String(); got != conn.LocalAddr().String() {
		t.Errorf("accepted from %s, dialled from %s", got, conn.LocalAddr())
	}
	if _, err := accepted.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	accepted.Close()
	if got, err := io.ReadAll(conn); string(got) != "hello" || err != nil {
		t.Errorf("read %q, %v", got, err)
	}
}

// What is sent over a link as soon as it is there arrives: a first SYN that was
// lost would delay its case by a second.
func TestALinkCarriesPacketsAtOnce(t *testing.T) {
	netlabtest.Need(t)
	for range 20 {
		top := build(t)
		listener, err := top.upstream.Listen("10.0.2.2:80")
		if err != nil {
			t.Fatal(err)
		}
		conn, err := top.caller.Dial(t.Context(), "10.0.2.2:80")
		if err != nil {
			t.Fatal(err)
		}
		sockets, err := top.caller.Sockets(func(s netlab.Socket) bool { return s.HasPort(80) })
		if err != nil || len(sockets) != 1 || sockets[0].TotalRetransmits != 0 {
			t.Errorf("sockets %v, %v; want one without a retransmission", sockets, err)
		}
		for _, end := range []io.Closer{conn, listener, top.lab} {
			if err := end.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}
