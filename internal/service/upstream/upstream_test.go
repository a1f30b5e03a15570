package upstream

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"chokepoint/internal/adminapi"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// patience bounds every wait of these tests; nothing is expected to take it.
const patience = 20 * time.Second

func behaviourOf(delay, fault string, rate float64) adminapi.Behaviour {
	return adminapi.Behaviour{Delay: delay, Fault: adminapi.Fault(fault), FaultRate: rate}
}

func mustParse(t *testing.T, b adminapi.Behaviour) *behaviour {
	t.Helper()
	parsed, err := parseBehaviour(b)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

func start(t *testing.T, b adminapi.Behaviour) *Server {
	t.Helper()
	s, err := Start(t.Context(), Config{Listen: "127.0.0.1:0", Admin: "127.0.0.1:0", Behaviour: b, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func set(t *testing.T, s *Server, b adminapi.Behaviour) {
	t.Helper()
	if err := s.SetBehaviour(t.Context(), b); err != nil {
		t.Fatal(err)
	}
}

// client is a caller that sees the bytes and how the connection ends.
type client struct {
	t *testing.T
	*net.TCPConn
	in *bufio.Reader
}

func dial(t *testing.T, s *Server) *client {
	t.Helper()
	c, err := net.Dial("tcp", s.Listening().Public)
	if err != nil {
		t.Fatal(err)
	}
	c.SetDeadline(time.Now().Add(patience))
	t.Cleanup(func() { c.Close() })
	return &client{t, c.(*net.TCPConn), bufio.NewReader(c)}
}

func (c *client) send(text string) {
	c.t.Helper()
	if _, err := io.WriteString(c, strings.ReplaceAll(text, "\n", "\r\n")); err != nil {
		c.t.Fatal(err)
	}
}

func (c *client) get(phase string) {
	c.t.Helper()
	c.send("GET /upstream HTTP/1.1\nHost: stub\n" + adminapi.HeaderPhase + ": " + phase + "\n\n")
}

// answer reads one whole answer.
func (c *client) answer(method string) (*http.Response, string) {
	c.t.Helper()
	resp, err := http.ReadResponse(c.in, &http.Request{Method: method})
	if err != nil {
		c.t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return resp, string(body)
}

// rest reads to the end of the connection: the error is nil for a FIN.
func (c *client) rest() (string, error) {
	data, err := io.ReadAll(c.in)
	return string(data), err
}

// eventually polls until the server's figures are as wanted. They may lag
// behind what a caller saw, since an answer is counted once it is written.
func eventually(t *testing.T, s *Server, what string, done func(adminapi.StubStats) bool) adminapi.StubStats {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		stats := s.Stats()
		if done(stats) {
			return stats
		}
		if time.Now().After(end) {
			t.Fatalf("not seen in %v: %s; stats %+v", patience, what, stats)
		}
	}
}

func idle(s adminapi.StubStats) bool { return s.InFlight == 0 }

func checkStats(t *testing.T, s *Server, want adminapi.StubStats) {
	t.Helper()
	got := eventually(t, s, "nothing in flight", idle)
	ignore := cmpopts.IgnoreFields(adminapi.StubStats{}, "Now", "Name", "Open", "Idle", "Behaviour", "MaxInFlight")
	if diff := cmp.Diff(want, got, ignore, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("stats (-want +got):\n%s", diff)
	}
}

func TestAnswer(t *testing.T) {
	b := behaviourOf("5ms", "", 0)
	b.BodyBytes = 10_000
	s := start(t, b)
	c := dial(t, s)
	for range 3 { // on one connection
		c.get(adminapi.PhaseLoad)
		resp, body := c.answer("GET")
		if resp.StatusCode != 200 || resp.Close || len(body) != 10_000 || !strings.HasPrefix(body, answerBody) {
			t.Errorf("answer: status %d, close %v, %d bytes beginning %.30q", resp.StatusCode, resp.Close, len(body), body)
		}
		if delay := serverTiming(t, resp); delay < 5 {
			t.Errorf("delay seen is %v ms, want at least the 5 asked", delay)
		}
	}
	c.send("HEAD / HTTP/1.1\nHost: stub\nConnection: close\n\n")
	if resp, body := c.answer("HEAD"); resp.ContentLength != 10_000 || body != "" || !resp.Close {
		t.Errorf("HEAD: length %d, body %q, close %v", resp.ContentLength, body, resp.Close)
	}
	if data, err := c.rest(); data != "" || err != nil {
		t.Errorf("after Connection: close: %q, %v, want a FIN", data, err)
	}
	checkStats(t, s, adminapi.StubStats{Connections: 1, Answered: 4,
		Received: map[string]int{adminapi.PhaseLoad: 3, adminapi.PhaseOther: 1}})
}

func serverTiming(t *testing.T, resp *http.Response) float64 {
	t.Helper()
	text, ok := strings.CutPrefix(resp.Header.Get("Server-Timing"), "delay;dur=")
	ms, err := strconv.ParseFloat(text, 64)
	if !ok || err != nil {
		t.Fatalf("Server-Timing is %q", resp.Header.Get("Server-Timing"))
	}
	return ms
}

func TestRequestForms(t *testing.T) {
	tests := []struct {
		name, request string
		status        int
		closes        bool
	}{
		{"length", "POST / HTTP/1.1\nHost: s\nContent-Length: 5\n\nhello", 200, false},
		{"chunked", "POST / HTTP/1.1\nHost: s\nTransfer-Encoding: chunked\n\n5\nhello\n0\n\n", 200, false},
		{"pipelined", "GET / HTTP/1.1\nHost: s\n\nGET / HTTP/1.1\nHost: s\n\n", 200, false},
		{"1.0", "GET / HTTP/1.0\n\n", 200, true},
		{"1.0 keep-alive", "GET / HTTP/1.0\nConnection: keep-alive\n\n", 200, false},
		{"multipart", "POST / HTTP/1.1\nHost: s\nContent-Type: multipart/form-data; boundary=b\nContent-Length: 5\n\n--b--", 200, false},
		{"too large", "POST / HTTP/1.1\nHost: s\nContent-Length: 4194305\n\n", 413, true},
		{"no HTTP", "hello there\n\n", 400, true},
		{"TLS hello", "\x16\x03\x01\x00\x05hello\n\n", 400, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := start(t, behaviourOf("0s", "", 0))
			c := dial(t, s)
			c.send(tt.request)
			want := adminapi.StubStats{Connections: 1, Received: map[string]int{}}
			for range max(1, strings.Count(tt.request, "GET")) {
				resp, body := c.answer("GET")
				if resp.StatusCode != tt.status || resp.Close != tt.closes {
					t.Errorf("status %d, close %v, want %d, %v; body %s", resp.StatusCode, resp.Close, tt.status, tt.closes, body)
				}
				if tt.status == 200 {
					want.Answered++
					want.Received[adminapi.PhaseOther]++
				}
			}
			checkStats(t, s, want)
		})
	}
}

func TestExpectContinue(t *testing.T) {
	s := start(t, behaviourOf("0s", "", 0))
	c := dial(t, s)
	c.send("PUT / HTTP/1.1\nHost: s\nContent-Length: 5\nExpect: 100-continue\n\n")
	if resp, _ := c.answer("PUT"); resp.StatusCode != 100 {
		t.Fatalf("status %d before the body, want 100", resp.StatusCode)
	}
	c.send("hello")
	if resp, _ := c.answer("PUT"); resp.StatusCode != 200 {
		t.Fatalf("status %d, want 200", resp.StatusCode)
	}
}

// TestChangeInTheMiddle: a request keeps the behaviour that it arrived under.
func TestChangeInTheMiddle(t *testing.T) {
	t.Parallel()
	s := start(t, behaviourOf("1500ms", "error", 1))
	const before, after = 20, 30
	statuses := make(chan int, before+after)
	ask := func(n int) {
		for range n {
			c := dial(t, s)
			c.get(adminapi.PhaseLoad)
			go func() {
				resp, err := http.ReadResponse(c.in, nil)
				if err != nil {
					statuses <- 0
					return
				}
				resp.Body.Close()
				statuses <- resp.StatusCode
			}()
		}
	}
	ask(before)
	eventually(t, s, "all waiting", func(st adminapi.StubStats) bool { return st.InFlight == before })
	set(t, s, behaviourOf("0s", "", 0))
	ask(after)
	got := map[int]int{}
	for range before + after {
		got[<-statuses]++
	}
	if diff := cmp.Diff(map[int]int{500: before, 200: after}, got); diff != "" {
		t.Errorf("statuses (-want +got):\n%s", diff)
	}
	checkStats(t, s, adminapi.StubStats{Connections: before + after, Answered: after,
		Received: map[string]int{adminapi.PhaseLoad: before + after}, Faults: map[string]int{"error": before}})
}

func TestPhases(t *testing.T) {
	s := start(t, behaviourOf("0s", "", 0))
	c := dial(t, s)
	want := map[string]int{}
	for i, phase := range []string{"readiness", "baseline", "load", "recovery", "dose", "other", "", "invented", "LOAD"} {
		c.get(phase)
		c.answer("GET")
		if i < 6 {
			want[phase]++
		} else {
			want[adminapi.PhaseOther]++
		}
	}
	checkStats(t, s, adminapi.StubStats{Connections: 1, Answered: 9, Received: want})
}

// TestManyWait: the stub takes every connection and request at once, and its
// end is not held up by those that wait.
func TestManyWait(t *testing.T) {
	const callers = 2000
	s := start(t, behaviourOf("1h", "", 0))
	address := s.Listening().Public
	var ended sync.WaitGroup
	for range callers {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		ended.Go(func() {
			defer c.Close()
			io.WriteString(c, "GET / HTTP/1.1\r\nHost: s\r\n\r\n")
			if n, _ := io.Copy(io.Discard, c); n != 0 {
				t.Errorf("received %d bytes of an answer an hour early", n)
			}
		})
	}
	stats := eventually(t, s, "every request in flight", func(st adminapi.StubStats) bool { return st.InFlight == callers })
	if stats.MaxInFlight != callers || stats.Connections != callers {
		t.Errorf("max in flight %d, connections %d, want %d of each", stats.MaxInFlight, stats.Connections, callers)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	ended.Wait()
	if stats := s.Stats(); stats.InFlight != 0 || stats.Answered != 0 || stats.ClientGone != 0 {
		t.Errorf("after the end: %+v", stats)
	}
	if err := s.SetBehaviour(t.Context(), behaviourOf("0s", "", 0)); err == nil {
		t.Error("a stopped stub took a behaviour")
	}
}

func TestCloseEndsEveryKindOfWait(t *testing.T) {
	for _, fault := range []string{"", "hang", "tls_hang"} {
		t.Run(fault, func(t *testing.T) {
			s := start(t, behaviourOf("1h", fault, 1))
			c := dial(t, s)
			c.get(adminapi.PhaseLoad)
			eventually(t, s, "the wait", func(st adminapi.StubStats) bool {
				return st.InFlight == 1 || st.Faults["tls_hang"] == 1
			})
			dial(t, s) // and one that has asked nothing
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			if data, err := c.rest(); data != "" || err != nil && !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("received %q, %v", data, err)
			}
		})
	}
}

// TestSlowReader: a caller that does not read its answer holds up neither the
// others nor the end.
func TestSlowReader(t *testing.T) {
	b := behaviourOf("0s", "", 0)
	b.BodyBytes = MaxBodyBytes
	s := start(t, b)
	slow := dial(t, s)
	slow.get(adminapi.PhaseLoad)
	eventually(t, s, "the answer stuck", func(st adminapi.StubStats) bool { return st.InFlight == 1 })
	set(t, s, behaviourOf("0s", "", 0))
	other := dial(t, s)
	other.get(adminapi.PhaseLoad)
	other.answer("GET")
	if got := s.Stats(); got.InFlight != 1 && got.InFlight != 2 {
		t.Errorf("in flight %d, want the stuck answer still", got.InFlight)
	}
	slow.Close()
	checkStats(t, s, adminapi.StubStats{Connections: 2, Answered: 1, ClientGone: 1, Received: map[string]int{adminapi.PhaseLoad: 2}})
}

func TestStartFails(t *testing.T) {
	s := start(t, behaviourOf("0s", "", 0))
	taken := s.Listening().Public
	tests := []struct {
		name string
		cfg  Config
		want string
	}{
		{"public in use", Config{Listen: taken, Admin: "127.0.0.1:0"}, "public listener: " + taken + " is in use; stop what listens there, or choose another port"},
		{"admin in use", Config{Listen: "127.0.0.1:0", Admin: taken}, "admin listener: " + taken + " is in use"},
		{"no port", Config{Listen: "127.0.0.1", Admin: "127.0.0.1:0"}, `cannot listen on "127.0.0.1"`},
		{"not ours", Config{Listen: "192.0.2.1:80", Admin: "127.0.0.1:0"}, `cannot listen on "192.0.2.1:80"`},
		{"scale", Config{Scale: -1}, "scale -1: must be above 0, up to 1"},
		{"behaviour", Config{Behaviour: behaviourOf("1", "", 0)}, `delay "1"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			started, err := Start(t.Context(), tt.cfg)
			if err == nil {
				started.Close()
				t.Fatal("started")
			}
			if !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("error %q, want one line with %q", err, tt.want)
			}
		})
	}
}

func TestConfigDefaults(t *testing.T) {
	cfg := Config{}.WithDefaults()
	if err := cfg.Validate(); err != nil {
		t.Error(err)
	}
	for _, address := range []string{cfg.Listen, cfg.Admin} {
		if host, _, err := net.SplitHostPort(address); err != nil || !net.ParseIP(host).IsLoopback() {
			t.Errorf("default address %q is not on loopback", address)
		}
	}
}
