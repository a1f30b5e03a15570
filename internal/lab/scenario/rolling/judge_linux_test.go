package rolling

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"chokepoint/internal/adminapi"
	"chokepoint/internal/lab/balancer"
	"chokepoint/internal/lab/netlab/capture"
	"chokepoint/internal/result"
)

var ended = time.Unix(1000, 0)

// packet is one between the balancer's port and a server, so long after the end.
func packet(at time.Duration, port uint16, fromServer bool, flags capture.Flags, length int) capture.Packet {
	lb, was := netip.AddrPortFrom(lbAddr, port), netip.AddrPortFrom(wasAddrs[0], wasPort)
	p := capture.Packet{Time: ended.Add(at), Protocol: capture.TCP, Source: lb, Destination: was, Flags: flags, Length: length}
	if fromServer {
		p.Source, p.Destination = was, lb
	}
	return p
}

func TestEndOfKept(t *testing.T) {
	const ms = time.Millisecond
	kept := map[uint16]bool{40000: true}
	request := packet(-ms, 40000, false, capture.PSH|capture.ACK, 100)
	fin := packet(ms, 40000, true, capture.FIN|capture.ACK, 0)
	finBack := packet(2*ms, 40000, false, capture.FIN|capture.ACK, 0)
	for _, tc := range []struct {
		name    string
		packets []capture.Packet
		how     string
		after   int
	}{
		{"nothing", []capture.Packet{request}, notEnded, 0},
		{"the server's FIN", []capture.Packet{request, fin, finBack}, endedByServer, 0},
		{"the balancer's FIN", []capture.Packet{request, finBack, fin}, endedByBalancer, 0},
		{"RST", []capture.Packet{packet(ms, 40000, true, capture.RST, 0), finBack}, endedByReset, 0},
		{"used after it", []capture.Packet{fin, packet(3*ms, 40000, false, capture.PSH|capture.ACK, 100)}, endedByServer, 1},
		{"another connection", []capture.Packet{packet(ms, 40001, true, capture.FIN, 0)}, notEnded, 0},
	} {
		if how, after := endOfKept(tc.packets, kept); how != tc.how || after != tc.after {
			t.Errorf("%s: %s and %d, want %s and %d", tc.name, how, after, tc.how, tc.after)
		}
	}
}

func TestFirstNew(t *testing.T) {
	const ms = time.Millisecond
	kept := map[uint16]bool{40000: true}
	syn := packet(ms, 40002, false, capture.SYN, 0)
	for _, tc := range []struct {
		name    string
		packets []capture.Packet
		want    string
	}{
		{"none", []capture.Packet{packet(ms, 40000, true, capture.RST, 0)}, noneOpened},
		{"before the end", []capture.Packet{packet(-ms, 40001, false, capture.SYN, 0), packet(-ms, 40001, true, capture.SYN|capture.ACK, 0)}, noneOpened},
		{"no answer", []capture.Packet{syn, syn}, answerNothing},
		{"RST", []capture.Packet{syn, packet(2*ms, 40002, true, capture.RST|capture.ACK, 0)}, answerRST},
		{"accepted", []capture.Packet{syn, packet(2*ms, 40002, true, capture.SYN|capture.ACK, 0)}, answerAccepted},
		{"another's answer", []capture.Packet{syn, packet(2*ms, 40003, true, capture.RST, 0)}, answerNothing},
	} {
		if got := firstNew(tc.packets, kept, ended); got != tc.want {
			t.Errorf("%s: %s, want %s", tc.name, got, tc.want)
		}
	}
}

// The requests of a case, by what became of them.
func sample() []joined {
	at := func(i int) string { return addrOf(wasAddrs[i], wasPort) }
	run := adminapi.StubRequest{}
	return []joined{
		{answer: answer{id: "a", outcome: "200", server: was2, connection: "was2-1"}, runs: []adminapi.StubRequest{run},
			logged: &balancer.Access{Status: 200, Tries: []balancer.Try{{Addr: at(1), Status: 200}}}},
		{answer: answer{id: "b", outcome: "200", server: was2}, runs: []adminapi.StubRequest{run, run},
			logged: &balancer.Access{Status: 200, Tries: []balancer.Try{{Addr: at(0), Status: 502}, {Addr: at(1), Status: 200}}}},
		{answer: answer{id: "c", outcome: gaveUp},
			logged: &balancer.Access{Status: 499, Tries: []balancer.Try{{Addr: at(0), Connect: -1, Took: -1}}}},
		{answer: answer{id: "d", outcome: bad502}, runs: []adminapi.StubRequest{run},
			logged: &balancer.Access{Status: 502, Tries: []balancer.Try{{Addr: at(0), Status: 502}}}},
		{answer: answer{id: "e", outcome: gaveUp}},
	}
}

func TestWhatARequestGot(t *testing.T) {
	var got []string
	for _, j := range sample() {
		got = append(got, j.request(ended).Got)
	}
	want := []string{
		"200", "200, nginx 200: was1 502 then was2 200", "timeout, nginx 499: was1 not connected", "502, nginx 502: was1 502", "timeout, no line in nginx's log",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if counts := countsOf(sample()); counts != (result.CaseCounts{OK: 2, NeverReached: 2, FailedButExecuted: 1, ExecutedTwice: 1}) {
		t.Errorf("counts %+v", counts)
	}
}

func TestSeeUntilOut(t *testing.T) {
	c := cell{s: Settings{Timeout: 3 * time.Second}, want: takenOut(answerNothing, time.Second, time.Minute)(Settings{})}
	at := addrOf(wasAddrs[0], wasPort)
	sent := func(after time.Duration, outcome string) joined {
		return joined{answer: answer{began: ended.Add(after), outcome: outcome}, logged: &balancer.Access{Tries: []balancer.Try{{Addr: at}}}}
	}
	v := c.see(record{ended: ended, out: ended.Add(10 * time.Second), why: noRoute}, []joined{
		sent(time.Second, gaveUp), sent(2*time.Second, "200"), // had the time to be given up
		sent(8*time.Second, "200"),                                // was passed on when the server was taken out
		sent(11*time.Second, "200"), sent(12*time.Second, gaveUp), // after it
	}, nil, nil)
	if v.out != 10*time.Second || v.why != noRoute || v.answeredBefore != 1 || v.after != 1 {
		t.Errorf("out after %v because of %s, %d answered before, %d not after", v.out, v.why, v.answeredBefore, v.after)
	}
}

func TestWhatNginxLogs(t *testing.T) {
	o := newObserver(nil)
	const tail = `, client: 10.82.0.20, server: , request: "GET /work HTTP/1.1", upstream: "http://10.83.0.11:8080/work", host: "10.82.0.10:8080"`
	for _, line := range []string{
		`2026/11/30 09:47:30 [notice] 194#194: start worker process 195`,
		`2026/11/30 09:47:31 [error] 195#195: *5 connect() failed (113: No route to host) while connecting to upstream` + tail,
		`2026/11/30 09:47:31 [warn] 195#195: *5 upstream server temporarily disabled while connecting to upstream` + tail,
		`2026/11/30 09:47:32 [error] 195#195: *7 connect() failed (111: Connection refused) while connecting to upstream` + tail,
	} {
		o.logged(line)
	}
	var got []string
	for _, m := range o.moments {
		got = append(got, m.what+": "+m.detail)
	}
	want := []string{
		"nginx error: connect() failed (113: No route to host) while connecting to upstream",
		"nginx warn: upstream server temporarily disabled while connecting to upstream",
		"nginx error: connect() failed (111: Connection refused) while connecting to upstream",
	}
	if !slices.Equal(got, want) || o.outAt.IsZero() || o.why != noRoute {
		t.Errorf("moments %q, out at %v because of %q", got, o.outAt, o.why)
	}
}
