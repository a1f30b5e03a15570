package capture

import (
	"fmt"
	"io"
	"net/netip"
	"strings"
	"time"
)

// Names are what a sequence calls the hosts, by address. An address without a
// name is written as it is.
type Names map[netip.Addr]string

func (n Names) endpoint(a netip.AddrPort) string {
	if name, ok := n[a.Addr()]; ok {
		return fmt.Sprintf("%s:%d", name, a.Port())
	}
	return a.String()
}

// WriteSequence writes a line a packet, with times in seconds from since:
//
//	+0.206 caller:40112 > upstream:8080 [P.] 78 bytes (retransmission)  GET /upstream HTTP/1.1
//
// What is not TCP has its protocol in place of the flags.
func WriteSequence(w io.Writer, packets []Packet, since time.Time, names Names) error {
	for _, p := range packets {
		if _, err := fmt.Fprintln(w, line(p, since, names)); err != nil {
			return err
		}
	}
	return nil
}

func line(p Packet, since time.Time, names Names) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%+.3f %s > %s ", p.Time.Sub(since).Seconds(), names.endpoint(p.Source), names.endpoint(p.Destination))
	if p.Protocol == UDP {
		b.WriteString("[udp]")
	} else {
		b.WriteString(p.Flags.String())
	}
	fmt.Fprintf(&b, " %d bytes", p.Length)
	if p.Note != "" {
		fmt.Fprintf(&b, " (%s)", p.Note)
	}
	if p.Line != "" {
		b.WriteString("  " + p.Line)
	}
	return b.String()
}
