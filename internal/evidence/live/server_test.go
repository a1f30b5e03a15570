package live

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const patience = 10 * time.Second

func serve(t *testing.T, v *View) *Server {
	t.Helper()
	s, err := Listen(t.Context(), "127.0.0.1:0", v)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close(0) })
	return s
}

// get asks on a connection of its own and returns the status, the header and the body.
func get(t *testing.T, url string, change func(*http.Request)) (int, http.Header, string) {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(req)
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(body)
}

// listener is a client of /events.
type listener struct {
	t    *testing.T
	body io.ReadCloser
	in   *bufio.Reader
}

func listen(t *testing.T, s *Server) *listener {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL()+"events", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close(); cancel() })
	if got := resp.Header.Get("Content-Type"); resp.StatusCode != http.StatusOK || got != "text/event-stream" {
		t.Fatalf("status %d, type %q", resp.StatusCode, got)
	}
	return &listener{t, resp.Body, bufio.NewReader(resp.Body)}
}

// next reads the next message into v and returns its name.
func (l *listener) next(v any) string {
	l.t.Helper()
	name := ""
	for {
		line, err := l.in.ReadString('\n')
		if err != nil {
			l.t.Fatal(err)
		}
		field, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch field {
		case "event":
			name = value
		case "data":
			if err := json.Unmarshal([]byte(value), v); err != nil {
				l.t.Fatalf("%s: %v", value, err)
			}
			return name
		}
	}
}

// A viewer is sent the state and then what comes; one that goes frees its place at
// the next message.
func TestEventsAreStreamed(t *testing.T) {
	v := NewView(1)
	v.Begin(Run{Profile: "anti"})
	v.Sample(Sample{AtS: 1, Busy: 5})
	s := serve(t, v)
	a, b := listen(t, s), listen(t, s)
	for _, l := range []*listener{a, b} {
		var state State
		if name := l.next(&state); name != messageState || state.Run.Profile != "anti" || len(state.History) != 1 || state.Last.Busy != 5 {
			t.Errorf("first %s: %+v", name, state)
		}
	}
	v.Sample(Sample{AtS: 2, Busy: 6})
	for _, l := range []*listener{a, b} {
		var sample Sample
		if name := l.next(&sample); name != messageSample || sample.Busy != 6 {
			t.Errorf("then %s: %+v", name, sample)
		}
	}
	a.body.Close()
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		v.Sample(Sample{})
		var sample Sample
		b.next(&sample)
		v.mu.Lock()
		viewers := len(v.viewers)
		v.mu.Unlock()
		if viewers == 1 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%d viewers, one of whom has gone", viewers)
		}
	}
}

// A client that reads nothing fills its socket and is let go, and no sample waits
// for it.
func TestAClientThatDoesNotRead(t *testing.T) {
	v := NewView(1)
	v.Begin(Run{})
	s := serve(t, v)
	conn, err := net.Dial("tcp", s.listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	io.WriteString(conn, "GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
	sample := Sample{Where: strings.Repeat("u", 100_000)}
	watched := false
	for end := time.Now().Add(patience); ; {
		v.mu.Lock()
		viewers := len(v.viewers)
		v.mu.Unlock()
		watched = watched || viewers == 1
		if watched && viewers == 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatal("it is still a viewer")
		}
		v.Sample(sample)
	}
}

func TestThePageIsForThisMachineAlone(t *testing.T) {
	s := serve(t, NewView(1))
	for _, test := range []struct {
		host   string
		status int
	}{
		{"", 200}, {"localhost", 200}, {"localhost:1", 200}, {"127.0.0.1", 200}, {"[::1]:80", 200},
		{"evil.example", 403}, {"evil.example:80", 403}, {"10.0.0.1", 403}, {"localhost.evil.example", 403},
	} {
		status, _, body := get(t, s.URL(), func(r *http.Request) { r.Host = test.host })
		if status != test.status {
			t.Errorf("as %q: %d, want %d", test.host, status, test.status)
		}
		if status == 200 && (!strings.Contains(body, `id="cells"`) || strings.Contains(body, "src=\"http")) {
			t.Errorf("as %q: not the page", test.host)
		}
	}
	for _, address := range []string{"0.0.0.0:0", ":0", "10.0.0.1:80", "example.com:80", "127.0.0.1", "127.0.0.1:x", "", "[::]:0"} {
		if _, err := Listen(t.Context(), address, NewView(1)); err == nil || !strings.Contains(err.Error(), "want a loopback address") {
			t.Errorf("-live-addr %q: %v", address, err)
		}
	}
	if _, err := Listen(t.Context(), s.listener.Addr().String(), NewView(1)); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("an address in use: %v", err)
	}
}

// The page ends as the report, and the report finds the files beside it; nothing
// else of the disk is served.
func TestReportsArePublished(t *testing.T) {
	v := NewView(1)
	s := serve(t, v)
	results := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(results, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("secret", "a secret")
	write("page/report.html", "<!doctype html><p>the page")
	write("page/report.md", "# the text")
	write("page/dumps/01.txt", "goroutine 1")
	write("text/report.md", "# the text")
	write("none/x", "")
	if err := os.Symlink(filepath.Join(results, "secret"), filepath.Join(results, "page", "link")); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"page": "/results/page/report.html", "text": "/results/text/report.md", "none": ""} {
		if path, err := s.Publish(filepath.Join(results, name)); err != nil || path != want {
			t.Errorf("%s: %q, %v; want %q", name, path, err, want)
		}
	}
	if _, err := s.Publish(filepath.Join(results, "missing")); err == nil {
		t.Error("a folder that is not there was published")
	}
	for _, test := range []struct {
		path, kind string
		status     int
		text       string
	}{
		{"results/page/report.html", "text/html; charset=utf-8", 200, "the page"},
		{"results/text/report.md", "text/plain; charset=utf-8", 200, "# the text"},
		{"results/page/dumps/01.txt", "text/plain; charset=utf-8", 200, "goroutine 1"},
		{"favicon.ico", "", 204, ""},
		{"results/page/../secret", "", 404, ""}, {"results/page/%2e%2e/secret", "", 404, ""},
		{"results/page/link", "", 404, ""}, {"results/other/report.md", "", 404, ""}, {"secret", "", 404, ""},
	} {
		status, header, body := get(t, s.URL()+test.path, nil)
		if status == test.status || status >= 400 && test.status >= 400 {
			if status != 200 || header.Get("Content-Type") == test.kind && strings.Contains(body, test.text) {
				continue
			}
		}
		t.Errorf("%s: %d %s %q", test.path, status, header.Get("Content-Type"), body)
	}
}

// The end waits for the pages that watch to fetch the report, and not for ever.
func TestCloseWaitsForTheReportToBeRead(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	report := strings.Repeat("it ", 100_000) // more than a socket takes at once
	if err := os.WriteFile(filepath.Join(dir, "report.md"), []byte(report), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, reads := range []bool{true, false} {
		v := NewView(1)
		s := serve(t, v)
		path, err := s.Publish(dir)
		if err != nil {
			t.Fatal(err)
		}
		l := listen(t, s)
		l.next(&State{})
		v.End(Report{Path: path})
		closed := make(chan struct{})
		linger := 20 * time.Millisecond
		if reads {
			linger = time.Hour
		}
		go func() { s.Close(linger); close(closed) }()
		if reads {
			if status, _, body := get(t, s.URL()+strings.TrimPrefix(path, "/"), nil); status != 200 || body != report {
				t.Errorf("the report: %d, %d bytes; want %d", status, len(body), len(report))
			}
		}
		select {
		case <-closed:
		case <-time.After(patience):
			t.Fatal("it still serves")
		}
	}
}
