package engine

import (
	"crypto/x509"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestParseRedirects(t *testing.T) {
	for _, tt := range []struct {
		parse func(string) (Redirect, error)
		text  string
		want  Redirect
		err   string
	}{
		{ParseConnectTo, "a.example:80:b.example:81", Redirect{"a.example", 80, "b.example", 81}, ""},
		{ParseConnectTo, "::b.example:81", Redirect{"", 0, "b.example", 81}, ""},
		{ParseConnectTo, "a.example:80::81", Redirect{"a.example", 80, "", 81}, ""},
		{ParseConnectTo, "a.example::[::1]:", Redirect{"a.example", 0, "::1", 0}, ""},
		{ParseConnectTo, "[::1]:80:[fe80::1%eth0]:81", Redirect{"::1", 80, "fe80::1%eth0", 81}, ""},
		{ParseConnectTo, "", Redirect{}, `connect-to "": it has 1 parts and needs 4; give HOST1:PORT1:HOST2:PORT2`},
		{ParseConnectTo, "a:80:b", Redirect{}, "it has 3 parts and needs 4"},
		{ParseConnectTo, "a:80:::1:81", Redirect{}, "it has 6 parts and needs 4"},
		{ParseConnectTo, "a:80::", Redirect{}, "it leads nowhere"},
		{ParseConnectTo, "a:http:b:81", Redirect{}, `port "http" is not a number from 1 to 65535`},
		{ParseConnectTo, "a:80:b:65536", Redirect{}, `port "65536"`},
		{ParseConnectTo, "a:80:b:0", Redirect{}, `port "0"`},
		{ParseConnectTo, "a:80:[::1:81", Redirect{}, "a bracket is not closed"},
		{ParseConnectTo, "a:80:[::1]81", Redirect{}, `a colon is missing before "81"`},
		{ParseConnectTo, "a:80:[b]:81", Redirect{}, `"b" in brackets is no IPv6 address`},
		{ParseResolve, "a.example:443:127.0.0.1", Redirect{"a.example", 443, "127.0.0.1", 0}, ""},
		{ParseResolve, "a.example:443:[::1]", Redirect{"a.example", 443, "::1", 0}, ""},
		{ParseResolve, "a.example:443:::1", Redirect{"a.example", 443, "::1", 0}, ""},
		{ParseResolve, "*:443:127.0.0.1", Redirect{"", 443, "127.0.0.1", 0}, ""},
		{ParseResolve, "a.example:443", Redirect{}, `resolve "a.example:443": it has 2 parts and needs 3; give HOST:PORT:ADDRESS`},
		{ParseResolve, ":443:127.0.0.1", Redirect{}, "the host is missing"},
		{ParseResolve, "a.example::127.0.0.1", Redirect{}, "the port is missing"},
		{ParseResolve, "a.example:443:b.example", Redirect{}, `"b.example" is no IP address`},
		{ParseResolve, "a.example:443:127.0.0.1,127.0.0.2", Redirect{}, `"127.0.0.1,127.0.0.2" is no IP address`},
	} {
		got, err := tt.parse(tt.text)
		if tt.err != "" {
			if err == nil || !strings.Contains(err.Error(), tt.err) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%q: error %v, want one line with %q", tt.text, err, tt.err)
			}
			continue
		}
		if diff := cmp.Diff(tt.want, got); err != nil || diff != "" {
			t.Errorf("%q: error %v, and\n%s", tt.text, err, diff)
		}
	}
}

func TestDestination(t *testing.T) {
	c := Connections{
		ConnectTo: []Redirect{{"a.example", 80, "b.example", 0}, {"A.example", 0, "c.example", 81}, {"", 82, "", 83}},
		Resolve:   []Redirect{{"b.example", 80, "127.0.0.2", 0}, {"", 83, "127.0.0.3", 0}},
	}
	for _, tt := range []struct {
		url, wantHost string
		wantPort      uint16
	}{
		{"http://a.example/", "127.0.0.2", 80},  // one of each list, in turn
		{"https://a.example/", "c.example", 81}, // the first that matches, whatever the case
		{"http://d.example:82/", "127.0.0.3", 83},
		{"http://d.example/", "d.example", 80},
		{"https://[::1]/", "::1", 443},
	} {
		u, err := target(tt.url)
		if err != nil {
			t.Fatal(err)
		}
		if host, port, err := c.destination(u); err != nil || host != tt.wantHost || port != tt.wantPort {
			t.Errorf("%s leads to %s and %d, error %v; want %s and %d", tt.url, host, port, err, tt.wantHost, tt.wantPort)
		}
	}
}

func TestConnectionsThatCannotBe(t *testing.T) {
	here := netip.MustParseAddr("127.0.0.1")
	for _, tt := range []struct {
		c    Connections
		want string
	}{
		{Connections{MaxAge: -time.Second}, "maximum age -1s"},
		{Connections{MaxRequests: -1}, "-1 requests"},
		{Connections{DisableKeepAlive: true, MaxRequests: 2}, "without keep-alive"},
		{Connections{Insecure: true, Roots: x509.NewCertPool()}, "verifies nothing"},
		{Connections{Sources: []netip.Addr{{}}}, "source invalid IP"},
		{Connections{Sources: []netip.Addr{netip.IPv4Unspecified()}}, "source 0.0.0.0"},
		{Connections{Sources: []netip.Addr{here, here}}, "source 127.0.0.1 is given twice"},
		{Connections{Sources: []netip.Addr{here, netip.IPv6Loopback()}}, "sources 127.0.0.1 and ::1 are not of one family"},
		{Connections{Sources: []netip.Addr{netip.IPv6Loopback()}}, "source ::1 is not of the family of 127.0.0.1"},
	} {
		c := plan(Endpoint{Name: "fast", Rate: 1}).WithDefaults()
		c.Connections = tt.c
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%+v: error %v, want one line with %q", tt.c, err, tt.want)
		}
	}
}
