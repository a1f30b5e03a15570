// Package deadpg is the database's part of the scenario of dead connections: the
// victim's pgx pool has a connection to PostgreSQL through a device that forgets it,
// and one query meets what is left.
//
// Every case has a caller and a router of its own; the PostgreSQL behind them is one
// server for all cases, on a subnet for each. The pool has one connection. What is
// wanted is data, in this file.
//
// The package does not measure what a defence costs, and it does not look into
// PostgreSQL: it has no rows to lose.
package deadpg

import (
	"fmt"
	"time"

	"chokepoint/internal/lab/netlab"
	"chokepoint/internal/result"
)

// Settings are those of the run that the cases are a part of, in real time.
type Settings struct {
	DeviceIdle time.Duration // how long the device remembers a connection that rests
	Rest       time.Duration // between the pool's last query and the judged one
	Timeout    time.Duration // how long the asker waits; a query itself has no bound
	Victim     string        // path of the program
}

// defence is what the victim's pool does about dead connections, as flags of the
// victim. Times that must be shorter than the device's memory are shares of it.
type defence struct {
	name  string
	flags func(idle time.Duration) []string
}

func fixed(flags ...string) func(time.Duration) []string {
	return func(time.Duration) []string { return flags }
}

// Times of defences that the device's memory has no part in.
const (
	pingTimeout = time.Second
	userTimeout = time.Second
	// userTimeoutActs is at the retransmission after it.
	userTimeoutActs = userTimeout + 440*time.Millisecond
	// pgxCleanup is for how long pgx keeps the place of a connection that it has given
	// up, while it waits for the server to hang up (pgconn's asyncClose).
	pgxCleanup = 15 * time.Second
)

var (
	none        = defence{result.DefenceNone, fixed()}
	goKeepalive = defence{"keepalive_default", fixed("-db-keepalive=15s/15s/9")}
	healthCheck = defence{"health_check", func(idle time.Duration) []string {
		return []string{"-db-health-check-period=" + (idle / 6).String()}
	}}
	idleTime = defence{"max_conn_idle_time", func(idle time.Duration) []string {
		return []string{"-db-max-conn-idle-time=" + (idle / 3).String()}
	}}
	idleTimeChecked = defence{"max_conn_idle_time,health_check", func(idle time.Duration) []string {
		return []string{"-db-max-conn-idle-time=" + (idle / 3).String(), "-db-health-check-period=" + (idle / 6).String()}
	}}
	keepalive = defence{"keepalive", func(idle time.Duration) []string {
		return []string{fmt.Sprintf("-db-keepalive=%s/1s/3", idle/3)}
	}}
	userTimeouts = defence{"user_timeout=1s", fixed("-db-user-timeout=" + userTimeout.String())}
	pingTimeouts = defence{"ping_timeout=1s", fixed("-db-ping-timeout=" + pingTimeout.String())}
	// recommended is what had every case answered.
	recommended = defence{"keepalive,ping_always,user_timeout=1s", func(idle time.Duration) []string {
		return append(keepalive.flags(idle), "-db-ping-always", "-db-user-timeout="+userTimeout.String())
	}}
	bothTimeouts = defence{"ping_timeout=1s,user_timeout=1s", fixed("-db-ping-timeout="+pingTimeout.String(), "-db-user-timeout="+userTimeout.String())}
)

// fault is what befalls the pool's connection.
type fault struct {
	id, title, words string
	mode             netlab.Mode
	// young has the device forget when the connection has rested for youngRest, and the
	// query follow at once; otherwise it forgets by itself.
	young bool
}

// youngRest is less than the second after which pgx pings a connection before it
// hands it out, by as much as a crowded machine may need.
const youngRest = 100 * time.Millisecond

// youngest is how old a young connection may be when the query is sent: pgx pings it a
// little later.
const youngest = 800 * time.Millisecond

var (
	dropped      = fault{"PG-drop", "the device drops", "the device forgets the connection while it rests, and drops it", netlab.Drop, false}
	reset        = fault{"PG-reset", "the device resets", "the device forgets the connection while it rests, and resets it", netlab.Reset, false}
	droppedYoung = fault{"PG-drop-young", "the device drops, after a rest under 1 s", "the device forgets the connection after " + youngRest.String() + " of rest, and drops it", netlab.Drop, true}
	resetYoung   = fault{"PG-reset-young", "the device resets, after a rest under 1 s", "the device forgets the connection after " + youngRest.String() + " of rest, and resets it", netlab.Reset, true}
)

// What the ends hold when the device has forgotten.
var forgotten = ends{client: established, server: established, conntrack: nothing}

// Reasons of more than one case.
const (
	whyPingHangs = "pgx pings a connection that rested for over 1 s, without a bound: the ping is sent again and again, and the query waits behind it"
	whyNobody    = "; nothing ends the connection before"
	whyUser      = "the kernel ends the connection TCP_USER_TIMEOUT after its first timed retransmission, at 0.42 s; "
)

// row is a case, and what is wanted of it.
type row struct {
	fault   fault
	defence defence
	why     string
	want    expect
}

// rows are the cases, in the order of a report.
var rows = []row{
	{dropped, none, whyPingHangs, expect{outcome: noAnswer, before: forgotten, after: forgotten}},
	{dropped, goKeepalive, whyPingHangs + "; the first probe comes after 15 s, when the device has long forgotten", expect{outcome: noAnswer, before: forgotten, after: forgotten}},
	{dropped, healthCheck, whyPingHangs + "; the health check looks at ages, not at connections", expect{outcome: noAnswer, before: forgotten, after: forgotten}},
	{dropped, idleTime, whyPingHangs + "; an idle time is acted on by the health check alone, which comes once a minute", expect{outcome: noAnswer, before: forgotten, after: forgotten}},
	{dropped, idleTimeChecked, "the connection was closed while the device still knew it", expect{outcome: got200, connection: onNew}},
	{dropped, keepalive, "each probe and its answer renew the entry", expect{outcome: got200, connection: onReused, before: ends{established, established, established}}},
	{dropped, userTimeouts, whyUser + "the ping fails, and pgx takes a new one", expect{outcome: got200, connection: onNew, at: userTimeoutActs, before: forgotten}},
	{dropped, pingTimeouts, "the ping is given up, but pgx keeps the dead connection's place for 15 s more, and the pool has no other", expect{outcome: got200, connection: onNew, at: pingTimeout + pgxCleanup, before: forgotten}},
	{dropped, bothTimeouts, "the kernel ends the connection that pgx has given up, and with it the wait for its place", expect{outcome: got200, connection: onNew, at: userTimeoutActs, before: forgotten}},
	{dropped, recommended, "each probe and its answer renew the entry", expect{outcome: got200, connection: onReused, before: ends{established, established, established}}},

	{reset, none, "the ping meets the RST, and pgx takes a new connection", expect{outcome: got200, connection: onNew, before: forgotten}},
	{reset, idleTimeChecked, "the connection was closed while the device still knew it", expect{outcome: got200, connection: onNew}},
	{reset, keepalive, "each probe and its answer renew the entry", expect{outcome: got200, connection: onReused, before: ends{established, established, established}}},
	{reset, recommended, "each probe and its answer renew the entry", expect{outcome: got200, connection: onReused, before: ends{established, established, established}}},

	{resetYoung, none, "pgx does not ping, so that the query meets the RST; pgx does not repeat a query", expect{outcome: connReset, before: forgotten}},
	{resetYoung, recommended, "the ping meets the RST, and pgx takes a new connection", expect{outcome: got200, connection: onNew, before: forgotten}},
	{droppedYoung, none, "pgx does not ping, and the query itself is sent again and again" + whyNobody, expect{outcome: noAnswer, before: forgotten, after: forgotten}},
	{droppedYoung, pingTimeouts, "pgx does not ping: its bound does not act" + whyNobody, expect{outcome: noAnswer, before: forgotten, after: forgotten}},
	{droppedYoung, userTimeouts, whyUser + "pgx does not repeat a query", expect{outcome: timedOut, at: userTimeoutActs, before: forgotten}},
	{droppedYoung, recommended, whyUser + "the ping fails, and pgx takes a new one", expect{outcome: got200, connection: onNew, at: userTimeoutActs, before: forgotten}},
}
