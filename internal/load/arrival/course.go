package arrival

import (
	"fmt"
	"io"
	"math"
	"math/big"
	"strings"
	"time"

	"chokepoint/internal/rate"
)

// maxCourse bounds the arrivals of a course and maxLeg the length of a leg, so
// that no figure of it leaves its type.
const (
	maxCourse = 1e15
	maxLeg    = 365 * 24 * time.Hour
)

// Leg is a stretch of a Course: the rate goes from From to To in a straight
// line.
type Leg struct {
	Length   time.Duration
	From, To rate.Rate // either may be 0
}

// Course is a rate that changes along straight lines. Arrival k falls due when
// the integral of the rate reaches k, to the nearest nanosecond, so there are
// ceil(integral) of them and the first is at 0. The integral goes on from leg to
// leg: cutting a leg in two does not change an arrival.
type Course struct {
	kind   string
	legs   []courseLeg
	length time.Duration
	count  int
}

type courseLeg struct {
	Leg
	start time.Duration
	// first and end bound the arrivals of the leg; carry is how much of the first
	// one the leg has to make up, in [0, 1).
	first, end int
	carry      float64
}

// newCourse computes the integral of legs in exact arithmetic.
func newCourse(kind string, legs []Leg) (*Course, error) {
	c := &Course{kind: kind}
	integral := new(big.Rat)
	for _, leg := range legs {
		switch {
		case leg.Length <= 0 || leg.Length > maxLeg:
			return nil, fmt.Errorf("a duration of %v must be above zero and below %v", leg.Length, maxLeg)
		case leg.From.PerSecond() > maxCourse || leg.To.PerSecond() > maxCourse:
			return nil, fmt.Errorf("rate %v is beyond %.0g/s; lower the rate", max(leg.From, leg.To), maxCourse)
		}
		l := courseLeg{Leg: leg, start: c.length, first: ceil(integral)}
		l.carry, _ = new(big.Rat).Sub(new(big.Rat).SetInt64(int64(l.first)), integral).Float64()
		mean := new(big.Rat).Add(exact(leg.From), exact(leg.To))
		seconds := big.NewRat(int64(leg.Length), 2*int64(time.Second))
		integral.Add(integral, mean.Mul(mean, seconds))
		if f, _ := integral.Float64(); f > maxCourse {
			return nil, fmt.Errorf("there would be more than %.0g arrivals; lower the rate or the duration", maxCourse)
		}
		l.end = ceil(integral)
		c.length += leg.Length
		c.legs = append(c.legs, l)
	}
	c.count = ceil(integral)
	if c.count == 0 {
		return nil, fmt.Errorf("every rate is 0; give at least one above zero")
	}
	return c, nil
}

// exact is a rate per second as a fraction.
func exact(r rate.Rate) *big.Rat {
	if r == 0 {
		return new(big.Rat)
	}
	num, den := fraction(r.PerSecond())
	return new(big.Rat).SetFrac(new(big.Int).SetUint64(num), new(big.Int).SetUint64(den))
}

// ceil rounds up a value that is not negative and within an int.
func ceil(r *big.Rat) int {
	up := new(big.Int).Add(r.Num(), r.Denom())
	up.Sub(up, big.NewInt(1))
	return int(up.Quo(up, r.Denom()).Int64())
}

// String implements Pattern.
func (c *Course) String() string {
	var legs []string
	for _, l := range c.legs {
		text := l.From.String()
		if l.To != l.From || c.kind == KindRamp {
			text += ".." + l.To.String()
		}
		if c.kind == KindSteps {
			text += ":" + l.Length.String()
		}
		legs = append(legs, text)
	}
	return c.kind + ":" + strings.Join(legs, ",")
}

// Kind implements Pattern.
func (c *Course) Kind() string { return c.kind }

// Length implements Pattern.
func (c *Course) Length() time.Duration { return c.length }

// Count implements Pattern; every endpoint has the same.
func (c *Course) Count(string) int { return c.count }

// Initial implements Pattern; every endpoint has the same.
func (c *Course) Initial(string) rate.Rate { return c.legs[0].From }

// Most implements Pattern: what the highest rate brings, and no more than all.
func (c *Course) Most(_ string, stretch time.Duration) int {
	var peak rate.Rate
	for _, l := range c.legs {
		peak = max(peak, l.From, l.To)
	}
	return int(min(math.Ceil(peak.PerSecond()*stretch.Seconds()), float64(c.count)))
}

// Identify implements Pattern.
func (c *Course) Identify(w io.Writer) {
	fmt.Fprintln(w, c.kind)
	for _, l := range c.legs {
		fmt.Fprintln(w, int64(l.Length), l.From.PerSecond(), l.To.PerSecond())
	}
}

// Sequence implements Pattern; every endpoint has the same.
func (c *Course) Sequence(string) Sequence { return &courseSequence{legs: c.legs} }

type courseSequence struct {
	legs []courseLeg
	next int
	last time.Duration
}

func (s *courseSequence) Next() (time.Duration, bool) {
	for len(s.legs) > 0 && s.next >= s.legs[0].end {
		s.legs = s.legs[1:]
	}
	if len(s.legs) == 0 {
		return 0, false
	}
	l := s.legs[0]
	due := l.start + l.reach(float64(s.next-l.first)+l.carry)
	// Two arrivals a fraction of a nanosecond apart may be rounded past each other.
	s.last = max(s.last, due)
	s.next++
	return s.last, true
}

// reach is the time into the leg at which the integral of its rate reaches n: the
// root of From*t + (To-From)*t^2/(2*Length) = n, in the form that does not cancel
// where the two rates are close.
func (l courseLeg) reach(n float64) time.Duration {
	if n == 0 {
		return 0
	}
	from, slope := l.From.PerSecond(), (l.To - l.From).PerSecond()
	root := math.Sqrt(max(0, from*from+2*slope*n/l.Length.Seconds()))
	t := 2 * n / (from + root) * float64(time.Second)
	// The last one is within the leg, however it is rounded. A leg that falls to 0
	// can also leave no root to divide by.
	if !(t < float64(l.Length)) {
		return l.Length - 1
	}
	return time.Duration(math.Round(t))
}
