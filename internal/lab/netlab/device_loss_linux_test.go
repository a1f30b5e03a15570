package netlab_test

import (
	"encoding/binary"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"chokepoint/internal/lab/netlab"
)

// datagrams sends numbered datagrams from the caller to a port of the upstream.
type datagrams struct {
	from net.Conn
	to   net.PacketConn
}

func (n natLab) datagrams(t *testing.T, port uint16) datagrams {
	t.Helper()
	address := netip.AddrPortFrom(upstreamAddr, port).String()
	var d datagrams
	if err := n.upstream.Do(func() (err error) {
		d.to, err = net.ListenPacket("udp", address)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.to.Close() })
	if err := d.to.(*net.UDPConn).SetReadBuffer(1 << 20); err != nil {
		t.Fatal(err)
	}
	n.connect(t) // hosts that do not know each other's hardware address yet hold few packets
	var err error
	if d.from, err = n.caller.DialWith(t.Context(), net.Dialer{}, "udp", address); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.from.Close() })
	return d
}

// send sends count datagrams, numbered from 0.
func (d datagrams) send(t *testing.T, count int) {
	t.Helper()
	for i := range count {
		if _, err := d.from.Write(binary.BigEndian.AppendUint32(nil, uint32(i))); err != nil {
			t.Fatal(err)
		}
	}
}

// receive returns the numbers that arrive, until there are want of them, or
// nothing came for 2 s.
func (d datagrams) receive(t *testing.T, want int) []uint32 {
	t.Helper()
	var numbers []uint32
	buffer := make([]byte, 4)
	for len(numbers) < want {
		if err := d.to.SetReadDeadline(time.Now().Add(2 * time.Second)); err != nil {
			t.Fatal(err)
		}
		if _, _, err := d.to.ReadFrom(buffer); err != nil {
			t.Errorf("%d datagrams of %d: %v", len(numbers), want, err)
			return numbers
		}
		numbers = append(numbers, binary.BigEndian.Uint32(buffer))
	}
	return numbers
}

func TestLossIsTheShareThatWasAsked(t *testing.T) {
	t.Parallel()
	const sent, port = 200, 9000
	for name, tc := range map[string]struct {
		device   netlab.Device
		from, to uint64 // of the lost
	}{
		"half":                   {netlab.Device{Loss: 0.5}, 60, 140}, // 40 from the mean is 5.6 standard deviations
		"half of the port":       {netlab.Device{Loss: 0.5, LossPort: port}, 60, 140},
		"all":                    {netlab.Device{Loss: 1}, sent, sent},
		"all of the port":        {netlab.Device{Loss: 1, LossPort: port}, sent, sent},
		"all of another port":    {netlab.Device{Loss: 1, LossPort: port + 1}, 0, 0},
		"none, of a lost device": {netlab.Device{}, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tc.device.Mode = netlab.Loose
			n := newNATLab(t, netlab.Device{Mode: netlab.Loose})
			d := n.datagrams(t, port)
			before := counters(t, n.device)
			if err := n.device.Set(tc.device); err != nil {
				t.Fatal(err)
			}
			d.send(t, sent)
			got := counters(t, n.device)
			got.Passed -= before.Passed
			if got.Lost < tc.from || got.Lost > tc.to {
				t.Errorf("%d of %d lost, want %d to %d", got.Lost, sent, tc.from, tc.to)
			}
			if got.Lost+got.Passed != sent {
				t.Errorf("%d lost and %d passed of %d", got.Lost, got.Passed, sent)
			}
			if arrived := d.receive(t, int(sent-got.Lost)); uint64(len(arrived)) != got.Passed {
				t.Errorf("%d arrived, %d passed", len(arrived), got.Passed)
			}
		})
	}
}

// TestLossHitsAnswersToo: the port is the server's on the way back.
func TestLossHitsAnswersToo(t *testing.T) {
	t.Parallel()
	n := newNATLab(t, netlab.Device{Mode: netlab.Loose})
	c := n.connect(t)
	if err := n.device.Set(netlab.Device{Mode: netlab.Loose, Loss: 1, LossPort: serverPort}); err != nil {
		t.Fatal(err)
	}
	before := counters(t, n.device)
	if _, err := c.server.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	await(t, "the answer is lost", func() bool { return counters(t, n.device).Lost > before.Lost })
	if got := counters(t, n.device); got.Passed != before.Passed {
		t.Errorf("%d packets passed", got.Passed-before.Passed)
	}
	// What is lost refreshes nothing, and what is forgotten stays so.
	if err := n.device.Set(netlab.Device{Mode: netlab.Loose}); err != nil {
		t.Fatal(err)
	}
	if err := c.echo(); err != nil {
		t.Errorf("the connection after the loss: %v", err)
	}
}

// TestSetLetsNothingSlipThrough: between two sets of rules that both stop a
// packet there is no moment without either.
func TestSetLetsNothingSlipThrough(t *testing.T) {
	t.Parallel()
	const port = 9000
	all := netlab.Device{Mode: netlab.Loose, Loss: 1}
	ofThePort := netlab.Device{Mode: netlab.Drop, Loss: 1, LossPort: port}
	n := newNATLab(t, netlab.Device{Mode: netlab.Loose})
	d := n.datagrams(t, port)
	if err := n.device.Set(all); err != nil {
		t.Fatal(err)
	}
	before := counters(t, n.device)
	var stop atomic.Bool
	sent := make(chan uint64)
	go func() {
		var count uint64
		for !stop.Load() && count < 1e6 {
			if _, err := d.from.Write([]byte("x")); err == nil {
				count++
			}
			if count%50 == 0 {
				time.Sleep(time.Millisecond) // the machine is others' too
			}
		}
		sent <- count
	}()
	for range 50 {
		for _, device := range []netlab.Device{ofThePort, all} {
			if err := n.device.Set(device); err != nil {
				t.Error(err)
			}
		}
	}
	stop.Store(true)
	count := <-sent
	got := counters(t, n.device)
	if count < 100 || got.Lost != count || got.Passed != before.Passed {
		t.Errorf("of %d datagrams %d were lost and %d passed; want all of many lost", count, got.Lost, got.Passed-before.Passed)
	}
}

func TestDelayIsAddedBothWays(t *testing.T) {
	t.Parallel()
	const delay = 20 * time.Millisecond
	n := newNATLab(t, netlab.Device{Mode: netlab.Drop, Delay: delay})
	c := n.connect(t)
	for range 3 {
		start := time.Now()
		if err := c.echo(); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took < 2*delay {
			t.Errorf("there and back took %v, want %v at the least", took, 2*delay)
		}
	}
	if err := n.device.Set(netlab.Device{Mode: netlab.Drop}); err != nil {
		t.Fatal(err)
	}
	fastest := time.Hour
	for range 20 {
		start := time.Now()
		if err := c.echo(); err != nil {
			t.Fatal(err)
		}
		fastest = min(fastest, time.Since(start))
	}
	if fastest >= 2*delay {
		t.Errorf("without the delay the fastest of 20 took %v", fastest)
	}
}

func TestDelayKeepsTheOrder(t *testing.T) {
	t.Parallel()
	const sent = 500
	n := newNATLab(t, netlab.Device{Mode: netlab.Loose, Delay: 30 * time.Millisecond})
	d := n.datagrams(t, 9000)
	before := counters(t, n.device)
	d.send(t, sent/2)
	// Those that are sent now have less to wait for, and must not overtake.
	if err := n.device.Set(netlab.Device{Mode: netlab.Loose, Delay: time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	d.send(t, sent/2)
	for i, number := range d.receive(t, sent) {
		if want := uint32(i % (sent / 2)); number != want {
			t.Fatalf("datagram %d arrived as the %dth", number, i)
		}
	}
	if got := counters(t, n.device); got.DelayLost != 0 || got.Passed-before.Passed != sent {
		t.Errorf("counters %+v after %+v, want %d passed", got, before, sent)
	}
}
