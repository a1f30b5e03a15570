package dumps

import (
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"chokepoint/internal/evidence/stacks"
)

var options = Options{Timeout: 5 * time.Second, MaxBytes: 1 << 20}

func readSource(ctx context.Context, source string, o Options) ([]Dump, error) {
	in, err := Open(ctx, source, o)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	return Read(in, in.Name, stacks.ByPlace)
}

func TestFilesAndStreams(t *testing.T) {
	dir := t.TempDir()
	file, pipe := filepath.Join(dir, "dump.txt"), filepath.Join(dir, "pipe")
	if err := os.WriteFile(file, []byte(panicLog), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(pipe, 0o644); err != nil {
		t.Fatal(err)
	}
	written := make(chan error, 1)
	go func() { written <- os.WriteFile(pipe, []byte(panicLog), 0) }() // waits for the reader
	for _, tt := range []struct{ source, want string }{
		{file, ""},
		{pipe, ""},
		{"-", ""},
		{filepath.Join(dir, "missing"), "missing: no such file"},
		{dir, "is a folder; name the dumps in it, such as " + dir + "/*.txt"},
		{"/dev/zero", "/dev/zero is neither a file nor a pipe"},
	} {
		o := options
		o.Stdin = strings.NewReader(panicLog)
		all, err := readSource(t.Context(), tt.source, o)
		switch {
		case tt.want == "" && (err != nil || len(all) != 1 || all[0].Total != 2):
			t.Errorf("%s: %+v, error %v", tt.source, all, err)
		case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
			t.Errorf("%s: error %v, want %s", tt.source, err, tt.want)
		}
	}
	if err := <-written; err != nil {
		t.Error(err)
	}
}

// A stream without an end ends with the context.
func TestAStreamIsInterrupted(t *testing.T) {
	r, w := io.Pipe()
	defer w.Close()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		io.WriteString(w, panicLog)
		cancel()
	}()
	o := options
	o.Stdin = r
	if _, err := readSource(ctx, "-", o); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

func TestURLs(t *testing.T) {
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/debug/pprof/goroutine":
			if r.Method == http.MethodGet && r.URL.Query().Get("debug") == "2" {
				io.WriteString(w, panicLog)
			}
		case "/secret":
			if user, password, _ := r.BasicAuth(); user != "ada" || password != "hunter2" || r.URL.Query().Get("token") != "abc" {
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			io.WriteString(w, panicLog)
		case "/large":
			io.WriteString(w, strings.Repeat(panicLog, 100))
		case "/slow":
			io.WriteString(w, panicLog)
			w.(http.Flusher).Flush()
			<-release
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	defer server.Close()
	defer close(release)
	host := strings.TrimPrefix(server.URL, "http://")
	closed := httptest.NewServer(nil)
	closed.Close()
	for _, tt := range []struct {
		name, source string
		o            Options
		want, err    string
	}{
		{"a dump", server.URL + "/debug/pprof/goroutine?debug=2", options, server.URL + "/debug/pprof/goroutine?debug=2", ""},
		{"with a secret", "http://ada:hunter2@" + host + "/secret?token=abc&debug=2", options, server.URL + "/secret?debug=2", ""},
		{"with a wrong secret", "http://ada:hunter3@" + host + "/secret?token=abc", options, "", server.URL + "/secret: 401 Unauthorized; a dump is at /debug/pprof/goroutine?debug=2"},
		{"nothing", server.URL + "/nothing", options, "", server.URL + "/nothing: 404 Not Found; a dump is at"},
		{"too large", server.URL + "/large", Options{Timeout: 5 * time.Second, MaxBytes: 1000}, "", server.URL + "/large: the answer has more than 1000 bytes; -max-bytes allows more"},
		{"too slow", server.URL + "/slow", Options{Timeout: 300 * time.Millisecond, MaxBytes: 1 << 20}, "", server.URL + "/slow: no whole answer within 300ms"},
		{"refused", strings.Replace(closed.URL, "http://", "http://ada:hunter2@", 1) + "/x?token=abc", options, "", closed.URL + "/x: dial tcp"},
		{"no host", "http://", options, "", "a URL that cannot be read; want one such as"},
		{"a broken escape", "http://ada:hunter2@127.0.0.1/%zz?token=abc", options, "", "a URL that cannot be read; want one such as"},
		{"a scheme in capitals", strings.Replace(server.URL, "http", "HTTP", 1) + "/debug/pprof/goroutine?debug=2", options, server.URL + "/debug/pprof/goroutine?debug=2", ""},
		{"another scheme", "ftp://ada:hunter2@" + host + "/dump?token=abc", options, "", `a URL of scheme "ftp"; want http:// or https://`},
		{"no limit at all", server.URL + "/debug/pprof/goroutine?debug=2", Options{Timeout: 5 * time.Second, MaxBytes: math.MaxInt64}, server.URL + "/debug/pprof/goroutine?debug=2", ""},
		{"an empty answer", server.URL + "/debug/pprof/goroutine", options, "", server.URL + "/debug/pprof/goroutine: it is empty"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			all, err := readSource(t.Context(), tt.source, tt.o)
			switch {
			case tt.err == "" && (err != nil || len(all) != 1 || all[0].Name != tt.want):
				t.Errorf("%+v, error %v", all, err)
			case tt.err != "" && (err == nil || !strings.HasPrefix(err.Error(), tt.err)):
				t.Errorf("error %v, want %s", err, tt.err)
			}
			if err != nil && (strings.Contains(err.Error(), "hunter") || strings.Contains(err.Error(), "abc") || strings.Contains(err.Error(), "ada")) {
				t.Errorf("a secret is in the error: %v", err)
			}
		})
	}
}
