package rolling

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"chokepoint/internal/adminapi"
	"chokepoint/internal/lab/balancer"
	"chokepoint/internal/lab/netlab/capture"
	"chokepoint/internal/result"
)

const (
	// slowAfter is about a second: what nginx waited for a connection shows.
	slowAfter = 900 * time.Millisecond
	// hadTime is how much before nginx took the server out a client must have given up to
	// count as one that it gave nothing.
	hadTime = 500 * time.Millisecond
)

// joined is a request with all that is known of it, by its id.
type joined struct {
	answer
	runs   []adminapi.StubRequest
	logged *balancer.Access // nil: nginx has no line of it
}

func (w *world) join(answers []answer) ([]joined, error) {
	runs, err := w.runs()
	if err != nil {
		return nil, err
	}
	lines, err := w.lb.AccessLog()
	if err != nil {
		return nil, err
	}
	var all []joined
	for _, a := range answers {
		j := joined{answer: a}
		for _, r := range runs {
			if r.ID == a.id {
				j.runs = append(j.runs, r)
			}
		}
		for i := range lines {
			if lines[i].ID == a.id {
				j.logged = &lines[i]
			}
		}
		all = append(all, j)
	}
	slices.SortStableFunc(all, func(a, b joined) int { return a.began.Compare(b.began) })
	return all, nil
}

// ok says whether the client has a good answer.
func (j joined) ok() bool {
	status, err := strconv.Atoi(j.outcome)
	return err == nil && status < http.StatusBadRequest
}

// tried are the servers that nginx gave the request to, in their order.
func (j joined) tried() []string {
	var names []string
	if j.logged != nil {
		for _, try := range j.logged.Tries {
			names = append(names, serverName(try.Addr))
		}
	}
	return names
}

func serverName(addr string) string {
	for i, name := range []string{was1, was2} {
		if addr == addrOf(wasAddrs[i], wasPort) {
			return name
		}
	}
	return addr
}

// request is the joined request as the summary has it. What the balancer's log says is
// told where it says more than the client.
func (j joined) request(since time.Time) result.CaseRequest {
	r := result.CaseRequest{
		ID: j.id, AtS: j.began.Sub(since).Seconds(), Got: j.outcome, Seconds: j.took.Seconds(),
		Server: j.server, Runs: len(j.runs), Conn: j.connection,
	}
	if j.logged == nil {
		r.Got += ", no line in nginx's log"
		return r
	}
	if r.Server == "" {
		r.Server = strings.Join(j.tried(), " then ")
	}
	if len(j.logged.Tries) > 1 || !j.ok() {
		var tries []string
		for _, try := range j.logged.Tries {
			tries = append(tries, fmt.Sprintf("%s %s", serverName(try.Addr), statusOf(try)))
		}
		r.Got += fmt.Sprintf(", nginx %d: %s", j.logged.Status, strings.Join(tries, " then "))
	}
	return r
}

func statusOf(t balancer.Try) string {
	switch {
	case t.Status == 0 && t.Connect < 0:
		return "not connected"
	case t.Status == 0:
		return "no answer"
	}
	return strconv.Itoa(t.Status)
}

func countsOf(all []joined) (n result.CaseCounts) {
	for _, j := range all {
		switch {
		case j.ok():
			n.OK++
		case len(j.runs) == 0:
			n.NeverReached++
		default:
			n.FailedButExecuted++
		}
		if len(j.runs) > 1 {
			n.ExecutedTwice++
		}
	}
	return n
}

// judge says what the case got and whether that is wanted, and writes the evidence.
func (c cell) judge(w *world, r record, into *result.Case) error {
	sent, err := w.join(r.answers)
	if err != nil {
		return err
	}
	inFlight, err := w.join(r.inFlight)
	if err != nil {
		return err
	}
	all := append(slices.Clone(inFlight), sent...)
	packets := w.n.packets.Stop()
	v := c.see(r, sent, inFlight, packets)
	into.Got, into.OK = c.want.got(v), c.want.met(v)
	into.Counts = countsOf(all)
	for _, j := range all {
		into.Requests = append(into.Requests, j.request(r.ended))
		into.HandlerRuns += len(j.runs)
		into.Seconds = max(into.Seconds, j.took.Seconds())
		if !j.ok() && into.Error == "" {
			into.Error = fmt.Sprintf("%s: %s", j.id, j.outcome)
		}
	}
	into.Before, into.After = r.before.observed(), r.after.observed()
	into.Retransmits = capture.Retransmissions(packets)
	into.Events = events(r, packets)
	if into.Files, err = writeEvidence(w, r, packets); err != nil {
		return err
	}
	return w.n.packets.Err()
}

// see counts what is judged.
func (c cell) see(r record, sent, inFlight []joined, packets []capture.Packet) seen {
	counts := countsOf(append(slices.Clone(inFlight), sent...))
	v := seen{
		sent: len(sent), neverReached: counts.NeverReached, failedButExecuted: counts.FailedButExecuted, executedTwice: counts.ExecutedTwice, why: "nothing",
	}
	for _, j := range sent {
		switch {
		case j.ok():
			v.answered++
			if j.took >= slowAfter {
				v.slow++
			}
		case j.outcome == gaveUp:
			v.timedOut++
		case j.outcome == bad502:
			v.badGateway++
		}
	}
	v.inFlight = inFlightOutcomes(inFlight)
	v.kept, v.usedAfterEnd = endOfKept(packets, r.before.kept())
	v.fresh = firstNew(packets, r.before.kept(), r.ended)
	if c.want.out == nil {
		return v
	}
	if !r.out.IsZero() {
		v.out, v.why = r.out.Sub(r.ended), r.why
	}
	for _, j := range sent {
		tried := j.tried()
		switch {
		case !r.out.IsZero() && j.began.After(r.out):
			if !j.ok() {
				v.after++
			}
		case len(tried) > 0 && tried[0] == was1 && j.outcome != gaveUp && j.began.Add(c.s.Timeout+hadTime).Before(r.out):
			v.answeredBefore++
		}
	}
	return v
}

// inFlightOutcomes are those of the requests in flight, that of the server that goes
// first.
func inFlightOutcomes(all []joined) string {
	slices.SortStableFunc(all, func(a, b joined) int { return cmp.Compare(firstTried(a), firstTried(b)) })
	var words []string
	for _, j := range all {
		words = append(words, j.outcome)
	}
	return strings.Join(words, " and ")
}

func firstTried(j joined) string {
	if tried := j.tried(); len(tried) > 0 {
		return tried[0]
	}
	return ""
}

// betweenServer says whether a packet is between the balancer and the server that goes,
// with the balancer's port.
func betweenServer(p capture.Packet) (port uint16, fromServer, ok bool) {
	switch {
	case p.Source.Addr() == wasAddrs[0] && p.Source.Port() == wasPort:
		return p.Destination.Port(), true, true
	case p.Destination.Addr() == wasAddrs[0] && p.Destination.Port() == wasPort:
		return p.Source.Port(), false, true
	}
	return 0, false, false
}

// endOfKept is how the first of the kept connections that ended did, and how often the
// balancer put something on one that had.
func endOfKept(packets []capture.Packet, kept map[uint16]bool) (how string, usedAfter int) {
	how = notEnded
	ended := map[uint16]bool{}
	for _, p := range packets {
		port, fromServer, ok := betweenServer(p)
		if !ok || !kept[port] {
			continue
		}
		switch {
		case ended[port]:
			if !fromServer && p.Length > 0 {
				usedAfter++
			}
			continue
		case p.Flags.Has(capture.RST):
			ended[port] = true
		case p.Flags.Has(capture.FIN):
			ended[port] = true
		default:
			continue
		}
		if how != notEnded {
			continue
		}
		switch {
		case p.Flags.Has(capture.RST):
			how = endedByReset
		case fromServer:
			how = endedByServer
		default:
			how = endedByBalancer
		}
	}
	return how, usedAfter
}

// firstNew is what the server that has gone answered to the first new connection.
func firstNew(packets []capture.Packet, kept map[uint16]bool, since time.Time) string {
	opened := uint16(0)
	for _, p := range packets {
		port, fromServer, ok := betweenServer(p)
		switch {
		case !ok || kept[port] || p.Time.Before(since):
		case opened == 0 && !fromServer && p.Flags.Has(capture.SYN):
			opened = port
		case port == opened && fromServer && p.Flags.Has(capture.RST):
			return answerRST
		case port == opened && fromServer && p.Flags.Has(capture.SYN):
			return answerAccepted
		}
	}
	if opened == 0 {
		return noneOpened
	}
	return answerNothing
}
