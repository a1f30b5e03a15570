package goroutines

import (
	"fmt"
	"io"

	"chokepoint/internal/evidence/stacks"
	"chokepoint/internal/result"
)

// Summarize reads the text of a dump and counts who stands where. It fills
// Goroutines, Workers, Queued, Where, Groups and Truncated, and leaves the
// fields that the text does not hold to the caller.
//
// Where has every word, 0 included: the workers by where they stand, and under
// "queued" the connections that wait for one; in a service without a pool that the
// rules know, every goroutine. Groups hold every goroutine, by
// where, state and telling frame, the largest group first; the example is the
// first of each, as printed. Memory grows with the groups, not with the text.
//
// An error comes with what was read before it; see Parse.
func Summarize(r io.Reader) (result.Dump, error) {
	tally := stacks.NewTally(Rules(), stacks.ByPlace)
	end, err := Scan(r, tally.Add)
	tally.End(end)
	return tally.Dump(), err
}

// Scan reads the text of a dump and hands each goroutine to each, with its block
// as printed, which is valid until the next. A text of several dumps, such as a log
// with two SIGQUITs, is counted as one, and a note says so. Errors are those of Parse.
func Scan(r io.Reader, each func(s stacks.Stack, text []byte)) (stacks.End, error) {
	s := NewScanner(r)
	n, mains := 0, 0
	for s.Scan() {
		n++
		g := s.Goroutine()
		if g.ID == mainID {
			mains++
		}
		each(g.Stack(), s.Text())
	}
	end := stacks.End{Truncated: s.Rest().Truncated}
	if mains > 1 {
		end.Notes = append(end.Notes, fmt.Sprintf("goroutine %d is in it %d times: it holds several dumps, which are counted together; split it", mainID, mains))
	}
	return end, s.finish(n)
}

// mainID is of the goroutine that runs main, which the runtime makes first and which
// lives as long as its process.
const mainID = 1
