package deadconn

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"chokepoint/internal/adminapi"
	"chokepoint/internal/lab/netlab/capture"
	"chokepoint/internal/result"
)

func TestTheOutcomeOfACall(t *testing.T) {
	failed := func(texts ...string) adminapi.Call {
		var c adminapi.Call
		for _, text := range texts {
			c.Attempts = append(c.Attempts, adminapi.Attempt{Error: text})
		}
		return c
	}
	for _, tc := range []struct {
		call adminapi.Call
		want outcome
	}{
		{adminapi.Call{Status: 200, Attempts: []adminapi.Attempt{{Error: "EOF"}, {}}}, got200},
		{adminapi.Call{Status: 429, Attempts: []adminapi.Attempt{{}}}, got429},
		{failed("net/http: timeout awaiting response headers"), responseTimeout},
		{failed("timeout"), responseTimeout},
		{failed("EOF", "read tcp 10.81.0.10:1->10.82.0.10:8080: read: connection reset by peer"), connReset},
		{failed("read tcp 10.81.0.10:1->10.82.0.10:8080: read: connection timed out"), timedOut},
		{failed("dial tcp 10.82.0.10:8080: connect: connection refused"), refused},
		{failed("the server closed connection before returning the first response byte. Make sure the server returns 'Connection: close' response header before closing the connection"), closed},
		{failed("EOF"), eof},
		{failed("http: server closed idle connection"), eof},
		{failed("unexpected EOF"), cutShort},
		{failed("something else"), "something else"},
	} {
		if got := outcomeOf(tc.call); got != tc.want {
			t.Errorf("%+v: %q, want %q", tc.call, got, tc.want)
		}
	}
}

func TestAttemptsThatADefenceCalledOffAreNone(t *testing.T) {
	c := adminapi.Call{Attempts: []adminapi.Attempt{{Discarded: "age"}, {Error: "EOF"}, {}}}
	if got := attemptsOf(c); got != 2 {
		t.Errorf("%d attempts, want 2", got)
	}
}

func TestWhatBecameOfTheRequest(t *testing.T) {
	for _, tc := range []struct {
		v    seen
		want result.CaseCounts
	}{
		{seen{outcome: got200, runs: 1}, result.CaseCounts{OK: 1}},
		{seen{outcome: got200, runs: 2}, result.CaseCounts{OK: 1, ExecutedTwice: 1}},
		{seen{outcome: connReset}, result.CaseCounts{NeverReached: 1}},
		{seen{outcome: eof, runs: 1}, result.CaseCounts{FailedButExecuted: 1}},
		{seen{outcome: responseTimeout, runs: 5}, result.CaseCounts{FailedButExecuted: 1, ExecutedTwice: 1}},
		{seen{outcome: got503, runs: 1}, result.CaseCounts{}}, // the client has its answer
	} {
		if got := countsOf(tc.v); got != tc.want {
			t.Errorf("%+v: %+v, want %+v", tc.v, got, tc.want)
		}
	}
}

func TestRunsOfAServerThatWasKilled(t *testing.T) {
	w := world{log: filepath.Join(t.TempDir(), "requests.jsonl")}
	log := `{"number":1,"id":"fill-0-0","run":1}
{"number":1,"id":"fill-0-0","run":1,"end":"answered"}
{"number":2,"id":"judged","run":1}
{"number":3,"id":"judged","run":2}
{"number":2,"id":"judged","run":1,"end":"died"}
{"number":3,"id":"jud`
	if err := os.WriteFile(w.log, []byte(log), 0o600); err != nil {
		t.Fatal(err)
	}
	runs, err := w.runs()
	if err != nil {
		t.Fatal(err)
	}
	if len(runs) != 2 || runs[0].Number != 2 || runs[0].End != adminapi.EndDied || runs[1].Number != 3 || runs[1].End != "" {
		t.Errorf("runs %+v; want number 2, which died, and number 3, which has no end", runs)
	}
	if err := os.WriteFile(w.log, []byte("no JSON\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := w.runs(); err == nil {
		t.Error("a line that is no JSON is no error")
	}
}

func TestEventsBeginWithTheRequest(t *testing.T) {
	asked := time.Unix(100, 0)
	at := func(d time.Duration, flags capture.Flags, note capture.Note) capture.Packet {
		return capture.Packet{Time: asked.Add(d), Flags: flags, Note: note}
	}
	packets := []capture.Packet{
		at(-time.Second, capture.SYN, ""),
		at(0, capture.PSH|capture.ACK, ""),
		at(time.Second, capture.PSH|capture.ACK, capture.Retransmission),
		at(2*time.Second, capture.FIN|capture.ACK, ""),
		at(3*time.Second, capture.SYN, ""),
		at(3*time.Second, capture.SYN|capture.ACK, ""),
		at(4*time.Second, capture.RST, ""),
	}
	var got []string
	for _, e := range events("caller", packets, asked) {
		got = append(got, e.What)
	}
	want := []string{"retransmission", "FIN", "SYN", "RST"}
	if len(got) != len(want) {
		t.Fatalf("events %q, want %q", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("event %d is %q, want %q", i, got[i], want[i])
		}
	}
	if n := retransmitsSince(packets, asked); n != 1 {
		t.Errorf("%d retransmits, want 1", n)
	}
	many := make([]capture.Packet, 3*maxEvents)
	for i := range many {
		many[i] = at(time.Duration(i), capture.RST, "")
	}
	if n := len(events("caller", many, asked)); n != maxEvents {
		t.Errorf("%d events, want %d", n, maxEvents)
	}
}
