package engine

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"chokepoint/internal/load/ledger"
)

// authority signs certificates.
type authority struct {
	t           *testing.T
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return authority{t: t, certificate: certificate, key: key}
}

// sign makes a certificate for a name, for servers and clients, until then.
func (a authority) sign(name string, until time.Time) tls.Certificate {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: until, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if ip := net.ParseIP(name); ip != nil {
		template.DNSNames, template.IPAddresses = nil, []net.IP{ip}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func (a authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.certificate)
	return pool
}

// newTLSServer answers with the name that the client asked TLS for, and with its
// own certificate's subject.
func newTLSServer(t *testing.T, config *tls.Config) (url string, port uint16) {
	t.Helper()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Asked", r.TLS.ServerName)
		if len(r.TLS.PeerCertificates) > 0 {
			w.Header().Set("X-Client", r.TLS.PeerCertificates[0].Subject.CommonName)
		}
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // failed handshakes are the test
	server.TLS = config
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.URL, uint16(server.Listener.Addr().(*net.TCPAddr).Port)
}

func TestTLS(t *testing.T) {
	const here = "127.0.0.1"
	trusted, other := newAuthority(t), newAuthority(t)
	soon, past := time.Now().Add(time.Hour), time.Now().Add(-time.Minute)
	mine, theirs := trusted.sign("mine", soon), other.sign("theirs", soon)
	fails := func(cause string) ledger.Answer { return ledger.Answer{Outcome: ledger.ConnectError, Cause: cause} }
	ok := ledger.Answer{Outcome: ledger.OK, Status: 200}
	for _, tt := range []struct {
		name        string
		certificate tls.Certificate // the server's
		demanding   bool            // the server wants one of the client, signed by the trusted authority
		connections Connections
		want        ledger.Answer
	}{
		{"trusted", trusted.sign(here, soon), false, Connections{Roots: trusted.pool()}, ok},
		{"unknown authority", trusted.sign(here, soon), false, Connections{}, fails(CauseTLSAuthority)},
		{"another authority", trusted.sign(here, soon), false, Connections{Roots: other.pool()}, fails(CauseTLSAuthority)},
		{"expired", trusted.sign(here, past), false, Connections{Roots: trusted.pool()}, fails(CauseTLSExpired)},
		{"another host's", trusted.sign("b.example", soon), false, Connections{Roots: trusted.pool()}, fails(CauseTLSHost)},
		{"another host's, by name", trusted.sign("b.example", soon), false, Connections{Roots: trusted.pool(), ServerName: "b.example"}, ok},
		{"insecure", other.sign("b.example", past), false, Connections{Insecure: true}, ok},
		{"no client certificate", trusted.sign(here, soon), true, Connections{Roots: trusted.pool()}, fails(CauseTLSClient)},
		{"client certificate", trusted.sign(here, soon), true, Connections{Roots: trusted.pool(), Certificate: &mine}, ok},
		{"another's client certificate", trusted.sign(here, soon), true, Connections{Roots: trusted.pool(), Certificate: &theirs}, fails(CauseTLSClient)},
	} {
		for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
			t.Run(tt.name+", "+tls.VersionName(version), func(t *testing.T) {
				config := &tls.Config{Certificates: []tls.Certificate{tt.certificate}, MaxVersion: version}
				if tt.demanding {
					config.ClientAuth, config.ClientCAs = tls.RequireAndVerifyClientCert, trusted.pool()
				}
				url, _ := newTLSServer(t, config)
				h, do := sender(t, url, "GET", over(tt.connections))
				for i := range 2 {
					if x := do(i, time.Now().Add(10*time.Second)); x.Answer != tt.want {
						t.Errorf("request %d: got %+v, want %+v", i, x.Answer, tt.want)
					}
				}
				if open := len(h.open); (open == 1) != (tt.want == ok) {
					t.Errorf("%d connections are open after %+v", open, tt.want)
				}
			})
		}
	}
}

func TestAHandshakeThatNeverEnds(t *testing.T) {
	for name, p := range map[string]*peer{
		"not TLS": newPeer(t, write("HTTP/1.1 400 Bad Request\r\n\r\n")), // waits for an end of line
		"mute":    newPeer(t, write("")),
	} {
		t.Run(name, func(t *testing.T) {
			_, do := sender(t, strings.Replace(p.url(), "http:", "https:", 1), "GET")
			want := ledger.Answer{Outcome: ledger.Timeout, Cause: CauseConnect}
			if x := do(0, time.Now().Add(200*time.Millisecond)); x.Answer != want {
				t.Errorf("got %+v, want %+v", x.Answer, want)
			}
		})
	}
}

func TestAHandshakeThatIsNone(t *testing.T) {
	for name, p := range map[string]*peer{
		"speaks first": newGreetingPeer(t, "220 mail.example ESMTP\r\n", write("")),
		"hangs up":     newGreetingPeer(t, "\x15\x03\x03\x00\x02\x02\x28", writeAndClose("")), // the alert handshake_failure
	} {
		t.Run(name, func(t *testing.T) {
			_, do := sender(t, strings.Replace(p.url(), "http:", "https:", 1), "GET")
			want := ledger.Answer{Outcome: ledger.ConnectError, Cause: CauseTLS}
			if x := do(0, time.Now().Add(10*time.Second)); x.Answer != want {
				t.Errorf("got %+v, want %+v", x.Answer, want)
			}
		})
	}
}

func TestTLSAsksForTheNameOfTheURL(t *testing.T) {
	a := newAuthority(t)
	asked := make(chan string, 2)
	config := &tls.Config{GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		asked <- hello.ServerName
		certificate := a.sign("service.example", time.Now().Add(time.Hour))
		return &certificate, nil
	}}
	_, port := newTLSServer(t, config)
	led := Connections{Roots: a.pool(), ConnectTo: []Redirect{{ToHost: "127.0.0.1", ToPort: port}}}
	named := led
	named.ServerName = "other.example"
	_, do := sender(t, "https://service.example/", "GET", over(led))
	if x := do(0, time.Now().Add(10*time.Second)); x.Answer.Outcome != ledger.OK {
		t.Errorf("got %+v", x.Answer)
	}
	_, do = sender(t, "https://service.example/", "GET", over(named))
	if x := do(0, time.Now().Add(10*time.Second)); x.Answer.Cause != CauseTLSHost {
		t.Errorf("with another name: got %+v, want the cause %s", x.Answer, CauseTLSHost)
	}
	if first, second := <-asked, <-asked; first != "service.example" || second != "other.example" {
		t.Errorf("asked for %q and %q, want those of the URL and of the plan", first, second)
	}
}

func TestAnInsecureRunWarns(t *testing.T) {
	a := newAuthority(t)
	url, _ := newTLSServer(t, &tls.Config{Certificates: []tls.Certificate{a.sign("b.example", time.Now().Add(time.Hour))}})
	plain := plan(Endpoint{Name: "fast", URL: newPeer(t, write(okAnswer)).url(), Rate: 100})
	plain.Duration, plain.MaxLag, plain.Connections.Insecure = 100*time.Millisecond, time.Minute, true
	if warnings := live(t, plain).Load.Validity.Warnings; strings.Contains(fmt.Sprint(warnings), "certificate") {
		t.Errorf("a run without TLS warns: %q", warnings)
	}
	for _, insecure := range []bool{true, false} {
		c := plan(Endpoint{Name: "fast", URL: url, Rate: 100})
		c.Duration, c.MaxLag = 100*time.Millisecond, time.Minute
		c.Connections.Insecure = insecure
		r := live(t, c)
		e := r.Load.Endpoints["fast"]
		if (e.OK == 10) != insecure || (e.Causes[CauseTLSHost] == 10) == insecure {
			t.Errorf("insecure %v: got %+v", insecure, e)
		}
		if warned := strings.Contains(fmt.Sprint(r.Load.Validity.Warnings), "certificate was not verified"); warned != insecure {
			t.Errorf("insecure %v: warnings %q", insecure, r.Load.Validity.Warnings)
		}
	}
}

func TestAnIdleConnectionThatTheServerEndsUnderTLS(t *testing.T) {
	const idle = 200 * time.Millisecond
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	server.Config.IdleTimeout = idle
	var dials atomic.Int64
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			dials.Add(1)
		}
	}
	server.StartTLS()
	defer server.Close()
	_, do := sender(t, server.URL, "GET", over(Connections{Insecure: true}))
	for i := range 4 {
		if x := do(i, time.Now().Add(10*time.Second)); x.Answer.Outcome != ledger.OK {
			t.Errorf("request %d: %+v", i, x.Answer)
		}
		if i == 1 {
			time.Sleep(2 * idle)
		}
	}
	if dials.Load() != 2 {
		t.Errorf("%d connections, want one for each two requests", dials.Load())
	}
}

// TestAnAnswerThatEndsWithTLS: the end of the TCP connection alone may be anybody's.
func TestAnAnswerThatEndsWithTLS(t *testing.T) {
	a := newAuthority(t)
	config := &tls.Config{Certificates: []tls.Certificate{a.sign("a.example", time.Now().Add(time.Hour))}}
	const untilClose = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nok"
	ok, cut := ledger.Answer{Outcome: ledger.OK, Status: 200}, ledger.Answer{Outcome: ledger.TransportError, Cause: CauseEOF}
	for _, tt := range []struct {
		name, answer string
		farewell     bool
		want         ledger.Answer
	}{
		{"with a farewell", untilClose, true, ok},
		{"without", untilClose, false, cut},
		{"its length was known", okAnswer, false, ok},
		{"its length was longer", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok", true, cut},
	} {
		t.Run(tt.name, func(t *testing.T) {
			listener, err := tls.Listen("tcp", "127.0.0.1:0", config)
			if err != nil {
				t.Fatal(err)
			}
			defer listener.Close()
			go func() {
				conn, err := listener.Accept()
				if err != nil {
					return
				}
				// conn.Close says farewell, and does not close what is closed.
				defer conn.Close()
				if _, err := http.ReadRequest(bufio.NewReader(conn)); err != nil {
					return
				}
				io.WriteString(conn, tt.answer)
				if !tt.farewell {
					conn.(*tls.Conn).NetConn().Close()
				}
			}()
			_, do := sender(t, "https://"+listener.Addr().String(), "GET", over(Connections{Insecure: true}))
			if x := do(0, time.Now().Add(10*time.Second)); x.Answer != tt.want {
				t.Errorf("got %+v, want %+v", x.Answer, tt.want)
			}
		})
	}
}

func TestLongRequestsOverTLS(t *testing.T) {
	refuse := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusRequestEntityTooLarge) }
	read := func(w http.ResponseWriter, r *http.Request) {
		if body, err := io.ReadAll(r.Body); err != nil || len(body) != 1_000_000 {
			w.WriteHeader(http.StatusBadRequest)
		}
	}
	for _, tt := range []struct {
		name   string
		answer http.HandlerFunc
		size   int
		want   ledger.Answer
		dials  int
	}{
		{"read", read, 1_000_000, ledger.Answer{Outcome: ledger.OK, Status: 200}, 1},
		{"refused before it is written", refuse, 16_000_000, ledger.Answer{Outcome: ledger.HTTPError, Status: 413}, 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var dials atomic.Int32
			server := httptest.NewUnstartedServer(tt.answer)
			server.Config.ErrorLog = log.New(io.Discard, "", 0) // a connection that is cut is the test
			server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
				if state == http.StateNew {
					dials.Add(1)
				}
			}
			server.StartTLS()
			defer server.Close()
			_, do := sender(t, server.URL, "POST", func(c *Config) {
				c.Connections.Insecure = true
				c.Endpoints[0].Body = patterned(tt.size)
			})
			for i := range 3 {
				if x := do(i, time.Now().Add(10*time.Second)); x.Answer != tt.want {
					t.Errorf("request %d: %+v, want %+v", i, x.Answer, tt.want)
				}
			}
			if int(dials.Load()) != tt.dials {
				t.Errorf("%d connections, want %d", dials.Load(), tt.dials)
			}
		})
	}
}
