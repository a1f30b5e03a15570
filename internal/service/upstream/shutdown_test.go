package upstream

import (
	"context"
	"errors"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"chokepoint/internal/adminapi"
)

// TestShutdownAnswersWhatItHasBegun: idle connections get their FIN at once, new ones a
// RST, and a request in flight its answer with "Connection: close".
func TestShutdownAnswersWhatItHasBegun(t *testing.T) {
	t.Parallel()
	s := start(t, behaviourOf("0s", "", 0))
	public := s.Listening().Public
	idle, fresh, busy, half := dial(t, s), dial(t, s), dial(t, s), dial(t, s)
	idle.get(adminapi.PhaseLoad)
	idle.answer("GET")
	busy.post(withID("busy"), withDelay("1s"))
	half.send("POST / HTTP/1.1\nHost: s\nContent-Length: 5\n\nhe") // has begun to arrive
	eventually(t, s, "all of them", func(st adminapi.StubStats) bool { return st.Open == 4 && st.Idle == 2 && st.InFlight == 1 })

	ended := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		ended <- s.Shutdown(ctx)
	}()
	for name, c := range map[string]*client{"idle": idle, "without a request": fresh} {
		if data, err := c.rest(); data != "" || err != nil {
			t.Errorf("%s: %q, %v, want a FIN", name, data, err)
		}
	}
	if got := s.Stats(); got.InFlight != 1 {
		t.Errorf("in flight %d: the idle connections were not closed at once", got.InFlight)
	}
	if c, err := net.Dial("tcp", public); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("a new connection: %v, want it refused", err)
		if err == nil {
			c.Close()
		}
	}
	half.send("llo")
	for name, c := range map[string]*client{"half read": half, "busy": busy} {
		if resp, _ := c.answer("POST"); resp.StatusCode != 200 || !resp.Close {
			t.Errorf("%s: status %d, close %v, want 200 and Connection: close", name, resp.StatusCode, resp.Close)
		}
		if data, err := c.rest(); data != "" || err != nil {
			t.Errorf("%s: then %q, %v, want a FIN", name, data, err)
		}
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestShutdownCutsWhatTakesTooLong(t *testing.T) {
	s := start(t, behaviourOf("0s", "", 0))
	c := dial(t, s)
	c.post(withID("slow"), withDelay("1h"))
	eventually(t, s, "the request", func(st adminapi.StubStats) bool { return st.InFlight == 1 })
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if err := s.Shutdown(ctx); !errors.Is(err, ErrCut) || !strings.Contains(err.Error(), "requests in flight: 1") {
		t.Errorf("ended with %v", err)
	}
	if data, err := c.rest(); data != "" || err != nil {
		t.Errorf("the client got %q, %v, want a FIN", data, err)
	}
	if got := runs(t, s, 1)[0]; got.End != adminapi.EndCut {
		t.Errorf("the run: %+v", got)
	}
}

// TestShutdownDoesNotWaitForWhoeverIsNeverAnswered: connections that wait for nothing
// hold nobody up.
func TestShutdownDoesNotWaitForWhoeverIsNeverAnswered(t *testing.T) {
	s := start(t, resting("1ms", adminapi.IdleEndHalf))
	half := dial(t, s)
	half.get(adminapi.PhaseLoad)
	half.answer("GET")
	half.rest()
	set(t, s, behaviourOf("0s", "tls_hang", 0))
	dial(t, s)
	eventually(t, s, "the hung handshake", func(st adminapi.StubStats) bool { return st.Faults["tls_hang"] == 1 && st.Open == 2 })
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := s.Shutdown(ctx); err != nil || ctx.Err() != nil {
		t.Errorf("%v, %v", err, ctx.Err())
	}
	if err := s.SetBehaviour(t.Context(), behaviourOf("0s", "", 0)); err == nil {
		t.Error("a stub that has shut down took a behaviour")
	}
	if err := s.Shutdown(ctx); err == nil {
		t.Error("it shut down twice")
	}
}
