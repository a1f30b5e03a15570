package engine

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"chokepoint/internal/load/ledger"
)

func sender(t *testing.T, url, method string, with ...func(*Config)) (*HTTP, Client) {
	t.Helper()
	c := plan(Endpoint{Name: "fast", URL: url, Method: method, Rate: 1})
	for _, change := range with {
		change(&c)
	}
	h, err := NewHTTP(t.Context(), c.WithDefaults())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	return h, h.NewClient(0, false)
}

func TestAConnectionThatWasIdleTooLongIsNotUsedAgain(t *testing.T) {
	p := newPeer(t, write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"))
	h, do := sender(t, p.url(), "GET")
	do(0, time.Now().Add(10*time.Second))
	h.targets[0].idle[0].lastUsed = time.Now().Add(-maxIdle - time.Second)
	if x := do(1, time.Now().Add(10*time.Second)); x.Answer.Outcome != ledger.OK {
		t.Errorf("got %+v", x.Answer)
	}
	eventually(t, "the old connection is closed", func() bool { _, _, gone := p.counts(); return gone == 1 })
	if connections, requests, _ := p.counts(); connections != 2 || requests != 2 {
		t.Errorf("the server saw %d connections and %d requests, want 2 and 2", connections, requests)
	}
}

func TestCausesOfErrorsThatAreHardToCause(t *testing.T) {
	soon := time.Now().Add(time.Hour)
	dial := func(err error) error { return &net.OpError{Op: "dial", Net: "tcp", Err: err} }
	for _, tt := range []struct {
		err  error
		want ledger.Answer
	}{
		{dial(os.NewSyscallError("socket", syscall.EMFILE)), ledger.Answer{Outcome: ledger.ConnectError, Cause: CauseOutOfFiles}},
		{dial(os.NewSyscallError("socket", syscall.ENFILE)), ledger.Answer{Outcome: ledger.ConnectError, Cause: CauseOutOfFiles}},
		{dial(os.NewSyscallError("connect", syscall.EADDRNOTAVAIL)), ledger.Answer{Outcome: ledger.ConnectError, Cause: CauseOutOfPorts}},
		{dial(os.NewSyscallError("connect", syscall.EHOSTUNREACH)), ledger.Answer{Outcome: ledger.ConnectError, Cause: CauseUnreachable}},
		{dial(os.NewSyscallError("connect", syscall.ETIMEDOUT)), ledger.Answer{Outcome: ledger.ConnectError, Cause: CauseUnreachable}},
		{dial(os.NewSyscallError("connect", syscall.ECONNRESET)), ledger.Answer{Outcome: ledger.ConnectError, Cause: CauseReset}},
		{dial(context.DeadlineExceeded), ledger.Answer{Outcome: ledger.Timeout, Cause: CauseConnect}},
		{&handshakeError{error: os.ErrDeadlineExceeded}, ledger.Answer{Outcome: ledger.Timeout, Cause: CauseConnect}},
		{errors.New("?"), ledger.Answer{Outcome: ledger.ConnectError, Cause: CauseOther}},
	} {
		if got := connectFailure(tt.err, soon); got != tt.want {
			t.Errorf("%v: got %+v, want %+v", tt.err, got, tt.want)
		}
	}
	// The kernel's own timeout on an open connection is not the client's.
	if got := transportFailure(io.EOF, os.NewSyscallError("read", syscall.ETIMEDOUT)); got.Outcome != ledger.TransportError || got.Cause != CauseUnreachable {
		t.Errorf("ETIMEDOUT: got %+v", got)
	}
}

func TestInterruptEndsADial(t *testing.T) {
	mute := newPeer(t, write(""))
	h, do := sender(t, strings.Replace(mute.url(), "http:", "https:", 1), "GET")
	done := make(chan Exchange)
	go func() { done <- do(0, time.Now().Add(time.Hour)) }()
	eventually(t, "the handshake has begun", func() bool { h.mu.Lock(); defer h.mu.Unlock(); return len(h.open) == 1 })
	h.Interrupt()
	if x := <-done; x.Answer.Outcome != ledger.Interrupted {
		t.Errorf("got %+v, want interrupted", x.Answer)
	}
	if x := do(1, time.Now().Add(time.Hour)); x.Answer.Outcome != ledger.Interrupted {
		t.Errorf("after the interrupt: got %+v, want interrupted", x.Answer)
	}
}
