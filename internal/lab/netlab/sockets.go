package netlab

import (
	"fmt"
	"net/netip"
	"strings"
	"time"
)

// Timer is what a socket's kernel waits for before it acts by itself (the timers
// of sock_diag(7)).
type Timer string

// The timers of a socket.
const (
	NoTimer         Timer = ""
	RetransmitTimer Timer = "retransmit" // an acknowledgement
	KeepaliveTimer  Timer = "keepalive"  // silence; of FIN_WAIT2 also the other end's FIN
	TimeWaitTimer   Timer = "time_wait"  // the end of TIME_WAIT
	WindowTimer     Timer = "window"     // a receive window that is open again
)

// Socket is a TCP socket as its host's kernel has it.
type Socket struct {
	// State is the kernel's word, such as ESTABLISHED, CLOSE_WAIT or LISTEN.
	State         string
	Local, Remote netip.AddrPort
	// Timer is what the kernel waits for, and TimerRemaining for how long yet.
	Timer          Timer
	TimerRemaining time.Duration
	// Retransmits is how often in a row the oldest unacknowledged segment was sent
	// again by its timer; TotalRetransmits is how many segments ever were, tail loss
	// probes included.
	Retransmits, TotalRetransmits int
	// RetransmitTimeout is after how long the kernel would send a segment again. It is
	// drawn from the round trips of the connection so far, and so from how busy the
	// machine was.
	RetransmitTimeout time.Duration
	// Probes is how many keepalive or window probes in a row are unanswered.
	Probes int
	// Unacked is how many segments are sent and not acknowledged.
	Unacked int
	// ReceiveQueue is how many bytes the program has not read, SendQueue how many
	// the other end has not acknowledged. Of a listener they are the connections
	// that wait for accept, and how many may.
	ReceiveQueue, SendQueue int
}

// String is the socket as result.Observed has it, with what is not zero:
//
//	ESTABLISHED 10.81.0.10:40112 -> 10.82.0.10:8080 timer keepalive 0.9s
//	ESTABLISHED 10.81.0.10:40112 -> 10.82.0.10:8080 timer retransmit 0.4s, 1 unacked, 3 retransmits, 78 bytes to send
func (s Socket) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s", s.State, s.Local)
	if s.State == stateListen {
		fmt.Fprintf(&b, ", %d of %d waiting", s.ReceiveQueue, s.SendQueue)
		return b.String()
	}
	fmt.Fprintf(&b, " -> %s", s.Remote)
	if s.Timer != NoTimer {
		fmt.Fprintf(&b, " timer %s %.1fs", s.Timer, s.TimerRemaining.Seconds())
	}
	for _, n := range []struct {
		count int
		what  string
	}{
		{s.Unacked, "unacked"},
		{s.TotalRetransmits, "retransmits"},
		{s.Probes, "probes"},
		{s.SendQueue, "bytes to send"},
		{s.ReceiveQueue, "bytes to read"},
	} {
		if n.count != 0 {
			fmt.Fprintf(&b, ", %d %s", n.count, n.what)
		}
	}
	return b.String()
}

// HasPort says whether a connection has the port on either end. A listener has
// no connection.
func (s Socket) HasPort(port uint16) bool {
	return s.State != stateListen && (s.Local.Port() == port || s.Remote.Port() == port)
}

// stateListen is the state of a socket that has no other end.
const stateListen = "LISTEN"

// tcpStates are the kernel's states by their number (include/net/tcp_states.h).
var tcpStates = [...]string{
	1: "ESTABLISHED", "SYN_SENT", "SYN_RECV", "FIN_WAIT1", "FIN_WAIT2", "TIME_WAIT",
	"CLOSE", "CLOSE_WAIT", "LAST_ACK", stateListen, "CLOSING", "NEW_SYN_RECV",
}

// timers are the kernel's timers by their number (sock_diag(7), idiag_timer).
var timers = [...]Timer{NoTimer, RetransmitTimer, KeepaliveTimer, TimeWaitTimer, WindowTimer}

// named is the name that a kernel's number has, or the number where the kernel
// knows more than the lab does.
func named[T ~string](names []T, number uint8) T {
	if int(number) < len(names) {
		return names[number]
	}
	return T(fmt.Sprintf("%d", number))
}
