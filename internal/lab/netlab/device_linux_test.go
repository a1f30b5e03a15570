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
	"chokepoint/internal/lab/netlab/capture"
	"chokepoint/internal/lab/netlab/netlabtest"
)

// serverPort is where the upstream of a natLab echoes.
const serverPort = 8080

var (
	upstreamAddr = netip.MustParseAddr("10.82.0.10")
	outsideAddr  = netip.MustParseAddr("10.82.0.2")
)

// natLab is a caller, a NAT router and an upstream that echoes. The upstream has
// no route to the caller: what the router does not translate is not answered.
type natLab struct {
	topology
	device   *netlab.Router
	listener net.Listener
}

func newNATLab(t *testing.T, d netlab.Device) natLab {
	t.Helper()
	netlabtest.Need(t)
	lab, err := netlab.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := lab.Close(); err != nil {
			t.Error(err)
		}
	})
	host := func(name string) *netlab.Host {
		h, err := lab.Host(name)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	n := natLab{topology: topology{lab, host("caller"), host("router"), host("upstream")}}
	for _, err := range []error{
		lab.Link(netlab.End{Host: n.caller, Name: "eth0", Addr: prefix("10.81.0.10/24")}, netlab.End{Host: n.router, Name: "inside", Addr: prefix("10.81.0.2/24")}),
		lab.Link(netlab.End{Host: n.upstream, Name: "eth0", Addr: prefix("10.82.0.10/24")}, netlab.End{Host: n.router, Name: "outside", Addr: prefix("10.82.0.2/24")}),
		n.caller.Route(prefix("10.82.0.0/24"), netip.MustParseAddr("10.81.0.2")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if n.device, err = lab.Router(n.router, "inside", "outside", d); err != nil {
		t.Fatal(err)
	}
	if n.listener, err = n.upstream.Listen("10.82.0.10:8080"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.listener.Close() })
	return n
}

// connection is one connection through the router, seen from both ends.
type connection struct {
	client, server net.Conn
	port           uint16     // the client's own
	served         chan error // why the server stopped to echo
}

func (n natLab) connect(t *testing.T) connection {
	t.Helper()
	client, err := n.caller.Dial(t.Context(), "10.82.0.10:8080")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	server, err := n.listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	c := connection{client, server, client.LocalAddr().(*net.TCPAddr).AddrPort().Port(), make(chan error, 1)}
	go func() {
		_, err := io.Copy(server, server)
		c.served <- err
	}()
	if err := c.echo(); err != nil {
		t.Fatalf("the first exchange: %v", err)
	}
	return c
}

// echo sends a byte there and back, in 5 s at the most.
func (c connection) echo() error {
	if err := c.client.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return err
	}
	if _, err := c.client.Write([]byte("x")); err != nil {
		return err
	}
	_, err := io.ReadFull(c.client, make([]byte, 1))
	return err
}

// entries are those of the connection.
func (n natLab) entries(t *testing.T, c connection) []netlab.Entry {
	t.Helper()
	all, err := n.device.Entries()
	if err != nil {
		t.Fatal(err)
	}
	var own []netlab.Entry
	for _, e := range all {
		if e.Original.Source.Port() == c.port {
			own = append(own, e)
		}
	}
	return own
}

// awaitForgotten waits until the device has forgotten the connection by itself.
func (n natLab) awaitForgotten(t *testing.T, c connection) {
	t.Helper()
	await(t, "the device forgets the connection", func() bool { return len(n.entries(t, c)) == 0 })
}

// await polls until a condition holds, for 10 s at the most.
func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("10 s passed before %s", what)
		}
	}
}

func captureOn(t *testing.T, h *netlab.Host) *capture.Capture {
	t.Helper()
	c, err := h.Capture("eth0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Stop()
		if err := c.Err(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// theSocket is the one socket of a connection on a host.
func theSocket(t *testing.T, h *netlab.Host, port uint16) netlab.Socket {
	t.Helper()
	sockets, err := h.Sockets(func(s netlab.Socket) bool { return s.HasPort(port) })
	if err != nil {
		t.Fatal(err)
	}
	if len(sockets) != 1 {
		t.Fatalf("host %s has %d sockets on port %d, want 1: %v", h.Name(), len(sockets), port, sockets)
	}
	return sockets[0]
}

func counters(t *testing.T, r *netlab.Router) netlab.Counters {
	t.Helper()
	c, err := r.Counters()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestLooseDeviceTakesAForgottenConnectionIn is A1: the connection lives on, and
// to the server nothing has changed.
func TestLooseDeviceTakesAForgottenConnectionIn(t *testing.T) {
	t.Parallel()
	n := newNATLab(t, netlab.Device{Mode: netlab.Loose, Idle: time.Second})
	c := n.connect(t)
	before := n.entries(t, c)
	if len(before) != 1 {
		t.Fatalf("%d entries, want 1: %v", len(before), before)
	}
	n.awaitForgotten(t, c)
	if err := c.echo(); err != nil {
		t.Fatalf("after the device forgot: %v", err)
	}
	after := n.entries(t, c)
	if len(after) != 1 || after[0].Original != before[0].Original || after[0].Reply != before[0].Reply {
		t.Errorf("the entry was %v and is %v", before, after)
	}
	want := netip.AddrPortFrom(outsideAddr, c.port)
	if before[0].Reply.Destination != want {
		t.Errorf("the server sees %s, want the client's own port, %s", before[0].Reply.Destination, want)
	}
	if got := counters(t, n.device); got.InvalidDropped+got.InvalidReset != 0 {
		t.Errorf("a loose device found packets invalid: %+v", got)
	}
}

// TestLooseDeviceWithAnotherPort is A1r: the server gets the bytes of a
// connection that it does not know, and resets it.
func TestLooseDeviceWithAnotherPort(t *testing.T) {
	t.Parallel()
	n := newNATLab(t, netlab.Device{Mode: netlab.Loose, Idle: time.Second, NewPort: true})
	c := n.connect(t)
	before := n.entries(t, c)
	n.awaitForgotten(t, c)
	if err := c.echo(); !errors.Is(err, syscall.ECONNRESET) {
		t.Fatalf("%v, want a reset", err)
	}
	if len(before) != 1 || before[0].Reply.Destination.Port() == c.port {
		t.Errorf("the NAT kept the client's port: %v", before)
	}
	if s := theSocket(t, n.upstream, before[0].Reply.Destination.Port()); s.State != "ESTABLISHED" {
		t.Errorf("the server's first connection: %s", s)
	}
}

// TestDropDevice is A2: the request is sent again and again, and nobody says
// that the connection is dead.
func TestDropDevice(t *testing.T) {
	t.Parallel()
	n := newNATLab(t, netlab.Device{Mode: netlab.Drop, Idle: time.Second})
	c := n.connect(t)
	n.awaitForgotten(t, c)
	atCaller, atUpstream := captureOn(t, n.caller), captureOn(t, n.upstream)
	if _, err := c.client.Write([]byte("request")); err != nil {
		t.Fatal(err)
	}
	await(t, "the request is sent for the third time", func() bool { return capture.Retransmissions(atCaller.Packets()) == 2 })

	client := theSocket(t, n.caller, c.port)
	if client.State != "ESTABLISHED" || client.Timer != netlab.RetransmitTimer || client.Unacked != 1 || client.TotalRetransmits < 2 || client.SendQueue != len("request") {
		t.Errorf("the client's socket: %s", client)
	}
	if server := theSocket(t, n.upstream, c.port); server.State != "ESTABLISHED" || server.Timer != netlab.NoTimer {
		t.Errorf("the server's socket: %s", server)
	}
	if left := n.entries(t, c); len(left) != 0 {
		t.Errorf("the device remembers %v", left)
	}
	// The kernel goes on to send meanwhile.
	least := counters(t, n.device).InvalidDropped
	packets := atCaller.Stop()
	most := counters(t, n.device).InvalidDropped
	for _, p := range packets {
		if !p.Outgoing || p.Length != len("request") {
			t.Errorf("the caller's wire has more than its request: %+v", p)
		}
	}
	if sent := uint64(len(packets)); least < 3 || sent < least || sent > most {
		t.Errorf("the device dropped %d to %d packets, the caller sent %d", least, most, sent)
	}
	if passed := atUpstream.Stop(); len(passed) != 0 {
		t.Errorf("packets reached the upstream: %+v", passed)
	}
	// A new connection is none of it.
	if err := n.connect(t).echo(); err != nil {
		t.Errorf("a new connection: %v", err)
	}
}

// TestResetDevice is A3: the device answers the first packet with RST, in the
// upstream's name, and the upstream hears nothing.
func TestResetDevice(t *testing.T) {
	t.Parallel()
	n := newNATLab(t, netlab.Device{Mode: netlab.Reset, Idle: time.Second})
	c := n.connect(t)
	n.awaitForgotten(t, c)
	atCaller, atUpstream := captureOn(t, n.caller), captureOn(t, n.upstream)
	if err := c.echo(); !errors.Is(err, syscall.ECONNRESET) {
		t.Fatalf("%v, want a reset", err)
	}
	packets := atCaller.Stop()
	if len(packets) != 2 || !packets[0].Outgoing || packets[0].Length != 1 {
		t.Fatalf("the caller's wire has %+v, want a request and its reset", packets)
	}
	want := netip.AddrPortFrom(upstreamAddr, serverPort)
	if rst := packets[1]; rst.Outgoing || !rst.Flags.Has(capture.RST) || rst.Source != want {
		t.Errorf("the answer is %+v, want RST from %s", rst, want)
	}
	if passed := atUpstream.Stop(); len(passed) != 0 {
		t.Errorf("packets reached the upstream: %+v", passed)
	}
	if got := counters(t, n.device); got.InvalidReset != 1 || got.InvalidDropped != 0 {
		t.Errorf("counters %+v, want one reset", got)
	}
	if server := theSocket(t, n.upstream, c.port); server.State != "ESTABLISHED" {
		t.Errorf("the server's socket: %s", server)
	}
}

// TestServerSpeaksAfterTheDeviceForgot: what a server sends to the NAT's own
// address, on a port of which the NAT knows nothing.
func TestServerSpeaksAfterTheDeviceForgot(t *testing.T) {
	t.Parallel()
	for mode, want := range map[netlab.Mode]struct{ resets, dropped uint64 }{
		// Without an entry the packet is the router's own, which has no such socket.
		netlab.Loose: {0, 0},
		netlab.Drop:  {0, 1},
		netlab.Reset: {1, 0},
	} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			n := newNATLab(t, netlab.Device{Mode: mode})
			c := n.connect(t)
			if forgotten, err := n.device.Forget(nil); forgotten != 1 || err != nil {
				t.Fatalf("forgot %d connections, want 1: %v", forgotten, err)
			}
			atCaller := captureOn(t, n.caller)
			if _, err := c.server.Write([]byte("x")); err != nil {
				t.Fatal(err)
			}
			if mode == netlab.Drop {
				await(t, "the answer is dropped", func() bool { return counters(t, n.device).InvalidDropped >= want.dropped })
				if s := theSocket(t, n.upstream, c.port); s.State != "ESTABLISHED" || s.Timer != netlab.RetransmitTimer {
					t.Errorf("the server's socket: %s", s)
				}
			} else {
				select {
				case err := <-c.served:
					if !errors.Is(err, syscall.ECONNRESET) {
						t.Errorf("the server: %v, want a reset", err)
					}
				case <-time.After(5 * time.Second):
					t.Error("the server heard nothing for 5 s")
				}
				if got := counters(t, n.device).InvalidReset; got != want.resets {
					t.Errorf("%d resets by the device, want %d", got, want.resets)
				}
			}
			if heard := atCaller.Stop(); len(heard) != 0 {
				t.Errorf("the caller heard %+v", heard)
			}
		})
	}
}

// TestIdleTimeoutCountsDown: the entry's time runs out, second by second, and a
// packet gives it anew.
func TestIdleTimeoutCountsDown(t *testing.T) {
	t.Parallel()
	n := newNATLab(t, netlab.Device{Mode: netlab.Drop, Idle: 3 * time.Second})
	c := n.connect(t)
	start := time.Now()
	seen := []time.Duration{}
	await(t, "the entry is gone", func() bool {
		entries := n.entries(t, c)
		if len(entries) == 0 {
			return true
		}
		// 3 is seen only within the kernel's tick in which the last packet passed.
		if got := entries[0].Remaining; got < 3*time.Second && (len(seen) == 0 || seen[len(seen)-1] != got) {
			seen = append(seen, got)
		}
		return false
	})
	if took := time.Since(start); took < 2*time.Second || took > 6*time.Second {
		t.Errorf("the entry was gone after %v, want 3 s", took)
	}
	want := []time.Duration{2 * time.Second, time.Second, 0}
	if len(seen) != len(want) || seen[0] != want[0] || seen[1] != want[1] || seen[2] != want[2] {
		t.Errorf("it counted %v, want %v", seen, want)
	}
}

// TestKeepaliveRefreshesTheEntry is B4.
func TestKeepaliveRefreshesTheEntry(t *testing.T) {
	t.Parallel()
	n := newNATLab(t, netlab.Device{Mode: netlab.Drop, Idle: 2 * time.Second})
	atCaller := captureOn(t, n.caller)
	c := n.connect(t)
	keepalive := net.KeepAliveConfig{Enable: true, Idle: time.Second, Interval: time.Second, Count: 3}
	if err := c.client.(*net.TCPConn).SetKeepAliveConfig(keepalive); err != nil {
		t.Fatal(err)
	}
	if s := theSocket(t, n.caller, c.port); s.Timer != netlab.KeepaliveTimer || s.TimerRemaining <= 0 || s.TimerRemaining > time.Second {
		t.Errorf("the client's socket: %s", s)
	}
	probes := func() (n int) {
		for _, p := range atCaller.Packets() {
			if p.Outgoing && p.Note == capture.KeepaliveProbe {
				n++
			}
		}
		return n
	}
	await(t, "the third probe", func() bool { return probes() == 3 })
	if left := n.entries(t, c); len(left) != 1 {
		t.Errorf("%d entries after 3 s, want 1: %v", len(left), left)
	}
	if err := c.echo(); err != nil {
		t.Error(err)
	}
}

func TestForgetByPort(t *testing.T) {
	t.Parallel()
	n := newNATLab(t, netlab.Device{Mode: netlab.Reset})
	lost, kept := n.connect(t), n.connect(t)
	forgotten, err := n.device.Forget(func(e netlab.Entry) bool { return e.HasPort(lost.port) })
	if forgotten != 1 || err != nil {
		t.Fatalf("forgot %d, want 1: %v", forgotten, err)
	}
	if err := kept.echo(); err != nil {
		t.Errorf("the connection that was not meant: %v", err)
	}
	if err := lost.echo(); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the connection that was meant: %v, want a reset", err)
	}
	if entries, err := n.device.Entries(); err != nil || len(entries) != 1 || entries[0].State != "ESTABLISHED" {
		t.Errorf("%v, %v; want one entry", entries, err)
	}
}
