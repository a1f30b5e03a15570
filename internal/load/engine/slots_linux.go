package engine

import (
	"time"

	"chokepoint/internal/load/wire"
)

// phase is where a slot stands.
type phase uint8

const (
	empty      phase = iota // no connection, no request
	idle                    // a connection, no request
	connecting              // a request, and a connection that is being opened
	sending                 // the request is being written
	awaiting                // it has been written; the answer is being read
)

// slot is a worker of the loop: a request and the connection that it is on, or
// either, or none. It has no buffer, so that ten thousand of them are small.
type slot struct {
	prev, next int32 // neighbours in the list that the slot is on
	lane       int32
	fd         int32 // none without a connection
	generation uint32
	written    int32 // bytes of the request
	carried    int32 // requests on this connection, with the present one
	phase      phase
	index      int // the request's, among the arrivals of its endpoint
	// From the start: when the request fell due, when its first connect or write
	// call was made, when the last request was over, and when the connection was
	// begun to be opened.
	due, began, ended, opened time.Duration
	reader                    wire.Reader
}

// none is no slot, and no file descriptor.
const none int32 = -1

// list is a doubly linked list of slots, threaded through them: a slot is on one
// list at a time and leaves it from any place at no cost.
type list struct{ first, last int32 }

func newList() list { return list{none, none} }

// slots are those of all endpoints, one range for each.
type slots []slot

func (s slots) pushFirst(l *list, i int32) {
	s[i].prev, s[i].next = none, l.first
	if l.first == none {
		l.last = i
	} else {
		s[l.first].prev = i
	}
	l.first = i
}

func (s slots) pushLast(l *list, i int32) {
	s[i].prev, s[i].next = l.last, none
	if l.last == none {
		l.first = i
	} else {
		s[l.last].next = i
	}
	l.last = i
}

func (s slots) remove(l *list, i int32) {
	prev, next := s[i].prev, s[i].next
	if prev == none {
		l.first = next
	} else {
		s[prev].next = next
	}
	if next == none {
		l.last = prev
	} else {
		s[next].prev = prev
	}
}

// pool is the slots of an endpoint and what connections they have. Its warm-up and
// its load share it.
type pool struct {
	route route
	// idle has the slots that have only a connection, the one used last first.
	idle list
	// vacant has the slots without a connection that once were used; those from
	// fresh on never were, and their memory has not been touched.
	vacant list
	fresh  int32
}

// lane is a stream as the loop plays it.
type lane struct {
	stream
	*pool
	request *template
	head    bool // the method is HEAD
	timeout time.Duration
	free    int // workers without a request: how many slots the lane may still take

	// busy has the slots with a request, in due order and hence, since all have
	// the same timeout, in the order of their deadlines.
	busy list
}

// take is a free slot, preferably one with a connection (unless all of those are
// too old), and the one that was used last, so that as few connections as possible
// are kept busy. It is on no list then. If the lane has no free worker it is none.
func (s slots) take(l *lane, old bool) int32 {
	if l.free == 0 {
		return none
	}
	l.free--
	from := &l.idle
	if from.first == none || old {
		from = &l.vacant
	}
	if i := from.first; i != none {
		s.remove(from, i)
		return i
	}
	// There are as many slots as workers.
	i := l.fresh
	l.fresh++
	return i
}
