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
// its answer, the balancer, the end of the gateway. Which request the balancer begins
// with is not known.
func (s Stop) Replay(propagation time.Duration, idle Idle, load []Request, gateways int, slack time.Duration) Counts {
	var c Counts
	first := true
	late := []time.Duration{0, slack}
	for turn := range gateways {
		for _, request := range late {
			for _, answer := range late {
				for _, balancer := range late {
					for _, cut := range late {
						var n [FailedButExecuted + 1]int
						for i, r := range load {
							if i%gateways != turn {
								n[OK]++
								continue
							}
							r.At += request
							r.Takes += answer
							n[Stop{s.PreStop, s.Drain + cut}.Fate(propagation+balancer, idle, r)]++
						}
						c.OK.add(n[OK], first)
						c.NeverReached.add(n[NeverReached], first)
						c.FailedButExecuted.add(n[FailedButExecuted], first)
						first = false
					}
				}
			}
		}
	}
	return c
}
