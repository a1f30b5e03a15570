package closerace

import (
	"net/http"
	"time"

	"chokepoint/internal/result"
)

// line is a client with a method and a defence: one line of the drawing.
type line struct {
	client, method, defence string
	// arguments are the victim's beyond client and defence.
	arguments []string
	key       bool // requests have an Idempotency-Key
	title     string
	why       string
	band      func(cell) band
}

// band is the share of requests that may fail, in percent.
type band struct{ low, high float64 }

// safeShare is the share of the server's idle timeout beyond which a client that
// watches the age of its connections uses none.
const safeShare = 0.8

// whileReading is of net/http, where a goroutine reads every idle connection and sees a
// close when it gets to run. What is sent before that, or while the FIN is on its way, is
// lost: of the requests about the timeout a tenth or so on the loopback (a trace is in
// ADR 0032).
func whileReading(c cell) band {
	switch c.id {
	case "K-2":
		return band{0, 10}
	case "K+0":
		return band{1, 60}
	case "K+2":
		return band{0, 30}
	}
	return band{0, 5}
}

// unseen is of fasthttp, which looks at an idle connection only when it uses it.
func unseen(c cell) band {
	switch c.id {
	case "K-2":
		return band{0, 10}
	case "K+0":
		return band{20, 95}
	case "K+2":
		return band{75, 100}
	case "K+5", "K+20":
		return band{85, 100} // a busy server's timer may be later than that
	}
	return band{0, 5}
}

// lookedAt is of a socket that is looked at right before each request: what is sent
// between the look and the close is lost.
func lookedAt(c cell) band {
	of := whileReading(c)
	return band{0, of.high}
}

// widened is what becomes of a band on a way that takes so many milliseconds there and
// back: what is sent within a round trip before the close meets a closed connection,
// whatever the client looks at.
func widened(of func(cell) band, roundTripMS float64) func(cell) band {
	if roundTripMS == 0 {
		return of
	}
	return func(c cell) band {
		from, to := float64(c.first)-pointWidthMS/2., float64(c.last)+pointWidthMS/2.
		switch {
		case to < 0 && from > -roundTripMS+1:
			return band{75, 100}
		case to < 0 && to > -roundTripMS-1:
			return band{0, 100} // part of it is within
		case c.id == "K+0" || c.id == "K+2":
			// The server's timer is late by a millisecond or two, and until then the same
			// holds.
			return band{of(c).low, 100}
		}
		// The way takes longer now and then.
		return band{of(c).low, max(of(c).high, 20)}
	}
}

func nearlyNone(cell) band { return band{0, 5} }
func none(cell) band       { return band{0, 0} }

// lines are those of a server with that idle timeout, and of a way to it.
func lines(idle, roundTrip time.Duration) []line {
	safe := time.Duration(safeShare * float64(idle)).String()
	var all []line
	for _, client := range []string{result.ClientNetHTTP, result.ClientFastHTTP} {
		undefended, looked := widened(whileReading, roundTrip.Seconds()*1000), widened(lookedAt, roundTrip.Seconds()*1000)
		if client == result.ClientFastHTTP {
			undefended = widened(unseen, roundTrip.Seconds()*1000)
		}
		const why = "a goroutine of net/http reads its idle connections: what is sent before it has seen the close is lost; " +
			"fasthttp looks at an idle connection only when it uses it: whatever has rested for too long fails"
		const whyLook = "a look at the socket finds a FIN that has come, and none that is on its way"
		for _, l := range []line{
			{method: http.MethodPost, defence: "none", title: "POST, no defence", why: why, band: undefended},
			{method: http.MethodPost, defence: "stale_check", title: "POST, the socket looked at before each request", why: whyLook, band: looked},
			{method: http.MethodPost, defence: "retry_stale", title: "POST, sent again where nothing had been written",
				why: "the request had been written, so it is not sent again: as without a defence", band: undefended},
			{method: http.MethodPost, defence: "library_retry", title: "POST, sent again where the library does so by itself",
				why: "neither library sends a POST again that it has written: as without a defence", band: undefended},
			{method: http.MethodPost, defence: "evict", arguments: []string{"-evict-idle=" + safe},
				title: "POST, idle connections closed in the background after 80 % of the server's idle timeout",
				why:   "no connection gets as old as the server's idle timeout", band: nearlyNone},
			{method: http.MethodPost, defence: "age_check", arguments: []string{"-max-idle-age=" + safe},
				title: "POST, no connection used that has rested for 80 % of the server's idle timeout",
				why:   "no connection that is used is as old as the server's idle timeout; one that net/http sees close between the two is an error, with nothing sent", band: nearlyNone},
			{method: http.MethodPost, defence: "retry_idempotency_key", key: true, title: "POST with an Idempotency-Key, sent again",
				why: "with a key a request may be sent again, and goes on a new connection", band: none},
			{method: http.MethodGet, defence: "none", title: "GET, no defence", why: "the race does not know the method: as POST", band: undefended},
			{method: http.MethodGet, defence: "library_retry", title: "GET, sent again as the library does by itself",
				why: "a GET may be sent again, and both libraries do so", band: none},
		} {
			l.client = client
			all = append(all, l)
		}
	}
	return all
}
