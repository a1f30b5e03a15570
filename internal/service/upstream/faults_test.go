package upstream

import (
	"errors"
	"net"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"chokepoint/internal/adminapi"
)

// TestRequestFaults sees each fault from the outside: what came, and whether
// the end was a FIN, a RST or none.
func TestRequestFaults(t *testing.T) {
	const halfBody = `{"service":`
	tests := []struct {
		method string
		fault  adminapi.Fault
		begun  bool // an answer began to come
		head   bool // its whole head came, which promises all of the body
		body   string
		end    error
	}{
		{"GET", adminapi.FaultClose, false, false, "", nil},
		{"GET", adminapi.FaultCloseMid, true, true, halfBody, nil},
		{"GET", adminapi.FaultReset, false, false, "", syscall.ECONNRESET},
		{"GET", adminapi.FaultResetMid, true, true, halfBody, syscall.ECONNRESET},
		{"HEAD", adminapi.FaultCloseMid, true, false, "", nil},
		{"HEAD", adminapi.FaultResetMid, true, false, "", syscall.ECONNRESET},
	}
	for _, tt := range tests {
		t.Run(tt.method+" "+string(tt.fault), func(t *testing.T) {
			s := start(t, behaviourOf("1ms", string(tt.fault), 1))
			c := dial(t, s)
			c.send(tt.method + " / HTTP/1.1\nHost: stub\n" + adminapi.HeaderPhase + ": load\n\n")
			data, err := c.rest()
			if !errors.Is(err, tt.end) {
				t.Errorf("the connection ended with %v, want %v", err, tt.end)
			}
			head, body, ok := strings.Cut(data, "\r\n\r\n")
			if begun := strings.HasPrefix(data, "HTTP/1.1 200"); begun != tt.begun || ok != tt.head || body != tt.body {
				t.Errorf("received %q, want an answer begun: %v, its head whole: %v, body %q", data, tt.begun, tt.head, tt.body)
			}
			if promise := "Content-Length: " + strconv.Itoa(len(answerBody)); tt.head && !strings.Contains(head, promise) {
				t.Errorf("head %q, want %q", head, promise)
			}
			checkStats(t, s, adminapi.StubStats{Connections: 1,
				Received: map[string]int{adminapi.PhaseLoad: 1}, Faults: map[string]int{string(tt.fault): 1}})
		})
	}
}

func TestErrorFault(t *testing.T) {
	s := start(t, behaviourOf("0s", "error", 1))
	c := dial(t, s)
	for range 2 { // the connection stays
		c.get(adminapi.PhaseLoad)
		resp, body := c.answer("GET")
		if want := `{"error":"injected","detail":"the stub was told to fail"}`; resp.StatusCode != 500 || body != want {
			t.Errorf("status %d, body %s, want 500, %s", resp.StatusCode, body, want)
		}
	}
	checkStats(t, s, adminapi.StubStats{Connections: 1,
		Received: map[string]int{adminapi.PhaseLoad: 2}, Faults: map[string]int{"error": 2}})
}

// TestHang: nothing comes, not even an end; and it stays so after the fault has
// gone, until the caller leaves.
func TestHang(t *testing.T) {
	s := start(t, behaviourOf("0s", "hang", 1))
	hung := dial(t, s)
	hung.get(adminapi.PhaseLoad)
	eventually(t, s, "the hang", func(st adminapi.StubStats) bool { return st.Faults["hang"] == 1 && st.InFlight == 1 })

	set(t, s, behaviourOf("0s", "", 0))
	other := dial(t, s)
	other.get(adminapi.PhaseLoad)
	other.answer("GET")
	expectSilence(t, hung)
	hung.Close()
	checkStats(t, s, adminapi.StubStats{Connections: 2, Answered: 1,
		Received: map[string]int{adminapi.PhaseLoad: 2}, Faults: map[string]int{"hang": 1}})
}

// expectSilence checks that neither data nor an end has come.
func expectSilence(t *testing.T, c *client) {
	t.Helper()
	c.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
	var timeout net.Error
	if n, err := c.Read(make([]byte, 1)); !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("read %d bytes and %v, want silence", n, err)
	}
}

func TestTLSHang(t *testing.T) {
	s := start(t, behaviourOf("0s", "", 0))
	idle := dial(t, s)
	idle.get(adminapi.PhaseLoad)
	idle.answer("GET")

	set(t, s, behaviourOf("0s", "tls_hang", 0))
	if data, err := idle.rest(); data != "" || err != nil {
		t.Errorf("the idle connection got %q, %v, want a FIN so that its caller meets the fault", data, err)
	}
	hung := dial(t, s)
	hung.send("\x16\x03\x01\x00\x05hello")
	eventually(t, s, "the hung handshake", func(st adminapi.StubStats) bool { return st.Faults["tls_hang"] == 1 })
	expectSilence(t, hung)

	set(t, s, behaviourOf("0s", "", 0))
	after := dial(t, s)
	after.get(adminapi.PhaseLoad)
	after.answer("GET")
	checkStats(t, s, adminapi.StubStats{Connections: 3, Answered: 2,
		Received: map[string]int{adminapi.PhaseLoad: 2}, Faults: map[string]int{"tls_hang": 1}})
}

// TestRefuse: the kernel refuses, on the same port, and lets in again; a request
// that waited at the change is answered, and told to leave.
func TestRefuse(t *testing.T) {
	t.Parallel()
	s := start(t, behaviourOf("0s", "", 0))
	address := s.Listening().Public
	idleConn := dial(t, s)
	idleConn.get(adminapi.PhaseLoad)
	idleConn.answer("GET")
	set(t, s, behaviourOf("1500ms", "", 0))
	waiting := dial(t, s)
	waiting.get(adminapi.PhaseLoad)
	eventually(t, s, "the waiting request", func(st adminapi.StubStats) bool { return st.InFlight == 1 })

	for round := range 3 {
		set(t, s, behaviourOf("0s", "refuse", 0))
		if c, err := net.Dial("tcp", address); !errors.Is(err, syscall.ECONNREFUSED) {
			if err == nil {
				c.Close()
			}
			t.Fatalf("round %d: dialling a refused port: %v, want ECONNREFUSED", round, err)
		}
		if got := s.Listening().Public; got != address {
			t.Errorf("while it refuses the stub says %s, want %s", got, address)
		}
		if round == 0 {
			if data, err := idleConn.rest(); data != "" || err != nil {
				t.Errorf("the idle connection got %q, %v, want a FIN", data, err)
			}
			if resp, _ := waiting.answer("GET"); resp.StatusCode != 200 || !resp.Close {
				t.Errorf("the waiting request: status %d, close %v, want 200 and a close", resp.StatusCode, resp.Close)
			}
		}
		set(t, s, behaviourOf("0s", "", 0))
		c := dial(t, s)
		c.get(adminapi.PhaseRecovery)
		c.answer("GET")
	}
	checkStats(t, s, adminapi.StubStats{Connections: 5, Answered: 5,
		Received: map[string]int{adminapi.PhaseLoad: 2, adminapi.PhaseRecovery: 3}})
}

func TestStartRefusing(t *testing.T) {
	s := start(t, behaviourOf("0s", "refuse", 0))
	if _, err := net.Dial("tcp", s.Listening().Public); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Fatalf("dialling: %v, want ECONNREFUSED", err)
	}
	set(t, s, behaviourOf("0s", "", 0))
	c := dial(t, s)
	c.get(adminapi.PhaseLoad)
	c.answer("GET")
}

// TestRefusedPortIsHeld: nobody else is given the port while it is refused.
func TestRefusedPortIsHeld(t *testing.T) {
	s := start(t, behaviourOf("0s", "refuse", 0))
	local := s.Listening().Public
	addr, err := net.ResolveTCPAddr("tcp", local)
	if err != nil {
		t.Fatal(err)
	}
	other := start(t, behaviourOf("0s", "", 0))
	d := net.Dialer{LocalAddr: addr}
	if c, err := d.Dial("tcp", other.Listening().Public); !errors.Is(err, syscall.EADDRINUSE) {
		if err == nil {
			c.Close()
		}
		t.Errorf("an outgoing connection from %s: %v, want EADDRINUSE", local, err)
	}
}

func TestReopenFails(t *testing.T) {
	s := start(t, behaviourOf("0s", "refuse", 0))
	// Only the listener's own address could take it: a wildcard one may not
	// share a port with it either.
	s.port.release()
	thief, err := net.Listen("tcp", s.Listening().Public)
	if err != nil {
		t.Fatal(err)
	}
	err = s.SetBehaviour(t.Context(), behaviourOf("0s", "", 0))
	if !errors.Is(err, ErrCannotReopen) || !strings.Contains(err.Error(), "is in use; stop what listens there") {
		t.Errorf("reopening a taken port: %v", err)
	}
	if got := s.Behaviour().Fault; got != adminapi.FaultRefuse {
		t.Errorf("fault is %q after the failure, want it to refuse still", got)
	}
	thief.Close()
	set(t, s, behaviourOf("0s", "", 0))
	dial(t, s)
}

// TestClientGone: a caller that left while it waited is noticed when its answer
// is due, whether it left with a FIN or a RST; no fault and no answer is counted
// for it.
func TestClientGone(t *testing.T) {
	t.Parallel()
	var servers []*Server // all wait at once
	for _, linger := range []int{-1, 0} {
		for _, fault := range []string{"", "error", "close", "reset", "close_mid", "reset_mid"} {
			s := start(t, behaviourOf("1500ms", fault, 1))
			servers = append(servers, s)
			c := dial(t, s)
			c.get(adminapi.PhaseLoad)
			eventually(t, s, "the request", func(st adminapi.StubStats) bool { return st.InFlight == 1 })
			c.SetLinger(linger)
			c.Close()
		}
	}
	for _, s := range servers {
		checkStats(t, s, adminapi.StubStats{Connections: 1, ClientGone: 1, Received: map[string]int{adminapi.PhaseLoad: 1}})
	}
}
