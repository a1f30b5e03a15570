package engine

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"sync/atomic"
	"time"
)

// Connections is how connections are made and kept, the same for all endpoints.
// The zero value verifies certificates and keeps connections alive.
type Connections struct {
	// Insecure accepts any certificate of the server; the result warns of it.
	Insecure bool
	// Roots are the authorities that the server's certificate is verified with; nil
	// are the system's.
	Roots *x509.CertPool
	// Certificate is shown to a server that asks for one; nil is none.
	Certificate *tls.Certificate
	// ServerName is the name that TLS asks for (SNI) and verifies; default the
	// host of the endpoint's URL.
	ServerName string

	// DisableKeepAlive sends every request on a connection of its own, with
	// "Connection: close".
	DisableKeepAlive bool
	// MaxAge is how old a connection may be when a request is sent on it; an older
	// one is closed when it is idle. 0 is no limit.
	MaxAge time.Duration
	// MaxRequests is how many requests a connection carries before it is closed; 0
	// is no limit.
	MaxRequests int

	// ConnectTo says where to connect to instead of a URL's host and port, and
	// Resolve then gives a name its address. Of each the first that matches holds.
	// The Host header and the name that TLS asks for stay those of the URL.
	ConnectTo, Resolve []Redirect

	// Sources are the local addresses that connections come from, each new one from
	// the next in turn. A source has its own local ports, some 28,000 to each
	// destination. None leaves the choice to the kernel.
	Sources []netip.Addr
}

func (c Connections) validate() error {
	switch {
	case c.MaxAge < 0:
		return fmt.Errorf("maximum age %v of a connection is negative; 0 is no limit", c.MaxAge)
	case c.MaxRequests < 0:
		return fmt.Errorf("%d requests for a connection are negative; 0 is no limit", c.MaxRequests)
	case c.DisableKeepAlive && (c.MaxAge > 0 || c.MaxRequests > 0):
		return errors.New("without keep-alive a connection carries one request: leave out its maximum age and maximum requests")
	case c.Insecure && c.Roots != nil:
		return errors.New("an insecure connection verifies nothing: leave out the authorities, or insecure")
	}
	seen := map[netip.Addr]bool{}
	for _, source := range c.Sources {
		switch {
		case !source.IsValid() || source.IsUnspecified() || source.IsMulticast():
			return fmt.Errorf("source %v is not the address of a network interface", source)
		case source.Unmap().Is4() != c.Sources[0].Unmap().Is4():
			return fmt.Errorf("sources %v and %v are not of one family; give IPv4 or IPv6 addresses", c.Sources[0], source)
		case seen[source]:
			return fmt.Errorf("source %v is given twice", source)
		}
		seen[source] = true
	}
	return nil
}

// destination is the host and port that connections for u are made to.
func (c Connections) destination(u *url.URL) (host string, port uint16, err error) {
	host, port = u.Hostname(), 80
	if u.Scheme == "https" {
		port = 443
	}
	if text := u.Port(); text != "" {
		if port, err = parsePort(text); err != nil {
			return "", 0, err
		}
	}
	host, port = redirected(c.ConnectTo, host, port)
	host, port = redirected(c.Resolve, host, port)
	if to, err := netip.ParseAddr(host); err == nil && !c.reaches(to) {
		return "", 0, fmt.Errorf("source %v is not of the family of %v; give sources that are", c.Sources[0], to)
	}
	return host, port, nil
}

// reaches says whether the sources are of the address's family.
func (c Connections) reaches(to netip.Addr) bool {
	return len(c.Sources) == 0 || c.Sources[0].Unmap().Is4() == to.Unmap().Is4()
}

// dialer opens connections from the source with that index, or from where the
// kernel chooses for a negative one.
func (c Connections) dialer(source int) net.Dialer {
	// Keepalive probes would hide a connection that has died.
	dialer := net.Dialer{KeepAlive: -1}
	if source >= 0 {
		dialer.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(c.Sources[source], 0))
		dialer.Control = sharePorts
	}
	return dialer
}

// aged says whether a connection of that age may no longer carry a request.
func (c Connections) aged(age time.Duration) bool { return c.MaxAge > 0 && age > c.MaxAge }

// spent says whether a connection of that age, which has carried that many
// requests, is to be closed.
func (c Connections) spent(age time.Duration, requests int) bool {
	return c.DisableKeepAlive || (c.MaxRequests > 0 && requests >= c.MaxRequests) || c.aged(age)
}

// turns hands out n things in turn, to any goroutine.
type turns struct {
	n    int
	next atomic.Uint64
}

// take is the index of the next; -1 if there is none.
func (t *turns) take() int {
	if t.n == 0 {
		return -1
	}
	return int((t.next.Add(1) - 1) % uint64(t.n))
}
