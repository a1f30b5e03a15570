package drain

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"chokepoint/internal/adminapi"
	"chokepoint/internal/lab/balancer"
)

// The hosts of a world, on one subnet.
var (
	subnet       = netip.MustParsePrefix("10.84.0.0/24")
	clientAddr   = netip.MustParseAddr("10.84.0.2")
	edgeAddr     = netip.MustParseAddr("10.84.0.3")
	balancerAddr = netip.MustParseAddr("10.84.0.4")
	appAddr      = netip.MustParseAddr("10.84.0.20")
)

// gatewayAddr is that of a gateway, from 0.
func gatewayAddr(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 84, 0, byte(31 + i)}) }

func gatewayName(i int) string { return "gw" + strconv.Itoa(i+1) }

// servicePort is what everybody listens on, each in a host of its own; adminPort is that
// of the admin listeners of the lab's programs, on the loopbacks of their hosts.
const (
	servicePort = 8080
	adminPort   = 9080
)

func serviceAt(addr netip.Addr) string {
	return net.JoinHostPort(addr.String(), strconv.Itoa(servicePort))
}

// adminAt is the admin listener within a host.
var adminAt = net.JoinHostPort("127.0.0.1", strconv.Itoa(adminPort))

// long is longer than any setup: what a kept connection may rest where the world says
// nothing else. One timeout alone would hide who closes.
const long = "2h"

// backend is the balancer's section of gateways.
const backend = "gateways"

// balancerConfig is the balancer of layer 4. It logs each connection as it begins, with
// the ports of both of its sides, which is what a connection is traced by. It tries no
// server twice, and looks at none's health.
func balancerConfig(gateways int) balancer.Config {
	var servers strings.Builder
	for i := range gateways {
		fmt.Fprintf(&servers, "    server %s %s\n", gatewayName(i), serviceAt(gatewayAddr(i)))
	}
	return balancer.Config{Body: fmt.Sprintf(`defaults
    mode tcp
    log global
    option logasap
    retries 0
    timeout connect 2s
    timeout client %[1]s
    timeout server %[1]s
frontend in
    bind %[2]s
    log-format '{"client":"%%ci:%%cp","server":"%%s","from":"%%bi:%%bp"}'
    default_backend %[3]s
backend %[3]s
    balance roundrobin
%[4]s`, long, serviceAt(balancerAddr), backend, servers.String())}
}

// edgeConfig is an edge that keeps connections to the balancer for so long.
func edgeConfig(idle time.Duration) balancer.Config {
	return balancer.Config{Body: fmt.Sprintf(`
    keepalive_timeout %[1]s;
    keepalive_requests 1000000;
    upstream balancer { server %[2]s max_fails=0; keepalive 512; keepalive_timeout %[3]dms; }
    server {
        listen %[4]s;
        location / {
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_next_upstream off;
            proxy_read_timeout %[1]s;
            proxy_pass http://balancer;
        }
    }`, long, serviceAt(balancerAddr), idle.Milliseconds(), serviceAt(edgeAddr))}
}

// config is what a gateway is told, where it is a balancer of the distribution.
func (s Setup) config(addr netip.Addr) balancer.Config {
	if s.Gateway == Nginx {
		return s.nginxConfig(addr)
	}
	return s.haproxyConfig(addr)
}

func (s Setup) nginxConfig(addr netip.Addr) balancer.Config {
	c := balancer.Config{}
	if s.End.Drain > 0 {
		c.Global = fmt.Sprintf("worker_shutdown_timeout %dms;", s.End.Drain.Milliseconds())
	}
	protocol := ""
	if s.Protocol == HTTP2 {
		protocol = " http2"
	}
	c.Body = fmt.Sprintf(`
    keepalive_timeout %[1]s;
    keepalive_requests 1000000;
    upstream app { server %[2]s max_fails=0; keepalive 512; }
    server {
        listen %[3]s%[4]s;
        location / {
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_next_upstream off;
            proxy_read_timeout %[1]s;
            proxy_pass http://app;
        }
    }`, long, serviceAt(appAddr), serviceAt(addr), protocol)
	return c
}

func (s Setup) haproxyConfig(addr netip.Addr) balancer.Config {
	c := balancer.Config{}
	if s.End.Drain > 0 {
		c.Global = fmt.Sprintf("    hard-stop-after %dms", s.End.Drain.Milliseconds())
	}
	protocol, keep := "", ""
	if s.Protocol == HTTP2 {
		protocol = " proto h2"
	}
	if s.End.KeepIdle {
		keep = "    option idle-close-on-response\n"
	}
	c.Body = fmt.Sprintf(`defaults
    mode http
    log global
    retries 0
    timeout connect 2s
    timeout client %[1]s
    timeout server %[1]s
%[2]sfrontend in
    bind %[3]s%[4]s
    http-request capture req.hdr(%[5]s) len 128
    log-format '{"id":"%%[capture.req.hdr(0)]","client":"%%ci:%%cp","status":"%%ST","end":"%%tsc"}'
    default_backend app
backend app
    server app %[6]s
`, long, keep, serviceAt(addr), protocol, adminapi.HeaderID, serviceAt(appAddr))
	return c
}
