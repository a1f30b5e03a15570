package spread

import (
	"fmt"
	"slices"
	"strings"

	"chokepoint/internal/lab/balancer"
	"chokepoint/internal/result"
)

// Words of requests.csv.
const (
	outcomeOK        = "ok"
	outcomeHTTPError = "http_error"
	outcomeDropped   = "dropped"
	outcomeConnect   = "connect_error"
	outcomeTransport = "transport_error"
)

// share is what became of the requests that nginx sent to a victim first.
type share struct {
	fast, fastFailed, upstream, upstreamFailed int
	retried                                    int // that it got after the other victim
}

// joined is a cell's requests by id, as client, nginx and victims have them.
type joined struct {
	shares               [len(names)]share
	fast, fastFailed     int
	upstream, upFailed   int
	fastLate             int // answered, but late
	unasked              int // /fast that failed without a victim having been asked
	sentTwice            int // by nginx
	counts               result.CaseCounts
	runs                 int // workers that had a request
	asked, askedOneFirst int // requests that a victim was asked for
}

// key is a request's identity: ids are unique per endpoint.
type key struct{ endpoint, id string }

// logged are nginx's lines by request.
func logged(access []balancer.Access) map[key][]balancer.Access {
	lines := map[key][]balancer.Access{}
	for _, a := range access {
		_, path, _ := strings.Cut(a.Request, " /")
		endpoint, _, _ := strings.Cut(path, " ")
		k := key{endpoint, a.ID}
		lines[k] = append(lines[k], a)
	}
	return lines
}

// unlogged counts the requests that nginx must know of and does not, and names the
// first. What the client could not send, or gave up before it had, nginx need not know.
func unlogged(requests []result.Request, lines map[key][]balancer.Access) (n int, first string) {
	for _, r := range requests {
		if !sent(r) || r.Outcome == outcomeTransport || len(lines[key{r.Endpoint, r.ID}]) > 0 {
			continue
		}
		if n == 0 {
			first = r.ID
		}
		n++
	}
	return n, first
}

// sent says whether the client has put the request on the wire.
func sent(r result.Request) bool {
	return r.Outcome != outcomeDropped && r.Outcome != outcomeConnect && r.Cause != result.CauseUnsent
}

// join puts a cell's requests together by their ids. Its error says where client, nginx
// and victims do not agree.
func join(e evidence) (joined, error) {
	var j joined
	lines := logged(e.access)
	if n, first := unlogged(e.requests, lines); n > 0 {
		return j, fmt.Errorf("nginx's log has nothing of %d requests, the first is %s", n, first)
	}
	known := map[key]bool{}
	for _, r := range e.requests {
		k := key{r.Endpoint, r.ID}
		known[k] = true
		var tries []balancer.Try
		switch of := lines[k]; len(of) {
		case 0:
		case 1:
			tries = of[0].Tries
		default:
			return j, fmt.Errorf("nginx's log has request %s %d times", r.ID, len(of))
		}
		if err := j.add(r, tries, e); err != nil {
			return j, err
		}
	}
	for i := range e.visits {
		for endpoint, ids := range e.visits[i] {
			for id := range ids {
				if !known[key{endpoint, id}] {
					return j, fmt.Errorf("victim %s read request %s to /%s, which was never sent", names[i], id, endpoint)
				}
			}
		}
	}
	return j, nil
}

// add counts one request, which nginx sent to the servers of tries.
func (j *joined) add(r result.Request, tries []balancer.Try, e evidence) error {
	asked := []int{} // victims, in the order in which they were
	for _, t := range tries {
		if i := slices.Index(e.addresses[:], t.Addr); i >= 0 {
			asked = append(asked, i)
		}
	}
	ok := r.Outcome == outcomeOK
	runs := 0
	for i := range e.visits {
		visit, read := e.visits[i][r.Endpoint][r.ID]
		if read && !slices.Contains(asked, i) {
			return fmt.Errorf("victim %s read request %s, and nginx says that it never sent it there", names[i], r.ID)
		}
		if visit.StartedNS != 0 {
			runs++
		}
	}
	if ok && runs == 0 {
		return fmt.Errorf("request %s was answered, and no victim's worker had it", r.ID)
	}
	j.runs += runs
	switch {
	case ok:
		j.counts.OK++
	case runs == 0:
		j.counts.NeverReached++
	default:
		j.counts.FailedButExecuted++
	}
	if runs > 1 {
		j.counts.ExecutedTwice++
	}
	if len(asked) > 1 {
		j.sentTwice++
		j.shares[asked[1]].retried++
	}
	var of share // of nobody, if no victim was asked
	to := &of
	if len(asked) > 0 {
		to = &j.shares[asked[0]]
		j.asked++
		if asked[0] == 0 {
			j.askedOneFirst++
		}
	}
	if r.Endpoint != "fast" {
		j.upstream++
		to.upstream++
		if !ok {
			j.upFailed++
			to.upstreamFailed++
		}
		return nil
	}
	j.fast++
	to.fast++
	switch {
	case !ok:
		j.fastFailed++
		to.fastFailed++
		if len(asked) == 0 && r.Outcome == outcomeHTTPError {
			j.unasked++
		}
	case r.Response >= e.late:
		j.fastLate++
	}
	return nil
}

// figures are those of the joined requests.
func (j joined) figures() map[figure]float64 {
	percent := func(part, whole int) float64 { return 100 * float64(part) / float64(max(whole, 1)) }
	one, two := j.shares[0], j.shares[1]
	return map[figure]float64{
		fastFailed:     percent(j.fastFailed, j.fast),
		fastFailedOne:  percent(one.fastFailed, one.fast),
		fastFailedTwo:  percent(two.fastFailed, two.fast),
		fastLate:       percent(j.fastLate, j.fast),
		unasked:        percent(j.unasked, j.fast),
		upstreamFailed: percent(j.upFailed, j.upstream),
		shareOne:       percent(j.askedOneFirst, j.asked),
	}
}

// outcome says where /fast died.
func (c cell) outcome(j joined) outcome {
	dead := func(part, whole int) bool { return whole > 0 && float64(part) >= deadRatio*float64(whole) }
	one, two := j.shares[0], j.shares[1]
	deadOne, deadTwo := dead(one.fastFailed, one.fast), dead(two.fastFailed, two.fast)
	switch {
	case dead(j.unasked, j.fast):
		return atBalancer
	case deadTwo && !c.bothSlow:
		return spreads
	case deadOne && deadTwo:
		return everywhere
	case deadOne || deadTwo:
		return stays
	}
	return unharmed
}
