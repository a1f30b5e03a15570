package upstream

import (
	"errors"
	"io"
	"strings"
	"syscall"
	"testing"
	"time"

	"chokepoint/internal/adminapi"
)

func resting(timeout string, end adminapi.IdleEnd) adminapi.Behaviour {
	return adminapi.Behaviour{Delay: "0s", IdleTimeout: timeout, IdleEnd: end}
}

// TestIdleEnds sees how each end of an idle connection looks from the client, and what
// becomes of a request that is sent after it.
func TestIdleEnds(t *testing.T) {
	for _, tt := range []struct {
		end  adminapi.IdleEnd
		rest error // how the connection ended for a client that reads
		gone bool  // requests that are sent after it are answered by a RST
		open int   // connections that the stub still has
	}{
		{adminapi.IdleEndFIN, nil, true, 0},
		{adminapi.IdleEndHalf, nil, false, 1},
		{adminapi.IdleEndRST, syscall.ECONNRESET, true, 0},
	} {
		t.Run(string(tt.end), func(t *testing.T) {
			t.Parallel()
			s := start(t, resting("50ms", tt.end))
			c := dial(t, s)
			c.get(adminapi.PhaseLoad)
			if resp, _ := c.answer("GET"); resp.Close {
				t.Error("the answer says that the connection closes")
			}
			if data, err := c.rest(); data != "" || !errors.Is(err, tt.rest) {
				t.Fatalf("the idle connection ended with %q, %v, want %v", data, err, tt.rest)
			}
			eventually(t, s, "the connection at its end", func(st adminapi.StubStats) bool { return st.Open == tt.open && st.Idle == 0 })
			if err := c.goOnSending(); (err != nil) != tt.gone {
				t.Errorf("sending after the end: %v, want an error: %v", err, tt.gone)
			}
			if got := s.requests.snapshot("").Total; got != 1 {
				t.Errorf("the handler ran %d times, want once", got)
			}
			c.Close()
			eventually(t, s, "the connection gone", func(st adminapi.StubStats) bool { return st.Open == 0 })
		})
	}
}

// goOnSending sends requests until one cannot be written: the first after a close is
// still taken, and the RST that answers it fails one of the next.
func (c *client) goOnSending() error {
	for range 50 {
		if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: s\r\n\r\n"); err != nil {
			return err
		}
		time.Sleep(time.Millisecond)
	}
	return nil
}

// TestIdleTimeoutHoldsBetweenRequests: not before the first, not while one is answered.
func TestIdleTimeoutHoldsBetweenRequests(t *testing.T) {
	t.Parallel()
	s := start(t, resting("40ms", ""))
	fresh, busy := dial(t, s), dial(t, s)
	busy.send("GET / HTTP/1.1\nHost: s\n" + adminapi.HeaderDelay + ": 150ms\n\n")
	busy.answer("GET")
	fresh.get(adminapi.PhaseLoad)
	fresh.answer("GET")
	if got := s.Behaviour(); got.IdleEnd != adminapi.IdleEndFIN || got.IdleTimeout != "40ms" {
		t.Errorf("normal form %+v", got)
	}
}

// TestIdleTimeoutOfTheRunningStub reaches connections that rest already.
func TestIdleTimeoutOfTheRunningStub(t *testing.T) {
	s := start(t, behaviourOf("0s", "", 0))
	c := dial(t, s)
	c.get(adminapi.PhaseLoad)
	c.answer("GET")
	eventually(t, s, "the connection idle", func(st adminapi.StubStats) bool { return st.Idle == 1 })
	set(t, s, resting("1ms", adminapi.IdleEndRST))
	if _, err := c.rest(); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("ended with %v, want a RST", err)
	}
	if got := s.Stats(); got.Connections != 1 {
		t.Errorf("%d connections", got.Connections)
	}
}

func TestConnectionsHaveIDs(t *testing.T) {
	s := start(t, behaviourOf("0s", "", 0))
	for _, want := range []string{"upstream-1", "upstream-2"} {
		c := dial(t, s)
		for range 2 {
			c.get(adminapi.PhaseLoad)
			if resp, _ := c.answer("GET"); resp.Header.Get(adminapi.HeaderConnection) != want {
				t.Errorf("connection %q, want %q", resp.Header.Get(adminapi.HeaderConnection), want)
			}
		}
	}
}

func TestParseKeepAliveBehaviour(t *testing.T) {
	for _, tt := range []struct {
		b    adminapi.Behaviour
		want string
	}{
		{resting("soon", ""), `idle timeout "soon": want a duration`},
		{resting("-1s", ""), `idle timeout "-1s"`},
		{resting("1s", "bang"), `unknown idle end "bang"; choose one of fin, half, rst`},
		{adminapi.Behaviour{Delay: "0s", FaultFirst: 1}, `fault first 1 counts requests, and fault "" befalls none`},
		{adminapi.Behaviour{Delay: "0s", FaultFirst: 1, Fault: adminapi.FaultRefuse}, `fault "refuse" befalls none`},
		{adminapi.Behaviour{Delay: "0s", FaultFirst: -1}, "fault first -1"},
		{adminapi.Behaviour{Delay: "0s", Fault: adminapi.FaultStatus, FaultRate: 1}, `fault "status" with status 0: want 400 to 599`},
		{adminapi.Behaviour{Delay: "0s", Fault: adminapi.FaultStatus, FaultRate: 1, FaultStatus: 200}, "status 200"},
		{adminapi.Behaviour{Delay: "0s", FaultStatus: 503}, `status 503 goes with fault "status" only`},
	} {
		if _, err := parseBehaviour(tt.b); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: %v, want %q", tt.b, err, tt.want)
		}
	}
}
