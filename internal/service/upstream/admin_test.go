package upstream

import (
	"encoding/json"
	"io"
	"math"
	"net/http"
	"strings"
	"testing"

	"chokepoint/internal/adminapi"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// ask calls the admin listener and returns the status and the body.
func ask(t *testing.T, s *Server, method, path, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://"+s.Listening().Admin+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	resp, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(data)
}

func TestParseBehaviour(t *testing.T) {
	with := func(delay, fault string, rate float64, body int) adminapi.Behaviour {
		b := behaviourOf(delay, fault, rate)
		b.BodyBytes = body
		return b
	}
	good := []struct{ in, want adminapi.Behaviour }{
		{with("1s", "", 0.5, 0), with("1s", "", 0, 0)},
		{with("1s", "error", 0.5, 7), with("1s", "error", 0.5, 7)},
		{with("1s", "hang", 1, MaxBodyBytes), with("1s", "hang", 1, MaxBodyBytes)},
		{with("1s", "refuse", 0, 0), with("1s", "refuse", 1, 0)},
		{with("1s", "tls_hang", 0.2, 0), with("1s", "tls_hang", 1, 0)},
	}
	for _, tt := range good {
		b, err := parseBehaviour(tt.in)
		if err != nil {
			t.Errorf("%+v: %v", tt.in, err)
			continue
		}
		if diff := cmp.Diff(tt.want, b.Behaviour); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", tt.in, diff)
		}
		if want := max(len(answerBody), tt.in.BodyBytes); len(b.body) != want || !json.Valid(b.body) {
			t.Errorf("%+v: body of %d bytes, want %d of JSON", tt.in, len(b.body), want)
		}
	}
	bad := []struct {
		in   adminapi.Behaviour
		want string
	}{
		{with("", "", 0, 0), "delay is missing; write 0s for none"},
		{with("soon", "", 0, 0), `delay "soon"`},
		{with("1s", "explode", 1, 0), `unknown fault "explode"; choose one of error, status, hang, close, close_mid, reset, reset_mid, refuse, tls_hang`},
		{with("1s", "error", 0, 0), `fault "error" with fault rate 0 would do nothing`},
		{with("1s", "error", -0.1, 0), "fault rate -0.1: must be from 0 to 1"},
		{with("1s", "error", 1.1, 0), "fault rate 1.1: must be from 0 to 1"},
		{with("1s", "error", math.NaN(), 0), "fault rate NaN"},
		{with("1s", "", 0, -1), "body bytes -1: must be from 0 to 67108864"},
		{with("1s", "", 0, MaxBodyBytes+1), "body bytes 67108865"},
	}
	for _, tt := range bad {
		if _, err := parseBehaviour(tt.in); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: error %v, want %q", tt.in, err, tt.want)
		}
	}
}

func TestBehaviourAPI(t *testing.T) {
	s := start(t, behaviourOf("1s", "", 0))
	const first = `{"delay":"1s","fault":"","fault_rate":0,"body_bytes":0}` + "\n"
	if status, body := ask(t, s, "GET", adminapi.PathBehaviour, ""); status != 200 || body != first {
		t.Errorf("GET: %d %s, want 200 %s", status, body, first)
	}
	bad := []struct{ body, want string }{
		{`{"delay":"1s","faults":"error"}`, `unknown field \"faults\"; its fields are delay, fault, fault_rate, body_bytes, fault_first, fault_status, close_answers, idle_timeout, idle_end`},
		{`{"delay":1}`, "the body is not a behaviour"},
		{``, "the body is not a behaviour"},
		{`{"delay":"1s"} {}`, "the body goes on after the behaviour"},
		{`{"delay":"` + strings.Repeat("x", maxBehaviourBytes) + `"}`, "too large"},
		{`{"fault":"error","fault_rate":1}`, "delay is missing"},
		{`{"delay":"5"}`, "is not a duration"},
	}
	for _, tt := range bad {
		status, body := ask(t, s, "PUT", adminapi.PathBehaviour, tt.body)
		var e adminapi.Error
		if err := json.Unmarshal([]byte(body), &e); err != nil || e.Error != adminapi.CauseBadRequest {
			t.Errorf("PUT %.60s: body %s, want an adminapi.Error", tt.body, body)
		}
		if status != 400 || !strings.Contains(body, tt.want) || strings.Count(body, "\n") != 1 {
			t.Errorf("PUT %.60s: %d %s, want 400 and one line with %s", tt.body, status, body, tt.want)
		}
	}
	if _, body := ask(t, s, "GET", adminapi.PathBehaviour, ""); body != first {
		t.Errorf("refused changes left %s, want %s", body, first)
	}
	const second = `{"delay":"0s","fault":"error","fault_rate":0.5,"body_bytes":9}` + "\n"
	if status, body := ask(t, s, "PUT", adminapi.PathBehaviour, second); status != 200 || body != second {
		t.Errorf("PUT: %d %s, want 200 %s", status, body, second)
	}
	if status, _ := ask(t, s, "POST", adminapi.PathBehaviour, second); status != 405 {
		t.Errorf("POST: %d, want 405", status)
	}
}

func TestPutConflict(t *testing.T) {
	s := start(t, behaviourOf("0s", "refuse", 0))
	s.port.release()
	thief, err := listen(t.Context(), s.Listening().Public)
	if err != nil {
		t.Fatal(err)
	}
	defer thief.Close()
	status, body := ask(t, s, "PUT", adminapi.PathBehaviour, `{"delay":"0s"}`)
	if status != 409 || !strings.Contains(body, `"error":"conflict"`) || !strings.Contains(body, "is in use") {
		t.Errorf("PUT: %d %s, want 409 and why", status, body)
	}
}

func TestAdminPages(t *testing.T) {
	s := start(t, behaviourOf("0s", "", 0))
	for path, want := range map[string]string{
		"/healthz":                       "ok\n",
		adminapi.PathReady:               "ok\n",
		"/metrics":                       "process_open_fds",
		"/debug/pprof/":                  "goroutine",
		"/debug/pprof/goroutine?debug=1": "goroutine profile:",
		"/debug/pprof/cmdline":           "upstream",
	} {
		if status, body := ask(t, s, "GET", path, ""); status != 200 || !strings.Contains(body, want) {
			t.Errorf("GET %s: %d %.80q, want 200 and %q", path, status, body, want)
		}
	}
	if status, _ := ask(t, s, "GET", "/nothing", ""); status != 404 {
		t.Errorf("GET /nothing: %d, want 404", status)
	}
}

// TestFiguresAgree: /stats and /metrics are two views of the same counts.
func TestFiguresAgree(t *testing.T) {
	s := start(t, behaviourOf("0s", "", 0))
	c := dial(t, s)
	for range 3 {
		c.get(adminapi.PhaseLoad)
		c.answer("GET")
	}
	set(t, s, behaviourOf("0s", "error", 1))
	c.get(adminapi.PhaseBaseline)
	c.answer("GET")
	eventually(t, s, "the connection idle again", func(st adminapi.StubStats) bool { return st.InFlight == 0 && st.Idle == 1 })

	_, body := ask(t, s, "GET", adminapi.PathStats, "")
	var got adminapi.StubStats
	if err := json.Unmarshal([]byte(body), &got); err != nil {
		t.Fatal(err)
	}
	want := adminapi.StubStats{Now: got.Now, Name: "upstream", Connections: 1, Open: 1, Idle: 1, Answered: 3, MaxInFlight: 1,
		Received:  map[string]int{"load": 3, "baseline": 1},
		Faults:    map[string]int{"error": 1},
		Behaviour: behaviourOf("0s", "error", 1)}
	if diff := cmp.Diff(want, got); diff != "" || got.Now.IsZero() {
		t.Errorf("/stats (-want +got):\n%s", diff)
	}
	err := testutil.CollectAndCompare(s.counts, strings.NewReader(`
# HELP chokepoint_upstream_connections_total Connections accepted.
# TYPE chokepoint_upstream_connections_total counter
chokepoint_upstream_connections_total 1
# HELP chokepoint_upstream_in_flight Requests read and not yet ended.
# TYPE chokepoint_upstream_in_flight gauge
chokepoint_upstream_in_flight 0
# HELP chokepoint_upstream_max_in_flight The most requests in flight at once since the start.
# TYPE chokepoint_upstream_max_in_flight gauge
chokepoint_upstream_max_in_flight 1
# HELP chokepoint_upstream_received_total Requests read, by phase.
# TYPE chokepoint_upstream_received_total counter
chokepoint_upstream_received_total{phase="baseline"} 1
chokepoint_upstream_received_total{phase="load"} 3
# HELP chokepoint_upstream_requests_total Requests ended, by phase and outcome.
# TYPE chokepoint_upstream_requests_total counter
chokepoint_upstream_requests_total{outcome="answered",phase="load"} 3
chokepoint_upstream_requests_total{outcome="error",phase="baseline"} 1
# HELP chokepoint_upstream_tls_hung_total Connections accepted and never spoken to.
# TYPE chokepoint_upstream_tls_hung_total counter
chokepoint_upstream_tls_hung_total 0
`), "chokepoint_upstream_connections_total", "chokepoint_upstream_in_flight", "chokepoint_upstream_max_in_flight",
		"chokepoint_upstream_received_total", "chokepoint_upstream_requests_total", "chokepoint_upstream_tls_hung_total")
	if err != nil {
		t.Error(err)
	}
	if _, metrics := ask(t, s, "GET", "/metrics", ""); !strings.Contains(metrics, "chokepoint_upstream_delay_seconds_count 4") {
		t.Error("/metrics does not show 4 delays")
	}
}
