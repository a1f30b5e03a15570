package engine

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chokepoint/internal/load/arrival"
)

// roomy is a machine with enough of everything.
var roomy = Limits{Files: 1 << 20, Ports: 28_232, Memory: 8 << 30, TimeWait: time.Minute, LoopbackTimeWait: time.Second}

func TestNeeds(t *testing.T) {
	const near, far = "http://127.0.0.1:8080/", "http://far.example/"
	endpoint := func(url string, workers int) Endpoint {
		return Endpoint{Name: "fast", URL: url, Rate: 100, Workers: workers}
	}
	two := []netip.Addr{netip.MustParseAddr("127.0.0.2"), netip.MustParseAddr("127.0.0.3")}
	for _, tt := range []struct {
		name        string
		endpoint    Endpoint
		connections Connections
		limits      Limits
		line        string
		warning     string // part of the only one
		err         string
	}{
		{name: "little", endpoint: endpoint(near, 10), limits: roomy,
			line: "needs at most 10 connections, files 42 of 1048576, memory 1 of 8192 MB, ports to 127.0.0.1:8080 10 of 28232"},
		{name: "nothing is known", endpoint: endpoint(near, 100_000),
			line: "needs at most 100000 connections, files 100032, memory 3125 MB, ports to 127.0.0.1:8080 100000"},
		{name: "memory", endpoint: endpoint(near, 1<<19), limits: roomy,
			line: "needs at most 524288 connections, files 524320 of 1048576, memory 16384 of 8192 MB, ports to 127.0.0.1:8080 524288 of 28232",
			err:  "the plan needs about 16384 MB for 524288 workers and 0 records, and 8192 MB are free;"},
		{name: "files", endpoint: endpoint(near, 10), limits: Limits{Files: 41, Ports: 5},
			line: "needs at most 10 connections, files 42 of 41, memory 1 MB, ports to 127.0.0.1:8080 10 of 5",
			err:  "the plan may need 10 connections, and 41 open files are allowed: 1 are missing;"},
		{name: "ports", endpoint: endpoint(near, 28_233), limits: roomy,
			line: "needs at most 28233 connections, files 28265 of 1048576, memory 883 of 8192 MB, ports to 127.0.0.1:8080 28233 of 28232",
			err:  "the plan may need 28233 connections to 127.0.0.1:8080, and there are 28232 local ports: 1 are missing; add source addresses, or"},
		{name: "ports of two sources", endpoint: endpoint(near, 28_233), connections: Connections{Sources: two}, limits: roomy,
			line: "needs at most 28233 connections, files 28265 of 1048576, memory 883 of 8192 MB, ports to 127.0.0.1:8080 28233 of 56464"},
		{name: "redirected", endpoint: endpoint(far, 10), limits: roomy,
			connections: Connections{ConnectTo: []Redirect{{ToHost: "::1", ToPort: 81}}},
			line:        "needs at most 10 connections, files 42 of 1048576, memory 1 of 8192 MB, ports to [::1]:81 10 of 28232"},
		// 100/s for 30 s, and each port is lost for a minute.
		{name: "no keep-alive", endpoint: endpoint(far, 10), limits: roomy, connections: Connections{DisableKeepAlive: true},
			line: "needs at most 10 connections, files 42 of 1048576, memory 1 of 8192 MB, ports to far.example:80 3010 of 28232"},
		// Or for a second.
		{name: "no keep-alive on loopback", endpoint: endpoint(near, 10), limits: roomy, connections: Connections{DisableKeepAlive: true},
			line: "needs at most 10 connections, files 42 of 1048576, memory 1 of 8192 MB, ports to 127.0.0.1:8080 110 of 28232"},
		{name: "too few for what was closed", endpoint: endpoint(far, 10), connections: Connections{DisableKeepAlive: true},
			limits:  Limits{Ports: 3009, TimeWait: time.Minute},
			line:    "needs at most 10 connections, files 42, memory 1 MB, ports to far.example:80 3010 of 3009",
			warning: "up to 3010 connections to far.example:80 are open or were closed so lately that their ports are not free, and there are 3009 local ports;"},
		{name: "ten requests each", endpoint: endpoint(far, 10), limits: roomy, connections: Connections{MaxRequests: 10},
			line: "needs at most 10 connections, files 42 of 1048576, memory 1 of 8192 MB, ports to far.example:80 311 of 28232"},
		{name: "ten seconds each", endpoint: endpoint(far, 10), limits: roomy, connections: Connections{MaxAge: 10 * time.Second},
			line: "needs at most 10 connections, files 42 of 1048576, memory 1 of 8192 MB, ports to far.example:80 50 of 28232"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := plan(tt.endpoint)
			c.Connections, c.Engine = tt.connections, Goroutines
			c = c.WithDefaults()
			if err := c.Validate(); err != nil {
				t.Fatal(err)
			}
			n := c.needs(tt.limits)
			if diff := cmp.Diff(tt.line, n.String()); diff != "" {
				t.Error(diff)
			}
			warnings := n.Warnings()
			if tt.err != "" {
				warnings = nil // the plan is refused anyway
			}
			if (len(warnings) == 1) != (tt.warning != "") || len(warnings) > 1 || (len(warnings) == 1 && !strings.Contains(warnings[0], tt.warning)) {
				t.Errorf("warnings %q, want %q", warnings, tt.warning)
			}
			err := n.check()
			if (err != nil) != (tt.err != "") || (err != nil && (!strings.Contains(err.Error(), tt.err) || strings.Contains(err.Error(), "\n"))) {
				t.Errorf("error %v, want one line with %q", err, tt.err)
			}
		})
	}
}

func TestNeedsOfAWarmUpAndOfAShard(t *testing.T) {
	c := plan(Endpoint{Name: "fast", URL: "https://far.example/", Rate: 100, Workers: 10})
	c.Connections.DisableKeepAlive = true
	c.Duration, c.Warmup = 30*time.Second, 5*time.Second
	c.StartAt, c.Shard = time.Now().Add(time.Hour), arrival.Shard{Index: 1, Of: 4}
	c = c.WithDefaults()
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	want := Needs{
		Connections: 20, Files: 52, Memory: 20 * memoryPerSecureWorker, Limits: roomy,
		Destinations: []Destination{{Address: "far.example:443", Connections: 20, Closed: 100 * 35 / 4, Ports: 28_232}},
	}
	if diff := cmp.Diff(want, c.needs(roomy)); diff != "" {
		t.Error(diff)
	}
}

func TestNeedsOfSeveralEndpoints(t *testing.T) {
	pattern, err := arrival.ParsePattern("steps:10/s:10s,1000/s:10s,0/s:10s", 30*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	c := plan(
		Endpoint{Name: "a", URL: "http://far.example/", Workers: 3},
		Endpoint{Name: "b", URL: "http://FAR.example:80/", Workers: 4},
		Endpoint{Name: "c", URL: "http://127.0.0.1:81/", Workers: 5},
	)
	c.Pattern, c.KeepRequests, c.Engine = pattern, true, Goroutines
	c.Connections.DisableKeepAlive = true
	c = c.WithDefaults()
	want := Needs{
		Connections: 12, Records: 3 * 10_100, Files: 44, Memory: 12*memoryPerWorker + 3*10_100*memoryPerRecord,
		Destinations: []Destination{
			{Address: "far.example:80", Connections: 7, Closed: 2 * 10_100, Ports: 28_232},
			{Address: "127.0.0.1:81", Connections: 5, Closed: 1000, Ports: 28_232},
		},
		Limits: roomy,
	}
	if diff := cmp.Diff(want, c.needs(roomy)); diff != "" {
		t.Error(diff)
	}
}

func TestPreflightRefusesWithFigures(t *testing.T) {
	elsewhere := Connections{Sources: []netip.Addr{netip.MustParseAddr("127.0.0.2"), netip.MustParseAddr("192.0.2.1")}}
	for _, tt := range []struct {
		name        string
		endpoint    Endpoint
		connections Connections
		want        string
	}{
		{"memory", Endpoint{Name: "fast", Rate: 1e7, Timeout: 10 * time.Hour}, Connections{}, "MB for 2147483647 workers"},
		// Whichever is short first: memory, files or ports.
		{"connections", Endpoint{Name: "fast", Rate: 1, Workers: 65_536}, Connections{}, "65536"},
		{"source", Endpoint{Name: "fast", Rate: 1}, elsewhere, "source 192.0.2.1 is not an address of this machine"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := plan(tt.endpoint)
			c.Connections = tt.connections
			c = c.WithDefaults()
			if err := c.Validate(); err != nil {
				t.Fatal(err)
			}
			_, err := Preflight(c)
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %v, want one line with %q", err, tt.want)
			}
		})
	}
	if n, err := Preflight(plan(Endpoint{Name: "fast", Rate: 20}).WithDefaults()); err != nil || n.Connections != 213 {
		t.Errorf("a small plan: needs %+v, error %v", n, err)
	}
}

func TestMoreLoopsThanCPUsAreAWarning(t *testing.T) {
	for _, tt := range []struct{ loops, cpus, warnings int }{{900, 2, 1}, {3, 2, 1}, {2, 2, 0}, {1, 2, 0}, {900, 0, 0}} {
		warnings := Needs{Loops: tt.loops, Limits: Limits{CPUs: tt.cpus}}.Warnings()
		if len(warnings) != tt.warnings {
			t.Errorf("%d loops on %d CPUs: %q", tt.loops, tt.cpus, warnings)
		}
		if tt.loops == 900 && tt.cpus == 2 && !strings.HasPrefix(warnings[0], "900 loops are threads that want a CPU each, and there are 2 of those") {
			t.Errorf("got %q", warnings[0])
		}
	}
	if !loopSupported {
		return
	}
	c := plan(Endpoint{Name: "fast", Rate: 1, Workers: 900})
	c.Engine, c.Loops = Loop, 900
	if n := c.WithDefaults().needs(roomy); n.Loops != 900 {
		t.Errorf("%d loops, want 900", n.Loops)
	}
}
