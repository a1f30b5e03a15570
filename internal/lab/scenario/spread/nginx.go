package spread

import (
	"fmt"
	"time"

	"chokepoint/internal/lab/balancer"
)

// choice is how nginx chooses a victim.
type choice string

// The choices. Round robin is what nginx does when nothing is said.
const (
	roundRobin choice = ""
	leastConn  choice = "least_conn;"
)

func (c choice) String() string {
	if c == leastConn {
		return "least_conn"
	}
	return "round robin"
}

// handling is what nginx does with a request that a victim has not answered.
type handling string

// The handlings. What nginx does by default is waits with a read timeout of 60 s, since
// a client that waits for less is gone by then; its counting of failures is that of
// ejects.
const (
	// waits for as long as the client does, and sends nothing again.
	waits handling = "waits"
	// resends after patience, or after a 502, 503 or 504, to the other victim.
	resends handling = "resends"
	// ejects also takes a victim out of the choice after one failure, for failTimeout:
	// nginx's own max_fails and fail_timeout.
	ejects handling = "ejects"
)

const (
	// patience is proxy_read_timeout of what is re-sent: less than what either client
	// waits, more than what a victim of the profile fixed takes.
	patience = 5 * time.Second
	// failTimeout is nginx's default. nginx counts it in whole seconds, one at least.
	failTimeout = 10 * time.Second
	// beyondClients is longer than any client waits.
	beyondClients = 2 * upstreamTimeout
)

// nginxBody is what stands within http { }. Kept connections to the victims spare their
// accept queues; a connection of a client is never closed for its age or its number of
// requests.
const nginxBody = `
upstream victims {
    @CHOICE@
    server @ONE@ @FAILS@;
    server @TWO@ @FAILS@;
    keepalive 256;
    keepalive_requests 10000000;
    keepalive_timeout 1h;
}
server {
    listen @LISTEN@ backlog=4096;
    keepalive_requests 10000000;
    keepalive_timeout 1h;
    location / {
        proxy_pass http://victims;
        proxy_http_version 1.1;
        proxy_set_header Connection "";
        proxy_connect_timeout @PATIENCE@;
        proxy_read_timeout @PATIENCE@;
        proxy_next_upstream @NEXT@;
        proxy_next_upstream_tries 2;
    }
}
`

// nginxConfig is nginx's configuration of a cell, in real time.
func (c cell) nginxConfig(s Settings, listen, one, two string) balancer.Config {
	values := map[string]string{
		"LISTEN": listen, "ONE": one, "TWO": two, "CHOICE": string(c.choice),
		"FAILS": "max_fails=0", "PATIENCE": milliseconds(s.real(beyondClients)), "NEXT": "off",
	}
	if c.handling != waits {
		values["PATIENCE"], values["NEXT"] = milliseconds(s.real(patience)), "error timeout http_502 http_503 http_504"
	}
	if c.handling == ejects {
		values["FAILS"] = fmt.Sprintf("max_fails=1 fail_timeout=%.0fs", s.failTimeout().Seconds())
	}
	return balancer.Config{Body: nginxBody, Values: values}
}

// failTimeout is nginx's fail_timeout in real time: the whole seconds next to the scaled
// ones, one at least.
func (s Settings) failTimeout() time.Duration {
	return max(s.real(failTimeout).Round(time.Second), time.Second)
}

func milliseconds(d time.Duration) string { return fmt.Sprintf("%dms", d.Milliseconds()) }

// settings are those of nginx that the cell is about, in scenario time.
func (c cell) settings() string {
	switch c.handling {
	case resends:
		return fmt.Sprintf("nginx: %s; proxy_read_timeout %v; proxy_next_upstream error timeout http_502 http_503 http_504; max_fails=0", c.choice, patience)
	case ejects:
		return fmt.Sprintf("nginx: %s; proxy_read_timeout %v; proxy_next_upstream error timeout http_502 http_503 http_504; max_fails=1 fail_timeout=%v", c.choice, patience, failTimeout)
	}
	return fmt.Sprintf("nginx: %s; proxy_next_upstream off; max_fails=0", c.choice)
}
