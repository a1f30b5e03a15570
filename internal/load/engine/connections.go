package engine

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
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

// Redirect leads connections for one host and port to another.
type Redirect struct {
	Host string // a name, or an address without brackets; empty is any
	Port uint16 // 0 is any
	// ToHost and ToPort are where to connect to; empty and 0 leave it as it is.
	ToHost string
	ToPort uint16
}

// ParseConnectTo reads HOST1:PORT1:HOST2:PORT2, which is curl's --connect-to. Any
// part may be empty; IPv6 addresses are in brackets.
func ParseConnectTo(text string) (Redirect, error) {
	r, err := parseConnectTo(text)
	if err != nil {
		return Redirect{}, fmt.Errorf("connect-to %q: %w; give HOST1:PORT1:HOST2:PORT2, where each may be empty and an IPv6 address is in brackets", text, err)
	}
	return r, nil
}

func parseConnectTo(text string) (r Redirect, err error) {
	parts, err := splitHosts(text)
	if err != nil {
		return r, err
	}
	if len(parts) != 4 {
		return r, fmt.Errorf("it has %d parts and needs 4", len(parts))
	}
	r.Host, r.ToHost = parts[0], parts[2]
	if r.Port, err = parsePort(parts[1]); err != nil {
		return r, err
	}
	if r.ToPort, err = parsePort(parts[3]); err != nil {
		return r, err
	}
	if r.ToHost == "" && r.ToPort == 0 {
		return r, errors.New("it leads nowhere")
	}
	return r, nil
}

// ParseResolve reads HOST:PORT:ADDRESS, which is curl's --resolve. The host may
// be * for any.
func ParseResolve(text string) (Redirect, error) {
	r, err := parseResolve(text)
	if err != nil {
		return Redirect{}, fmt.Errorf("resolve %q: %w; give HOST:PORT:ADDRESS such as example.com:443:127.0.0.1", text, err)
	}
	return r, nil
}

func parseResolve(text string) (r Redirect, err error) {
	parts, err := splitHosts(text)
	if err != nil {
		return r, err
	}
	if len(parts) > 3 {
		// curl takes an IPv6 address without brackets here.
		parts = append(parts[:2:2], strings.Join(parts[2:], ":"))
	}
	if len(parts) != 3 {
		return r, fmt.Errorf("it has %d parts and needs 3", len(parts))
	}
	if parts[0] == "" {
		return r, errors.New("the host is missing")
	}
	if parts[0] != "*" {
		r.Host = parts[0]
	}
	if r.Port, err = parsePort(parts[1]); err != nil {
		return r, err
	}
	if r.Port == 0 {
		return r, errors.New("the port is missing")
	}
	if _, err := netip.ParseAddr(parts[2]); err != nil {
		return r, fmt.Errorf("%q is no IP address", parts[2])
	}
	r.ToHost = parts[2]
	return r, nil
}

// splitHosts splits text at its colons, but for those in brackets, and takes the
// brackets off.
func splitHosts(text string) ([]string, error) {
	var parts []string
	for {
		part, rest, more := text, "", false
		if strings.HasPrefix(text, "[") {
			end := strings.IndexByte(text, ']')
			if end < 0 {
				return nil, errors.New("a bracket is not closed")
			}
			part, rest = text[1:end], text[end+1:]
			if _, err := netip.ParseAddr(part); err != nil || !strings.Contains(part, ":") {
				return nil, fmt.Errorf("%q in brackets is no IPv6 address", part)
			}
			if rest != "" && rest[0] != ':' {
				return nil, fmt.Errorf("a colon is missing before %q", rest)
			}
			rest, more = strings.CutPrefix(rest, ":")
		} else {
			part, rest, more = strings.Cut(text, ":")
		}
		parts = append(parts, part)
		if !more {
			return parts, nil
		}
		text = rest
	}
}

// parsePort reads a port number; none is 0.
func parsePort(text string) (uint16, error) {
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || n == 0 {
		return 0, fmt.Errorf("port %q is not a number from 1 to 65535", text)
	}
	return uint16(n), nil
}

// redirected is where rules lead a connection to host and port.
func redirected(rules []Redirect, host string, port uint16) (string, uint16) {
	for _, r := range rules {
		if (r.Host != "" && !strings.EqualFold(r.Host, host)) || (r.Port != 0 && r.Port != port) {
			continue
		}
		if r.ToHost != "" {
			host = r.ToHost
		}
		if r.ToPort != 0 {
			port = r.ToPort
		}
		break
	}
	return host, port
}

// destination is the host and port to connect to for those of a URL.
func (c Connections) destination(host string, port uint16) (string, uint16) {
	host, port = redirected(c.ConnectTo, host, port)
	return redirected(c.Resolve, host, port)
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
		case seen[source]:
			return fmt.Errorf("source %v is given twice", source)
		}
		seen[source] = true
	}
	return nil
}
