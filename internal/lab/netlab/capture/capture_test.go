package capture_test

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"chokepoint/internal/lab/netlab/capture"
)

var (
	caller   = netip.MustParseAddrPort("10.81.0.10:40112")
	upstream = netip.MustParseAddrPort("10.82.0.10:8080")
)

// frame is an Ethernet frame with the given header fields, as it is on the wire.
func frame(from, to netip.AddrPort, protocol capture.Protocol, flags capture.Flags, seq, ack uint32, payload string) []byte {
	var transport []byte
	switch protocol {
	case capture.TCP:
		transport = make([]byte, 32) // 12 bytes of options, as Linux's time stamps
		binary.BigEndian.PutUint32(transport[4:], seq)
		binary.BigEndian.PutUint32(transport[8:], ack)
		transport[12] = 8 << 4
		transport[13] = byte(flags)
	default:
		transport = make([]byte, 8)
		binary.BigEndian.PutUint16(transport[4:], uint16(8+len(payload)))
	}
	binary.BigEndian.PutUint16(transport, from.Port())
	binary.BigEndian.PutUint16(transport[2:], to.Port())
	transport = append(transport, payload...)

	b := make([]byte, 14)
	if from.Addr().Is4() {
		binary.BigEndian.PutUint16(b[12:], 0x0800)
		ip := make([]byte, 20)
		ip[0] = 0x45
		binary.BigEndian.PutUint16(ip[2:], uint16(20+len(transport)))
		ip[9] = byte(protocol)
		copy(ip[12:], from.Addr().AsSlice())
		copy(ip[16:], to.Addr().AsSlice())
		b = append(b, ip...)
	} else {
		binary.BigEndian.PutUint16(b[12:], 0x86dd)
		ip := make([]byte, 40)
		ip[0] = 0x60
		binary.BigEndian.PutUint16(ip[4:], uint16(len(transport)))
		ip[6] = byte(protocol)
		copy(ip[8:], from.Addr().AsSlice())
		copy(ip[24:], to.Addr().AsSlice())
		b = append(b, ip...)
	}
	return append(b, transport...)
}

var compareAddresses = cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })

func TestDecode(t *testing.T) {
	const request = "GET /upstream HTTP/1.1\r\nHost: upstream\r\n\r\n"
	sixFrom, sixTo := netip.MustParseAddrPort("[fd00::1]:40112"), netip.MustParseAddrPort("[fd00::2]:8080")
	for name, tc := range map[string]struct {
		frame []byte
		want  capture.Packet
	}{
		"tcp with a request": {
			frame(caller, upstream, capture.TCP, capture.PSH|capture.ACK, 7, 9, request),
			capture.Packet{Protocol: capture.TCP, Source: caller, Destination: upstream, Flags: capture.PSH | capture.ACK,
				Seq: 7, Ack: 9, Length: len(request), Line: "GET /upstream HTTP/1.1"},
		},
		"tcp whose end was cut off by the snap length": {
			frame(caller, upstream, capture.TCP, capture.ACK, 7, 9, strings.Repeat("x", 1000))[:200],
			capture.Packet{Protocol: capture.TCP, Source: caller, Destination: upstream, Flags: capture.ACK,
				Seq: 7, Ack: 9, Length: 1000, Line: strings.Repeat("x", 80)},
		},
		"tcp with Ethernet's padding, which is no payload": {
			append(frame(caller, upstream, capture.TCP, capture.ACK, 7, 9, ""), 0, 0, 0, 0, 0, 0),
			capture.Packet{Protocol: capture.TCP, Source: caller, Destination: upstream, Flags: capture.ACK, Seq: 7, Ack: 9},
		},
		"a payload that is not text has no line": {
			frame(caller, upstream, capture.TCP, capture.ACK, 7, 9, "\x1b[2J\x00"),
			capture.Packet{Protocol: capture.TCP, Source: caller, Destination: upstream, Flags: capture.ACK, Seq: 7, Ack: 9, Length: 5},
		},
		"udp": {
			frame(caller, upstream, capture.UDP, 0, 0, 0, "ping"),
			capture.Packet{Protocol: capture.UDP, Source: caller, Destination: upstream, Length: 4, Line: "ping"},
		},
		"tcp over IPv6": {
			frame(sixFrom, sixTo, capture.TCP, capture.SYN, 7, 0, ""),
			capture.Packet{Protocol: capture.TCP, Source: sixFrom, Destination: sixTo, Flags: capture.SYN, Seq: 7},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := capture.Decode(tc.frame)
			if !ok {
				t.Fatal("not decoded")
			}
			if diff := cmp.Diff(tc.want, got, compareAddresses); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestDecodeLeavesOutWhatItDoesNotKnow(t *testing.T) {
	whole := frame(caller, upstream, capture.TCP, capture.ACK, 7, 9, "")
	change := func(at int, b byte) []byte {
		f := bytes.Clone(whole)
		f[at] = b
		return f
	}
	for name, f := range map[string][]byte{
		"nothing":                       nil,
		"ARP":                           change(13, 0x06),
		"ICMP":                          change(14+9, 1),
		"a first fragment":              change(14+6, 0x20),
		"a later fragment":              change(14+7, 1),
		"IP that says it is shorter":    change(14+3, 10),
		"IP of another version":         change(14, 0x65),
		"a TCP header of 4 bytes":       change(14+20+12, 1<<4),
		"a TCP header beyond the total": change(14+20+12, 15<<4),
		"half a TCP header":             whole[:14+20+10],
		"half an IP header":             whole[:14+10],
	} {
		if p, ok := capture.Decode(f); ok {
			t.Errorf("%s was decoded: %+v", name, p)
		}
	}
}

// TestDecodeTakesAnything: whatever is on a wire must not end the lab.
func TestDecodeTakesAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := frame(caller, upstream, capture.TCP, capture.ACK, 1, 2, "payload")
		for range rapid.IntRange(0, 6).Draw(t, "changes") {
			f[rapid.IntRange(0, len(f)-1).Draw(t, "at")] = rapid.Byte().Draw(t, "byte")
		}
		f = f[:rapid.IntRange(0, len(f)).Draw(t, "length")]
		if p, ok := capture.Decode(f); ok && p.Length < 0 {
			t.Fatalf("a payload of %d bytes", p.Length)
		}
	})
}

func TestFlagsAreTcpdumps(t *testing.T) {
	for flags, want := range map[capture.Flags]string{
		capture.SYN:                             "[S]",
		capture.SYN | capture.ACK:               "[S.]",
		capture.PSH | capture.ACK:               "[P.]",
		capture.FIN | capture.PSH | capture.ACK: "[FP.]",
		capture.RST:                             "[R]",
		0:                                       "[none]",
	} {
		if got := flags.String(); got != want {
			t.Errorf("flags %08b: %s, want %s", uint8(flags), got, want)
		}
	}
}

// exchange is a request that was lost with its first repetition, after a rest in
// which the client's kernel probed the connection.
func exchange(start time.Time) []capture.Packet {
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	out := func(ms int, flags capture.Flags, seq, ack uint32, n int) capture.Packet {
		return capture.Packet{Time: at(ms), Outgoing: true, Protocol: capture.TCP, Source: caller, Destination: upstream,
			Flags: flags, Seq: seq, Ack: ack, Length: n}
	}
	in := func(ms int, flags capture.Flags, seq, ack uint32, n int) capture.Packet {
		return capture.Packet{Time: at(ms), Protocol: capture.TCP, Source: upstream, Destination: caller,
			Flags: flags, Seq: seq, Ack: ack, Length: n}
	}
	return []capture.Packet{
		out(-2000, capture.SYN, 0xfffffff0, 0, 0), // the sequence numbers wrap within the request
		in(-1999, capture.SYN|capture.ACK, 500, 0xfffffff1, 0),
		out(-1999, capture.ACK, 0xfffffff1, 501, 0),
		out(-1998, capture.PSH|capture.ACK, 0xfffffff1, 501, 78),
		in(-1997, capture.PSH|capture.ACK, 501, 63, 120),
		out(-1997, capture.ACK, 63, 621, 0),
		out(-1000, capture.ACK, 62, 621, 0),
		in(-1000, capture.ACK, 621, 63, 0),
		out(0, capture.PSH|capture.ACK, 63, 621, 78),
		out(206, capture.PSH|capture.ACK, 63, 621, 78),
		out(414, capture.PSH|capture.ACK, 63, 621, 78),
		in(415, capture.RST, 621, 0, 0),
		out(500, capture.SYN, 63, 0, 0), // the ports are used again, with numbers seen before
		out(1500, capture.SYN, 63, 0, 0),
	}
}

func TestAnnotate(t *testing.T) {
	packets := exchange(time.Unix(1000, 0))
	capture.Annotate(packets)
	want := make([]capture.Note, len(packets))
	want[6] = capture.KeepaliveProbe
	want[9], want[10] = capture.Retransmission, capture.Retransmission
	want[13] = capture.Retransmission
	for i, p := range packets {
		if p.Note != want[i] {
			t.Errorf("packet %d (%s, seq %d): %q, want %q", i, p.Flags, p.Seq, p.Note, want[i])
		}
	}
	if got := capture.Retransmissions(packets); got != 3 {
		t.Errorf("%d retransmissions, want 3", got)
	}
}

// TestAnnotateInTheMiddle: a capture that begins within a connection does not
// take its first segment for one that was sent before.
func TestAnnotateInTheMiddle(t *testing.T) {
	packets := exchange(time.Unix(1000, 0))[8:11]
	capture.Annotate(packets)
	if packets[0].Note != "" || packets[1].Note != capture.Retransmission {
		t.Errorf("notes %q and %q", packets[0].Note, packets[1].Note)
	}
	// A probe has no bytes of its own to tell it by; the answer to the one before does.
	first := exchange(time.Unix(1000, 0))[6:8]
	packets = append(first, first...)
	capture.Annotate(packets)
	if packets[0].Note != "" || packets[2].Note != capture.KeepaliveProbe {
		t.Errorf("notes of two probes: %q and %q", packets[0].Note, packets[2].Note)
	}
}

func TestWriteSequence(t *testing.T) {
	start := time.Unix(1000, 0)
	packets := exchange(start)[3:12]
	capture.Annotate(packets)
	packets[0].Line = "GET /upstream HTTP/1.1"
	packets = append(packets, capture.Packet{Time: start.Add(time.Second), Protocol: capture.UDP,
		Source: caller, Destination: netip.MustParseAddrPort("[fd00::2]:53"), Length: 4})
	var b strings.Builder
	names := capture.Names{caller.Addr(): "caller", upstream.Addr(): "upstream"}
	if err := capture.WriteSequence(&b, packets, start, names); err != nil {
		t.Fatal(err)
	}
	want := `-1.998 caller:40112 > upstream:8080 [P.] 78 bytes  GET /upstream HTTP/1.1
-1.997 upstream:8080 > caller:40112 [P.] 120 bytes
-1.997 caller:40112 > upstream:8080 [.] 0 bytes
-1.000 caller:40112 > upstream:8080 [.] 0 bytes (keepalive probe)
-1.000 upstream:8080 > caller:40112 [.] 0 bytes
+0.000 caller:40112 > upstream:8080 [P.] 78 bytes
+0.206 caller:40112 > upstream:8080 [P.] 78 bytes (retransmission)
+0.414 caller:40112 > upstream:8080 [P.] 78 bytes (retransmission)
+0.415 upstream:8080 > caller:40112 [R] 0 bytes
+1.000 caller:40112 > [fd00::2]:53 [udp] 4 bytes
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Error(diff)
	}
}
