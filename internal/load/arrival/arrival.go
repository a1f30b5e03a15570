// Package arrival holds arrival sequences: when requests fall due, and nothing
// else. A sequence is pure. It reads no clock, it does not know how long an
// answer takes, and two sequences made from the same arguments are the same, so
// a plan can be counted, replayed and tested without running it.
//
// The package refuses to wait (that is load/engine) and to slow down: an arrival
// that could not be sent in time is still an arrival.
package arrival

import (
	"math"
	"math/big"
	"math/bits"
	"math/rand/v2"
	"time"

	"chokepoint/internal/rate"
)

// Sequence yields due times as offsets from the start of the load, in
// non-decreasing order. After the last one ok is false, and stays so.
type Sequence interface {
	Next() (due time.Duration, ok bool)
}

// Count draws s to its end and says how many arrivals were left in it.
func Count(s Sequence) int {
	n := 0
	for {
		if _, ok := s.Next(); !ok {
			return n
		}
		n++
	}
}

// constant is arrival i at ceil(10^9 * i / rate) nanoseconds: each due time is
// computed from i and not from the one before, so no error builds up (the rule
// is that of Hyperfoil's FireTimeSequence).
type constant struct {
	next, count uint64
	window      time.Duration
	// step/per is the interval in nanoseconds as a fraction.
	step, per uint64
}

// Constant spaces arrivals evenly over the half-open window [0, window). There
// are exactly r.Count(window) of them, the first at 0.
func Constant(r rate.Rate, window time.Duration) Sequence {
	num, den := fraction(r.PerSecond())
	return &constant{
		count:  uint64(max(0, r.Count(window))),
		window: window,
		step:   den * uint64(time.Second),
		per:    num,
	}
}

func (c *constant) Next() (time.Duration, bool) {
	if c.next >= c.count {
		return 0, false
	}
	hi, lo := bits.Mul64(c.next, c.step)
	lo, carry := bits.Add64(lo, c.per-1, 0)
	due, _ := bits.Div64(hi+carry, lo, c.per)
	c.next++
	// Rounding up must not carry the last arrival out of the half-open window.
	return min(time.Duration(due), c.window-1), true
}

// maxDenominator bounds the denominator of a rate so that 10^9 times it, and
// the sums made with it, stay inside 64 bits.
const maxDenominator = 1e9

// fraction is the simplest num/den that is the float64 v, or the closest one
// with den <= maxDenominator. A rate such as 20/0.7 is a decimal that no binary
// float holds; as a fraction it is exact and its due times do not drift. Found by
// continued fractions. v must be above zero and below 2^62.
func fraction(v float64) (num, den uint64) {
	// h/k are the convergents of v; each is closer to v than the one before.
	h0, k0, h1, k1 := uint64(0), uint64(1), uint64(1), uint64(0)
	rest := new(big.Rat).SetFloat64(v)
	for {
		digit := new(big.Int).Quo(rest.Num(), rest.Denom())
		size, _ := new(big.Float).SetInt(digit).Float64()
		if size*float64(k1)+float64(k0) > maxDenominator {
			break
		}
		whole := digit.Uint64()
		h0, k0, h1, k1 = h1, k1, whole*h1+h0, whole*k1+k0
		if float64(h1)/float64(k1) == v {
			break
		}
		rest.Sub(rest, new(big.Rat).SetInt(digit))
		if rest.Sign() == 0 {
			break
		}
		rest.Inv(rest)
	}
	if h1 == 0 {
		// v is under one per maxDenominator seconds: the slowest rate there is.
		return 1, maxDenominator
	}
	return h1, k1
}

type poisson struct {
	random *rand.Rand
	mean   float64 // nanoseconds between arrivals
	at     float64 // nanoseconds
	window float64
}

// Poisson draws independent arrivals at r on average over [0, window): the
// intervals are exponential. The same seed and stream give the same sequence;
// endpoints of one run take different streams, or they would arrive together.
// How many arrivals there are is the sequence's own matter: see Count.
func Poisson(r rate.Rate, window time.Duration, seed, stream uint64) Sequence {
	p := &poisson{
		random: rand.New(rand.NewPCG(seed, stream)),
		mean:   float64(time.Second) / r.PerSecond(),
		window: float64(window),
	}
	p.advance()
	return p
}

func (p *poisson) advance() { p.at += p.random.ExpFloat64() * p.mean }

func (p *poisson) Next() (time.Duration, bool) {
	if !(p.at < p.window) {
		return 0, false
	}
	due := time.Duration(p.at)
	p.advance()
	return due, true
}

// Part is a sequence and the time that it is given.
type Part struct {
	Sequence Sequence
	Length   time.Duration
}

type concat struct {
	parts  []Part
	offset time.Duration
}

// Concat plays the parts one after the other. A part starts when the Length of
// the one before has passed; an arrival that is not inside its part's Length is
// left out.
func Concat(parts ...Part) Sequence { return &concat{parts: parts} }

func (c *concat) Next() (time.Duration, bool) {
	for len(c.parts) > 0 {
		if due, ok := c.parts[0].Sequence.Next(); ok && due < c.parts[0].Length {
			return c.offset + due, true
		}
		c.offset += c.parts[0].Length
		c.parts = c.parts[1:]
	}
	return 0, false
}

type shifted struct {
	sequence Sequence
	by       time.Duration
}

// Shift is s with every due time moved by that much, which may be negative.
func Shift(s Sequence, by time.Duration) Sequence { return &shifted{s, by} }

func (s *shifted) Next() (time.Duration, bool) {
	due, ok := s.sequence.Next()
	return due + s.by, ok
}

// Arrival is an arrival of several sequences that are played at once.
type Arrival struct {
	Due time.Duration
	// From is the index of the sequence that it belongs to, and Index its own in
	// that sequence, which is the same in every shard.
	From, Index int
}

// Merged plays a shard of several sequences at once in due order.
type Merged struct {
	shard     Shard
	sequences []Sequence
	next      []Arrival // of each; due at math.MaxInt64 once it has ended
}

// Merge plays the shard's part of the sequences at once. Arrivals that fall due
// together come in the order of the arguments.
func Merge(shard Shard, sequences ...Sequence) *Merged {
	m := &Merged{shard: shard, sequences: sequences, next: make([]Arrival, len(sequences))}
	for i := range sequences {
		m.next[i] = Arrival{From: i, Index: shard.Index}
		m.draw(i, shard.Index)
	}
	return m
}

// draw fetches the next due time of a sequence and leaves out those before it.
func (m *Merged) draw(i, before int) {
	due, ok := m.sequences[i].Next()
	for ; ok && before > 0; before-- {
		due, ok = m.sequences[i].Next()
	}
	if !ok {
		due = math.MaxInt64
	}
	m.next[i].Due = due
}

// Next is the next arrival. After the last one ok is false, and stays so.
func (m *Merged) Next() (next Arrival, ok bool) {
	next.Due = math.MaxInt64
	// A plan has a few endpoints: looking at each costs less than a heap.
	for _, a := range m.next {
		if a.Due < next.Due {
			next, ok = a, true
		}
	}
	if !ok {
		return Arrival{}, false
	}
	m.next[next.From].Index += m.shard.stride()
	m.draw(next.From, m.shard.stride()-1)
	return next, true
}
