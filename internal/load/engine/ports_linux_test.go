package engine

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"chokepoint/internal/load/ledger"
)

// ownNetwork says that a test runs in a network namespace of its own.
const ownNetwork = "CHOKEPOINT_TEST_OWN_NETWORK"

// inOwnNetwork runs the test again in a network namespace of its own, where only
// loopback is, and says whether this is that run.
func inOwnNetwork(t *testing.T) bool {
	t.Helper()
	if os.Getenv(ownNetwork) != "" {
		loopbackUp(t)
		return true
	}
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	child.Env = append(os.Environ(), ownNetwork+"=1")
	child.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	if uid := os.Getuid(); uid != 0 {
		child.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		child.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: uid, Size: 1}}
	}
	out, err := child.CombinedOutput()
	switch {
	case child.ProcessState == nil:
		t.Skipf("no network namespace: %v", err)
	case err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()):
		t.Errorf("%v\n%s", err, out)
	}
	return false
}

func loopbackUp(t *testing.T) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	loopback, err := unix.NewIfreq("lo")
	if err != nil {
		t.Fatal(err)
	}
	loopback.SetUint16(unix.IFF_UP)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, loopback); err != nil {
		t.Fatal(err)
	}
}

func TestEachSourceHasItsOwnPorts(t *testing.T) {
	if !inOwnNetwork(t) {
		return
	}
	// Ten ports, below those that the servers get before.
	const ports = 10
	one, two := netip.MustParseAddr("127.0.0.2"), netip.MustParseAddr("127.0.0.3")
	type test struct {
		kind      Kind
		name      string
		sources   []netip.Addr
		connected int // of 25
		server    *peer
	}
	var tests []test
	for kind := range clients {
		for _, tt := range []test{
			{name: "the kernel's choice", connected: ports},
			{name: "one source", sources: []netip.Addr{one}, connected: ports},
			{name: "two sources", sources: []netip.Addr{one, two}, connected: 2 * ports},
		} {
			tt.kind, tt.server = kind, newPeer(t, write("")) // never answers
			tests = append(tests, tt)
		}
	}
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_local_port_range", fmt.Appendf(nil, "10000 %d", 10000+ports-1), 0); err != nil {
		t.Fatal(err)
	}
	for _, tt := range tests {
		t.Run(string(tt.kind)+"/"+tt.name, func(t *testing.T) {
			c := plan(Endpoint{Name: "fast", URL: tt.server.url(), Rate: 250, Timeout: time.Hour, Workers: 25})
			c.Duration, c.Engine, c.MaxLag = 100*time.Millisecond, tt.kind, time.Minute
			c.Connections.Sources = tt.sources
			grace := 200 * time.Millisecond // for a late one to be told that there is no port
			c.GracefulStop = &grace
			want := fmt.Sprintf("the plan may need 25 connections to %s, and there are %d local ports: %d are missing",
				tt.server.listener.Addr(), tt.connected, 25-tt.connected)
			if _, err := Preflight(c.WithDefaults()); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("Preflight: %v, want %q", err, want)
			}
			r := live(t, c)
			e := r.Load.Endpoints["fast"]
			if e.Started != 25 || e.Interrupted != tt.connected || e.ConnectError != 25-tt.connected || e.Causes[CauseOutOfPorts] != e.ConnectError {
				t.Errorf("got %+v, want %d connections and no ports for the rest", e, tt.connected)
			}
			if connections, _, _ := tt.server.counts(); connections != tt.connected {
				t.Errorf("the server saw %d connections, want %d", connections, tt.connected)
			}
			if reasons := fmt.Sprint(r.Load.Validity.Reasons); !strings.Contains(reasons, "ran out of local ports") {
				t.Errorf("the run is invalid since %s", reasons)
			}
		})
	}
}

func TestNoRouteToTheServer(t *testing.T) {
	if !inOwnNetwork(t) {
		return
	}
	withEachClient(t, "http://192.0.2.1/", func(t *testing.T, do Client) {
		want := ledger.Answer{Outcome: ledger.ConnectError, Cause: CauseUnreachable}
		if x := do(0, time.Now().Add(10*time.Second)); x.Answer != want {
			t.Errorf("got %+v, want %+v", x.Answer, want)
		}
	})
}
