package deadconn

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"chokepoint/internal/adminapi"
	"chokepoint/internal/lab/netlab/capture"
	"chokepoint/internal/result"
)

// outcomeOf is a call's outcome in the words of the matrix; what has no word is told
// in the client's own.
func outcomeOf(c adminapi.Call) outcome {
	text := errorOf(c)
	if text == "" {
		return outcome(strconv.Itoa(c.Status))
	}
	for _, known := range []struct {
		part string
		is   outcome
	}{
		{"closed connection before returning the first response byte", closed},
		{"timeout awaiting response headers", responseTimeout}, {"connection reset by peer", connReset},
		{"connection timed out", timedOut}, {"connection refused", refused}, {"timeout", responseTimeout},
		{"unexpected EOF", cutShort}, {"EOF", eof}, {"server closed idle connection", eof},
	} {
		if strings.Contains(text, known.part) {
			return known.is
		}
	}
	return outcome(text)
}

// errorOf is the client's exact error for its last attempt.
func errorOf(c adminapi.Call) string {
	if len(c.Attempts) == 0 {
		return ""
	}
	return c.Attempts[len(c.Attempts)-1].Error
}

func connectionOf(c adminapi.Call) string {
	if c.Reused {
		return onReused
	}
	return onNew
}

// attemptsOf counts the attempts that a defence did not call off before anything was
// sent.
func attemptsOf(c adminapi.Call) int {
	n := 0
	for _, a := range c.Attempts {
		if a.Discarded == "" {
			n++
		}
	}
	return n
}

func countsOf(v seen) (counts result.CaseCounts) {
	status, err := strconv.Atoi(string(v.outcome))
	switch {
	case err == nil && status < http.StatusBadRequest:
		counts.OK = 1
	case v.runs == 0:
		counts.NeverReached = 1
	case err != nil:
		counts.FailedButExecuted = 1
	}
	if v.runs > 1 {
		counts.ExecutedTwice = 1
	}
	return counts
}

func retransmitsSince(packets []capture.Packet, since time.Time) int {
	return capture.Retransmissions(slices.DeleteFunc(slices.Clone(packets), func(p capture.Packet) bool { return p.Time.Before(since) }))
}

// maxEvents bounds the moments of a case that its summary has; the packets are in its
// folder.
const maxEvents = 60

// events are the moments at which a connection began or ended, or a segment was sent
// again or in vain, from the judged request on.
func events(at string, packets []capture.Packet, since time.Time) []result.CaseEvent {
	var all []result.CaseEvent
	for _, p := range packets {
		what := string(p.Note)
		switch {
		case p.Time.Before(since):
			continue
		case p.Flags.Has(capture.RST):
			what = "RST"
		case what != "":
		case p.Flags.Has(capture.FIN):
			what = "FIN"
		case p.Flags.Has(capture.SYN) && !p.Flags.Has(capture.ACK):
			what = "SYN"
		default:
			continue
		}
		if len(all) == maxEvents {
			break
		}
		from := hostNames[p.Source.Addr()]
		all = append(all, result.CaseEvent{
			AtS: p.Time.Sub(since).Seconds(), Where: at, What: what,
			Detail: fmt.Sprintf("from %s, port %d to %d", from, p.Source.Port(), p.Destination.Port()),
		})
	}
	return all
}

// ends are the states, each once, in the order of the alphabet.
func (o observation) ends() ends {
	var client, server, entries []string
	for _, s := range o.client {
		client = append(client, s.State)
	}
	for _, s := range o.server {
		server = append(server, s.State)
	}
	for _, e := range o.entries {
		entries = append(entries, e.State)
	}
	return ends{client: distinct(client), server: distinct(server), conntrack: distinct(entries)}
}

func distinct(states []string) string {
	if len(states) == 0 {
		return nothing
	}
	slices.Sort(states)
	return strings.Join(slices.Compact(states), "+")
}

func (o observation) observed() *result.Observed {
	return &result.Observed{Client: texts(o.client), Server: texts(o.server), Conntrack: texts(o.entries)}
}

func texts[T fmt.Stringer](all []T) []string {
	out := []string{}
	for _, one := range all {
		out = append(out, one.String())
	}
	return out
}

// evidence is what is kept of a case beside its summary.
type evidence struct {
	asked            time.Time
	atCaller, atStub []capture.Packet
	before, after    observation
	answer           answer
	runs             []adminapi.StubRequest
}

// writeEvidence writes the files of a case, and lists them with those that the programs
// have written.
func writeEvidence(folder string, e evidence) ([]result.EvidenceFile, error) {
	var sockets strings.Builder
	e.before.write(&sockets, "before the judged request")
	e.after.write(&sockets, "after it")
	var packets [2]strings.Builder
	for i, seen := range [][]capture.Packet{e.atCaller, e.atStub} {
		if err := capture.WriteSequence(&packets[i], seen, e.asked, hostNames); err != nil {
			return nil, err
		}
	}
	answered, err := json.MarshalIndent(e.answer.UpstreamAnswer, "", "  ")
	if err != nil {
		return nil, err
	}
	files := []struct{ name, what, text string }{
		{"packets.txt", "packets at the caller's interface; times are from the judged request", packets[0].String()},
		{"packets-upstream.txt", "packets at the upstream's interface, behind the device", packets[1].String()},
		{"sockets.txt", "sockets of both ends, and what the device remembers, before and after", sockets.String()},
		{"answer.json", "what the caller says of its call: attempts, errors, connection", string(answered) + "\n"},
	}
	var list []result.EvidenceFile
	for _, f := range files {
		if err := result.WriteFile(filepath.Join(folder, f.name), []byte(f.text)); err != nil {
			return nil, err
		}
		list = append(list, result.EvidenceFile{Name: f.name, What: f.what})
	}
	for _, f := range []result.EvidenceFile{
		{Name: filepath.Base(requestLog(folder)), What: "runs of the server's handler"},
		{Name: "victim.log", What: "log of the caller"}, {Name: "stub.log", What: "log of the server"},
	} {
		if info, err := os.Stat(filepath.Join(folder, f.Name)); err == nil && info.Size() > 0 {
			list = append(list, f)
		}
	}
	return list, nil
}

func (o observation) write(w io.Writer, when string) {
	fmt.Fprintf(w, "%s\n", when)
	for _, part := range []struct {
		name string
		rows []string
	}{{"caller", texts(o.client)}, {"upstream", texts(o.server)}, {"conntrack", texts(o.entries)}} {
		if len(part.rows) == 0 {
			part.rows = []string{nothing}
		}
		for _, row := range part.rows {
			fmt.Fprintf(w, "  %-9s  %s\n", part.name, row)
		}
	}
	fmt.Fprintf(w, "  %-9s  %d passed, %d unknown and dropped, %d unknown and reset\n\n", "device",
		o.counters.Passed, o.counters.InvalidDropped, o.counters.InvalidReset)
}
