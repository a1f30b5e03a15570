// Package drain is what becomes of requests whose gateway is ended: clients, a balancer
// of layer 4 that is told late, gateways of layer 7 that may take so long to drain, and
// an application that leaves a row in PostgreSQL for each piece of work. The clients'
// outcomes are joined with those rows by the requests' ids, so that a request that
// failed and was executed all the same is counted and not inferred.
//
// Carry carries out one setup of that world, in hosts of its own; Cases are the setups
// of the scenario with what is wanted of each. A setup's durations are real time: who
// scales, scales before. The package models no cloud's balancer beyond what is said at
// Balancer, and it repeats no request that its setup does not say is repeated.
package drain

import (
	"fmt"
	"time"

	"chokepoint/internal/lab/balancer"
	"chokepoint/internal/result"
)

// Gateway is a kind of gateway.
type Gateway string

// The kinds. How each is told to end: HAProxy by SIGUSR1 with hard-stop-after, nginx by
// SIGQUIT with worker_shutdown_timeout, lab gateway (net/http) by SIGTERM with -drain.
const (
	HAProxy Gateway = "haproxy"
	Nginx   Gateway = "nginx"
	NetHTTP Gateway = "net/http"
)

// Protocol is what the clients speak.
type Protocol string

// The protocols. HTTP/2 is without TLS, with prior knowledge.
const (
	HTTP1 Protocol = "HTTP/1.1"
	HTTP2 Protocol = "HTTP/2"
)

// Setup is a world and what happens in it.
type Setup struct {
	Gateway  Gateway
	Gateways int // behind the balancer, 2 at least; the first is ended, or all in turn
	Protocol Protocol
	// Edge is for how long a connection of the edge to the balancer may rest before the
	// edge closes it; 0 is no edge: clients reach the balancer themselves.
	Edge     time.Duration
	Balancer Balancer
	End      End
	Load     Load
	// Keepers are clients that keep one connection each.
	Keepers []Keeper
	// Idempotent has the application answer a known Idempotency-Key with the first
	// result (victim -idempotency-key).
	Idempotent bool
	// Rolling ends all gateways, one after the other; each is started again and put back
	// before the next is ended. Without it the first gateway is ended, and stays away.
	Rolling bool
}

// Balancer is HAProxy in TCP mode, which stands for a network load balancer. Times are
// from the moment at which a gateway is deregistered, which is when it is told to end.
type Balancer struct {
	// Propagation is how long new connections still reach a gateway that is
	// deregistered. Open ones stay on it in any case. A connection that is refused there
	// is not tried elsewhere.
	Propagation time.Duration
	// DeregistrationDelay is when the gateway is forgotten; without Terminate nothing
	// happens then.
	DeregistrationDelay time.Duration
	// Terminate cuts the clients' side of the connections to the gateway when
	// DeregistrationDelay is over: a client's next segment is answered with a RST. The
	// gateway's side stays as it is.
	Terminate bool
}

// End is how a gateway is ended.
type End struct {
	// PreStop is how long it serves as before.
	PreStop time.Duration
	// Drain is how long it may then drain before it cuts off what is left. 0 is no bound.
	Drain time.Duration
	// OnZero waits instead until its clients have closed every connection: of NetHTTP
	// alone.
	OnZero bool
	// Grace is when it is killed, from the moment at which it is told to end; 0 is
	// PreStop and Drain and five seconds.
	Grace time.Duration
	// KeepIdle leaves resting connections to their next request, which is answered with
	// "Connection: close": of HAProxy alone (idle-close-on-response). A request that comes
	// on one near the end of the drain is cut off like any other.
	KeepIdle bool
	// AllAtWork has the first gateway told to end only when the application is at work on
	// every request of the load, which have all been sent by then.
	AllAtWork bool
}

// graceMargin is how much longer than its times a gateway may take to end by itself.
// HAProxy ends a second after its hard stop where clients keep resting connections.
const graceMargin = 5 * time.Second

// grace is when a gateway is killed.
func (e End) grace() time.Duration {
	if e.Grace > 0 {
		return e.Grace
	}
	return e.PreStop + e.Drain + graceMargin
}

// Load is what the clients send: POST /work, at even intervals, each waited for by
// itself.
type Load struct {
	Requests int
	Every    time.Duration
	// Before is how long the load goes on before the first gateway is told to end.
	Before time.Duration
	// Work is how long the application is at request i, from 0.
	Work func(i int) time.Duration
	// NewConnections has each request make a connection of its own.
	NewConnections bool
	// IdleTimeout is for how long a connection may rest before the clients close it; 0 is
	// no bound.
	IdleTimeout time.Duration
	// Attempts is how often a request is sent at most, if it fails; 0 is 1. With more
	// than one each request has an Idempotency-Key.
	Attempts int
}

// Keeper is a client that keeps a connection of its own: one that the balancer gives to
// the gateway that is ended. It sends a first request before that, and goes on until the
// gateway has ended.
type Keeper struct {
	// Every is the time between two of its requests; 0 is no second one.
	Every time.Duration
}

// Programs are what a world is made of. Lab is this program, for lab gateway.
type Programs struct {
	Victim  string          `json:"victim"`
	Lab     string          `json:"lab"`
	Nginx   balancer.Binary `json:"nginx"`
	HAProxy balancer.Binary `json:"haproxy"`
}

// Outcome is what became of a setup.
type Outcome struct {
	// Counts are those of the load and of the keepers, each request counted once but for
	// ExecutedTwice, which is counted beside.
	Counts result.CaseCounts
	// Requests are in the order of their starts; AtS is from the moment at which the
	// first gateway was told to end.
	Requests []result.CaseRequest
	// Repeated is how many requests were sent more than once.
	Repeated int
	// Ended is how each gateway ended, in the order of their ends.
	Ended  []Ended
	Events []result.CaseEvent
	// Files are what was written into the folder.
	Files []result.EvidenceFile
}

// Ended is how a gateway ended.
type Ended struct {
	Name string
	// At is from the moment at which it was told to.
	At time.Duration
	// Killed: the grace was over.
	Killed bool
	// Left are the connections that were open when it was killed: of End.OnZero alone.
	Left []Connection
}

// Connection is one connection through the world, traced from the gateway back to its
// client, with the ids of the requests that it carried at the gateway.
type Connection struct {
	Client   string   // the client's end of it: address and port
	Balancer string   // the balancer's end towards the gateway
	ID       string   // as the gateway calls it
	Requests []string // oldest first
}

// maxLate is how late what is done to a gateway may be. It is less than what lies between
// two things that a setup of the cases does in an order.
const maxLate = 200 * time.Millisecond

// maxStall is how much longer than its work an answer may take that came at the first
// try. A program that did nothing for so long was not given a processor.
const maxStall = 2 * time.Second

// Late says that the machine was too busy for what a setup says of time, so that nothing
// was measured.
type Late struct {
	What string
	By   time.Duration
}

func (l *Late) Error() string {
	return fmt.Sprintf("this machine was too busy: %q came %.2f s late; run fewer cases at a time (-parallel), or a longer -scale", l.What, l.By.Seconds())
}
