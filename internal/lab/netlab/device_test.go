package netlab_test

import (
	"math"
	"net/netip"
	"strings"
	"testing"
	"time"

	"chokepoint/internal/lab/netlab"
	"chokepoint/internal/lab/netlab/capture"
)

func TestDeviceValidate(t *testing.T) {
	t.Parallel()
	for _, d := range []netlab.Device{
		{Mode: netlab.Loose},
		{Mode: netlab.Reset, Idle: time.Second, NewPort: true, Loss: 1, LossPort: 65535, Delay: 10 * time.Second},
		{Mode: netlab.Drop, Idle: 5 * 24 * time.Hour, Loss: 0.001},
	} {
		if err := d.Validate(); err != nil {
			t.Errorf("%+v: %v", d, err)
		}
	}
	for want, d := range map[string]netlab.Device{
		`mode ""`:             {},
		`mode "allow"`:        {Mode: "allow"},
		"idle timeout 500ms":  {Mode: netlab.Drop, Idle: 500 * time.Millisecond},
		"idle timeout 1.5s":   {Mode: netlab.Drop, Idle: 1500 * time.Millisecond},
		"idle timeout -1s":    {Mode: netlab.Drop, Idle: -time.Second},
		"idle timeout 144h":   {Mode: netlab.Drop, Idle: 144 * time.Hour},
		"loss 1.01":           {Mode: netlab.Drop, Loss: 1.01},
		"loss -0.5":           {Mode: netlab.Drop, Loss: -0.5},
		"loss NaN":            {Mode: netlab.Drop, Loss: math.NaN()},
		"delay -1ms":          {Mode: netlab.Drop, Delay: -time.Millisecond},
		"delay 11s; use 0 to": {Mode: netlab.Drop, Delay: 11 * time.Second},
	} {
		if err := d.Validate(); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%+v: %v, want a line with %q", d, err, want)
		}
	}
}

func TestWhatIsObservedIsOneLine(t *testing.T) {
	t.Parallel()
	address := netip.MustParseAddrPort
	client, server := address("10.81.0.10:40112"), address("10.82.0.10:8080")
	for want, got := range map[string]interface{ String() string }{
		"ESTABLISHED 2s 10.81.0.10:40112 -> 10.82.0.10:8080 as 10.82.0.2:40112": netlab.Entry{
			Protocol: capture.TCP, State: "ESTABLISHED", Remaining: 2 * time.Second,
			Original: netlab.Tuple{Source: client, Destination: server},
			Reply:    netlab.Tuple{Source: server, Destination: address("10.82.0.2:40112")}},
		"UDP 29s 10.81.0.10:40112 -> 10.82.0.10:8080 as 10.82.0.2:1024": netlab.Entry{
			Protocol: capture.UDP, Remaining: 29 * time.Second,
			Original: netlab.Tuple{Source: client, Destination: server},
			Reply:    netlab.Tuple{Source: server, Destination: address("10.82.0.2:1024")}},
		"ESTABLISHED 10.81.0.10:40112 -> 10.82.0.10:8080 timer keepalive 0.9s": netlab.Socket{
			State: "ESTABLISHED", Local: client, Remote: server, Timer: netlab.KeepaliveTimer, TimerRemaining: 900 * time.Millisecond},
		"CLOSE_WAIT 10.81.0.10:40112 -> 10.82.0.10:8080": netlab.Socket{State: "CLOSE_WAIT", Local: client, Remote: server},
		"FIN_WAIT1 10.81.0.10:40112 -> 10.82.0.10:8080 timer retransmit 0.4s, 2 unacked, 4 retransmits, 79 bytes to send": netlab.Socket{
			State: "FIN_WAIT1", Local: client, Remote: server, Timer: netlab.RetransmitTimer, TimerRemaining: 400 * time.Millisecond,
			Unacked: 2, Retransmits: 3, TotalRetransmits: 4, SendQueue: 79},
		"LISTEN 10.82.0.10:8080, 1 of 100 waiting": netlab.Socket{State: "LISTEN", Local: server, ReceiveQueue: 1, SendQueue: 100},
	} {
		if got.String() != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

func TestHasPort(t *testing.T) {
	t.Parallel()
	address := netip.MustParseAddrPort
	e := netlab.Entry{
		Original: netlab.Tuple{Source: address("10.81.0.10:1"), Destination: address("10.82.0.10:2")},
		Reply:    netlab.Tuple{Source: address("10.82.0.10:2"), Destination: address("10.82.0.2:3")},
	}
	s := netlab.Socket{State: "ESTABLISHED", Local: address("10.81.0.10:1"), Remote: address("10.82.0.10:2")}
	for port, want := range map[uint16]struct{ entry, socket bool }{1: {true, true}, 2: {true, true}, 3: {true, false}, 4: {false, false}} {
		if e.HasPort(port) != want.entry || s.HasPort(port) != want.socket {
			t.Errorf("port %d: entry %v, socket %v; want %v", port, e.HasPort(port), s.HasPort(port), want)
		}
	}
	if (netlab.Socket{State: "LISTEN", Local: address("10.82.0.10:2")}).HasPort(2) {
		t.Error("a listener is a connection")
	}
}
