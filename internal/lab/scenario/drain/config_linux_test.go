package drain

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"chokepoint/internal/lab/balancer"
	"chokepoint/internal/lab/netlab"
	"chokepoint/internal/lab/netlab/netlabtest"
	"chokepoint/internal/lab/pghost"
	"chokepoint/internal/lab/pgserver"
	"chokepoint/internal/lab/proc"
)

// TestConfigurationsAreTaken has the programs themselves check every configuration that
// a setup can have.
func TestConfigurationsAreTaken(t *testing.T) {
	binaries := map[balancer.Kind]balancer.Binary{}
	for _, kind := range []balancer.Kind{balancer.Nginx, balancer.HAProxy} {
		b, err := balancer.Find(t.Context(), kind)
		if err != nil {
			t.Skip(err)
		}
		binaries[kind] = b
	}
	netlabtest.Need(t)
	l := proc.NewLauncher(nil)
	defer l.Close()
	check := func(kind balancer.Kind, c balancer.Config) {
		t.Helper()
		c.Body = strings.ReplaceAll(c.Body, "listen 10.84.", "listen 127.84.") // nginx binds it
		if err := binaries[kind].Check(t.Context(), l, balancer.Options{Name: "one", Folder: t.TempDir(), Config: c}); err != nil {
			t.Error(err)
		}
	}
	check(balancer.HAProxy, balancerConfig(3))
	check(balancer.Nginx, edgeConfig(6*time.Second))
	for _, p := range []Protocol{HTTP1, HTTP2} {
		for _, e := range []End{{}, {Drain: 500 * time.Millisecond}, {Drain: time.Second, KeepIdle: true}} {
			check(balancer.HAProxy, Setup{Gateway: HAProxy, Protocol: p, End: e}.config(gatewayAddr(0)))
			check(balancer.Nginx, Setup{Gateway: Nginx, Protocol: p, End: e}.config(gatewayAddr(0)))
		}
	}
}

// TestClientsTellWhatTheyGot: a retry is on another connection and has the same key, and
// without one there is none.
func TestClientsTellWhatTheyGot(t *testing.T) {
	netlabtest.Need(t)
	h, err := newHosts(Setup{Gateways: 1}, seatForTest(t))
	if err != nil {
		t.Fatal(err)
	}
	defer h.close()
	listener, err := h.app.Listen(serviceAt(appAddr))
	if err != nil {
		t.Fatal(err)
	}
	type call struct{ remote, key string }
	var calls []call
	server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls = append(calls, call{r.RemoteAddr, r.Header.Get("Idempotency-Key")})
		if len(calls) == 1 {
			w.WriteHeader(http.StatusBadGateway)
		}
	})}}
	server.Start()
	defer server.Close()
	c := newCaller(h.client, HTTP1, serviceAt(appAddr))
	defer c.close()
	first := c.send(t.Context(), order{id: "a", attempts: 2})
	if !first.ok || first.got != "200" || first.sent != 2 || first.err != "status 502" {
		t.Errorf("repeated: %+v", first)
	}
	second := c.send(t.Context(), order{id: "b"})
	if len(calls) != 3 || calls[0].key != "a" || calls[1].key != "a" || calls[2].key != "" || calls[0].remote == calls[1].remote {
		t.Errorf("calls %+v", calls)
	}
	if !second.ok || !second.reused || second.local != calls[0].remote || second.local != calls[2].remote {
		t.Errorf("on the kept connection: %+v, calls %+v", second, calls)
	}
	server.Close()
	if third := c.send(t.Context(), order{id: "c", fresh: true}); third.ok || third.got != "ECONNREFUSED" || third.err == "" {
		t.Errorf("without a server: %+v", third)
	}
}

// seatForTest is a place at a host without a PostgreSQL.
func seatForTest(t *testing.T) pghost.Seat {
	t.Helper()
	lab := newLabForTest(t)
	host, err := lab.Host("postgres")
	if err != nil {
		t.Fatal(err)
	}
	return pghost.Seat{Host: host, PG: &pgserver.Server{}, Number: 1}
}

// TestWhatEndsByItselfIsSaid: the run fails with one line that names the program.
func TestWhatEndsByItselfIsSaid(t *testing.T) {
	netlabtest.Need(t)
	nginx, err := balancer.Find(t.Context(), balancer.Nginx)
	if err != nil {
		t.Skip(err)
	}
	h, err := newHosts(Setup{Gateways: 1}, seatForTest(t))
	if err != nil {
		t.Fatal(err)
	}
	failed := make(chan error, 1)
	w := &world{setup: Setup{Gateway: Nginx, Gateways: 1, Protocol: HTTP1}, programs: Programs{Nginx: nginx}, hosts: h, folder: t.TempDir(),
		gateways: make([]*gateway, 1), fail: func(err error) {
			if err != nil {
				failed <- err
			}
		}}
	if err := w.begin(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if err := w.gateways[0].child.Signal(syscall.SIGTERM); err != nil { // not by the world
		t.Fatal(err)
	}
	select {
	case err := <-failed:
		if !strings.HasPrefix(err.Error(), "gw1 (nginx ") || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "ended by itself") {
			t.Errorf("%v", err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("nobody has said that the gateway ended")
	}
	if err := w.begin(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if err := w.stop(t.Context()); err != nil {
		t.Error(err)
	}
	select {
	case err := <-failed:
		t.Errorf("what was stopped is said to have ended by itself: %v", err)
	default:
	}
}

// TestABusyMachineIsNoFinding: what came too late is told from what fails.
func TestABusyMachineIsNoFinding(t *testing.T) {
	for name, tc := range map[string]struct {
		sent sending
		late bool
	}{
		"in time":           {sending{id: "r1", ok: true, sent: 1, work: time.Second, took: 3 * time.Second}, false},
		"late":              {sending{id: "r1", ok: true, sent: 1, work: time.Second, took: 3001 * time.Millisecond}, true},
		"at the second try": {sending{id: "r1", ok: true, sent: 2, work: time.Second, took: time.Minute}, false},
		"failed":            {sending{id: "r1", sent: 1, work: time.Second, took: time.Minute}, false},
	} {
		var late *Late
		if is := errors.As(stalled([]sending{tc.sent}), &late); is != tc.late {
			t.Errorf("%s: late %v, want %v", name, is, tc.late)
		}
	}
	if err := inTime("SIGTERM", time.Now()); err != nil {
		t.Error(err)
	}
	err := inTime("SIGTERM", time.Now().Add(-time.Second))
	if err == nil || !strings.Contains(err.Error(), `too busy: "SIGTERM" came 1.00 s late`) {
		t.Errorf("%v", err)
	}
}

func newLabForTest(t *testing.T) *netlab.Lab {
	t.Helper()
	lab, err := netlab.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { lab.Close() })
	return lab
}
