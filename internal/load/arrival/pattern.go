package arrival

import (
	"fmt"
	"io"
	"strings"
	"time"

	"chokepoint/internal/rate"
)

// Pattern is a plan of arrivals with a length of its own: a Course or a
// Recording. Every Sequence of it starts anew.
type Pattern interface {
	// String is the pattern as ParsePattern reads it. A ramp does not say its length.
	String() string
	// Kind is the pattern's word: "ramp", "steps" or "replay".
	Kind() string
	// Length is the time that the pattern takes.
	Length() time.Duration
	// Sequence is the arrivals of an endpoint, all within [0, Length).
	Sequence(endpoint string) Sequence
	// Count is how many there are.
	Count(endpoint string) int
	// Initial is the rate that the pattern begins with.
	Initial(endpoint string) rate.Rate
	// Most bounds how many fall into any stretch of time of that length.
	Most(endpoint string, stretch time.Duration) int
	// Identify writes what tells the pattern from every other one, for a digest.
	Identify(w io.Writer)
}

// The kinds of patterns, as ParsePattern reads them.
const (
	KindRamp   = "ramp"
	KindSteps  = "steps"
	KindReplay = "replay"
)

// PatternSyntax is what ParsePattern reads, for messages.
const PatternSyntax = "ramp:10/s..100/s, steps:100/s:30s,200/s:30s or replay:FILE"

// ParsePattern reads a pattern:
//
//	ramp:10/s..100/s              from one rate to another over the length given
//	steps:100/s:30s,200/s:30s     one rate after another; a step may be a ramp, 10/s..100/s:30s
//	replay:FILE                   recorded times, see ReadRecording
//
// A rate may be 0 where another one follows. Only a ramp uses length.
func ParsePattern(text string, length time.Duration) (Pattern, error) {
	kind, rest, _ := strings.Cut(text, ":")
	switch kind {
	case KindRamp:
		if !strings.Contains(rest, "..") {
			return nil, fmt.Errorf("arrivals %q: a ramp has two rates, as in ramp:10/s..100/s", text)
		}
		from, to, err := parseRates(rest)
		if err != nil {
			return nil, fmt.Errorf("arrivals %q: %w", text, err)
		}
		return newPattern(text, KindRamp, Leg{Length: length, From: from, To: to})
	case KindSteps:
		var legs []Leg
		for step := range strings.SplitSeq(rest, ",") {
			leg, err := parseStep(step)
			if err != nil {
				return nil, fmt.Errorf("arrivals %q: %w", text, err)
			}
			legs = append(legs, leg)
		}
		return newPattern(text, KindSteps, legs...)
	case KindReplay:
		if rest == "" {
			return nil, fmt.Errorf("arrivals %q: the file is missing, as in replay:requests.csv", text)
		}
		recording, err := ReadRecording(rest)
		if err != nil {
			return nil, err
		}
		return recording, nil
	}
	return nil, fmt.Errorf("arrivals %q: choose constant, poisson, %s", text, PatternSyntax)
}

// newPattern is a course whose error shows the text that it came from.
func newPattern(text, kind string, legs ...Leg) (Pattern, error) {
	c, err := newCourse(kind, legs)
	if err != nil {
		return nil, fmt.Errorf("arrivals %q: %w", text, err)
	}
	return c, nil
}

func parseStep(s string) (Leg, error) {
	rates, duration, ok := strings.Cut(s, ":")
	if !ok {
		return Leg{}, fmt.Errorf("step %q is not a rate and a duration, as in 100/s:30s", s)
	}
	length, err := time.ParseDuration(duration)
	if err != nil {
		return Leg{}, fmt.Errorf("step %q: %q is not a duration such as 30s", s, duration)
	}
	from, to, err := parseRates(rates)
	return Leg{Length: length, From: from, To: to}, err
}

// parseRates reads one rate, or two with ".." between them.
func parseRates(s string) (from, to rate.Rate, err error) {
	first, second, two := strings.Cut(s, "..")
	if from, err = parseRate(first); err != nil || !two {
		return from, from, err
	}
	to, err = parseRate(second)
	return from, to, err
}

// parseRate reads a rate as package rate does, and 0 as well.
func parseRate(s string) (rate.Rate, error) {
	if number, _, _ := strings.Cut(s, "/"); number == "0" {
		return 0, nil
	}
	return rate.Parse(s)
}
