package engine

import (
	"io"
	"time"

	"golang.org/x/sys/unix"

	"chokepoint/internal/load/ledger"
)

// closing are the events after which no further answer can come.
const (
	closing  = unix.EPOLLRDHUP | unix.EPOLLHUP | unix.EPOLLERR
	readable = unix.EPOLLIN | closing
)

// begin gives an arrival that has fallen due to a free slot, which sends it; if
// there is none the arrival is dropped. It begins now, at began.
func (l *loop) begin(of int32, j job, began time.Duration) {
	lane := &l.lanes[of]
	i := l.take(lane, began)
	lane.tally.schedule(j, i != none)
	if i != none {
		l.launch(i, of, j, began)
	}
}

// take is a free slot of the lane, or none.
func (l *loop) take(lane *lane, now time.Duration) int32 {
	l.retire(lane, now)
	return l.slots.take(lane, l.aged(lane.idle.first, now))
}

// launch lets slot i send a request.
func (l *loop) launch(i, of int32, j job, began time.Duration) {
	lane := &l.lanes[of]
	s := &l.slots[i]
	s.lane, s.index, s.due, s.began, s.written = of, j.index, j.due, began, 0
	s.reader.Reset(lane.head)
	l.slots.pushLast(&lane.busy, i)
	if !lane.warmUp {
		l.busy++
	}
	switch {
	case began > j.due+lane.timeout:
		l.finish(i, began, ledger.Answer{Outcome: ledger.Timeout, Cause: CauseUnsent}, false)
	case s.phase == idle:
		s.carried++
		l.send(i)
	default:
		l.dial(i)
	}
}

// finish counts what became of the request in slot i, over at ended, and frees
// the slot, whose connection is kept for the next request or closed.
func (l *loop) finish(i int32, ended time.Duration, answer ledger.Answer, keep bool) {
	s := &l.slots[i]
	lane := &l.lanes[s.lane]
	answer = inTime(answer, ended, s.due+lane.timeout)
	keep = keep && answer.Outcome.Answered()
	l.slots.remove(&lane.busy, i)
	lane.free++
	if !lane.warmUp {
		l.busy--
	}
	s.ended = ended
	if keep && !l.c.Connections.spent(ended-s.opened, int(s.carried)) {
		s.phase = idle
		l.slots.pushFirst(&lane.idle, i)
	} else {
		l.hangUp(s)
		l.slots.pushFirst(&lane.vacant, i)
	}
	lane.tally.finish(job{index: s.index, due: s.due}, s.began-s.due, ended-s.began, s.reader.Received(), answer)
}

// hangUp closes the connection of s at once: the server sees a FIN, or an RST if
// it has sent what was not read.
func (l *loop) hangUp(s *slot) {
	if s.phase != empty {
		unix.Close(int(s.fd))
	}
	// Events of the old connection that have been fetched already are not for the
	// next one.
	s.generation++
	s.phase = empty
}

// discard closes the idle connection of slot i.
func (l *loop) discard(i int32) {
	s := &l.slots[i]
	lane := &l.lanes[s.lane]
	l.slots.remove(&lane.idle, i)
	l.hangUp(s)
	l.slots.pushFirst(&lane.vacant, i)
}

// retire closes idle connections of the lane that may not be used again. It closes
// a few at a time, since a request that has fallen due waits for it.
func (l *loop) retire(lane *lane, now time.Duration) {
	for range maxRetired {
		last, first := lane.idle.last, lane.idle.first
		switch {
		case last != none && now-l.slots[last].ended > maxIdle:
			l.discard(last)
		case l.aged(first, now):
			l.discard(first)
		default:
			return
		}
	}
}

// aged says whether slot i is one with a connection that may not be used again.
func (l *loop) aged(i int32, now time.Duration) bool {
	return i != none && (l.c.Connections.aged(now-l.slots[i].opened) || now-l.slots[i].ended > maxIdle)
}

// handle deals with one event.
func (l *loop) handle(event unix.EpollEvent) {
	if event.Fd < 0 {
		return // a wake-up: there is something to see for expire
	}
	i := event.Fd
	s := &l.slots[i]
	if s.generation != uint32(event.Pad) {
		return
	}
	switch s.phase {
	case idle:
		// The server ended the connection, or sent what nobody asked for.
		if event.Events&readable != 0 {
			l.discard(i)
		}
		return
	case connecting:
		if event.Events&(unix.EPOLLOUT|closing) == 0 || !l.connected(i) {
			return
		}
	case sending:
		if event.Events&unix.EPOLLOUT != 0 {
			l.send(i)
		}
	}
	if s.phase >= sending && event.Events&readable != 0 {
		l.receive(i, event.Events&closing != 0)
	}
}

// dial begins to open a connection for slot i.
func (l *loop) dial(i int32) {
	s := &l.slots[i]
	route := &l.lanes[s.lane].route
	fd, err := unix.Socket(route.family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, unix.IPPROTO_TCP)
	if err != nil {
		l.unconnected(i, err)
		return
	}
	s.fd, s.phase, s.opened, s.carried = int32(fd), connecting, l.now(), 1
	// Like net.Dialer does. A request is one write, so it makes little difference.
	err = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	if source := l.sources.take(); err == nil && source >= 0 {
		err = bindSource(fd, route.sources[source])
	}
	if err == nil {
		err = l.poll.add(fd, unix.EPOLLIN|unix.EPOLLOUT|unix.EPOLLRDHUP, i, s.generation)
	}
	if err == nil {
		err = unix.Connect(fd, route.socket)
	}
	switch err {
	case nil:
		l.send(i)
	case unix.EINPROGRESS, unix.EINTR:
		// Its end is an event.
	default:
		l.unconnected(i, err)
	}
}

// connected ends the opening of the connection, and sends the request if it went
// well.
func (l *loop) connected(i int32) bool {
	s := &l.slots[i]
	code, err := unix.GetsockoptInt(int(s.fd), unix.SOL_SOCKET, unix.SO_ERROR)
	if err == nil && code != 0 {
		err = unix.Errno(code)
	}
	if err != nil {
		l.unconnected(i, err)
		return false
	}
	l.send(i)
	return true
}

// unconnected finishes a request whose connection could not be opened.
func (l *loop) unconnected(i int32, err error) {
	s := &l.slots[i]
	deadline := l.start.Add(s.due + l.lanes[s.lane].timeout)
	l.finish(i, l.now(), connectFailure(err, deadline), false)
}

// broken finishes a request whose connection, or answer, is of no use.
func (l *loop) broken(i int32, cause string) {
	l.finish(i, l.now(), ledger.Answer{Outcome: ledger.TransportError, Cause: cause}, false)
}

// send writes the request, or what has not been written of it yet. It is rendered
// anew each time: one buffer does for all slots.
func (l *loop) send(i int32) {
	s := &l.slots[i]
	s.phase = sending
	text, rest := l.lanes[s.lane].request.render(l.text[:0], s.index)
	l.text = text
	for int(s.written) < len(text)+len(rest) {
		var left []byte
		if written := int(s.written); written < len(text) {
			left = text[written:]
		} else {
			left = rest[written-len(text):]
		}
		n, errno := writeSocket(s.fd, left)
		switch errno {
		case 0:
			s.written += int32(n)
		case unix.EINTR:
		case unix.EAGAIN:
			return // an event says when there is room
		default:
			l.cutOff(i, errno)
			return
		}
	}
	s.phase = awaiting
}

// cutOff ends a request that could not be written to its end. The server may have
// answered before it closed the connection; an answer that ends with the
// connection could have been cut off as well.
func (l *loop) cutOff(i int32, cause unix.Errno) {
	s := &l.slots[i]
	for {
		n, errno := readSocket(s.fd, l.buffer[:])
		if errno == unix.EINTR {
			continue
		}
		if errno != 0 || n == 0 {
			l.broken(i, lost(cause))
			return
		}
		_, done, err := s.reader.Feed(l.buffer[:n])
		switch {
		case err != nil:
			l.broken(i, refusal(err))
			return
		case done:
			l.complete(i, false)
			return
		}
	}
}

// receive reads what has come for slot i. last says that the server sends
// nothing after it.
func (l *loop) receive(i int32, last bool) {
	s := &l.slots[i]
	for {
		n, errno := readSocket(s.fd, l.buffer[:])
		switch {
		case errno == unix.EINTR:
			continue
		case errno == unix.EAGAIN:
			return
		case errno != 0:
			l.broken(i, lost(errno))
			return
		case n == 0:
			l.ended(i)
			return
		}
		used, done, err := s.reader.Feed(l.buffer[:n])
		switch {
		case err != nil:
			l.broken(i, refusal(err))
			return
		case done:
			// Bytes beyond the answer belong to none, and an answer that came before
			// its request was written leaves half a request behind.
			keep := s.reader.Reusable() && used == n && !last && s.phase == awaiting
			l.complete(i, keep)
			return
		case n < len(l.buffer) && !last:
			return // that was all; more is another event
		}
		// An answer that does not end keeps no other from being sent, and nothing from
		// its deadline.
		generation := s.generation
		l.dispatch()
		l.expire()
		if s.generation != generation {
			return
		}
	}
}

// ended is the end of the stream: of the answer too, or in the middle of it.
func (l *loop) ended(i int32) {
	if l.slots[i].reader.End() == io.ErrUnexpectedEOF {
		l.broken(i, CauseEOF)
		return
	}
	l.complete(i, false)
}

// complete finishes a request whose answer has been read in full.
func (l *loop) complete(i int32, keep bool) {
	r := &l.slots[i].reader
	l.finish(i, l.now(), answered(r.Status(), r.ErrorBody()), keep)
}
