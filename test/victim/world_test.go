package victim

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chokepoint/internal/adminapi"
	"chokepoint/internal/evidence/goroutines"
	"chokepoint/internal/evidence/stacks"
	"chokepoint/internal/profile"
	"chokepoint/internal/result"
	"chokepoint/internal/service/upstream"
	"chokepoint/internal/service/victim"
)

// world is a victim with a stub behind it.
type world struct {
	t      *testing.T
	stub   *upstream.Server
	victim *victim.Victim
	public string // host:port
	admin  string // URL
}

// hang is a stub that reads a request and never answers; closing the stub
// releases whoever waits for it.
var hang = adminapi.Behaviour{Delay: "0s", Fault: adminapi.FaultHang, FaultRate: 1}

// fails is a stub whose every request, or connection, meets a fault.
func fails(f adminapi.Fault) adminapi.Behaviour {
	return adminapi.Behaviour{Delay: "0s", Fault: f, FaultRate: 1}
}

// answers is a stub that works.
var answers = adminapi.Behaviour{Delay: "0s"}

// newWorld starts both. change alters the default config: a pool of 1 to 4
// workers, two database connections and no protection.
func newWorld(t *testing.T, stub adminapi.Behaviour, change func(*victim.Config)) *world {
	t.Helper()
	w := &world{t: t}
	var err error
	w.stub, err = upstream.Start(t.Context(), upstream.Config{Listen: "127.0.0.1:0", Admin: "127.0.0.1:0", Behaviour: stub})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.stub.Close() })
	cfg := victim.Config{
		Listen: "127.0.0.1:0", Admin: "127.0.0.1:0",
		UpstreamURL: "http://" + w.stub.Listening().Public + "/",
		DatabaseURL: databaseURL, DatabaseConns: 2,
		MinWorkers: 1, MaxWorkers: 4, AcceptBacklog: 100, MaxConnections: 1000,
		Logger: slog.New(slog.DiscardHandler),
	}
	if change != nil {
		change(&cfg)
	}
	if w.victim, err = victim.Start(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		w.stub.Close() // lets held workers go
		// Bounded: a test that failed may have left a worker where nothing frees it.
		ctx, cancel := context.WithTimeout(context.Background(), patience/4)
		defer cancel()
		w.victim.Close(ctx)
	})
	w.public, w.admin = w.victim.Listening().Public, "http://"+w.victim.Listening().Admin
	return w
}

// named is the profile of that name, at a scale of 1, altered by change.
func named(t *testing.T, name string, change func(*profile.Profile)) profile.Profile {
	t.Helper()
	p, err := profile.Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(&p)
	}
	return p
}

// client is one connection to the victim.
type client struct {
	t    *testing.T
	conn *net.TCPConn
	in   *bufio.Reader
	sent time.Time
}

func (w *world) dial() *client {
	w.t.Helper()
	c, err := net.Dial("tcp", w.public)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { c.Close() })
	return &client{t: w.t, conn: c.(*net.TCPConn), in: bufio.NewReader(c)}
}

// send writes requests for the target, in one piece, and waits for no answer.
func (c *client) send(target string, headers ...string) {
	c.t.Helper()
	c.sent = time.Now()
	c.sendAll(target, 1, headers...)
}

// sendAll pipelines n requests in one write.
func (c *client) sendAll(target string, n int, headers ...string) {
	c.t.Helper()
	request := "GET " + target + " HTTP/1.1\r\nHost: victim\r\n" + strings.Join(append(headers, "", ""), "\r\n")
	if _, err := io.WriteString(c.conn, strings.Repeat(request, n)); err != nil {
		c.t.Fatal(err)
	}
}

// answer is what the victim answered.
type answer struct {
	status int
	header http.Header
	body   []byte
	close  bool // the victim closes the connection after it
	took   time.Duration
}

func (c *client) receive() answer {
	c.t.Helper()
	c.conn.SetReadDeadline(time.Now().Add(patience))
	resp, err := http.ReadResponse(c.in, nil)
	if err != nil {
		c.t.Fatalf("no answer: %v", err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, body, resp.Close, time.Since(c.sent)}
}

func (w *world) get(target string, headers ...string) answer {
	w.t.Helper()
	c := w.dial()
	c.send(target, headers...)
	a := c.receive()
	c.conn.Close()
	return a
}

// hold sends n requests on connections of their own and waits for none.
func (w *world) hold(n int, target string, headers ...string) []*client {
	w.t.Helper()
	var clients []*client
	for range n {
		c := w.dial()
		c.send(target, headers...)
		clients = append(clients, c)
	}
	return clients
}

// cause reads the JSON error body of an answer.
func (a answer) cause(t *testing.T) string {
	t.Helper()
	if got := a.header.Get("Content-Type"); got != "application/json" {
		t.Errorf("content type %q of a %d", got, a.status)
	}
	var e adminapi.UpstreamAnswer // other errors have its first fields
	d := json.NewDecoder(bytes.NewReader(a.body))
	d.DisallowUnknownFields()
	if err := d.Decode(&e); err != nil || e.Error == "" {
		t.Errorf("a %d whose body is no error: %q (%v)", a.status, a.body, err)
	}
	return e.Error
}

// timing reads Server-Timing, in milliseconds by part, and checks that it has
// all parts and claims no more time than the client waited.
func (a answer) timing(t *testing.T) map[string]float64 {
	t.Helper()
	parts, sum := map[string]float64{}, 0.0
	for part := range strings.SplitSeq(a.header.Get("Server-Timing"), ", ") {
		name, value, ok := strings.Cut(part, ";dur=")
		ms, err := strconv.ParseFloat(value, 64)
		if !ok || err != nil || ms < 0 || math.IsInf(ms, 0) {
			t.Errorf("Server-Timing part %q", part)
		}
		parts[name], sum = ms, sum+ms
	}
	var names []string
	for _, name := range []string{"queue", "permit", "upstream", "db"} {
		if _, ok := parts[name]; !ok {
			names = append(names, name)
		}
	}
	if len(parts) != 4 || len(names) > 0 {
		t.Errorf("Server-Timing %q lacks %v", a.header.Get("Server-Timing"), names)
	}
	// Each part is rounded to a thousandth.
	if waited := a.took.Seconds() * 1000; sum > waited+0.01 {
		t.Errorf("Server-Timing %q sums to more than the %.3f ms that the client waited", a.header.Get("Server-Timing"), waited)
	}
	return parts
}

// adminGet asks the admin listener.
func (w *world) adminGet(path string) (int, http.Header, []byte) {
	w.t.Helper()
	return w.adminDo(http.MethodGet, path)
}

func (w *world) adminDo(method, path string) (int, http.Header, []byte) {
	w.t.Helper()
	// A transport of its own: no connection, and no goroutine, stays behind.
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	req, err := http.NewRequestWithContext(context.Background(), method, w.admin+path, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, body
}

func (w *world) adminJSON(path string, v any) {
	w.t.Helper()
	status, header, body := w.adminGet(path)
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil || status != http.StatusOK || header.Get("Content-Type") != "application/json" {
		w.t.Fatalf("GET %s: %d, %v: %s", path, status, err, body)
	}
}

func (w *world) stats() adminapi.VictimStats {
	w.t.Helper()
	var s adminapi.VictimStats
	w.adminJSON(adminapi.PathStats, &s)
	return s
}

// statsWhen polls /stats until it is as asked.
func (w *world) statsWhen(what string, as func(adminapi.VictimStats) bool) adminapi.VictimStats {
	w.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(2 * time.Millisecond) {
		s := w.stats()
		if as(s) {
			return s
		}
		if time.Now().After(end) {
			w.t.Fatalf("after %v still not %s: %+v", patience, what, s)
		}
	}
}

// pooled polls until the pool has that many busy workers and queued requests.
func (w *world) pooled(busy, queued int) adminapi.VictimStats {
	w.t.Helper()
	return w.statsWhen(strconv.Itoa(busy)+" busy and "+strconv.Itoa(queued)+" queued", func(s adminapi.VictimStats) bool {
		return s.Pool.Busy == busy && s.Pool.Queued == queued
	})
}

// places are the words of a dump for the letters of /stats.
var places = map[rune]string{
	adminapi.WhereIdle: stacks.Idle, adminapi.WhereRunning: stacks.Running, adminapi.WherePermitWait: stacks.PermitWait,
	adminapi.WhereUpstreamRead: stacks.UpstreamRead, adminapi.WhereDatabase: stacks.Database,
}

// checkWhere holds what the workers say themselves against the dump of a victim
// in which nothing moves: without a dump a connect cannot be told from a read.
func (w *world) checkWhere(d result.Dump) {
	w.t.Helper()
	want, got := map[string]int{}, map[string]int{}
	for where, n := range d.Where {
		switch {
		case n == 0 || where == stacks.Queued:
		case where == stacks.Other || where == stacks.UpstreamConnect:
			want[stacks.UpstreamRead] += n
		default:
			want[where] += n
		}
	}
	for _, letter := range w.stats().Pool.Where {
		got[places[letter]]++
	}
	if diff := cmp.Diff(want, got); diff != "" {
		w.t.Errorf("where the workers stand (-dump +/stats):\n%s", diff)
	}
}

// dumpWhen takes dumps through the admin listener until the workers and the
// queue stand as asked (a word that is left out means 0), and returns the last
// with its text. What /stats says must then be the same.
func (w *world) dumpWhen(want map[string]int) (result.Dump, []byte) {
	w.t.Helper()
	full := map[string]int{stacks.Idle: 0, stacks.UpstreamConnect: 0, stacks.UpstreamRead: 0, stacks.PermitWait: 0,
		stacks.Database: 0, stacks.Queued: 0, stacks.Running: 0, stacks.Other: 0}
	workers := 0
	for where, n := range want {
		full[where] = n
		if where != stacks.Queued {
			workers += n
		}
	}
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		status, header, text := w.adminGet(adminapi.PathGoroutines)
		if pause, err := strconv.ParseInt(header.Get(adminapi.HeaderPauseNS), 10, 64); status != http.StatusOK || err != nil || pause <= 0 {
			w.t.Fatalf("dump: status %d, pause %q", status, header.Get(adminapi.HeaderPauseNS))
		}
		d, err := goroutines.Summarize(bytes.NewReader(text))
		if err != nil {
			w.t.Fatal(err)
		}
		diff := cmp.Diff(full, d.Where)
		if diff == "" {
			if d.Workers != workers || d.Queued != want[stacks.Queued] || d.Truncated {
				w.t.Errorf("%d workers, %d queued, truncated %v; want %d and %d", d.Workers, d.Queued, d.Truncated, workers, want[stacks.Queued])
			}
			w.checkWhere(d)
			return d, text
		}
		if time.Now().After(end) {
			w.t.Fatalf("after %v where the workers stand (-want +got):\n%s", patience, diff)
		}
	}
}
