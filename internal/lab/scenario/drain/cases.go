package drain

import (
	"fmt"
	"time"
)

// The headings of a report.
const (
	groupDrain     = "1. The drain and the slowest request"
	groupTable     = "2. A request of 4 s, and its gateway ended after 0.5 s"
	groupZero      = "3. Exit when no connection is left"
	groupTerminate = "4. Termination on deregistration"
	groupFinal     = "5. The final settings"
	groupRetry     = "6. A retry of what failed, and an application that knows it"
	groupRestart   = "7. Three gateways restarted, one after the other"
)

// What a client or an application does about it, as the defence of a case.
const (
	defenceRetry    = "retry"
	defenceRetryKey = "retry+idempotency-key"
)

// row is a case: a setup in the times of the incident, and what is wanted of it.
type row struct {
	id, group, title string
	defence          string // empty is none
	setup            Setup
	// leastScale is under which the case is not scaled; 0 is no bound.
	leastScale float64
	want       want
	why        string
	predicted  string
}

// slowest is how long the slow requests take; every is the time between two of the load.
const (
	slowest = 10 * time.Second
	every   = 100 * time.Millisecond
	// What the balancer takes to learn of a gateway's end is not what the first cases are
	// about, so that their preStop covers it amply.
	propagation = 3 * time.Second
	preStop     = 10 * time.Second
)

func always(d time.Duration) func(int) time.Duration { return func(int) time.Duration { return d } }

// mixed is a load of short requests of which each tenth is one of the slowest.
func mixed(i int) time.Duration {
	if i%10 == 9 {
		return slowest
	}
	return 300 * time.Millisecond
}

// slowLoad is of requests that all take 10 s. It is at its level when the gateway is told
// to end, and goes on for a while after.
func slowLoad(goesOn time.Duration) Load {
	const before = 12 * time.Second
	return Load{Requests: int((before + goesOn) / every), Every: every, Before: before, Work: always(slowest)}
}

// drained is a gateway of two with so long a drain, whose preStop covers what the
// balancer takes to learn of it.
func drained(g Gateway, p Protocol, drain time.Duration) Setup {
	return Setup{
		Gateway: g, Gateways: 2, Protocol: p,
		Balancer: Balancer{Propagation: propagation},
		End:      End{PreStop: preStop, Drain: drain},
		Load:     slowLoad(preStop + 10*time.Second),
	}
}

// lostInDrain is how many requests of slowLoad are on one gateway of two, and have more
// to go than the drain of 5 s: half of those that began in as long before.
const lostInDrain = int((slowest - 5*time.Second) / every / 2)

var predictedLost = fmt.Sprintf("about %d: the requests that began within (%v - drain) before the drain, on one gateway of two", lostInDrain, slowest)

// slowRequests is how many of slowLoad's requests are on one gateway of two at a time.
const slowRequests = int(slowest / every / 2)

const (
	whyShort = "what has longer to go than the drain is cut off; the application knows nothing of it, and does the work"
	// RFC 9113, section 8.7: a request whose stream was refused was not processed, and may
	// be sent again whatever its method; net/http does.
	whyRefused = "HAProxy's hard stop refuses the streams that it cuts off (RST_STREAM, REFUSED_STREAM), which says that they were not processed; the client sends them again by itself"
	// What idle-close-on-response costs: without it nothing comes once the drain has begun.
	whyKeepIdle = "a request that comes on a resting connection in the drain is taken, has longer to go than what is left of it, and is cut off too"
	whyLong     = "the drain is longer than the slowest request"
)

// table is three requests of 4 s through one gateway, which is told to end 0.5 s after
// the first, when the application is at work on all three.
func table(g Gateway, drain, edge time.Duration) Setup {
	return Setup{
		Gateway: g, Gateways: 1, Protocol: HTTP1, Edge: edge,
		End:  End{Drain: drain, AllAtWork: true},
		Load: Load{Requests: 3, Every: 100 * time.Millisecond, Before: 500 * time.Millisecond, Work: always(4 * time.Second)},
	}
}

const (
	edgeIdle = time.Minute // CloudFront's of the incident
	// tableScale is the least of the table, whose windows are of a second.
	tableScale = 0.25
)

// atZero is a gateway that waits until no connection is left, with the clients that the
// incident traced: one sends an event now and then, less often than an edge keeps a
// connection, and one keeps its connection and is silent.
func atZero(edge time.Duration) Setup {
	return Setup{
		Gateway: NetHTTP, Gateways: 2, Protocol: HTTP1, Edge: edge,
		Balancer: Balancer{Propagation: propagation},
		End:      End{PreStop: preStop, OnZero: true, Grace: 600 * time.Second},
		Load:     Load{Requests: 40, Every: every, Before: 3 * time.Second, Work: always(time.Second), NewConnections: true},
		Keepers:  []Keeper{{Every: 70 * time.Second}, {}},
	}
}

func terminating() Setup {
	s := atZero(0)
	s.Balancer.DeregistrationDelay, s.Balancer.Terminate = 120*time.Second, true
	s.End.Grace = 180 * time.Second
	s.Keepers = []Keeper{{Every: 25 * time.Second}, {}}
	return s
}

// final are the settings that the incident ended with.
func final(g Gateway, p Protocol) Setup {
	const between = 200 * time.Millisecond
	const before, delay, drain = 12 * time.Second, 120 * time.Second, 90 * time.Second
	s := Setup{
		Gateway: g, Gateways: 2, Protocol: p,
		Balancer: Balancer{Propagation: 90 * time.Second, DeregistrationDelay: delay},
		End:      End{PreStop: delay, Drain: drain, KeepIdle: g == HAProxy},
		Load:     Load{Requests: int((before + delay + drain + 5*time.Second) / between), Every: between, Before: before, Work: always(slowest)},
		Keepers:  []Keeper{{Every: 25 * time.Second}, {}},
	}
	return s.forgiving()
}

// forgiving has the clients repeat what fails, and the application know it, unless the
// gateway leaves resting connections to their next request: else a request may meet the
// close of the connection that it is put on, and a client cannot tell that from one that
// was executed.
func (s Setup) forgiving() Setup {
	if !s.End.KeepIdle {
		s.Load.Attempts, s.Idempotent = 3, true
	}
	return s
}

func (s Setup) retrying(idempotent bool) Setup {
	s.Load.Attempts, s.Idempotent = 3, idempotent
	return s
}

// restart is a rolling restart of three gateways under load. The clients are the same
// whatever the settings of the gateways: they close a connection that has rested for
// clientIdle.
func restart(g Gateway, e End) Setup {
	return Setup{
		Gateway: g, Gateways: restartGateways, Protocol: HTTP1, Rolling: true,
		Balancer: Balancer{Propagation: time.Minute},
		End:      e,
		Load:     Load{Requests: restartRequests, Every: 150 * time.Millisecond, Before: 12 * time.Second, Work: mixed, IdleTimeout: clientIdle},
	}
}

const (
	restartGateways = 3
	restartRequests = 1200
	clientIdle      = 20 * time.Second

	titleDefaults    = "no preStop, a drain of 5 s"
	titleRecommended = "preStop of 75 s, a drain of 15 s"
	titleKeepIdle    = "preStop of 75 s, a drain of 40 s, and resting connections are left to their next request"

	whyDefaults = "no preStop: new connections are sent to a gateway that has ended, until the balancer has learnt of it; and the drain of 5 s is shorter than the slowest request"
	whyRule     = "preStop is longer than what the balancer takes to learn of it, the drain longer than the slowest request"
	whyRace     = "; a request that meets the close of a resting connection is repeated, and worked on once"
	whyRested   = "; and longer than that by what the clients leave a connection at rest, so that they close it themselves or end it with a request that is answered"
	whyNoKey    = "; what was cut off is repeated, and the application cannot know it from a new one"
	whySaved    = "; what was cut off or refused is repeated, and lost only if both repetitions are refused too: one at most of those that a restart cuts off at a time"
	// Of a close that a request meets nothing was executed.
	whyNoKeyRace = "; a request that meets the close of a resting connection was not executed, so that its repetition needs no key"
)

var (
	defaults    = End{Drain: 5 * time.Second}
	recommended = End{PreStop: 75 * time.Second, Drain: 15 * time.Second}
	// The last request on a resting connection comes before the clients close it, and
	// takes as long as the slowest; 10 s are margin.
	recommendedKeepIdle = End{PreStop: 75 * time.Second, Drain: clientIdle + slowest + 10*time.Second, KeepIdle: true}
)

// restartWithDefaults is wanted of the defaults with clients that do not repeat.
var restartWithDefaults = want{outcome: executedFail, executed: atLeast(1), never: atLeast(1)}

// restartRows are rolling restarts in pairs that differ in the gateways' settings alone:
// those with the same gateway and the same defence. HAProxy's clients do not repeat.
// nginx closes resting connections when its drain begins, whatever its settings, so that
// only with repetitions nothing fails.
func restartRows() []row {
	return []row{
		{id: "restart-defaults", group: groupRestart, title: titleDefaults, setup: restart(HAProxy, defaults),
			want: restartWithDefaults, why: whyDefaults},
		{id: "restart-recommended", group: groupRestart, title: titleKeepIdle, setup: restart(HAProxy, recommendedKeepIdle),
			want: want{outcome: nothingFails, ok: atLeast(1000)}, why: whyRule + whyRested},

		{id: "restart-defaults", group: groupRestart, title: titleDefaults, setup: restart(Nginx, defaults),
			want: restartWithDefaults, why: whyDefaults},

		// A restart cuts off a third of the slow requests that began within 5 s, of which
		// there is one every 1.5 s: three in three restarts, and more as those that are left
		// have more.
		{id: "restart-defaults", group: groupRestart, title: titleDefaults, setup: restart(Nginx, defaults).retrying(false), defence: defenceRetry,
			want: want{outcome: workedTwice, twice: atLeast(1), never: upTo(restartGateways), executed: upTo(restartGateways)}, why: whyDefaults + whyNoKey},
		{id: "restart-recommended", group: groupRestart, title: titleRecommended, setup: restart(Nginx, recommended).retrying(false), defence: defenceRetry,
			want: want{outcome: nothingFails, ok: atLeast(1000), again: upTo(closeRaces)}, why: whyRule + whyNoKeyRace},

		// Sent again are the three that are cut off, and of about ten connections that are
		// made anew in three restarts at least each third, which is refused; and what was
		// refused makes another. That is more than may meet a close.
		{id: "restart-defaults", group: groupRestart, title: titleDefaults, setup: restart(Nginx, defaults).retrying(true), defence: defenceRetryKey,
			want: want{outcome: sentAgain, again: atLeast(closeRaces + 1), never: upTo(restartGateways), executed: upTo(restartGateways)}, why: whyDefaults + whySaved},
		{id: "restart-recommended", group: groupRestart, title: titleRecommended, setup: restart(Nginx, recommended).retrying(true), defence: defenceRetryKey,
			want: want{outcome: nothingFails, ok: atLeast(1000), again: upTo(closeRaces)}, why: whyRule + whyRace},
	}
}

// rows are the cases, in the order of a report.
var rows = func() []row {
	var all []row
	for _, g := range []Gateway{HAProxy, Nginx, NetHTTP} {
		for _, p := range []Protocol{HTTP1, HTTP2} {
			suffix := ""
			short := want{outcome: executedFail, executed: about(lostInDrain), never: upTo(closeRaces)}
			why := whyShort
			if p == HTTP2 {
				suffix = "-h2"
			}
			if p == HTTP2 && g == HAProxy {
				short, why = want{outcome: workedTwice, twice: about(lostInDrain)}, whyRefused
			}
			all = append(all,
				row{id: "short-drain" + suffix, group: groupDrain, title: "a drain of 5 s, requests of 10 s", setup: drained(g, p, 5*time.Second), want: short, why: why, predicted: predictedLost},
				row{id: "long-drain" + suffix, group: groupDrain, title: "a drain of 30 s, requests of 10 s", setup: drained(g, p, 30*time.Second),
					want: want{outcome: executedSafe, never: upTo(closeRaces)}, why: whyLong},
			)
		}
	}
	keeping := drained(HAProxy, HTTP1, 5*time.Second)
	keeping.End.KeepIdle = true
	all = append(all, row{id: "short-drain-keep-idle", group: groupDrain, title: "a drain of 5 s, requests of 10 s, and resting connections are left to their next request",
		setup: keeping, want: want{outcome: executedFail, executed: band{lostInDrain * 3 / 10, lostInDrain + slowRequests}}, why: whyKeepIdle})
	for _, edge := range []time.Duration{0, edgeIdle} {
		id, through := "", "directly through the balancer"
		if edge > 0 {
			id, through = "-edge", "through the edge"
		}
		for _, g := range []Gateway{HAProxy, Nginx} {
			says := "502"
			if g == Nginx && edge == 0 {
				says = "EOF"
			}
			all = append(all,
				row{id: "table-2s" + id, group: groupTable, title: "a drain of 2 s, " + through, setup: table(g, 2*time.Second, edge), leastScale: tableScale,
					want: want{outcome: says, executed: exactly(3), failsFrom: 2 * time.Second, failsUntil: 3500 * time.Millisecond}, why: whyShort},
				row{id: "table-6s" + id, group: groupTable, title: "a drain of 6 s, " + through, setup: table(g, 6*time.Second, edge), leastScale: tableScale,
					want: want{outcome: "200", ok: exactly(3)}, why: whyLong},
			)
		}
	}
	all = append(all,
		row{id: "zero-direct", group: groupZero, title: "clients that keep their connections, directly through the balancer", setup: atZero(0),
			want: want{outcome: staysOpen, left: 2}, why: "the balancer closes no open connection, and the gateway waits for its clients"},
		row{id: "zero-edge", group: groupZero, title: "the same clients, behind an edge that closes what rests for 60 s", setup: atZero(edgeIdle),
			want: want{outcome: converges, endsWithin: 3 * edgeIdle}, why: "the edge closes its connections to the gateway; how long the clients keep theirs to the edge is of no matter"},
		row{id: "terminate", group: groupTerminate, title: "after a deregistration delay of 120 s, with clients that keep their connections", setup: terminating(),
			want: want{outcome: resetAndOpen, never: exactly(1), left: 2}, why: "only the clients' side is cut, and only after the delay; nobody tells the gateway"},

		row{id: "final-settings", group: groupFinal, title: "preStop = deregistration delay = 120 s, a drain of 90 s", setup: final(HAProxy, HTTP1),
			want: want{outcome: nothingFails}, why: whyRule},
		row{id: "final-settings", group: groupFinal, title: "preStop = deregistration delay = 120 s, a drain of 90 s", setup: final(HAProxy, HTTP2),
			want: want{outcome: nothingFails}, why: whyRule},
		row{id: "final-settings", group: groupFinal, title: "preStop = deregistration delay = 120 s, a drain of 90 s", setup: final(Nginx, HTTP1), defence: defenceRetryKey,
			want: want{outcome: nothingFails}, why: whyRule + whyRace},
		row{id: "final-settings", group: groupFinal, title: "preStop = deregistration delay = 120 s, a drain of 90 s", setup: final(NetHTTP, HTTP1), defence: defenceRetryKey,
			want: want{outcome: nothingFails}, why: whyRule + whyRace},

		row{id: "short-drain-idempotent", group: groupRetry, title: "a drain of 5 s, requests of 10 s that are repeated when they fail", setup: drained(HAProxy, HTTP1, 5*time.Second).retrying(false),
			defence: defenceRetry, want: want{outcome: workedTwice, twice: about(lostInDrain)}, why: "the application cannot know a repeated request from a new one"},
		row{id: "short-drain-idempotent", group: groupRetry, title: "a drain of 5 s, requests of 10 s that are repeated when they fail", setup: drained(HAProxy, HTTP1, 5*time.Second).retrying(true),
			defence: defenceRetryKey, want: want{outcome: nothingFails}, why: "the application answers a known key with the first result"},
	)
	return append(all, restartRows()...)
}()
