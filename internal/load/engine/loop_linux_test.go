package engine

import (
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"chokepoint/internal/load/ledger"
)

// loopAlone is a loop whose arrivals the test makes itself.
func loopAlone(t *testing.T, url, method string, with ...func(*Config)) *loop {
	t.Helper()
	c := plan(Endpoint{Name: "fast", URL: url, Method: method, Rate: 1, Workers: 4})
	c.Engine, c.KeepRequests = Loop, true
	for _, change := range with {
		change(&c)
	}
	c = c.WithDefaults()
	e, err := newLoopEngine(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	l := newLoop(e.(*loopEngine), newStreams(c, newTallies(c)), 0)
	l.start = time.Now()
	l.next.leaves = forever
	t.Cleanup(l.hangUpIdle)
	return l
}

// do sends one request and waits for its outcome.
func (l *loop) do(index int, deadline time.Time) Exchange {
	l.turn(0) // as after any time of waiting
	j := job{index: index, due: l.now()}
	l.lanes[0].timeout = deadline.Sub(l.start.Add(j.due))
	l.begin(0, j, l.now())
	for l.busy > 0 {
		l.turn(l.idleTime())
	}
	r := l.lanes[0].tally.requests[index]
	began := l.start.Add(r.Due + r.Lag)
	return Exchange{Began: began, Done: began.Add(r.Service), Answer: r.Answer}
}

func loopClient(t *testing.T, url, method string, with ...func(*Config)) (Client, func()) {
	l := loopAlone(t, url, method, with...)
	return l.do, l.hangUpIdle // which may be called twice
}

func TestTheLoopClosesAConnectionThatWasIdleTooLong(t *testing.T) {
	p := newPeer(t, write(okAnswer))
	l := loopAlone(t, p.url(), "GET")
	l.do(0, time.Now().Add(10*time.Second))
	l.slots[l.lanes[0].idle.first].ended -= maxIdle + time.Second
	if x := l.do(1, time.Now().Add(10*time.Second)); x.Answer.Outcome != ledger.OK {
		t.Errorf("got %+v", x.Answer)
	}
	eventually(t, "the old connection is closed", func() bool { _, _, gone := p.counts(); return gone == 1 })
	if connections, requests, _ := p.counts(); connections != 2 || requests != 2 {
		t.Errorf("the server saw %d connections and %d requests, want 2 and 2", connections, requests)
	}
}

func TestTheLoopUsesTheConnectionThatWasUsedLast(t *testing.T) {
	p := newPeer(t, write(okAnswer))
	l := loopAlone(t, p.url(), "GET")
	l.lanes[0].timeout = time.Minute
	for i := range 3 { // at once, so on three connections
		l.begin(0, job{index: i, due: l.now()}, l.now())
	}
	for l.busy > 0 {
		l.turn(l.idleTime())
	}
	last := l.lanes[0].idle.first
	for i := 3; i < 6; i++ {
		l.do(i, time.Now().Add(10*time.Second))
		if first := l.lanes[0].idle.first; first != last {
			t.Errorf("request %d went out on the connection of slot %d, want that of %d", i, first, last)
		}
	}
	if connections, requests, _ := p.counts(); connections != 3 || requests != 6 {
		t.Errorf("the server saw %d connections and %d requests, want 3 and 6", connections, requests)
	}
}

func TestTheLoopCountsAnAnswerReadAfterItsDeadlineAsATimeout(t *testing.T) {
	p := newPeer(t, write(okAnswer))
	l := loopAlone(t, p.url(), "GET")
	l.do(0, time.Now().Add(10*time.Second))
	const timeout = 20 * time.Millisecond
	l.lanes[0].timeout = timeout
	l.begin(0, job{index: 1, due: l.now()}, l.now())
	time.Sleep(2 * timeout) // the answer is there, and the loop has had no CPU
	l.turn(0)
	r := l.lanes[0].tally.requests[1]
	if want := (ledger.Answer{Outcome: ledger.Timeout, Cause: CauseResponse}); r.Answer != want || r.Response < timeout {
		t.Errorf("got %+v after %v, want %+v", r.Answer, r.Response, want)
	}
	eventually(t, "the connection is closed", func() bool { _, _, gone := p.counts(); return gone == 1 })
}

// hugeURL makes a request that no socket buffer takes in one write.
func hugeURL(p *peer) string { return p.url() + strings.Repeat("x", 8<<20) }

func TestTheLoopWritesAHugeRequestInParts(t *testing.T) {
	p := newPeer(t, write(okAnswer))
	l := loopAlone(t, hugeURL(p), "GET")
	for i := range 2 {
		if x := l.do(i, time.Now().Add(time.Minute)); x.Answer.Outcome != ledger.OK {
			t.Errorf("request %d: %+v", i, x.Answer)
		}
	}
	if connections, requests, _ := p.counts(); connections != 1 || requests != 2 || len(p.heads[0]) < 8<<20 || p.heads[0] == p.heads[1] {
		t.Errorf("the server saw %d connections and %d requests, want 1 and 2", connections, requests)
	}
}

func TestTheLoopTakesAnAnswerBeforeItsRequestIsWritten(t *testing.T) {
	// The server answers and reads nothing: the answer counts, and the connection,
	// on which half a request stands, is closed.
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	over := make(chan struct{})
	var server sync.WaitGroup
	server.Go(func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		io.WriteString(conn, "HTTP/1.1 414 URI Too Long\r\nContent-Length: 0\r\n\r\n")
		<-over
	})
	defer server.Wait()
	defer close(over)
	l := loopAlone(t, "http://"+listener.Addr().String()+"/"+strings.Repeat("x", 64<<20), "GET")
	want := ledger.Answer{Outcome: ledger.HTTPError, Status: 414}
	if x := l.do(0, time.Now().Add(time.Minute)); x.Answer != want {
		t.Errorf("got %+v, want %+v", x.Answer, want)
	}
	if l.lanes[0].idle.first != none {
		t.Error("the connection was kept")
	}
}

func TestEventsOfAClosedConnectionAreNotForTheNextOne(t *testing.T) {
	p := newPeer(t, write("")) // never answers
	l := loopAlone(t, p.url(), "GET")
	l.lanes[0].timeout = time.Minute
	l.begin(0, job{index: 0, due: l.now()}, l.now())
	for l.slots[0].phase != awaiting {
		l.turn(time.Second)
	}
	stale := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLHUP, Fd: 0, Pad: int32(l.slots[0].generation)}
	l.broken(0, CauseOther)
	l.begin(0, job{index: 1, due: l.now()}, l.now())
	if l.handle(stale); l.busy != 1 || l.slots[0].phase == empty {
		t.Errorf("%d requests in flight, want 1", l.busy)
	}
	l.broken(0, CauseOther)
}

func TestTheLoopPlaysOverATimer(t *testing.T) {
	// As on a kernel without epoll_pwait2.
	p := newPeer(t, write(okAnswer))
	c := plan(Endpoint{Name: "fast", URL: p.url(), Rate: 200}).WithDefaults()
	c.Duration = 200 * time.Millisecond
	e, err := newLoopEngine(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if poll := e.(*loopEngine).polls[0]; poll.timer < 0 {
		if err := poll.useTimer(); err != nil {
			t.Fatal(err)
		}
	}
	r, err := e.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	balanced(t, r)
	if ok := r.Load.Endpoints["fast"].OK; ok != 40 {
		t.Errorf("%d ok, want 40", ok)
	}
}

func TestPollerWaits(t *testing.T) {
	for _, timer := range []bool{false, true} {
		p, err := newPoller()
		if err != nil {
			t.Fatal(err)
		}
		defer p.close()
		if timer && p.timer < 0 {
			if err := p.useTimer(); err != nil {
				t.Fatal(err)
			}
		}
		events := make([]unix.EpollEvent, 4)
		for _, timeout := range []time.Duration{-time.Second, 0, 1, time.Microsecond, 3 * time.Millisecond} {
			// A signal, which the runtime uses to preempt, may end a wait; an event may not.
			for begin := time.Now(); time.Since(begin) < timeout; {
				if n := p.wait(events, timeout-time.Since(begin)); n > 0 && events[0].Fd != timerEvent {
					t.Errorf("timer %v: event %+v, and there is none", timer, events[0])
				}
			}
		}
		p.wait(events, 0) // what the timer may have left
		p.wakeUp()
		for _, timeout := range []time.Duration{forever, 0} {
			n := p.wait(events, timeout)
			if woken := n == 1 && events[0].Fd == wakeEvent; woken != (timeout == forever) {
				t.Errorf("timer %v, timeout %v: %d events, first %+v", timer, timeout, n, events[0])
			}
		}
	}
}

func TestASlotIsSmall(t *testing.T) {
	if size := unsafe.Sizeof(slot{}); size > 256 {
		t.Errorf("a slot has %d bytes, want at most 256", size)
	}
}

func TestTheLoopAllocatesNothingForARequest(t *testing.T) {
	server := newEcho(t)
	l := loopAlone(t, server, "GET")
	l.lanes[0].tally.requests = nil
	l.lanes[0].timeout = time.Minute
	exchange := func() {
		l.begin(0, job{due: l.now()}, l.now())
		for l.busy > 0 {
			l.turn(l.idleTime())
		}
	}
	exchange()
	before := l.lanes[0].tally.ledger.Count(ledger.OK)
	allocated := testing.AllocsPerRun(100, exchange)
	if l.lanes[0].tally.ledger.Count(ledger.OK) != before+101 {
		t.Fatal("not every request was answered")
	}
	if allocated != 0 {
		t.Errorf("%.0f allocations for a request", allocated)
	}
}

// newEcho is a server that allocates nothing for a request.
func newEcho(t *testing.T) (url string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var server sync.WaitGroup
	server.Go(func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		request, answer := make([]byte, 4096), []byte(okAnswer)
		for {
			if _, err := conn.Read(request); err != nil {
				return
			}
			if _, err := conn.Write(answer); err != nil {
				return
			}
		}
	})
	t.Cleanup(server.Wait)
	t.Cleanup(func() { listener.Close() })
	return "http://" + listener.Addr().String() + "/"
}

func TestTheLoopLeavesNoFileOpen(t *testing.T) {
	files := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	p := newPeer(t, func(conn *net.TCPConn, head string) bool {
		if !strings.Contains(head, "-3\r\n") { // one request stays in flight
			io.WriteString(conn, okAnswer)
		}
		return true
	})
	before := files()
	c := plan(Endpoint{Name: "fast", URL: p.url(), Rate: 100, Timeout: time.Hour, Workers: 10})
	c.Duration, c.Engine = 100*time.Millisecond, Loop
	var grace time.Duration
	c.GracefulStop = &grace
	if e := live(t, c).Load.Endpoints["fast"]; e.OK+e.Interrupted != 10 || e.Interrupted < 1 || e.Address != p.listener.Addr().String() {
		t.Errorf("got %+v", e)
	}
	// The server is in this process, and has its files open until it sees the end.
	eventually(t, "every file is closed again", func() bool { return files() <= before })
}

func TestNoKeepaliveProbes(t *testing.T) {
	// They would find a dead peer on the client's behalf.
	p := newPeer(t, write(okAnswer))
	l := loopAlone(t, p.url(), "GET")
	l.do(0, time.Now().Add(10*time.Second))
	h, do := sender(t, p.url(), "GET")
	do(0, time.Now().Add(10*time.Second))
	raw, err := h.targets[0].idle[0].socket.Conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	probes := func(fd int) int {
		n, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_KEEPALIVE)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := probes(int(l.slots[l.lanes[0].idle.first].fd)); n != 0 {
		t.Errorf("the loop's connection has SO_KEEPALIVE %d", n)
	}
	if err := raw.Control(func(fd uintptr) {
		if n := probes(int(fd)); n != 0 {
			t.Errorf("the goroutines' connection has SO_KEEPALIVE %d", n)
		}
	}); err != nil {
		t.Fatal(err)
	}
}
