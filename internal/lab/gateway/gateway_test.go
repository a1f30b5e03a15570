package gateway

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"chokepoint/internal/adminapi"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds every wait of these tests; nothing is expected to take it.
const patience = 20 * time.Second

// world is a gateway before a server whose requests to /held wait to be let go.
type world struct {
	*Gateway
	t       *testing.T
	release chan struct{}
	arrived chan string // ids of the requests to /held
	worked  atomic.Int32
	log     string
	end     context.CancelFunc
	ended   chan error // what Wait returned
}

func newWorld(t *testing.T, change func(*Config)) *world {
	t.Helper()
	w := &world{t: t, release: make(chan struct{}), arrived: make(chan string, 10), ended: make(chan error, 1),
		log: filepath.Join(t.TempDir(), "access.jsonl")}
	app := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		if r.URL.Path == "/held" {
			w.arrived <- r.Header.Get(adminapi.HeaderID)
			<-w.release
			w.worked.Add(1)
		}
		rw.Header().Set(adminapi.HeaderConnection, "app-1")
		io.WriteString(rw, "done")
	}))
	t.Cleanup(app.Close)
	to, err := url.Parse(app.URL)
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{Listen: "127.0.0.1:0", Admin: "127.0.0.1:0", To: []*url.URL{to}, Name: "gw", Drain: patience, MaxWait: patience,
		Announce: true, AccessLog: w.log, Logger: slog.New(slog.DiscardHandler)}
	if change != nil {
		change(&cfg)
	}
	if w.Gateway, err = Start(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	w.end = cancel
	go func() { w.ended <- w.Wait(ctx) }()
	t.Cleanup(func() {
		w.let()
		cancel()
		w.Close()
	})
	return w
}

// let lets the requests to /held go on.
func (w *world) let() {
	select {
	case <-w.release:
	default:
		close(w.release)
	}
}

// waited is what Wait returned, which must be soon.
func (w *world) waited() error {
	w.t.Helper()
	select {
	case err := <-w.ended:
		return err
	case <-time.After(patience):
		w.t.Fatalf("has not ended in %v; connections %+v", patience, w.conns.snapshot())
		return nil
	}
}

// state polls until the gateway is in a state.
func (w *world) state(want string) {
	w.t.Helper()
	for end := time.Now().Add(patience); w.conns.snapshot().State != want; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			w.t.Fatalf("state %s, want %s", w.conns.snapshot().State, want)
		}
	}
}

// client is one connection.
type client struct {
	t *testing.T
	net.Conn
	in *bufio.Reader
}

func (w *world) dial() *client {
	w.t.Helper()
	c, err := net.Dial("tcp", w.Listening().Public)
	if err != nil {
		w.t.Fatal(err)
	}
	c.SetDeadline(time.Now().Add(patience))
	w.t.Cleanup(func() { c.Close() })
	return &client{w.t, c, bufio.NewReader(c)}
}

func (c *client) send(path, id string) {
	c.t.Helper()
	if _, err := io.WriteString(c, "POST "+path+" HTTP/1.1\r\nHost: gw\r\n"+adminapi.HeaderID+": "+id+"\r\nContent-Length: 2\r\n\r\nhi"); err != nil {
		c.t.Fatal(err)
	}
}

func (c *client) answer() *http.Response {
	c.t.Helper()
	resp, err := http.ReadResponse(c.in, &http.Request{Method: http.MethodPost})
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		c.t.Fatal(err)
	}
	return resp
}

func (c *client) wantEnd() {
	c.t.Helper()
	if data, err := io.ReadAll(c.in); len(data) != 0 || err != nil && !errors.Is(err, syscall.ECONNRESET) {
		c.t.Errorf("%q, %v, want the end of the connection", data, err)
	}
}

// lines are the lines of the access log with that event.
func lines[T any](w *world, event string) []T {
	w.t.Helper()
	data, err := os.ReadFile(w.log)
	if err != nil {
		w.t.Fatal(err)
	}
	var found []T
	for line := range bytes.Lines(data) {
		var head struct{ Event string }
		if err := json.Unmarshal(line, &head); err != nil {
			w.t.Fatalf("line %q: %v", line, err)
		}
		if head.Event != event {
			continue
		}
		var one T
		if err := json.Unmarshal(line, &one); err != nil {
			w.t.Fatal(err)
		}
		found = append(found, one)
	}
	return found
}

func (w *world) requests() []adminapi.GatewayRequest {
	return lines[adminapi.GatewayRequest](w, "request")
}

func (w *world) closed() map[string]adminapi.GatewayConnection {
	byID := map[string]adminapi.GatewayConnection{}
	for _, c := range lines[adminapi.GatewayConnection](w, "closed") {
		byID[c.ID] = c
	}
	return byID
}

func TestAConnectionIsTracedToItsRequests(t *testing.T) {
	w := newWorld(t, nil)
	first, second := w.dial(), w.dial()
	for _, id := range []string{"a", "b"} {
		first.send("/", id)
		resp := first.answer()
		if got := strings.Join(resp.Header.Values(adminapi.HeaderConnection), " "); resp.StatusCode != 200 || got != "app-1 gw-1" || resp.Close {
			t.Errorf("status %d, connections %q, close %v", resp.StatusCode, got, resp.Close)
		}
	}
	second.send("/held", "c")
	<-w.arrived

	resp, err := http.Get("http://" + w.Listening().Admin + adminapi.PathConnections)
	if err != nil {
		t.Fatal(err)
	}
	defer http.DefaultClient.CloseIdleConnections()
	defer resp.Body.Close()
	var live adminapi.GatewayConnections
	if err := json.NewDecoder(resp.Body).Decode(&live); err != nil {
		t.Fatal(err)
	}
	if live.Name != "gw" || live.State != adminapi.GatewayServing || live.Accepted != 2 || len(live.Connections) != 2 {
		t.Fatalf("connections %+v", live)
	}
	one, two := live.Connections[0], live.Connections[1]
	if one.ID != "gw-1" || strings.Join(one.RequestIDs, " ") != "a b" || one.Total != 2 || one.InFlight != 0 || one.Remote != first.LocalAddr().String() {
		t.Errorf("the first connection: %+v", one)
	}
	if two.ID != "gw-2" || strings.Join(two.RequestIDs, " ") != "c" || two.InFlight != 1 || two.Protocol != "HTTP/1.1" {
		t.Errorf("the second connection: %+v", two)
	}
	first.Close()
	w.let()
	second.answer()
	w.end()
	if err := w.waited(); err != nil {
		t.Error(err)
	}
	closed := w.closed()
	if c := closed["gw-1"]; c.ClosedBy != adminapi.ClosedByClient || strings.Join(c.RequestIDs, " ") != "a b" || c.ClosedAt.Before(c.AcceptedAt) {
		t.Errorf("gw-1 in the log: %+v", c)
	}
	if c := closed["gw-2"]; c.ClosedBy != adminapi.ClosedByGateway {
		t.Errorf("gw-2 in the log: %+v", c)
	}
	if n := len(lines[adminapi.GatewayConnection](w, "accepted")); n != 2 {
		t.Errorf("%d lines of accepted connections, want 2", n)
	}
	for i, r := range w.requests() {
		if r.ID != []string{"a", "b", "c"}[i] || r.End != adminapi.EndAnswered || r.Status != 200 || r.Path == "" || r.To != w.cfg.To[0].Host {
			t.Errorf("request %d: %+v", i, r)
		}
	}
}

// TestADrainAnswersWhatItHasBegun: the idle connection ends at once, nobody new is
// accepted, and the answer in flight says that its connection closes.
func TestADrainAnswersWhatItHasBegun(t *testing.T) {
	w := newWorld(t, nil)
	idle, busy := w.dial(), w.dial()
	idle.send("/", "idle")
	idle.answer()
	busy.send("/held", "busy")
	<-w.arrived
	w.end()
	idle.wantEnd()
	if c, err := net.Dial("tcp", w.Listening().Public); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("a new connection: %v, want it refused", err)
		if err == nil {
			c.Close()
		}
	}
	w.let()
	if resp := busy.answer(); resp.StatusCode != 200 || !resp.Close {
		t.Errorf("status %d, close %v, want 200 and Connection: close", resp.StatusCode, resp.Close)
	}
	busy.wantEnd()
	if err := w.waited(); err != nil {
		t.Error(err)
	}
	last := w.requests()[1]
	if last.ID != "busy" || !last.Announced || last.End != adminapi.EndAnswered {
		t.Errorf("the log has %+v", last)
	}
}

// TestADrainThatIsTooShortCutsWorkThatIsDone is the dangerous class: the client sees
// its connection end, and the server does the work all the same.
func TestADrainThatIsTooShortCutsWorkThatIsDone(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Drain = 50 * time.Millisecond })
	busy := w.dial()
	busy.send("/held", "lost")
	<-w.arrived
	w.end()
	err := w.waited()
	if !errors.Is(err, ErrCut) || !strings.Contains(err.Error(), `requests in flight on them: 1, the oldest is gw-1`) || !strings.Contains(err.Error(), `the last "lost"`) {
		t.Errorf("ended with %v", err)
	}
	busy.wantEnd()
	r, c := w.requests()[0], w.closed()["gw-1"]
	if r.End != adminapi.EndCut || r.Status != 0 || c.ClosedBy != adminapi.ClosedByCut {
		t.Errorf("the log has %+v and %+v", r, c)
	}
	w.let()
	for end := time.Now().Add(patience); w.worked.Load() != 1; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the work was not done")
		}
	}
}

func TestPreStopServesOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *Config) { c.PreStop = 2 * time.Second })
	w.end()
	w.state(adminapi.GatewayPreStop)
	c := w.dial()
	c.send("/", "late")
	if resp := c.answer(); resp.StatusCode != 200 || resp.Close {
		t.Errorf("status %d, close %v, want it served as before", resp.StatusCode, resp.Close)
	}
	if err := w.waited(); err != nil {
		t.Error(err)
	}
	c.wantEnd()
}

// TestExitOnZero waits for the clients, idle ones too, and nothing ends it before.
// TestNothingIsCutOffWhereNothingIsOpen: a limit that is over at once is none of it. Ten
// times, since what came first was a matter of chance.
func TestNothingIsCutOffWhereNothingIsOpen(t *testing.T) {
	for range 10 {
		w := newWorld(t, func(c *Config) { c.ExitOnZero, c.MaxWait = true, 0 })
		w.end()
		if err := w.waited(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestExitOnZero(t *testing.T) {
	for _, announce := range []bool{true, false} {
		w := newWorld(t, func(c *Config) { c.ExitOnZero, c.Announce = true, announce })
		idle, used := w.dial(), w.dial()
		idle.send("/", "idle")
		idle.answer()
		used.send("/", "before")
		used.answer()
		w.end()
		w.state(adminapi.GatewayDraining)
		used.send("/", "while draining")
		if resp := used.answer(); resp.StatusCode != 200 || resp.Close != announce {
			t.Errorf("announce %v: status %d, close %v", announce, resp.StatusCode, resp.Close)
		}
		if announce {
			used.wantEnd()
		} else {
			used.Close()
		}
		select {
		case err := <-w.ended:
			t.Fatalf("ended with %v while a client has a connection", err)
		case <-time.After(50 * time.Millisecond):
		}
		idle.Close()
		if err := w.waited(); err != nil {
			t.Error(err)
		}
		if c := w.closed()["gw-1"]; c.ClosedBy != adminapi.ClosedByClient {
			t.Errorf("the idle connection: %+v", c)
		}
	}
}

func TestExitOnZeroIsBounded(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.ExitOnZero, c.MaxWait = true, 50*time.Millisecond })
	forEver := w.dial()
	forEver.send("/", "event")
	forEver.answer()
	w.end()
	if err := w.waited(); !errors.Is(err, ErrCut) || !strings.Contains(err.Error(), `gw-1 of `+forEver.LocalAddr().String()+` with 1 requests, the last "event"`) {
		t.Errorf("ended with %v", err)
	}
	forEver.wantEnd()
	if c := w.closed()["gw-1"]; c.ClosedBy != adminapi.ClosedByCut {
		t.Errorf("the connection: %+v", c)
	}
}

func TestAServerThatIsGone(t *testing.T) {
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone.Close()
	w := newWorld(t, func(c *Config) { c.To = []*url.URL{{Scheme: "http", Host: gone.Addr().String()}} })
	c := w.dial()
	c.send("/", "x")
	if resp := c.answer(); resp.StatusCode != 502 {
		t.Errorf("status %d, want 502", resp.StatusCode)
	}
	w.end()
	w.waited()
	if r := w.requests()[0]; r.Status != 502 || r.End != adminapi.EndAnswered || !strings.Contains(r.UpstreamError, "refused") {
		t.Errorf("the log has %+v", r)
	}
}

func TestAClientThatLeaves(t *testing.T) {
	w := newWorld(t, nil)
	c := w.dial()
	c.send("/held", "x")
	<-w.arrived
	c.Close()
	for end := time.Now().Add(patience); len(w.requests()) == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("not logged")
		}
	}
	if r := w.requests()[0]; r.End != adminapi.EndClientGone || r.Status != 0 {
		t.Errorf("the log has %+v", r)
	}
}

func TestStartFails(t *testing.T) {
	w := newWorld(t, nil)
	taken := w.Listening().Public
	for _, tt := range []struct {
		change func(*Config)
		want   string
	}{
		{func(c *Config) { c.Listen = taken }, "-listen " + taken + " is in use"},
		{func(c *Config) { c.Admin = taken }, "-admin " + taken + " is in use"},
		{func(c *Config) { c.Listen = "nowhere" }, `-listen: cannot listen on "nowhere"`},
		{func(c *Config) { c.AccessLog = t.TempDir() }, "-access-log: open"},
	} {
		cfg := w.cfg
		tt.change(&cfg)
		g, err := Start(t.Context(), cfg)
		if err == nil {
			g.Close()
			t.Errorf("started, want %q", tt.want)
		} else if !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v, want %q", err, tt.want)
		}
	}
}
