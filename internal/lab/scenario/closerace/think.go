package closerace

import (
	"math/rand/v2"
	"time"
)

// sweep is the think times less the server's idle timeout, in milliseconds, and how
// often each is drawn compared with the others: most where the race is.
var sweep = []struct{ offsetMS, weight int }{
	{-20, 2}, {-15, 2}, {-10, 1}, {-7, 1}, {-5, 3}, {-4, 2}, {-3, 3}, {-2, 4}, {-1, 4},
	{0, 7}, {1, 7},
	{2, 4}, {3, 3}, {4, 2}, {5, 3}, {7, 1}, {10, 1}, {15, 2}, {20, 2},
}

// deck deals offsets in a random order: each as often as its weight says before any
// comes again.
type deck struct {
	random *rand.Rand
	cards  []time.Duration
	next   int
}

func newDeck(seed, stream uint64) *deck {
	d := &deck{random: rand.New(rand.NewPCG(seed, stream))}
	for _, s := range sweep {
		for range s.weight {
			d.cards = append(d.cards, time.Duration(s.offsetMS)*time.Millisecond)
		}
	}
	d.next = len(d.cards)
	return d
}

func (d *deck) deal() time.Duration {
	if d.next == len(d.cards) {
		d.random.Shuffle(len(d.cards), func(i, j int) { d.cards[i], d.cards[j] = d.cards[j], d.cards[i] })
		d.next = 0
	}
	d.next++
	return d.cards[d.next-1]
}

// aim is how much too late the requests of a caller come, which it learns from those
// before: the way from its wait to the victim's client, and back.
type aim struct{ late time.Duration }

const (
	// gain is how much of a deviation is taken over: little, as each has its jitter.
	gain = 8
	// wildest is the largest deviation that is learnt from. Beyond it the machine was
	// busy with something else, and the next request will not meet that.
	wildest = 2 * time.Millisecond
)

// learn takes in how long a rest was, and how long it should have been.
func (a *aim) learn(rest, want time.Duration) {
	a.late += min(max(rest-want, -wildest), wildest) / gain
	a.late = max(a.late, 0)
}
