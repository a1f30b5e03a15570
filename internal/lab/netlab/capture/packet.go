// Package capture reads the packets that pass an interface and tells them as a
// sequence that a person can follow: when, from whom to whom, with which flags,
// how many bytes, and which segments were sent again.
//
// Decode, Annotate and WriteSequence are pure; Start opens a packet socket and
// is for Linux alone. The package knows TCP and UDP over IPv4 and IPv6, in
// Ethernet frames. Whatever else passes (ARP, ICMP, fragments) is left out. It
// keeps the head of a packet, not its content beyond a first line; it does not
// put streams together, and it writes no pcap files.
package capture

import (
	"net/netip"
	"strings"
	"time"
)

// Flags are the flags of a TCP segment, as they stand in its header (RFC 9293,
// section 3.1).
type Flags uint8

// The flags of a TCP segment.
const (
	FIN Flags = 1 << iota
	SYN
	RST
	PSH
	ACK
	URG
	ECE
	CWR
)

// letters are tcpdump's, in its order; the dot is an acknowledgement.
var letters = []struct {
	flag   Flags
	letter byte
}{
	{FIN, 'F'}, {SYN, 'S'}, {RST, 'R'}, {PSH, 'P'}, {ACK, '.'}, {URG, 'U'}, {ECE, 'E'}, {CWR, 'W'},
}

// String is the flags in tcpdump's letters, such as "[P.]"; "[none]" if none is set.
func (f Flags) String() string {
	var b strings.Builder
	b.WriteByte('[')
	for _, l := range letters {
		if f&l.flag != 0 {
			b.WriteByte(l.letter)
		}
	}
	if b.Len() == 1 {
		b.WriteString("none")
	}
	b.WriteByte(']')
	return b.String()
}

// Has says whether all of the given flags are set.
func (f Flags) Has(flags Flags) bool { return f&flags == flags }

// Protocol is the number of a transport protocol in an IP header.
type Protocol uint8

// The protocols that the package decodes.
const (
	TCP Protocol = 6
	UDP Protocol = 17
)

// Note says what a segment is, beside what its header says.
type Note string

// What Annotate recognises.
const (
	// Retransmission is a segment of bytes that its sender had sent before.
	Retransmission Note = "retransmission"
	// KeepaliveProbe asks whether the other end is alive: it has no new bytes,
	// and the sequence number before the next one, which the other end must
	// answer (RFC 9293, section 3.8.4).
	KeepaliveProbe Note = "keepalive probe"
)

// Packet is the head of one packet.
type Packet struct {
	// Time is when the kernel sent or received it.
	Time time.Time
	// Outgoing says that it left by the interface, and did not arrive there.
	Outgoing    bool
	Protocol    Protocol
	Source      netip.AddrPort
	Destination netip.AddrPort
	// Flags, Seq and Ack are TCP's; Seq and Ack are as they stand in the header.
	Flags Flags
	Seq   uint32
	Ack   uint32
	// Length is the payload in bytes, without any header. The kernel hands over
	// a large write as one packet, before it is cut into segments.
	Length int
	// Line is the first line of the payload, where that is printable, and at
	// most maxLine bytes of it.
	Line string
	// Note is what Annotate found.
	Note Note
}

// segmentLength is how far a segment moves its sender's sequence number.
func (p Packet) segmentLength() uint32 {
	n := uint32(p.Length)
	if p.Flags.Has(SYN) {
		n++
	}
	if p.Flags.Has(FIN) {
		n++
	}
	return n
}

// Retransmissions counts the segments that were sent again.
func Retransmissions(packets []Packet) int {
	n := 0
	for _, p := range packets {
		if p.Note == Retransmission {
			n++
		}
	}
	return n
}

// flow is one direction of a connection.
type flow struct{ from, to netip.AddrPort }

// Annotate sets the note of each packet, in the order of their times. A capture
// that began in the middle of a connection knows of nothing before it: the first
// segment that it has of a sender is only noted if the other end has acknowledged
// something since.
func Annotate(packets []Packet) {
	// next is the sequence number after the last byte that a sender was seen to
	// send, or that the other end was seen to have.
	next := map[flow]uint32{}
	for i := range packets {
		p := &packets[i]
		p.Note = ""
		if p.Protocol != TCP {
			continue
		}
		f := flow{p.Source, p.Destination}
		if reverse := (flow{p.Destination, p.Source}); p.Flags.Has(ACK) && !p.Flags.Has(RST) {
			if seen, known := next[reverse]; !known || int32(p.Ack-seen) > 0 {
				next[reverse] = p.Ack
			}
		}
		end := p.Seq + p.segmentLength()
		seen, known := next[f]
		switch {
		case p.Flags.Has(RST):
			// A reset has a sequence number of its sender's choice, and the next
			// connection on these ports begins anew.
			delete(next, f)
			continue
		case !known:
		case p.Flags.Has(SYN) && end != seen:
			// A new connection on the same ports.
		case p.segmentLength() <= 1 && p.Flags&(SYN|FIN) == 0 && p.Seq == seen-1:
			// Linux sends no byte with a probe; others send one, of old.
			p.Note = KeepaliveProbe
			continue
		case p.segmentLength() == 0:
			continue
		case int32(end-seen) <= 0:
			p.Note = Retransmission
			continue
		}
		next[f] = end
	}
}
