package engine

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

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
