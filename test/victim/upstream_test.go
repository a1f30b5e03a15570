package victim

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"chokepoint/internal/adminapi"
	"chokepoint/internal/evidence/stacks"
	"chokepoint/internal/profile"
	"chokepoint/internal/service/victim"
)

var clients = []profile.Client{profile.ClientFastHTTP, profile.ClientNetHTTP}

// call sends a request to /upstream and returns its status and what it is told.
func (w *world) call(method, body string, header map[string]string) (int, adminapi.UpstreamAnswer) {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), method, "http://"+w.public+"/upstream", strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	for name, value := range header {
		req.Header.Set(name, value)
	}
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	var answer adminapi.UpstreamAnswer
	if err := json.Unmarshal(data, &answer); err != nil {
		w.t.Fatalf("%s: %v", data, err)
	}
	return resp.StatusCode, answer
}

// stubRequests are the requests that the stub has read.
func (w *world) stubRequests() []adminapi.StubRequest {
	w.t.Helper()
	stub := world{t: w.t, admin: "http://" + w.stub.Listening().Admin}
	var log adminapi.StubRequests
	stub.adminJSON(adminapi.PathRequests, &log)
	return log.Requests
}

// The request goes on with its method, its body and the lab's headers, and its answer
// tells of the connections that carried it. No database is needed for that.
func TestUpstreamPassesOnAndTells(t *testing.T) {
	for _, client := range clients {
		w := newWorld(t, answers, func(c *victim.Config) {
			c.DatabaseURL = ""
			c.Profile = profile.Profile{Connections: profile.Connections{Client: client}}
		})
		var got []adminapi.Call
		for i, method := range []string{"GET", "POST", "PUT"} {
			body := ""
			if method != "GET" {
				body = "work"
			}
			status, answer := w.call(method, body, map[string]string{
				adminapi.HeaderID: fmt.Sprint("id-", i), adminapi.HeaderIdempotencyKey: "key", adminapi.HeaderPhase: adminapi.PhaseLoad, "X-Other": "stays",
			})
			if status != 200 || answer.Upstream != "ok" || answer.Call == nil {
				t.Fatalf("%s %s: %d, %+v", client, method, status, answer)
			}
			got = append(got, *answer.Call)
			if client == profile.ClientNetHTTP {
				w.statsWhen("with a connection at rest", func(s adminapi.VictimStats) bool { return s.Outbound.Idle == 1 })
			}
		}
		port := got[0].LocalPort
		var want []adminapi.Call
		for i := range 3 {
			want = append(want, adminapi.Call{Client: string(client), Status: 200, Reused: i > 0, LocalPort: port, Connection: "upstream-1", Sent: 1,
				Attempts: []adminapi.Attempt{{LocalPort: port, Reused: i > 0, Sent: true}}})
		}
		times := cmp.Options{cmpopts.IgnoreFields(adminapi.Call{}, "MS"), cmpopts.IgnoreFields(adminapi.Attempt{}, "MS")}
		if diff := cmp.Diff(want, got, times); diff != "" {
			t.Errorf("%s: calls (-want +got)\n%s", client, diff)
		}
		if port == 0 || got[0].MS <= 0 || got[0].Attempts[0].MS <= 0 || got[0].Attempts[0].MS > got[0].MS {
			t.Errorf("%s: port and times of %+v", client, got[0])
		}
		wantOutbound := adminapi.OutboundStats{Client: string(client), Open: 1, Idle: 1, Dialled: 1}
		if diff := cmp.Diff(wantOutbound, w.stats().Outbound); diff != "" {
			t.Errorf("connections (-want +got)\n%s", diff)
		}
		var sent []string
		for _, r := range w.stubRequests() {
			sent = append(sent, fmt.Sprint(r.Method, " ", r.BodyBytes, " ", r.ID, " ", r.IdempotencyKey, " ", r.Phase))
		}
		if diff := cmp.Diff([]string{"GET 0 id-0 key load", "POST 4 id-1 key load", "PUT 4 id-2 key load"}, sent); diff != "" {
			t.Errorf("%s: what the stub read (-want +got)\n%s", client, diff)
		}
	}
}

// A failure tells what the client said, and what its socket did.
func TestUpstreamTellsOfFailures(t *testing.T) {
	for _, client := range clients {
		w := newWorld(t, fails(adminapi.FaultReset), func(c *victim.Config) {
			c.DatabaseURL = ""
			c.Profile = profile.Profile{Connections: profile.Connections{Client: client, Retry: profile.RetryIdempotent}}
		})
		for method, sent := range map[string]int{"GET": 2, "POST": 1} {
			status, answer := w.call(method, "", nil)
			call := answer.Call
			if status != 502 || answer.Error != adminapi.CauseUpstreamReset || call == nil || call.Status != 0 || call.Sent != sent || len(call.Attempts) != sent {
				t.Fatalf("%s %s: %d, %+v", client, method, status, answer)
			}
			for _, a := range call.Attempts {
				if a.Socket != "ECONNRESET" || a.Error == "" || a.ErrorType == "" || !a.Sent || a.Reused {
					t.Errorf("%s %s: %+v", client, method, a)
				}
			}
			if answer.Detail != call.Attempts[sent-1].Error {
				t.Errorf("detail %q, last error %q", answer.Detail, call.Attempts[sent-1].Error)
			}
		}
		if status, answer := w.call("PATCH", "", nil); status != 405 || answer.Error != adminapi.CauseMethod {
			t.Errorf("PATCH: %d, %+v", status, answer)
		}
	}
}

func TestNoDatabase(t *testing.T) {
	w := newWorld(t, answers, func(c *victim.Config) { c.DatabaseURL = "" })
	if status, _, _ := w.adminGet(adminapi.PathReady); status != 200 {
		t.Errorf("ready: %d, want 200", status)
	}
	for _, a := range receiveAll(w.hold(1, "/fast")) {
		if a.status != 503 || a.cause(t) != adminapi.CauseDatabase || !strings.Contains(string(a.body), "-no-database") {
			t.Errorf("/fast: %d %s", a.status, a.body)
		}
	}
}

// A worker of net/http's client waits for other goroutines, and is told from an idle
// one all the same: in the read and in the handshake.
func TestDumpOfANetHTTPClient(t *testing.T) {
	labelled(t)
	for _, tc := range []struct {
		name  string
		stub  adminapi.Behaviour
		tls   bool
		where string
	}{
		{"waits for the answer", hang, false, stacks.UpstreamRead},
		{"shakes hands", fails(adminapi.FaultTLSHang), true, stacks.UpstreamConnect},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, tc.stub, func(c *victim.Config) {
				c.DatabaseURL = ""
				c.Profile = profile.Profile{Connections: profile.Connections{Client: profile.ClientNetHTTP}}
				if tc.tls {
					c.UpstreamURL = "https" + strings.TrimPrefix(c.UpstreamURL, "http")
				}
			})
			w.hold(3, "/upstream")
			w.dumpWhen(map[string]int{tc.where: 3})
		})
	}
}
