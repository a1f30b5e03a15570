package cli

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestHealthcheck(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/readyz":
			w.Write([]byte("ready\n"))
		case "/moved":
			http.Redirect(w, r, "/readyz", http.StatusFound)
		default:
			http.Error(w, "database: it went away", http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()
	// Neither may change where the question goes.
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	t.Setenv("http_proxy", "http://127.0.0.1:1")

	for _, test := range []struct {
		name, url string
		want      string // part of the error; empty is healthy
	}{
		{"ready", server.URL + "/readyz", ""},
		{"not ready", server.URL + "/broken", "503 Service Unavailable: database: it went away"},
		{"a redirect is not a 200", server.URL + "/moved", "302 Found"},
		{"nobody there", "http://127.0.0.1:1/readyz", "connection refused"},
		{"no URL", "127.0.0.1:9080", "-healthcheck"},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := Healthcheck(t.Context(), test.url)
			switch {
			case test.want == "" && err != nil:
				t.Errorf("%v, want healthy", err)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
				t.Errorf("%v, want an error with %q", err, test.want)
			}
		})
	}
}
