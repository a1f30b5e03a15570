package engine

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chokepoint/internal/load/ledger"
	"chokepoint/internal/result"
)

func TestWhatIsOverAtItsDeadlineIsATimeout(t *testing.T) {
	late := ledger.Answer{Outcome: ledger.Timeout, Cause: CauseResponse}
	ok := ledger.Answer{Outcome: ledger.OK, Status: 200}
	busy := ledger.Answer{Outcome: ledger.HTTPError, Status: 503, ErrorBody: "overloaded"}
	cut := ledger.Answer{Outcome: ledger.TransportError, Cause: CauseEOF}
	connect := ledger.Answer{Outcome: ledger.Timeout, Cause: CauseConnect}
	files := ledger.Answer{Outcome: ledger.ConnectError, Cause: CauseOutOfFiles}
	gone := ledger.Answer{Outcome: ledger.Interrupted}
	for _, tt := range []struct{ answer, atDeadline ledger.Answer }{
		{ok, late}, {busy, late}, {cut, late}, {connect, connect}, {files, files}, {gone, gone},
	} {
		if got := inTime(tt.answer, time.Second-1, time.Second); got != tt.answer {
			t.Errorf("before the deadline %+v became %+v", tt.answer, got)
		}
		if got := inTime(tt.answer, time.Second, time.Second); got != tt.atDeadline {
			t.Errorf("at the deadline %+v became %+v, want %+v", tt.answer, got, tt.atDeadline)
		}
	}
}

// TestNoGoodAnswerTookLongerThanItsTimeout has a server that answers about when the
// client gives up.
func TestNoGoodAnswerTookLongerThanItsTimeout(t *testing.T) {
	const timeout = 30 * time.Millisecond
	withEachRun(t, func(t *testing.T, _ Kind, on func(*Config)) {
		p := newPeer(t, func(conn *net.TCPConn, _ string) bool {
			time.Sleep(timeout - 200*time.Microsecond)
			return write(okAnswer)(conn, "")
		})
		c := plan(Endpoint{Name: "fast", URL: p.url(), Rate: 1000, Timeout: timeout})
		c.Duration, c.MaxLag = 300*time.Millisecond, time.Minute
		on(&c)
		e := live(t, c).Load.Endpoints["fast"]
		if e.OKResponse.Max >= 30 {
			t.Errorf("a good answer took %v ms under a timeout of %v", e.OKResponse.Max, timeout)
		}
		if e.OK+e.Timeout != 300 {
			t.Errorf("%d ok and %d timeouts, want 300 together: %v", e.OK, e.Timeout, e.Causes)
		}
	})
}

// TestTheBytesOfEveryAnswerAreCounted has a server that sends one answer whole and
// one cut off, in turn.
func TestTheBytesOfEveryAnswerAreCounted(t *testing.T) {
	const cut = "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok"
	withEachRun(t, func(t *testing.T, _ Kind, on func(*Config)) {
		whole, broken := newPeer(t, write(okAnswer)), newPeer(t, writeAndClose(cut))
		c := plan(Endpoint{Name: "whole", URL: strings.Replace(whole.url(), "//", "//me:secret@", 1), Rate: 100, Timeout: time.Minute, Header: []Field{{"X-Key", "secret"}, {"Accept", "a"}, {"Accept", "b"}}},
			Endpoint{Name: "broken", URL: broken.url(), Rate: 100, Timeout: time.Minute, Method: "PUT"})
		c.Duration, c.MaxLag = 100*time.Millisecond, time.Minute
		on(&c)
		l := live(t, c).Load
		for name, want := range map[string]int64{"whole": 10 * int64(len(okAnswer)), "broken": 10 * int64(len(cut))} {
			e := l.Endpoints[name]
			if e.ReceivedBytes != want || e.ReceivedRate != float64(want)/l.ElapsedS {
				t.Errorf("%s: %d bytes, %v a second for %v s; want %d", name, e.ReceivedBytes, e.ReceivedRate, l.ElapsedS, want)
			}
		}
		sent := func(e result.Endpoint) []string { return append([]string{e.Method, e.URL}, e.Headers...) }
		got := [][]string{sent(l.Endpoints["whole"]), sent(l.Endpoints["broken"])}
		want := [][]string{{"GET", strings.Replace(whole.url(), "//", "//***@", 1), "X-Key", "Accept"}, {"PUT", broken.url()}}
		if diff := cmp.Diff(want, got); diff != "" || l.Arrivals != "constant" || l.OfferedS != 0.1 {
			t.Errorf("%q arrivals, %v s offered; what was sent (-want +got)\n%s", l.Arrivals, l.OfferedS, diff)
		}
	})
}

// TestEveryPathOfARunHasItsOutcome plays a whole run on every way that a request
// can end, on every engine: each of its arrivals has the one outcome, and the
// ledger balances.
func TestEveryPathOfARunHasItsOutcome(t *testing.T) {
	const arrivals = 10
	const chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
	nobody, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody.Close()
	answering := func(answer func(*net.TCPConn, string) bool) string { return newPeer(t, answer).url() }
	secure := func(url string) string { return strings.Replace(url, "http:", "https:", 1) }
	paths := []struct {
		name    string
		url     string
		timeout time.Duration // default a minute
		outcome ledger.Outcome
		cause   string
	}{
		{name: "answered", url: answering(write(okAnswer)), outcome: ledger.OK},
		{name: "an error status", url: answering(write("HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n")), outcome: ledger.HTTPError},
		{name: "refused", url: "http://" + nobody.Addr().String(), outcome: ledger.ConnectError, cause: CauseRefused},
		{name: "handshake fails", url: secure(newGreetingPeer(t, "\x15\x03\x03\x00\x02\x02\x28", write("")).url()), outcome: ledger.ConnectError, cause: CauseTLS},
		{name: "handshake never ends", url: secure(answering(write(""))), timeout: 500 * time.Millisecond, outcome: ledger.Timeout, cause: CauseConnect},
		{name: "never answered", url: answering(write("")), timeout: 500 * time.Millisecond, outcome: ledger.Timeout, cause: CauseResponse},
		{name: "stops in the header", url: answering(write("HTTP/1.1 200 OK\r\nContent-")), timeout: 500 * time.Millisecond, outcome: ledger.Timeout, cause: CauseResponse},
		{name: "stops in the body", url: answering(write("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok")), timeout: 500 * time.Millisecond, outcome: ledger.Timeout, cause: CauseResponse},
		{name: "stops in a chunk", url: answering(write(chunked + "9\r\nok")), timeout: 500 * time.Millisecond, outcome: ledger.Timeout, cause: CauseResponse},
		{name: "closed before the answer", url: answering(writeAndClose("")), outcome: ledger.TransportError, cause: CauseEOF},
		{name: "closed in the body", url: answering(writeAndClose("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok")), outcome: ledger.TransportError, cause: CauseEOF},
		{name: "reset before the answer", url: answering(writeAndReset("")), outcome: ledger.TransportError, cause: CauseReset},
		{name: "reset in the body", url: answering(writeAndReset("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok")), outcome: ledger.TransportError, cause: CauseReset},
		{name: "not HTTP", url: answering(write("220 mail.example ESMTP\r\n\r\n")), outcome: ledger.TransportError, cause: CauseMalformed},
		{name: "oversized header", url: answering(write("HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", headerLimit))), outcome: ledger.TransportError, cause: CauseOversized},
		{name: "oversized body", url: answering(write("HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n")), outcome: ledger.TransportError, cause: CauseOversized},
	}
	withEachRun(t, func(t *testing.T, kind Kind, on func(*Config)) {
		for _, tt := range paths {
			if kind == Loop && strings.HasPrefix(tt.url, "https:") {
				continue // not spoken there
			}
			t.Run(tt.name, func(t *testing.T) {
				t.Parallel()
				c := plan(Endpoint{Name: "fast", URL: tt.url, Rate: 200, Timeout: time.Minute, Workers: arrivals})
				if tt.timeout > 0 {
					c.Endpoints[0].Timeout = tt.timeout
				}
				c.Duration, c.MaxLag = arrivals*5*time.Millisecond, time.Minute
				on(&c)
				r := live(t, c)
				e := r.Load.Endpoints["fast"]
				counts := func(e result.Endpoint) map[ledger.Outcome]int {
					return map[ledger.Outcome]int{
						ledger.OK: e.OK, ledger.HTTPError: e.HTTPError, ledger.Timeout: e.Timeout, ledger.ConnectError: e.ConnectError,
						ledger.TransportError: e.TransportError, ledger.Interrupted: e.Interrupted, ledger.Dropped: e.Dropped,
					}
				}
				want := counts(result.Endpoint{})
				want[tt.outcome] = arrivals
				if diff := cmp.Diff(want, counts(e)); diff != "" {
					t.Errorf("outcomes:\n%s", diff)
				}
				causes := map[string]int{}
				if tt.cause != "" {
					causes[tt.cause] = arrivals
				}
				if diff := cmp.Diff(causes, e.Causes); diff != "" {
					t.Errorf("causes:\n%s", diff)
				}
				if e.Response.Count != arrivals || !r.Load.Validity.Valid {
					t.Errorf("%d responses, validity %+v", e.Response.Count, r.Load.Validity)
				}
			})
		}
	})
}
