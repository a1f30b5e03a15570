package draining

import "time"

// Span is a count that depends on what a run cannot hold still.
type Span struct{ Low, High int }

// Has says whether n is in the span.
func (s Span) Has(n int) bool { return s.Low <= n && n <= s.High }

func (s *Span) add(n int, first bool) {
	if first {
		s.Low, s.High = n, n
	}
	s.Low, s.High = min(s.Low, n), max(s.High, n)
}

// Counts are what becomes of a load.
type Counts struct{ OK, NeverReached, FailedButExecuted Span }

// Replay is what becomes of a load whose balancer gives every so-manieth request to the
// gateway that is ended, and in which everything may be late by up to slack: a request,
// its answer, the balancer, the beginning of the drain and its end. Which request the balancer begins
// with is not known, and two that follow each other may change places once.
func (s Stop) Replay(propagation time.Duration, idle Idle, load []Request, gateways int, slack time.Duration) Counts {
	var c Counts
	first := true
	fates := make([]Fate, len(load))
	for _, late := range lateness(slack) {
		for i, r := range load {
			fates[i] = late.fate(s, propagation, idle, r)
		}
		for turn := range gateways {
			for fate, span := range map[Fate]*Span{OK: &c.OK, NeverReached: &c.NeverReached, FailedButExecuted: &c.FailedButExecuted} {
				n, more, fewer := tally(fates, fate, turn, gateways)
				span.add(n, first)
				span.add(n+more, false)
				span.add(n-fewer, false)
			}
			first = false
		}
	}
	return c
}

// tally counts the requests with a fate, if each whose turn it is goes to the gateway and
// the others are answered elsewhere; and whether there is one more, or one fewer, if one
// of them changes places with its neighbour.
func tally(fates []Fate, fate Fate, turn, gateways int) (n, more, fewer int) {
	for i, f := range fates {
		if i%gateways != turn {
			if fate == OK {
				n++
			}
			continue
		}
		if f == fate {
			n++
		}
		for _, neighbour := range []int{i - 1, i + 1} {
			if neighbour < 0 || neighbour >= len(fates) {
				continue
			}
			switch is, was := fates[neighbour] == fate, f == fate; {
			case is && !was:
				more = 1
			case was && !is:
				fewer = 1
			}
		}
	}
	return n, more, fewer
}

// late is by how much the parts of a run are late.
type late struct{ request, answer, balancer, drain, cut time.Duration }

// lateness are all combinations of none and slack.
func lateness(slack time.Duration) (all []late) {
	for i := range 32 {
		part := func(bit int) time.Duration { return time.Duration(i>>bit&1) * slack }
		all = append(all, late{part(0), part(1), part(2), part(3), part(4)})
	}
	return all
}

func (l late) fate(s Stop, propagation time.Duration, idle Idle, r Request) Fate {
	r.At += l.request
	r.Takes += l.answer
	return Stop{s.PreStop + l.drain, s.Drain + l.cut - l.drain}.Fate(propagation+l.balancer, idle, r)
}

// Explains says whether got is what becomes of a request that did come at r.At, within
// slack of it, and was given to the gateway that is ended.
func (s Stop) Explains(propagation time.Duration, idle Idle, r Request, got Fate, slack time.Duration) bool {
	if !r.Kept && r.At >= propagation+slack {
		return false // it should have been given to another
	}
	for _, l := range lateness(slack) {
		l.balancer = r.At + l.request - propagation + 1 // it had not been told yet: it gave the request away
		if l.fate(s, propagation, idle, r) == got {
			return true
		}
	}
	return false
}
