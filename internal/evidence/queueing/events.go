package queueing

import "time"

// kind is what happens at an event.
type kind uint8

const (
	arrival       kind = iota // a request of a stream falls due
	dialled                   // a client's attempt to connect has reached the victim's kernel
	received                  // the victim has read a request
	queueExpired              // the longest wait for a worker is over
	permitExpired             // the longest wait for a permit is over
	connected                 // a call has its connection to the upstream
	callEnded                 // the upstream answered, failed or was given up
	served                    // a worker has the answer that it makes by itself
	answered                  // the client has the answer
	clientExpired             // the client gives up
	dumpTaken                 // the world stops for a dump
	stopped                   // the generator waits no longer
)

// event is one thing that happens. at is when it happens, due is when it would
// have without the victim's pauses. Events of one instant happen in the order
// of due, then of rank, then in which they were planned.
type event struct {
	at, due time.Duration
	seq     uint32
	id      int32 // a stream, a request or a dump point, by kind
	rank    int16 // of arrivals, by stream; see conditions.reverseTies
	kind    kind
}

func (e *event) before(o *event) bool {
	switch {
	case e.at != o.at:
		return e.at < o.at
	case e.due != o.due:
		return e.due < o.due
	case e.rank != o.rank:
		return e.rank < o.rank
	default:
		return e.seq < o.seq
	}
}

// calendar is a binary heap of events. container/heap would allocate for each
// event, which doubles the time of a prediction.
type calendar struct {
	events []event
	seq    uint32
}

func (c *calendar) push(e event) {
	c.seq++
	e.seq = c.seq
	c.events = append(c.events, e)
	h := c.events
	for i := len(h) - 1; i > 0; {
		parent := (i - 1) / 2
		if !h[i].before(&h[parent]) {
			break
		}
		h[i], h[parent] = h[parent], h[i]
		i = parent
	}
}

// pop takes the next event; the calendar must not be empty.
func (c *calendar) pop() event {
	h := c.events
	first, last := h[0], len(h)-1
	h[0] = h[last]
	h = h[:last]
	c.events = h
	for i := 0; ; {
		next := 2*i + 1
		if next >= last {
			break
		}
		if right := next + 1; right < last && h[right].before(&h[next]) {
			next = right
		}
		if !h[next].before(&h[i]) {
			break
		}
		h[i], h[next] = h[next], h[i]
		i = next
	}
	return first
}
