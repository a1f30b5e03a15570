package rolling

import (
	"time"

	"chokepoint/internal/result"
)

// This file is the matrix, as data: what a case is, what it wants, and why. What is
// wanted was written down before the run; changing it takes an ADR with the trace of
// packets that says why (ADR 0029, ADR 0035).

const (
	// requests are sent from the moment on at which the server is told to end, the first
	// of them an interval after it, each of the others an interval after the answer to the
	// one before.
	requests = 10
	interval = 500 * time.Millisecond
)

// The groups, in their order.
const (
	groupGone    = "The server ends and its address goes with it, as a container's"
	groupStays   = "The server ends and its address stays, as a process"
	groupDrained = "It is taken out of the configuration first"
)

// What the rules are called in more than one case.
const (
	whyGone      = "the kernel closes the connections of a program that ends with FIN, whatever it died of, and nginx closes its own end at once; nobody answers a new connection, nginx waits for up to 60 s, and a client that gives up before is a 499, which is not counted as the server's failure"
	whyRefused   = "a listener that is closed answers a new connection with RST; nothing was sent, so that the request goes to the other server whatever its method, and was1 is out for 10 s"
	whyFinished  = "what was begun is answered; the listener is closed, new connections get RST and the requests go to the other server"
	whyCut       = "FIN instead of an answer is an error of the server: it is out for 10 s, a GET is sent again to the other server, and a POST is not, for it was sent"
	whyConnect   = "connecting that takes longer than 1 s is an error of the server, before anything was sent: the request goes to the other server whatever its method, and was1 is out for 10 s"
	whyNeighbour = "the balancer's kernel takes was1's link-layer address for reachable for 15 to 45 s, then asks for it again for 8 s, and sends SYNs to it all the while; without it they wait in the kernel for 3 s more and fail with 113, and nginx takes the server out"
	whyForgotten = "without an entry no SYN can be sent: the kernel asks at once, three times a second apart, and then the connections fail with 113: the long wait was the entry's"
	whyReplayed  = "nginx may send again what was sent, whatever the method: the work was begun twice"
	whyDrained   = "the new worker knows one server alone; the old one closes what it keeps, and finishes what it has begun"
	whyReaders   = "a deploy loses no request, and nothing that must not be done twice is"
	whyDrainCut  = "taken out first, so that no request meets the end of the server but that which was in flight: that one is cut off all the same"
)

// The defences.
var (
	none          = defence{name: result.DefenceNone}
	connect1s     = defence{name: "connect_timeout_1s", directives: "proxy_connect_timeout 1s;"}
	nonIdempotent = defence{name: "non_idempotent", directives: "proxy_next_upstream error timeout non_idempotent;"}
	drainFirst    = defence{name: "drain_first", drainFirst: true}
	forget        = defence{name: "neighbour_flush", flush: true}
)

// The faults.
var (
	g1 = row{id: "G1", group: groupGone, title: "graceful, connections at rest", how: graceful, gone: true}
	g2 = row{id: "G2", group: groupGone, title: "graceful, requests in flight", how: graceful, gone: true, inFlight: true}
	i1 = row{id: "I1", group: groupGone, title: "immediate, connections at rest", how: immediate, gone: true}
	i2 = row{id: "I2", group: groupGone, title: "immediate, requests in flight", how: immediate, gone: true, inFlight: true}
	k1 = row{id: "K1", group: groupGone, title: "SIGKILL, connections at rest", how: killed, gone: true}
	k2 = row{id: "K2", group: groupGone, title: "SIGKILL, requests in flight", how: killed, gone: true, inFlight: true}
	p1 = row{id: "P1", group: groupStays, title: "graceful, connections at rest", how: graceful}
	p2 = row{id: "P2", group: groupStays, title: "graceful, requests in flight", how: graceful, inFlight: true}
	p3 = row{id: "P3", group: groupStays, title: "SIGKILL, requests in flight", how: killed, inFlight: true}
)

// What is wanted where every request is answered at once.
var served = expect{answered: exactly(requests), kept: endedByServer, fresh: noneOpened}

func (e expect) refusedAnew() expect { e.fresh = answerRST; return e }

// withInFlight is with so much of the request in flight at was1; was2 answers its own.
func (e expect) withInFlight(atWAS1 string) expect { e.inFlight = atWAS1 + " and 200"; return e }

// replayed is that the request in flight ran at both servers, lost that it failed.
func (e expect) replayed() expect {
	e.executedTwice = exactly(1)
	return e.withInFlight("200")
}

func (e expect) lost() expect {
	e.failedButExecuted = exactly(1)
	return e.withInFlight("502")
}

// finished is that the request in flight is answered with "Connection: close", after which
// both ends close.
func (e expect) finished() expect { e.kept = endedByEither; return e.withInFlight("200") }

// nothingLost is what is wanted of a reader's configuration, however it comes about: every
// request is answered, and only what may be sent twice is.
func (r row) nothingLost(method string) expect {
	e := expect{answered: exactly(requests), slow: counted{0, requests}}
	if r.inFlight {
		e = e.withInFlight("200")
		if method == methodGET {
			e.executedTwice = counted{0, 1}
		}
	}
	return e
}

// byBalancer is that nginx ends the connection that it keeps.
func (e expect) byBalancer() expect { e.kept = endedByBalancer; return e }

// connectsFor1s is that one request waits until nginx gives up connecting.
func (e expect) connectsFor1s() expect { e.slow, e.fresh = exactly(1), answerNothing; return e }

// surelyReachable is how long the kernel keeps an entry at the least before it finds out
// that nobody is there: half of its base of 30 s, and 11 s of asking; less what passed
// before the server ended.
const surelyReachable = 20 * time.Second

// everyOtherTimesOut is that was1's share of the requests gets no answer, for as long as
// its entry lasts. With the client's timeout of 3 s that is all the case.
func everyOtherTimesOut(s Settings) expect {
	const share = requests / 2
	surely := 0
	for ends := interval + s.Timeout; surely < share && ends < surelyReachable; ends += s.Timeout + 2*interval {
		surely++
	}
	lost := counted{surely, share}
	e := expect{answered: counted{requests - share, requests - surely}, timedOut: lost, neverReached: lost, kept: endedByServer, fresh: answerNothing}
	if surely < share {
		e.slow = counted{0, share - surely} // 113 comes after up to 3 s
	}
	return e
}

func takenOut(fresh string, from, to time.Duration) func(Settings) expect {
	return always(expect{
		kept: endedByServer, fresh: fresh, out: &outAfter{from, to},
		// The kernel fails a connection after about 3 s, which is when the client gives up
		// too: nginx may hear of the first before the second, and give the request to the
		// other server for nobody.
		failedButExecuted: counted{0, 1},
	})
}

// withoutEnd is the case until nginx has taken the server out.
func (r row) withoutEnd() row { r.untilOut = true; return r }

// rows are the cases, in the order of a report.
var rows = []row{
	g1.against(none, whyGone, both(everyOtherTimesOut)),
	g1.against(connect1s, whyConnect, each(served.connectsFor1s(), served.connectsFor1s())),
	g2.against(none, whyFinished, each(served.refusedAnew().finished(), served.refusedAnew().finished())),

	i1.against(none, whyGone, both(everyOtherTimesOut)),
	i1.against(connect1s, whyConnect, each(served.connectsFor1s(), served.connectsFor1s())),
	i2.against(none, whyCut, each(served.replayed(), served.lost())),
	i2.against(nonIdempotent, whyReplayed, map[string]func(Settings) expect{methodPOST: always(served.replayed())}),

	k1.withoutEnd().against(none, whyNeighbour, both(takenOut(answerNothing, surelyReachable, 62*time.Second))),
	k1.withoutEnd().against(forget, whyForgotten, both(takenOut(noneOpened, 2500*time.Millisecond, 8*time.Second))),
	k1.against(connect1s, whyConnect, each(served.connectsFor1s(), served.connectsFor1s())),
	k2.against(none, whyCut, each(served.replayed(), served.lost())),
	k2.against(nonIdempotent, whyReplayed, map[string]func(Settings) expect{methodPOST: always(served.replayed())}),

	p1.against(none, whyRefused, each(served.refusedAnew(), served.refusedAnew())),
	p2.against(none, whyFinished, each(served.refusedAnew().finished(), served.refusedAnew().finished())),
	p3.against(none, whyCut, each(served.replayed(), served.lost())),
	p3.against(nonIdempotent, whyReplayed, map[string]func(Settings) expect{methodPOST: always(served.replayed())}),

	g1.drained(each(served.byBalancer(), served.byBalancer()), whyDrained),
	g2.drained(each(served.finished(), served.finished()), whyDrained),
	i1.drained(each(served.byBalancer(), served.byBalancer()), whyDrained),
	i2.drained(each(served.replayed(), served.lost()), whyDrainCut),
	k1.drained(each(served.byBalancer(), served.byBalancer()), whyDrained),
	k2.drained(each(served.replayed(), served.lost()), whyDrainCut),
	p1.drained(each(served.byBalancer(), served.byBalancer()), whyDrained),
	p2.drained(each(served.finished(), served.finished()), whyDrained),
	p3.drained(each(served.replayed(), served.lost()), whyDrainCut),
}

// drained is the case with the server taken out first.
func (r row) drained(wants map[string]func(Settings) expect, why string) row {
	r.group = groupDrained
	return r.against(drainFirst, why, wants)
}
