package engine

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"
)

func TestNamesAndAddresses(t *testing.T) {
	p := newPeer(t, write(okAnswer))
	port := p.listener.Addr().(*net.TCPAddr).Port
	for _, tt := range []struct{ url, want, err string }{
		{url: "http://127.0.0.1:81/", want: "127.0.0.1:81"},
		{url: "http://127.0.0.1/", want: "127.0.0.1:80"},
		{url: "http://[::1]:82/", want: "[::1]:82"},
		{url: "http://[::ffff:127.0.0.1]:83/", want: "127.0.0.1:83"},
		{url: "http://[fe80::1%251]:84/", want: "[fe80::1%1]:84"},
		{url: fmt.Sprintf("http://localhost:%d/", port), want: fmt.Sprintf("127.0.0.1:%d", port)},
		{url: "http://[fe80::1%25nosuch0]:84/", err: `zone "nosuch0"`},
		{url: "http://nosuch.invalid/", err: "cannot resolve nosuch.invalid"},
	} {
		u, err := target(tt.url)
		if err != nil {
			t.Fatal(err)
		}
		r, err := resolve(t.Context(), u, Connections{})
		if tt.err != "" {
			if err == nil || !strings.Contains(err.Error(), tt.err) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s: error %v, want one line with %q", tt.url, err, tt.err)
			}
			continue
		}
		if err != nil || r.String() != tt.want {
			t.Errorf("%s: %v, %v; want %s", tt.url, r, err, tt.want)
		}
	}
}

func TestOfSeveralAddressesTheFirstThatAcceptsIsTaken(t *testing.T) {
	p := newPeer(t, write(okAnswer))
	here := netip.MustParseAddr("127.0.0.1")
	deaf := netip.MustParseAddr("127.0.0.2") // nothing listens on this port of it
	port := uint16(p.listener.Addr().(*net.TCPAddr).Port)
	for _, tt := range []struct {
		ips   []netip.Addr
		want  netip.Addr
		dials int // in all
	}{
		{[]netip.Addr{here}, here, 0}, // not tried
		{[]netip.Addr{deaf, here}, here, 1},
		{[]netip.Addr{here, deaf}, here, 2},
		{[]netip.Addr{deaf, deaf}, deaf, 2}, // for the run to show
	} {
		if got := reachable(t.Context(), tt.ips, port, Connections{}); got != netip.AddrPortFrom(tt.want, port) {
			t.Errorf("of %v it took %v, want %v", tt.ips, got, tt.want)
		}
		eventually(t, "the server has seen the attempt", func() bool { connections, _, _ := p.counts(); return connections == tt.dials })
	}
}

func TestNamesAreResolvedOnceAndTheResultSaysTo(t *testing.T) {
	withEachRun(t, func(t *testing.T, _ Kind, on func(*Config)) {
		p := newPeer(t, write(okAnswer))
		address := p.listener.Addr().String()
		_, port, _ := net.SplitHostPort(address)
		c := plan(Endpoint{Name: "fast", URL: "http://localhost:" + port, Rate: 100})
		c.Duration, c.MaxLag = 100*time.Millisecond, time.Minute
		on(&c)
		if e := live(t, c).Load.Endpoints["fast"]; e.OK != 10 || e.Address != address {
			t.Errorf("%d ok from %s, want 10 from %s", e.OK, e.Address, address)
		}
		c.Endpoints[0].URL = "http://nosuch.invalid/"
		e, err := New(t.Context(), c.WithDefaults())
		if err == nil {
			e.Close()
		}
		if err == nil || !strings.HasPrefix(err.Error(), "endpoint fast: cannot resolve nosuch.invalid: ") {
			t.Errorf("a name that is none: %v", err)
		}
	})
}

func TestSourcesMustBeOfTheFamilyOfTheServer(t *testing.T) {
	six := Connections{Sources: []netip.Addr{netip.IPv6Loopback()}}
	refusals := map[string]string{"http://127.0.0.1/": "source ::1 is not of the family of 127.0.0.1"}
	if found, err := net.DefaultResolver.LookupNetIP(t.Context(), "ip6", "localhost"); err != nil || len(found) == 0 {
		refusals["http://localhost/"] = "localhost has no address of the family of source ::1"
	}
	for url, want := range refusals {
		u, err := target(url)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := resolve(t.Context(), u, six); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", url, err, want)
		}
	}
}
