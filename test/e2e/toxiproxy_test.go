//go:build e2e

package e2e

import (
	"net"
	"net/http"
	"testing"
	"time"

	server "github.com/Shopify/toxiproxy/v2"
	"github.com/Shopify/toxiproxy/v2/client"
	"github.com/rs/zerolog"
)

// toxiproxyAPI is the URL of a real Toxiproxy in this process, which has no end.
func toxiproxyAPI(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	host, port, _ := net.SplitHostPort(l.Addr().String())
	api := "http://" + l.Addr().String()
	l.Close()
	go server.NewServer(server.NewMetricsContainer(nil), zerolog.Nop()).Listen(host, port)
	for range 1000 {
		if resp, err := http.Get(api + "/version"); err == nil {
			resp.Body.Close()
			return api
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("no Toxiproxy at %s after ten seconds", api)
	return ""
}

func proxies(t *testing.T, api string) map[string]*toxiproxy.Proxy {
	t.Helper()
	all, err := toxiproxy.NewClient(api).Proxies()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestToxiproxy: the delay comes from a real Toxiproxy, is measured, and is gone
// afterwards.
func TestToxiproxy(t *testing.T) {
	api := toxiproxyAPI(t)
	b := short(t, "-profile=fixed", "-toxiproxy="+api)
	b.start()
	b.stderr.await(t, "baseline: ")
	if n := len(proxies(t, api)); n != 1 {
		t.Errorf("%d proxies, want 1", n)
	}
	s, dir := b.measured(b.wait())
	if s.Upstream.Via != "toxiproxy" || s.Upstream.DelayAskedMS != 1500 {
		t.Errorf("dose %+v; want 1,500 ms via toxiproxy", s.Upstream)
	}
	if seen := s.Upstream.DelaySeenMS; seen == nil || *seen < 1500 || *seen > 3000 {
		t.Errorf("dose seen: %v, want 1,500 ms or a little more", seen)
	}
	if read := s.Dumps[2].Where["upstream_read"]; read < 18 || read > 20 {
		t.Errorf("%d workers in the upstream read, want 18 to 20", read)
	}
	checkFiles(t, dir, 1800)
	if left := proxies(t, api); len(left) != 0 {
		t.Errorf("proxies left: %v", left)
	}
	b.checkNothingLeft()
}

// TestToxiproxyStopped: the delay is gone however the run ends.
func TestToxiproxyStopped(t *testing.T) {
	t.Parallel()
	api := toxiproxyAPI(t)
	t.Run("interrupted", func(t *testing.T) {
		b := short(t, "-toxiproxy="+api)
		b.start()
		b.stderr.await(t, "dump load_15s")
		b.interrupt()
		if code := b.wait(); code != 130 {
			t.Errorf("exit %d, want 130", code)
		}
		checkStopped(t, b, "interrupted")
		if left := proxies(t, api); len(left) != 0 {
			t.Errorf("proxies left: %v", left)
		}
		b.checkNothingLeft()
	})
	t.Run("killed", func(t *testing.T) {
		b := short(t, "-toxiproxy="+api)
		b.start()
		b.stderr.await(t, "baseline: ")
		b.cmd.Process.Kill()
		b.wait()
		b.checkNothingLeft()
		if left := proxies(t, api); len(left) != 0 {
			t.Errorf("proxies left: %v", left)
		}
	})
}
