package capture

import (
	"bytes"
	"encoding/binary"
	"net/netip"
)

// Sizes and numbers of headers: IEEE 802.3, RFC 791, RFC 8200, RFC 9293, RFC 768.
const (
	ethernetHeader = 14
	ipv4Header     = 20
	ipv6Header     = 40
	tcpHeader      = 20
	udpHeader      = 8

	etherTypeIPv4 = 0x0800
	etherTypeIPv6 = 0x86dd
)

// maxLine is how much of a payload's first line is kept: a request line or a
// status line.
const maxLine = 80

// Decode reads an Ethernet frame, of which the end may be cut off: the lengths
// are those of the headers. It has neither the time nor the direction. ok is
// false of what the package does not know, and of what is malformed.
func Decode(frame []byte) (p Packet, ok bool) {
	if len(frame) < ethernetHeader {
		return Packet{}, false
	}
	body := frame[ethernetHeader:]
	switch binary.BigEndian.Uint16(frame[12:]) {
	case etherTypeIPv4:
		return decodeIPv4(body)
	case etherTypeIPv6:
		return decodeIPv6(body)
	}
	return Packet{}, false
}

func decodeIPv4(b []byte) (Packet, bool) {
	if len(b) < ipv4Header || b[0]>>4 != 4 {
		return Packet{}, false
	}
	header := int(b[0]&0x0f) * 4
	total := int(binary.BigEndian.Uint16(b[2:]))
	// A fragment has no transport header, or not the whole payload.
	const moreFragments, fragmentOffset = 0x2000, 0x1fff
	fragment := binary.BigEndian.Uint16(b[6:])&(moreFragments|fragmentOffset) != 0
	if header < ipv4Header || len(b) < header || total < header || fragment {
		return Packet{}, false
	}
	source, destination := netip.AddrFrom4([4]byte(b[12:16])), netip.AddrFrom4([4]byte(b[16:20]))
	return decodeTransport(Protocol(b[9]), source, destination, b[header:], total-header)
}

func decodeIPv6(b []byte) (Packet, bool) {
	if len(b) < ipv6Header || b[0]>>4 != 6 {
		return Packet{}, false
	}
	// Extension headers are nothing that the lab's hosts send.
	source, destination := netip.AddrFrom16([16]byte(b[8:24])), netip.AddrFrom16([16]byte(b[24:40]))
	return decodeTransport(Protocol(b[6]), source, destination, b[ipv6Header:], int(binary.BigEndian.Uint16(b[4:])))
}

// decodeTransport reads a TCP or UDP header; length is that of header and
// payload, of which b may hold less (cut off) or more (padding of a short frame).
func decodeTransport(protocol Protocol, source, destination netip.Addr, b []byte, length int) (Packet, bool) {
	if len(b) > length {
		b = b[:length]
	}
	p := Packet{Protocol: protocol}
	var header int
	switch protocol {
	case TCP:
		if len(b) < tcpHeader {
			return Packet{}, false
		}
		header = int(b[12]>>4) * 4
		if header < tcpHeader || header > length {
			return Packet{}, false
		}
		p.Seq, p.Ack = binary.BigEndian.Uint32(b[4:]), binary.BigEndian.Uint32(b[8:])
		p.Flags = Flags(b[13])
	case UDP:
		if len(b) < udpHeader {
			return Packet{}, false
		}
		header = udpHeader
	default:
		return Packet{}, false
	}
	p.Source = netip.AddrPortFrom(source, binary.BigEndian.Uint16(b))
	p.Destination = netip.AddrPortFrom(destination, binary.BigEndian.Uint16(b[2:]))
	p.Length = length - header
	if header < len(b) {
		p.Line = firstLine(b[header:])
	}
	return p, true
}

// firstLine is the first line of a payload, or nothing if it is not printable
// ASCII.
func firstLine(b []byte) string {
	if end := bytes.IndexAny(b, "\r\n"); end >= 0 {
		b = b[:end]
	}
	b = b[:min(len(b), maxLine)]
	for _, c := range b {
		if c < ' ' || c > '~' {
			return ""
		}
	}
	return string(b)
}
