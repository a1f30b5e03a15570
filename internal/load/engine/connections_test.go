package engine

import (
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chokepoint/internal/load/ledger"
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

// over has connections made and kept like that.
func over(c Connections) func(*Config) { return func(plan *Config) { plan.Connections = c } }

func TestHowLongAConnectionIsKept(t *testing.T) {
	for _, tt := range []struct {
		name        string
		connections Connections
		pause       time.Duration // between requests
		dials       int           // for six requests
		closing     bool          // the request says so
	}{
		{name: "for ever", dials: 1},
		{name: "not at all", connections: Connections{DisableKeepAlive: true}, dials: 6, closing: true},
		{name: "one request", connections: Connections{MaxRequests: 1}, dials: 6},
		{name: "two requests", connections: Connections{MaxRequests: 2}, dials: 3},
		{name: "four requests", connections: Connections{MaxRequests: 4}, dials: 2},
		{name: "for a nanosecond", connections: Connections{MaxAge: 1}, dials: 6},
		{name: "for an hour", connections: Connections{MaxAge: time.Hour}, dials: 1},
		{name: "for an hour or three requests", connections: Connections{MaxAge: time.Hour, MaxRequests: 3}, dials: 2},
		// It is young when the request is over, and old when the next one comes.
		{name: "for less than a pause", connections: Connections{MaxAge: 50 * time.Millisecond}, pause: 60 * time.Millisecond, dials: 6},
	} {
		t.Run(tt.name, func(t *testing.T) {
			withEachEngine(t, func(t *testing.T, _ Kind, client newClient) {
				p := newPeer(t, write(okAnswer))
				do, hangUp := client(t, p.url(), "GET", over(tt.connections))
				for i := range 6 {
					if x := do(i, time.Now().Add(10*time.Second)); x.Answer.Outcome != ledger.OK {
						t.Errorf("request %d: %+v", i, x.Answer)
					}
					time.Sleep(tt.pause)
				}
				// Before the end: what is not used again has been closed.
				eventually(t, "the old connections are closed", func() bool { connections, _, gone := p.counts(); return gone >= connections-1 })
				hangUp()
				eventually(t, "every connection is closed", func() bool { connections, _, gone := p.counts(); return gone == connections })
				if connections, requests, _ := p.counts(); connections != tt.dials || requests != 6 {
					t.Errorf("the server saw %d connections and %d requests, want %d and 6", connections, requests, tt.dials)
				}
				for _, head := range p.heads {
					if strings.Contains(head, "\r\nConnection: close\r\n") != tt.closing {
						t.Errorf("the request was\n%s", head)
					}
				}
			})
		})
	}
}

func TestConnectionsComeFromTheSourcesInTurn(t *testing.T) {
	var sources []netip.Addr
	for _, text := range []string{"127.0.0.2", "127.0.0.3", "127.0.0.4"} {
		sources = append(sources, netip.MustParseAddr(text))
	}
	withEachEngine(t, func(t *testing.T, _ Kind, client newClient) {
		from := make(chan string, 8)
		p := newPeer(t, func(conn *net.TCPConn, _ string) bool {
			host, _, _ := net.SplitHostPort(conn.RemoteAddr().String())
			from <- host
			io.WriteString(conn, okAnswer)
			return true
		})
		do, hangUp := client(t, p.url(), "GET", over(Connections{Sources: sources, MaxRequests: 2}))
		for i := range 8 {
			if x := do(i, time.Now().Add(10*time.Second)); x.Answer.Outcome != ledger.OK {
				t.Errorf("request %d: %+v", i, x.Answer)
			}
		}
		hangUp()
		for i, want := range []string{"127.0.0.2", "127.0.0.2", "127.0.0.3", "127.0.0.3", "127.0.0.4", "127.0.0.4", "127.0.0.2", "127.0.0.2"} {
			if got := <-from; got != want {
				t.Errorf("request %d came from %s, want %s", i, got, want)
			}
		}
	})
}

func TestConnectionsAreMadeToWhereTheyAreLed(t *testing.T) {
	withEachEngine(t, func(t *testing.T, _ Kind, client newClient) {
		p := newPeer(t, write(okAnswer))
		port := uint16(p.listener.Addr().(*net.TCPAddr).Port)
		for _, c := range []Connections{
			{ConnectTo: []Redirect{{"service.invalid", 80, "127.0.0.1", port}}},
			{ConnectTo: []Redirect{{"", 0, "elsewhere.invalid", port}}, Resolve: []Redirect{{"elsewhere.invalid", port, "127.0.0.1", 0}}},
		} {
			do, _ := client(t, "http://service.invalid/path", "GET", over(c))
			if x := do(0, time.Now().Add(10*time.Second)); x.Answer.Outcome != ledger.OK {
				t.Fatalf("%+v: %+v", c, x.Answer)
			}
		}
		if connections, requests, _ := p.counts(); connections != 2 || requests != 2 {
			t.Errorf("the server saw %d connections and %d requests, want 2 of both", connections, requests)
		}
		for _, head := range p.heads {
			if !strings.Contains(head, "\r\nHost: service.invalid\r\n") {
				t.Errorf("the request was\n%s", head)
			}
		}
	})
}

func TestAnIdleConnectionThatTheServerEndsIsNotUsedAgain(t *testing.T) {
	for _, tt := range []struct {
		name string
		end  func(*net.TCPConn) // after the answer
	}{
		{"FIN", func(conn *net.TCPConn) { conn.CloseWrite() }},
		{"RST", func(conn *net.TCPConn) { conn.SetLinger(0); conn.Close() }},
		{"bytes that nobody asked for", func(conn *net.TCPConn) { io.WriteString(conn, okAnswer) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			withEachEngine(t, func(t *testing.T, _ Kind, client newClient) {
				// The request that would have met it goes out on a new connection: nothing
				// was lost on the old one, so there is nothing to put on record.
				answered := make(chan struct{}, 3)
				p := newPeer(t, func(conn *net.TCPConn, _ string) bool {
					io.WriteString(conn, okAnswer)
					time.Sleep(20 * time.Millisecond) // let the client take the answer alone
					tt.end(conn)
					answered <- struct{}{}
					return true
				})
				do, _ := client(t, p.url(), "GET")
				for i := range 3 {
					if x := do(i, time.Now().Add(10*time.Second)); x.Answer.Outcome != ledger.OK {
						t.Errorf("request %d: %+v", i, x.Answer)
					}
					<-answered
				}
				if connections, requests, _ := p.counts(); connections != 3 || requests != 3 {
					t.Errorf("the server saw %d connections and %d requests, want 3 of both", connections, requests)
				}
			})
		})
	}
}

func TestAConnectionOutlivesTheDeadlineOfItsLastRequest(t *testing.T) {
	withEachEngine(t, func(t *testing.T, _ Kind, client newClient) {
		p := newPeer(t, write(okAnswer))
		do, _ := client(t, p.url(), "GET")
		for i := range 3 {
			deadline := time.Now().Add(200 * time.Millisecond)
			if x := do(i, deadline); x.Answer.Outcome != ledger.OK {
				t.Errorf("request %d: %+v", i, x.Answer)
			}
			time.Sleep(time.Until(deadline) + time.Millisecond)
		}
		if connections, requests, _ := p.counts(); connections != 1 || requests != 3 {
			t.Errorf("the server saw %d connections and %d requests, want 1 and 3", connections, requests)
		}
	})
}

// FuzzParseRedirects: what is no rule is refused in one line, and a rule is read
// again as what it is when it is written out.
func FuzzParseRedirects(f *testing.F) {
	for _, text := range []string{"a:80:b:81", ":::", "[::1]:80:[::1]:81", "*:443:127.0.0.1", "a:443:::1", "[::1]443:b:1", "[fe80::1%eth0]::b:"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for name, parse := range map[string]func(string) (Redirect, error){"connect-to": ParseConnectTo, "resolve": ParseResolve} {
			r, err := parse(text)
			if err != nil {
				if !strings.HasPrefix(err.Error(), name+" ") || strings.Contains(err.Error(), "\n") {
					t.Errorf("error %q, want one line that begins with %s", err, name)
				}
				continue
			}
			again, err := ParseConnectTo(written(r.Host, r.Port) + ":" + written(r.ToHost, r.ToPort))
			if diff := cmp.Diff(r, again); err != nil || diff != "" {
				t.Errorf("%s %q: error %v, and\n%s", name, text, err, diff)
			}
		}
	})
}

// written is a host and port as a rule has them; empty and 0 are any.
func written(host string, port uint16) string {
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if port == 0 {
		return host + ":"
	}
	return fmt.Sprintf("%s:%d", host, port)
}

func TestASourceOfIPv6(t *testing.T) {
	listener, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		t.Skipf("no IPv6: %v", err)
	}
	from := make(chan string, 1)
	server := &http.Server{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { from <- r.RemoteAddr })}
	var serving sync.WaitGroup
	serving.Go(func() { server.Serve(listener) })
	defer serving.Wait()
	defer server.Close()
	withEachEngine(t, func(t *testing.T, _ Kind, client newClient) {
		do, _ := client(t, "http://"+listener.Addr().String(), "GET", over(Connections{Sources: []netip.Addr{netip.IPv6Loopback()}}))
		if x := do(0, time.Now().Add(10*time.Second)); x.Answer.Outcome != ledger.OK {
			t.Fatalf("got %+v", x.Answer)
		}
		if got := <-from; !strings.HasPrefix(got, "[::1]:") {
			t.Errorf("the connection came from %s", got)
		}
	})
}
