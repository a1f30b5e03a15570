package deadconn

import (
	"time"

	"chokepoint/internal/adminapi"
	"chokepoint/internal/lab/netlab"
)

// This file is the matrix, as data: what a case is, what it wants, and why. What is
// wanted was written down before the run; changing it takes an ADR with the trace of
// packets that says why (ADR 0029).

// The groups, in their order.
const (
	groupForgotten = "A. The device has forgotten the connection"
	groupDefences  = "B. Defences before the request"
	groupRetries   = "C. Retries"
	groupClosed    = "H. The server has closed the connection"
	groupUser      = "U. TCP_USER_TIMEOUT"
	groupWorking   = "L. The device forgets while the server works"
	groupStatus    = "R. The server answers with an error"
	groupDies      = "X. The server dies while it works"
)

// What the rules are called in more than one case.
const (
	whyLoose   = "a conntrack that takes up connections in the middle makes a new entry from the request itself"
	whyNewPort = "the server's kernel does not know the connection from the other port, and answers with a RST"
	whyDrop    = "nothing comes back: the kernel sends the request again and again until the client gives up"
	whyReset   = "the device answers the request with a RST"
	whyFIN     = "the FIN has come: net/http, which reads while a connection rests, has dropped it; fasthttp, which does not, writes into CLOSE_WAIT and reads EOF"
	whyRST     = "the RST has come: net/http has dropped the connection; fasthttp's first write returns it"
	whyNothing = "no FIN and no RST has come, so that there is nothing to see"
	whySeen    = "the look finds the FIN or the RST"
	whyAge     = "it has rested for longer than allowed, and is not used"
	whyYoung   = "it has not rested for long enough to be closed; net/http has seen the server's end of it"
	whyEvicted = "the pool is empty when the request comes"
	whyProbes  = "each probe and its answer renew the entry"
	whyFresh   = "the retry does not ask the pool"
	whyStatus  = "neither client retries a status"
	whyKilled  = "the kernel ends the dead server's connections with a FIN, as a server does that closes while they rest; the retry of a GET is refused, or reset in the queue of a listener that goes a moment after the connection"
	whyUser    = "the kernel ends the connection that long after the first segment that its retransmission timer sends, at 0.42 s; the one at 0.21 s is a tail loss probe and does not count"
	whyLost    = "the request was acknowledged, so that nothing is sent again: only a probe can find out"
	whyDied    = "the handler had begun: a retry runs it again, and to the client the failure looks like that of a connection that was dead before"
)

// What the ends hold where the device has forgotten, and where the server has closed.
var (
	forgotten  = ends{"ESTABLISHED", "ESTABLISHED", nothing}
	halfN      = ends{client: nothing, server: "TIME_WAIT"}
	halfF      = ends{client: "CLOSE_WAIT", server: "FIN_WAIT2"}
	gaveUp     = ends{client: "FIN_WAIT1", server: "ESTABLISHED", conntrack: nothing}
	refreshed  = ends{"ESTABLISHED", "ESTABLISHED", "ESTABLISHED"}
	serverKept = ends{server: "ESTABLISHED"} // it has learnt of nothing
)

// Faults that the judged request brings with it: the server reads it, its handler
// begins, and then it breaks off.
var (
	diesOnce   = adminapi.RequestFault{Fault: adminapi.FaultClose, First: 1}
	dies       = adminapi.RequestFault{Fault: adminapi.FaultClose}
	diesInBody = adminapi.RequestFault{Fault: adminapi.FaultCloseMid, First: 1}
	tooMany    = adminapi.RequestFault{Fault: adminapi.FaultStatus, Status: 429}
	busy       = adminapi.RequestFault{Fault: adminapi.FaultStatus, Status: 503}
	busyCloses = adminapi.RequestFault{Fault: adminapi.FaultStatus, Status: 503, Close: true}
)

// Rests of the cases in which the server closes after a short while: within and beyond
// the 2 s in which Apache HttpClient does not look at a connection again.
var (
	halfClose    = span{plus: 300 * time.Millisecond}
	withinWindow = span{plus: 500 * time.Millisecond}
	beyondWindow = span{plus: 2500 * time.Millisecond}
)

// longWork is longer than any probe needs to find out that the device has forgotten.
var longWork = span{timeouts: 8.0 / 3}

// probed is the TCP_USER_TIMEOUT of the recommended settings; a probe is due within a
// second after it.
var probed = span{deviceIdle: 0.5, plus: 100 * time.Millisecond}

// firstTimedRetransmission is when the kernel's timer first sends a segment again, where a
// round trip takes next to nothing; a tail loss probe was sent before.
const firstTimedRetransmission = 420 * time.Millisecond

// userTimeoutWants are what TCP_USER_TIMEOUT gives.
func userTimeoutWants(d time.Duration) wants {
	d += firstTimedRetransmission
	return wants{
		nGET: anew().endsAfter(0, d), nPOST: fails(timedOut, 0).endsAfter(0, d),
		fGET: anew().endsAfter(0, d).tries(2), fPOST: fails(responseTimeout, 0).endsAfter(0, d),
	}
}

// The faults: what befalls the connection or the server. Each stands with the id, the
// group and the title of the case that is about it.
var (
	takenUp   = row{id: "A1", group: groupForgotten, title: "loose: the device takes the connection up again", mode: netlab.Loose}
	otherPort = row{id: "A1r", group: groupForgotten, title: "loose, but the NAT takes another port", mode: netlab.Loose, newPort: true}
	dropped   = row{id: "A2", group: groupForgotten, title: "the device drops", mode: netlab.Drop}
	reset     = row{id: "A3", group: groupForgotten, title: "the device resets", mode: netlab.Reset}
	reset2    = row{id: "C3", group: groupRetries, title: "the device resets, 2 dead connections", mode: netlab.Reset, conns: 2}
	reset8    = row{id: "C3b", group: groupRetries, title: "the device resets, 8 dead connections", mode: netlab.Reset, conns: 8}
	dropped4  = row{id: "C6", group: groupRetries, title: "the device drops, 4 dead connections", mode: netlab.Drop, conns: 4}
	slow      = row{id: "C8", group: groupRetries, title: "the server is slower than the timeout", mode: netlab.Loose, conns: fresh, work: span{timeouts: 4.0 / 3}}

	closedFirst = row{id: "B5", group: groupDefences, title: "the server closes before the device forgets", mode: netlab.Drop, idle: span{deviceIdle: 2.0 / 3}}
	closed1     = row{id: "H1", group: groupClosed, title: "half-closed, and used again within 2 s", mode: netlab.Loose, idle: halfClose, rest: withinWindow}
	closedLong  = row{id: "H1w", group: groupClosed, title: "half-closed, and used again beyond 2 s", mode: netlab.Loose, idle: halfClose, rest: beyondWindow}
	resetIdle   = row{id: "H2", group: groupClosed, title: "reset by the server while it rested", mode: netlab.Loose, idle: halfClose, idleEnd: adminapi.IdleEndRST, rest: withinWindow}
	closed8     = row{id: "H4", group: groupClosed, title: "8 half-closed connections", mode: netlab.Loose, idle: halfClose, rest: withinWindow, conns: 8}

	lost      = row{id: "L", group: groupWorking, title: "the device drops", mode: netlab.Drop, rest: withinWindow, work: longWork, timeout: 4, forget: true}
	lostReset = row{id: "Lr", group: groupWorking, title: "the device resets", mode: netlab.Reset, rest: withinWindow, work: longWork, timeout: 4, forget: true}

	answers429 = row{id: "R429", group: groupStatus, title: "429", mode: netlab.Loose, conns: 2, rest: withinWindow, fault: tooMany}
	answers503 = row{id: "R503", group: groupStatus, title: "503", mode: netlab.Loose, conns: 2, rest: withinWindow, fault: busy}
	closes503  = row{id: "R503c", group: groupStatus, title: "503 with Connection: close", mode: netlab.Loose, conns: 2, rest: withinWindow, fault: busyCloses}

	diesKept   = row{id: "X1", group: groupDies, title: "once, on a connection that was kept", mode: netlab.Loose, rest: withinWindow, fault: diesOnce}
	diesAlways = row{id: "X2", group: groupDies, title: "every time, on a connection that was kept", mode: netlab.Loose, rest: withinWindow, fault: dies}
	diesFresh  = row{id: "X3", group: groupDies, title: "every time, on a connection that is new", mode: netlab.Loose, conns: fresh, fault: dies}
	diesMid    = row{id: "X4", group: groupDies, title: "once, in the middle of its answer", mode: netlab.Loose, rest: withinWindow, fault: diesInBody}
	killed     = row{id: "X5", group: groupDies, title: "for good: SIGKILL", mode: netlab.Loose, rest: withinWindow, work: span{timeouts: 0.6}, kill: true}
)

// rows are the cases, in the order of a report.
var rows = []row{
	takenUp.against(none, whyLoose, every(kept().was(forgotten).leaves(refreshed))),
	takenUp.against(libraryRetry, whyLoose, every(kept().was(forgotten).leaves(refreshed))),

	otherPort.against(none, whyNewPort, both(fails(connReset, 0), fails(closed, 0))),
	otherPort.against(libraryRetry, whyNewPort+"; a GET is sent again", wants{
		nGET: anew(), nPOST: fails(connReset, 0), fGET: anew().tries(2), fPOST: fails(closed, 0)}),
	otherPort.against(staleCheck, whyNothing, posts(fails(connReset, 0), fails(closed, 0))),
	otherPort.against(ageCheck, whyAge, every(anew())),
	otherPort.against(evict, whyEvicted, every(anew())),
	otherPort.against(keepAlive, whyProbes, every(kept())),
	otherPort.against(recommended(), whyAge, every(anew())),

	dropped.against(none, whyDrop, every(timesOut(1, 0).was(forgotten).leaves(gaveUp))),
	dropped.against(libraryRetry, whyDrop+"; net/http never retries a timeout, fasthttp does", wants{
		nGET: timesOut(1, 0).was(forgotten).leaves(gaveUp), nPOST: timesOut(1, 0).was(forgotten).leaves(gaveUp),
		fGET: anew().endsAfter(1, 0).tries(2), fPOST: timesOut(1, 0).was(forgotten).leaves(gaveUp)}),
	dropped.against(recommended(), whyAge, every(anew())),

	reset.against(none, whyReset, both(fails(connReset, 0).was(forgotten).leaves(serverKept), fails(closed, 0).was(forgotten).leaves(serverKept))),
	reset.against(libraryRetry, whyReset+"; a GET is sent again", wants{
		nGET: anew(), nPOST: fails(connReset, 0), fGET: anew().tries(2), fPOST: fails(closed, 0)}),
	reset.against(staleCheck, whyNothing, posts(fails(connReset, 0), fails(closed, 0))),
	reset.against(ageCheck, whyAge, every(anew())),
	reset.against(evict, whyEvicted, every(anew())),
	reset.against(keepAlive, whyProbes, every(kept())),
	reset.against(recommended(), whyAge, every(anew())),

	dropped.as("B1", groupDefences, "a look at the connection before it is used").
		against(staleCheck, whyNothing, posts(timesOut(1, 0), timesOut(1, 0))),
	dropped.as("B1a", groupDefences, "its age is looked at before it is used").
		against(ageCheck, whyAge, every(anew())),
	dropped.as("B2", groupDefences, "connections that rest are closed in the background").
		against(evict, whyEvicted, every(anew())),
	dropped.as("B2n", groupDefences, "the same, but nobody does it").
		against(evictNotRunning, "a setting that nothing acts on does nothing", posts(timesOut(1, 0).was(forgotten), timesOut(1, 0).was(forgotten))),
	dropped.as("B3", groupDefences, "Go's own keepalive").
		against(keepAliveDefault, "the first probe comes after 15 s, when the device has long forgotten", posts(timesOut(1, 0).was(forgotten), timesOut(1, 0).was(forgotten))),
	dropped.as("B4", groupDefences, "keepalive that is quicker than the device").
		against(keepAlive, whyProbes, every(kept().was(refreshed))),
	closedFirst.against(none, whyFIN, both(anew().was(halfN), fails(closed, 0).was(halfF))),
	closedFirst.against(libraryRetry, whyFIN+"; a GET is sent again", wants{
		nGET: anew().was(halfN), nPOST: anew().was(halfN), fGET: anew().was(halfF).tries(2), fPOST: fails(closed, 0).was(halfF)}),
	closedFirst.against(staleCheck, whySeen, posts(anew(), anew())),
	closedFirst.against(ageCheck, whyAge, posts(anew(), anew())),
	closedFirst.against(evict, whyEvicted, posts(anew(), anew())),
	closedFirst.against(keepAlive, "probes do not help against a server that closes", posts(anew(), fails(closed, 0))),
	closedFirst.against(recommended(), whySeen, every(anew())),

	dropped.as("C1", groupRetries, "the device drops").
		against(libraryRetry, "as A2: net/http never retries a timeout, fasthttp does", gets(timesOut(1, 0), anew().endsAfter(1, 0).tries(2))),
	dropped.as("C1", groupRetries, "the device drops").
		against(retryIdempotent, "a timeout does not say whether the request was executed, and is not retried", gets(timesOut(1, 0), timesOut(1, 0))),
	reset.as("C2", groupRetries, "the device resets").
		against(libraryRetry, "as A3: a GET is sent again", gets(anew(), anew().tries(2))),
	reset.as("C2", groupRetries, "the device resets").
		against(retryIdempotent, "a GET is sent again, a POST is not", wants{
			nGET: anew().tries(2), nPOST: fails(connReset, 0), fGET: anew().tries(2), fPOST: fails(closed, 0)}),
	reset2.against(libraryRetry, "the retry takes the other dead connection, and one more retry a new one", gets(anew(), anew().tries(3))),
	reset2.against(retryIdempotent, "the one retry takes the other dead connection", gets(fails(connReset, 0).tries(2), fails(closed, 0).tries(2))),
	reset2.against(retryFresh, whyFresh, gets(anew().tries(2), anew().tries(2))),
	reset8.against(libraryRetry, "net/http tries as long as it meets dead connections, fasthttp 5 times", gets(anew(), fails(closed, 0).tries(5))),
	reset8.against(retryFresh, whyFresh, gets(anew().tries(2), anew().tries(2))),
	reset8.against(staleCheck, whyNothing, posts(fails(connReset, 0), fails(closed, 0))),
	reset8.against(ageCheck, whyAge, posts(anew(), anew())),
	reset8.against(evict, whyEvicted, posts(anew(), anew())),
	reset8.against(keepAlive, whyProbes, posts(kept(), kept())),
	reset8.against(recommended(), whyAge, every(anew())),
	reset.as("C4", groupRetries, "the device resets a POST with an Idempotency-Key").withKey().
		against(libraryRetry, "the header makes net/http treat it as idempotent; fasthttp does not know it", posts(anew(), fails(closed, 0))),
	reset.as("C4", groupRetries, "the device resets a POST with an Idempotency-Key").withKey().
		against(retryKey, "the policy looks at the header, whatever the client does", posts(anew().tries(2), anew().tries(2))),
	reset.as("C4", groupRetries, "the device resets a POST").
		against(retryAll, "a POST that has not been executed is sent again, as is one that has", posts(anew().tries(2), anew().tries(2))),
	dropped4.against(libraryRetry, "each dead connection costs fasthttp one timeout", gets(timesOut(1, 0), anew().endsAfter(4, 0).tries(5))),
	slow.against(libraryRetry, "fasthttp takes a slow server for a dead connection, and has it do the work five times", wants{
		nGET: timesOut(1, 1), nPOST: timesOut(1, 1), fGET: timesOut(5, 5).tries(5), fPOST: timesOut(1, 1)}),

	closed1.against(none, whyFIN, both(anew().was(halfN), fails(closed, 0).was(halfF))),
	closed1.against(libraryRetry, whyFIN+"; a GET is sent again", wants{
		nGET: anew(), nPOST: anew(), fGET: anew().tries(2), fPOST: fails(closed, 0)}),
	closed1.against(staleCheckWindow, "connections that have rested for under 2 s are not looked at", both(anew(), fails(closed, 0))),
	closed1.against(ageCheck, whyYoung, posts(anew(), fails(closed, 0))),
	closed1.against(evict, whyYoung, posts(anew(), fails(closed, 0))),
	closed1.against(keepAlive, "probes do not help against a server that closes", posts(anew(), fails(closed, 0))),
	closed1.against(recommended(), whySeen, every(anew())),
	closedLong.against(none, whyFIN, both(anew(), fails(closed, 0))),
	closedLong.against(staleCheckWindow, whySeen, every(anew())),
	resetIdle.against(none, whyRST, both(anew(), fails(connReset, 0))),
	resetIdle.against(libraryRetry, whyRST+"; a GET is sent again", wants{
		nGET: anew(), nPOST: anew(), fGET: anew().tries(2), fPOST: fails(connReset, 0)}),
	resetIdle.against(staleCheck, whySeen, every(anew())),
	resetIdle.against(ageCheck, whyYoung, posts(anew(), fails(connReset, 0))),
	resetIdle.against(evict, whyYoung, posts(anew(), fails(connReset, 0))),
	resetIdle.against(keepAlive, "probes do not help against a server that closes", posts(anew(), fails(connReset, 0))),
	resetIdle.against(recommended(), whySeen, every(anew())),
	closed1.as("H3", groupClosed, "half-closed, and looked at before it is used").against(staleCheck, whySeen, every(anew())),
	closed8.against(libraryRetry, whyFIN+", 5 times", wants{
		nGET: anew(), nPOST: anew(), fGET: fails(closed, 0).tries(5), fPOST: fails(closed, 0).tries(1)}),
	closed8.against(retryAll5, "each attempt takes another dead connection", wants{fPOST: fails(closed, 0).tries(5)}),
	closed8.against(retryAll64, "the ninth attempt finds the pool empty", wants{fPOST: anew().tries(9)}),
	closed8.against(library64, "the ninth attempt finds the pool empty", wants{fGET: anew().tries(9)}),
	closed8.against(staleCheck, whySeen, every(anew())),
	closed8.against(recommended(), whySeen, every(anew())),

	dropped.as("U", groupUser, "the device drops, 0.5 s").against(userTimeout(500*time.Millisecond), whyUser, userTimeoutWants(500*time.Millisecond)),
	dropped.as("U", groupUser, "the device drops, 1 s").against(userTimeout(time.Second), whyUser, userTimeoutWants(time.Second)),
	dropped.as("U", groupUser, "the device drops, 2 s").against(userTimeout(2*time.Second), whyUser, userTimeoutWants(2*time.Second)),

	lost.against(none, whyLost, posts(timesOut(4, 1), timesOut(4, 1))),
	lost.against(userTimeoutAlone, whyLost, posts(timesOut(4, 1), timesOut(4, 1))),
	lost.against(keepAlive, "three probes go unanswered", posts(
		fails(timedOut, 1).endsAfter(0, 4100*time.Millisecond), fails(responseTimeout, 1).endsAfter(0, 4100*time.Millisecond))),
	lost.against(keepAliveUserTimeout, "the first probe that is due after 2.5 s of silence ends it", posts(
		fails(timedOut, 1).endsAfter(0, 3100*time.Millisecond), fails(responseTimeout, 1).endsAfter(0, 3100*time.Millisecond))),
	lost.against(keepAliveRetries, "the first probes tell the client, which sends a GET again while the server still works on it", gets(
		anew().endsAfter(8.0/3, 4100*time.Millisecond).ran(2), anew().endsAfter(8.0/3, 4100*time.Millisecond).ran(2).tries(2))),
	lost.against(recommended(), "the first probe that is due after half the device's memory of silence ends it; a POST without a key is not sent again", posts(
		expect{outcome: timedOut, runs: 1, at: probed, late: 1200 * time.Millisecond}, expect{outcome: responseTimeout, runs: 1, at: probed, late: 1200 * time.Millisecond})),
	lostReset.against(none, whyLost, posts(timesOut(4, 1), timesOut(4, 1))),
	lostReset.against(keepAlive, "the first probe is answered with a RST", posts(
		fails(connReset, 1).endsAfter(0, 1050*time.Millisecond), fails(closed, 1).endsAfter(0, 1050*time.Millisecond))),

	answers429.against(libraryRetry, whyStatus, gets(status(got429), status(got429))),
	answers503.against(libraryRetry, whyStatus, gets(status(got503), status(got503))),
	closes503.against(libraryRetry, whyStatus+"; the connection is not kept", gets(status(got503), status(got503))),

	diesKept.against(libraryRetry, whyDied, wants{nGET: anew().ran(2), nPOST: fails(eof, 1), fGET: anew().ran(2).tries(2), fPOST: fails(closed, 1)}),
	diesKept.withKey().against(retryKey, whyDied+"; the server has to honour the key", posts(anew().ran(2).tries(2), anew().ran(2).tries(2))),
	diesKept.against(retryAll, whyDied+"; without a key the POST is written twice", posts(anew().ran(2).tries(2), anew().ran(2).tries(2))),
	diesKept.against(retryStale, "the request had been sent: nothing is sent again", both(fails(eof, 1), fails(closed, 1))),
	diesKept.against(recommended(), whyDied+"; a POST without a key is not sent again", wants{
		nGET: anew().ran(2).tries(2), nPOST: fails(eof, 1), fGET: anew().ran(2).tries(2), fPOST: fails(closed, 1)}),
	diesAlways.against(libraryRetry, whyDied+"; net/http does not retry on a connection that is new", wants{
		nGET: fails(eof, 2), nPOST: fails(eof, 1), fGET: fails(closed, 5).tries(5), fPOST: fails(closed, 1)}),
	diesFresh.against(libraryRetry, whyDied+"; net/http does not retry on a connection that is new", wants{
		nGET: fails(eof, 1), nPOST: fails(eof, 1), fGET: fails(closed, 5).tries(5), fPOST: fails(closed, 1)}),
	diesMid.against(libraryRetry, "an answer had begun: net/http does not retry then, fasthttp does", wants{
		nGET: fails(cutShort, 1), nPOST: fails(cutShort, 1), fGET: anew().ran(2).tries(2), fPOST: fails(cutShort, 1)}),
	killed.against(libraryRetry, whyKilled, wants{
		nGET: fails(refused, 1).orElse(connReset), nPOST: fails(eof, 1), fGET: fails(refused, 1).orElse(connReset), fPOST: fails(closed, 1)}),
}
