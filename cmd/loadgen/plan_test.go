package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"chokepoint/internal/cli"
	"chokepoint/internal/result"
)

// journal counts the requests of the load by what they say.
type journal struct {
	mu   sync.Mutex
	seen map[string]int
}

func (j *journal) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.seen == nil {
		j.seen = map[string]int{}
	}
	j.seen[strings.TrimSpace(strings.Join([]string{
		r.Header.Get("X-Chokepoint-Phase"), r.Method, r.Host, r.URL.RequestURI(), r.Header.Get("Authorization"), string(body)}, " "))]++
}

// files writes files into a folder of their own and returns it.
func files(t *testing.T, texts map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range texts {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestTheServerSeesThePlan: what the command line and the file say arrives, and
// exactly that often.
func TestTheServerSeesThePlan(t *testing.T) {
	defer goleak.VerifyNone(t)
	for _, engine := range []string{"loop", "goroutines"} {
		t.Run(engine, func(t *testing.T) {
			var seen journal
			server := httptest.NewServer(&seen)
			defer server.Close()
			address := strings.TrimPrefix(server.URL, "http://")
			dir := files(t, map[string]string{
				"plan.yaml": `
duration: 500ms
warmup: 200ms
header: {Authorization: Bearer of-the-file}
connect-to: shop.test:80:` + address + `
endpoints:
  - {name: read, url: http://shop.test/, rate: 60/s, rows: urls.csv}
  - {name: write, url: http://shop.test/orders, rate: 20/s, body: "@order.json"}
`,
				"urls.csv": "url\n/1\n/2\n/3?q=4\n", "order.json": `{"a": 1}`,
			})
			var stdout, stderr bytes.Buffer
			code := run(t.Context(), []string{"-quiet", "-engine", engine, "-max-lag", "1h", "-plan", filepath.Join(dir, "plan.yaml"),
				"-H", "Authorization: Bearer x", "-endpoint", "name=more,url=" + server.URL + "/more,rate=10,header='Authorization: a, b',method=PATCH"}, &stdout, &stderr)
			if code != cli.ExitOK {
				t.Fatalf("exit code %d: %s%s", code, &stderr, &stdout)
			}
			want := map[string]int{
				"load GET shop.test /1 Bearer x":                  10,
				"load GET shop.test /2 Bearer x":                  10,
				"load GET shop.test /3?q=4 Bearer x":              10,
				`load POST shop.test /orders Bearer x {"a": 1}`:   10,
				"warmup GET shop.test /1 Bearer x":                4,
				"warmup GET shop.test /2 Bearer x":                4,
				"warmup GET shop.test /3?q=4 Bearer x":            4,
				"warmup PATCH " + address + " /more a, b":         2,
				`warmup POST shop.test /orders Bearer x {"a": 1}`: 4,
				"load PATCH " + address + " /more a, b":           5,
			}
			if diff := cmp.Diff(want, seen.seen); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// TestCertificatesOfTheCommandLine: verified by default, and by the files given.
func TestCertificatesOfTheCommandLine(t *testing.T) {
	defer goleak.VerifyNone(t)
	var shown atomic.Int64
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		shown.Add(int64(min(1, len(r.TLS.PeerCertificates))))
	}))
	server.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // refused handshakes are meant
	server.StartTLS()
	defer server.Close()
	pair := server.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	block := func(kind string, bytes []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: bytes}))
	}
	cert := block("CERTIFICATE", pair.Certificate[0])
	dir := files(t, map[string]string{"ca.pem": cert, "both.pem": cert + block("PRIVATE KEY", key)})
	ca, both := filepath.Join(dir, "ca.pem"), filepath.Join(dir, "both.pem")
	for _, test := range []struct {
		name      string
		args      []string
		ok, shown int // requests, and those with a client certificate
	}{
		{"an unknown authority", nil, 0, 0},
		{"verified by nobody", []string{"-k"}, 4, 0},
		{"verified by the file", []string{"-cacert", ca}, 4, 0},
		{"with a client certificate", []string{"-cacert", ca, "-cert", both}, 4, 4},
		{"another name", []string{"-cacert", ca, "-server-name", "shop.test"}, 0, 0},
		{"the right name", []string{"-cacert", ca, "-server-name", "example.com"}, 4, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			shown.Store(0)
			jsonFile := filepath.Join(t.TempDir(), "load.json")
			var stdout, stderr bytes.Buffer
			args := append(test.args, "-quiet", "-n", "4", "-rate", "40", "-max-lag", "1h", "-json", jsonFile, server.URL)
			if code := run(t.Context(), args, &stdout, &stderr); code != cli.ExitOK {
				t.Fatalf("exit code %d: %s%s", code, &stderr, &stdout)
			}
			l, err := result.ReadLoad(jsonFile)
			if err != nil {
				t.Fatal(err)
			}
			if e := l.Endpoints["url"]; e.OK != test.ok || e.ConnectError != 4-test.ok || int(shown.Load()) != test.shown {
				t.Errorf("%d ok, %d connect errors, %d with a certificate\n%s", e.OK, e.ConnectError, shown.Load(), &stdout)
			}
		})
	}
}
