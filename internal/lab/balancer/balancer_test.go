package balancer

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"chokepoint/internal/adminapi"
	"chokepoint/internal/lab/proc"
)

// find skips where this machine has no such balancer.
func find(t *testing.T, kind Kind) Binary {
	t.Helper()
	b, err := Find(t.Context(), kind)
	if err != nil {
		t.Skip(err)
	}
	return b
}

func launcher(t *testing.T) *proc.Launcher {
	l := proc.NewLauncher(nil)
	t.Cleanup(l.Close)
	return l
}

// freePort is one that nobody had a moment ago.
func freePort(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

func server(t *testing.T, name string) *httptest.Server {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, name) }))
	t.Cleanup(s.Close)
	return s
}

func get(t *testing.T, addr, id string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+addr+"/", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set(adminapi.HeaderID, id)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return resp.StatusCode
}

const nginxBody = `
upstream app { server @ONE@ max_fails=0; server @TWO@; keepalive 8; }
server { listen @LISTEN@; location / { proxy_http_version 1.1; proxy_set_header Connection ""; proxy_pass http://app; } }
`

func TestNginxServesReloadsAndLogs(t *testing.T) {
	b, l := find(t, Nginx), launcher(t)
	dead := freePort(t)
	config := Config{Body: nginxBody, Values: map[string]string{
		"LISTEN": freePort(t), "ONE": dead, "TWO": server(t, "two").Listener.Addr().String(),
	}}
	// The folder's name needs quotes, and is longer than a Unix socket's may be.
	folder := filepath.Join(t.TempDir(), "a b", strings.Repeat("long", 25))
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	r, err := b.Start(t.Context(), l, Options{Name: "edge", Folder: folder, Config: config})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Stop(t.Context())
	if status := get(t, config.Values["LISTEN"], "first"); status != 200 {
		t.Fatalf("status %d, want 200", status)
	}
	config.Body = strings.Replace(nginxBody, "server @ONE@ max_fails=0;", "", 1)
	if err := r.Reload(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	http.DefaultClient.CloseIdleConnections()
	get(t, config.Values["LISTEN"], "second")
	config.Body = "nonsense on;"
	var rejected *Rejected
	if err := r.Reload(t.Context(), config); !errors.As(err, &rejected) || !strings.HasPrefix(rejected.Words, `unknown directive "nonsense" in ./edge.conf:1`) {
		t.Errorf("reload with nonsense: %v", err)
	}
	http.DefaultClient.CloseIdleConnections()
	if err := r.Quit(); err != nil {
		t.Fatal(err)
	}
	<-r.Child.Done()
	all, err := r.AccessLog()
	if err != nil || len(all) != 2 {
		t.Fatalf("%d lines in the access log (%v), want 2", len(all), err)
	}
	first, second := all[0], all[1]
	if first.ID != "first" || first.Status != 200 || first.Nth != 1 || first.Request != "GET / HTTP/1.1" || len(first.Tries) != 2 {
		t.Fatalf("first request: %+v", first)
	}
	if try := first.Tries[0]; try.Addr != dead || try.Status != 502 || try.Connect != -1 {
		t.Errorf("first request's first try: %+v, want 502 of %s without a connection", try, dead)
	}
	if second.ID != "second" || len(second.Tries) != 1 || second.Tries[0].Addr != config.Values["TWO"] || second.Tries[0].Status != 200 {
		t.Errorf("request after the reload: %+v", second)
	}
	if err := r.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	left, _ := filepath.Glob(filepath.Join(strings.ReplaceAll(folder, "[", "\\["), "*"))
	var names []string
	for _, path := range left {
		names = append(names, filepath.Base(path))
	}
	if got := strings.Join(names, " "); got != "edge-access.log edge-frame.conf edge.conf edge.log" {
		t.Errorf("left in the folder: %s", got)
	}
}

const haproxyBody = `
defaults
    mode http
    timeout connect 1s
    timeout client 5s
    timeout server 5s
    log global
    option httplog
frontend in
    bind @LISTEN@
    default_backend app
backend app
    server one @ONE@
`

func TestHAProxyServesAndTakesCommands(t *testing.T) {
	b, l := find(t, HAProxy), launcher(t)
	config := Config{Body: haproxyBody, Values: map[string]string{"LISTEN": freePort(t), "ONE": server(t, "one").Listener.Addr().String()}}
	folder := filepath.Join(t.TempDir(), "a b", strings.Repeat("long", 25))
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	r, err := b.Start(t.Context(), l, Options{Name: "gateway", Folder: folder, Config: config})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Stop(t.Context())
	if status := get(t, config.Values["LISTEN"], "a"); status != 200 {
		t.Errorf("status %d, want 200", status)
	}
	if said, err := r.Command(t.Context(), "set server app/one state maint"); said != "" || err != nil {
		t.Errorf("the command: %q, %v", said, err)
	}
	if status := get(t, config.Values["LISTEN"], "b"); status != 503 {
		t.Errorf("status %d without a server, want 503", status)
	}
	http.DefaultClient.CloseIdleConnections()
	if err := r.Quit(); err != nil {
		t.Fatal(err)
	}
	<-r.Child.Done()
	if err := r.Child.Err(); err != nil {
		t.Errorf("after its soft stop: %v", err)
	}
	log, err := r.Log()
	if err != nil || !strings.Contains(strings.Join(log, "\n"), `"GET / HTTP/1.1"`) {
		t.Errorf("log %q, %v: no request in it", log, err)
	}
}

func TestRejected(t *testing.T) {
	l := launcher(t)
	for _, tc := range []struct {
		kind   Kind
		config Config
		want   string
	}{
		{Nginx, Config{Body: "server { listen nowhere:1; }"}, `nginx rejects the configuration: host not found in "nowhere:1" of the "listen" directive in ./lb.conf:1`},
		{Nginx, Config{Global: "wrong;"}, `nginx rejects the configuration: unknown directive "wrong" in ./lb-frame.conf:`},
		{HAProxy, Config{Body: "defaults\n    nonsense\n"}, "haproxy rejects the configuration: config : parsing [lb.conf:2]"},
		{HAProxy, Config{Body: "bind @HERE@"}, "no placeholder @HERE@; there are "},
	} {
		b := find(t, tc.kind)
		folder := t.TempDir()
		for name, try := range map[string]func() error{
			"Check": func() error { return b.Check(t.Context(), l, Options{"lb", folder, tc.config}) },
			"Start": func() error { _, err := b.Start(t.Context(), l, Options{"lb", folder, tc.config}); return err },
		} {
			err := try()
			if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s: %v, want %q", name, err, tc.want)
			}
		}
	}
}

func TestReadAccess(t *testing.T) {
	const (
		retried = `{"msec":"1796032050.657","id":"a","connection":"7","requests":"2","client":"10.0.0.1:4000","request":"GET / HTTP/1.1","status":"200","seconds":"1.004",` +
			`"upstream_addr":"10.0.0.2:80, 10.0.0.3:80","upstream_status":"504, 200","upstream_connect":"-, 0.001","upstream_seconds":"1.001, 0.002"}` + "\n"
		gone = `{"msec":"1796032050.657","id":"","connection":"8","requests":"1","client":"10.0.0.1:4001","request":"GET / HTTP/1.1","status":"499","seconds":"3.000",` +
			`"upstream_addr":"10.0.0.2:80","upstream_status":"-","upstream_connect":"-","upstream_seconds":"2.999"}` + "\n"
		own = `{"msec":"1796032050.657","id":"b","connection":"9","requests":"1","client":"10.0.0.1:4002","request":"GET /no HTTP/1.1","status":"404","seconds":"0.000",` +
			`"upstream_addr":"","upstream_status":"","upstream_connect":"","upstream_seconds":""}` + "\n"
	)
	path := filepath.Join(t.TempDir(), "access.log")
	if all, err := readAccess(path); all != nil || err != nil {
		t.Errorf("a log that is not there: %v, %v", all, err)
	}
	if err := os.WriteFile(path, []byte(retried+gone+own+gone[:40]), 0o644); err != nil {
		t.Fatal(err)
	}
	all, err := readAccess(path)
	if err != nil || len(all) != 3 {
		t.Fatalf("%d lines, %v; want 3: the last one is being written", len(all), err)
	}
	const ms = time.Millisecond
	for i, want := range [][]Try{
		{{"10.0.0.2:80", 504, -1, 1001 * ms}, {"10.0.0.3:80", 200, ms, 2 * ms}},
		{{"10.0.0.2:80", 0, -1, 2999 * ms}},
		nil,
	} {
		if !slices.Equal(all[i].Tries, want) {
			t.Errorf("line %d: tries %v, want %v", i, all[i].Tries, want)
		}
	}
	if a := all[0]; a.ID != "a" || a.Connection != "7" || a.Nth != 2 || a.Status != 200 || a.Took != 1004*ms || a.End.UnixMilli() != 1796032050657 || a.Client != "10.0.0.1:4000" {
		t.Errorf("first line: %+v", a)
	}
	if err := os.WriteFile(path, []byte("no JSON\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := readAccess(path); err == nil {
		t.Error("a line that is no JSON is taken")
	}
}
