package upstream

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"chokepoint/internal/adminapi"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// post sends a POST of three bytes with headers.
func (c *client) post(headers ...string) {
	c.t.Helper()
	c.send("POST /pay HTTP/1.1\nHost: stub\nContent-Length: 3\n" + strings.Join(append(headers, "", ""), "\n") + "abc")
}

func withID(id string) string      { return adminapi.HeaderID + ": " + id }
func withFault(text string) string { return adminapi.HeaderFault + ": " + text }
func withDelay(text string) string { return adminapi.HeaderDelay + ": " + text }
func withKey(key string) string    { return adminapi.HeaderIdempotencyKey + ": " + key }

// runs polls until n runs have ended, and returns them.
func runs(t *testing.T, s *Server, n int) []adminapi.StubRequest {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		got := s.requests.snapshot("").Requests
		ended := 0
		for _, r := range got {
			if r.End != "" {
				ended++
			}
		}
		if ended == n && len(got) == n {
			return got
		}
		if time.Now().After(end) {
			t.Fatalf("%d runs, want %d that have ended: %+v", len(got), n, got)
		}
	}
}

// TestARequestBringsItsFault: the stub is told nothing, and each request says what
// befalls it; how each run ended is kept.
func TestARequestBringsItsFault(t *testing.T) {
	s := start(t, behaviourOf("0s", "", 0))
	c := dial(t, s)
	c.post(withID("ok"), withKey("k1"))
	c.answer("POST")
	c.post(withID("limited"), withFault("status;status=429"))
	if resp, body := c.answer("POST"); resp.StatusCode != 429 || resp.Close || !strings.Contains(body, adminapi.CauseInjected) {
		t.Errorf("status %d, close %v, body %s", resp.StatusCode, resp.Close, body)
	}
	c.post(withID("sick"), withFault("status;status=503;close"))
	if resp, _ := c.answer("POST"); resp.StatusCode != 503 || !resp.Close {
		t.Errorf("status %d, close %v, want 503 and Connection: close", resp.StatusCode, resp.Close)
	}
	if data, err := c.rest(); data != "" || err != nil {
		t.Errorf("after Connection: close: %q, %v", data, err)
	}
	dies := dial(t, s)
	dies.post(withID("dies"), withFault("reset"), withDelay("10ms"))
	if _, err := dies.rest(); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("ended with %v, want a RST", err)
	}
	gone := dial(t, s)
	gone.post(withID("gone"), withDelay("30ms"))
	eventually(t, s, "the request", func(st adminapi.StubStats) bool { return st.InFlight == 1 })
	gone.Close()

	want := []adminapi.StubRequest{
		{ID: "ok", IdempotencyKey: "k1", Connection: "upstream-1", End: adminapi.EndAnswered, Status: 200},
		{ID: "limited", Connection: "upstream-1", End: adminapi.EndAnswered, Fault: adminapi.FaultStatus, Status: 429},
		{ID: "sick", Connection: "upstream-1", End: adminapi.EndAnswered, Fault: adminapi.FaultStatus, Status: 503},
		{ID: "dies", Connection: "upstream-2", End: adminapi.EndDied, Fault: adminapi.FaultReset},
		{ID: "gone", Connection: "upstream-3", End: adminapi.EndClientGone},
	}
	for i := range want {
		w := &want[i]
		w.Server, w.Number, w.Run, w.Phase, w.Method, w.Path, w.BodyBytes = "upstream", i+1, 1, adminapi.PhaseOther, "POST", "/pay", 3
	}
	got := runs(t, s, len(want))
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(adminapi.StubRequest{}, "BeganAt", "EndedAt")); diff != "" {
		t.Errorf("runs (-want +got):\n%s", diff)
	}
	for _, r := range got {
		if r.EndedAt.Before(r.BeganAt) || r.BeganAt.IsZero() {
			t.Errorf("%s began %v and ended %v", r.ID, r.BeganAt, r.EndedAt)
		}
	}
}

// TestFirst: the first run of an id dies and its retry is answered, or the first
// requests after a change whatever their ids.
func TestFirst(t *testing.T) {
	s := start(t, behaviourOf("0s", "", 0))
	try := func(headers ...string) string {
		c := dial(t, s)
		c.post(headers...)
		data, err := c.rest1()
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	for i, want := range []string{"", "", "HTTP/1.1 200 OK"} {
		if got := try(withID("a"), withFault("close;first=2")); got != want {
			t.Errorf("run %d of a: %q, want %q", i+1, got, want)
		}
	}
	if got := try(withID("b"), withFault("close;first=2")); got != "" {
		t.Errorf("run 1 of b: %q, want nothing: each id is counted for itself", got)
	}
	b := behaviourOf("0s", "close", 1)
	b.FaultFirst = 1
	for range 2 { // a behaviour that is set again counts anew
		set(t, s, b)
		for i, want := range []string{"", "HTTP/1.1 200 OK"} {
			if got := try(withID("c")); got != want {
				t.Errorf("request %d after the change: %q, want %q", i+1, got, want)
			}
		}
	}
	runs(t, s, 8)
	_, body := ask(t, s, "GET", adminapi.PathRequests+"?id=a", "")
	var got adminapi.StubRequests
	if err := json.Unmarshal([]byte(body), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]int{"a": 3}, got.Runs); diff != "" || got.Total != 8 || len(got.Requests) != 3 || got.Requests[2].Run != 3 || got.Server != "upstream" {
		t.Errorf("of a: %s\n%+v", diff, got)
	}
	if all := s.requests.snapshot(""); all.Runs["a"] != 3 || all.Runs["b"] != 1 || all.Runs["c"] != 4 {
		t.Errorf("runs %v", all.Runs)
	}
}

// rest1 is the first line that came, empty if the connection ended before any.
func (c *client) rest1() (string, error) {
	line, err := c.in.ReadString('\n')
	if err == io.EOF {
		err = nil
	}
	return strings.TrimRight(line, "\r\n"), err
}

// TestARequestThatAsksForNonsense is refused, is no run, and keeps its connection.
func TestARequestThatAsksForNonsense(t *testing.T) {
	s := start(t, behaviourOf("0s", "", 0))
	c := dial(t, s)
	for _, tt := range []struct{ header, want string }{
		{withDelay("soon"), `X-Chokepoint-Delay \"soon\": want a duration`},
		{withDelay("-1s"), `X-Chokepoint-Delay \"-1s\"`},
		{withFault("explode"), `choose one of none, error, status`},
		{withFault("refuse"), `choose one of none, error, status`},
		{withFault("close;first=0"), `\"first=0\" is none of first=N, status=CODE and close`},
		{withFault("close;soon"), `\"soon\" is none of`},
		{withFault("status"), `fault \"status\" with status 0: want 400 to 599`},
		{withFault("close;first=1"), `first counts the runs of an id; send X-Chokepoint-Id`},
	} {
		c.post(tt.header)
		resp, body := c.answer("POST")
		if resp.StatusCode != http.StatusBadRequest || resp.Close || !strings.Contains(body, tt.want) {
			t.Errorf("%s: %d, close %v, %s, want 400 with %s", tt.header, resp.StatusCode, resp.Close, body, tt.want)
		}
	}
	if got := s.requests.snapshot(""); got.Total != 0 {
		t.Errorf("%d runs, want none", got.Total)
	}
}

// TestNoneOverridesTheFaultOfTheStub: a request can ask to be spared.
func TestNoneOverridesTheFaultOfTheStub(t *testing.T) {
	s := start(t, behaviourOf("1h", "reset", 1))
	c := dial(t, s)
	c.post(withFault("none"), withDelay("0s"))
	if resp, _ := c.answer("POST"); resp.StatusCode != 200 {
		t.Errorf("status %d", resp.StatusCode)
	}
}

// TestRequestLog: what had begun is in the file before its work, so that a stub that is
// killed leaves it there.
func TestRequestLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "requests.jsonl")
	s, err := Start(t.Context(), Config{Listen: "127.0.0.1:0", Admin: "127.0.0.1:0", Name: "was1", RequestLog: path})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	c := dial(t, s)
	c.post(withID("a"))
	c.answer("POST")
	runs(t, s, 1)
	c.post(withID("b"), withDelay("1h"))
	eventually(t, s, "the second", func(st adminapi.StubStats) bool { return st.InFlight == 1 })
	lines := func() (ends []string) {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(data) {
			var r adminapi.StubRequest
			if err := json.Unmarshal(line, &r); err != nil || r.Server != "was1" || r.Connection != "was1-1" {
				t.Fatalf("line %q: %v", line, err)
			}
			ends = append(ends, r.ID+" "+r.End)
		}
		return ends
	}
	want := []string{"a ", "a answered", "b "}
	if diff := cmp.Diff(want, lines()); diff != "" {
		t.Errorf("while the second is at work (-want +got):\n%s", diff)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(append(want, "b cut"), lines()); diff != "" {
		t.Errorf("after the end (-want +got):\n%s", diff)
	}
}

func TestRequestLogThatCannotBeWritten(t *testing.T) {
	if _, err := Start(t.Context(), Config{Listen: "127.0.0.1:0", Admin: "127.0.0.1:0", RequestLog: t.TempDir()}); err == nil || !strings.Contains(err.Error(), "request log: open") {
		t.Errorf("a folder as the log: %v", err)
	}
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("no /dev/full on this system, on which every write fails")
	}
	s, err := Start(t.Context(), Config{Listen: "127.0.0.1:0", Admin: "127.0.0.1:0", RequestLog: "/dev/full"})
	if err != nil {
		t.Fatal(err)
	}
	c := dial(t, s)
	c.post()
	c.answer("POST")
	if err := s.Close(); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("closed with %v, want the log's error", err)
	}
}

func TestRequestFaultIsItsText(t *testing.T) {
	for _, text := range []string{"none", "close", "close;first=2", "status;status=503;close", "reset_mid;first=1;close"} {
		f, err := adminapi.ParseRequestFault(text)
		if err != nil || f.String() != text {
			t.Errorf("%q became %q, %v", text, f, err)
		}
	}
}
