package dumps

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"chokepoint/internal/evidence/stacks"
)

// Assertion is a condition on a count, over every dump or over one:
//
//	METRIC[@DUMP] OPERATOR NUMBER
//
//	upstream_read == 20               a word of stacks.Wheres, or total, workers
//	wait:lock < 5                     a word of stacks.Waits
//	state:"chan receive" <= 10        a state, in quotes if it has a space
//	frame:net/http.(*conn).serve > 0  a telling frame; a * at its end stands for anything
//	idle@last == 200                  of one dump: first, last, its number, its file, or
//	                                  the point of a run: @load_15s
//
// goroutines and threads are other words for total. The operators are those of
// loadgen's thresholds: < <= > >= == !=.
type Assertion struct {
	text     string
	count    func(Dump) int
	dump     string // empty for every one
	operator string
	limit    int
}

// example is what every syntax error ends with.
const example = `write it as upstream_read == 20, wait:lock < 5, state:"chan receive" <= 10 or idle@last == 200`

var assertion = regexp.MustCompile(`^([a-z_]+)(?::("[^"]*"|[^\s"@<>=!]+))?(?:@(\S+?))?\s*(<=|>=|==|!=|<|>)\s*(\d{1,9})$`)

// ParseAssertion reads an assertion. The error is one line with the text and an
// example.
func ParseAssertion(text string) (Assertion, error) {
	parts := assertion.FindStringSubmatch(strings.TrimSpace(text))
	if parts == nil {
		return Assertion{}, fmt.Errorf("assertion %q: not METRIC OPERATOR NUMBER; %s", text, example)
	}
	a := Assertion{text: strings.TrimSpace(text), dump: parts[3], operator: parts[4]}
	a.limit, _ = strconv.Atoi(parts[5]) // at most nine digits
	var err error
	if a.count, err = metric(parts[1], strings.Trim(parts[2], `"`)); err != nil {
		return Assertion{}, fmt.Errorf("assertion %q: %w; %s", text, err, example)
	}
	return a, nil
}

// metric is the count that a word stands for, of those that are of.
func metric(word, of string) (func(Dump) int, error) {
	places := func(fits func(stacks.Group) bool) func(Dump) int {
		return func(d Dump) (n int) {
			for _, g := range d.places.Groups() {
				if fits(g) {
					n += g.Count
				}
			}
			return n
		}
	}
	if of != "" {
		switch word {
		case "wait":
			if !slices.Contains(stacks.Waits(), of) {
				return nil, fmt.Errorf("nothing waits for %q: there are %s", of, strings.Join(stacks.Waits(), ", "))
			}
			return func(d Dump) int { return d.Waits[of] }, nil
		case "state":
			return places(func(g stacks.Group) bool { return g.State == of }), nil
		case "frame":
			return places(func(g stacks.Group) bool { return stacks.Pattern{of}.Matches(g.Frame) }), nil
		}
		return nil, fmt.Errorf("%q takes no colon: wait:, state: and frame: do", word)
	}
	switch word {
	case "total", "goroutines", "threads":
		return func(d Dump) int { return d.Total }, nil
	case "workers":
		return func(d Dump) int { return d.Workers }, nil
	}
	if slices.Contains(stacks.Wheres(), word) {
		return func(d Dump) int { return d.Where[word] }, nil
	}
	return nil, fmt.Errorf("unknown metric %q: there are %s, total, workers, and wait:WORD, state:STATE, frame:FUNCTION", word, strings.Join(stacks.Wheres(), ", "))
}

// Held is an assertion held to one dump.
type Held struct {
	Text string `json:"text"`
	Dump string `json:"dump"`
	Got  int    `json:"got"`
	OK   bool   `json:"ok"`
	// Why says what else keeps it from being met; empty if its count does.
	Why string `json:"why,omitempty"`
}

// Hold holds dumps to an assertion. It is not met by a dump that is truncated: the
// counts of one are too low. An error says that there is no dump of its name.
func (a Assertion) Hold(all []Dump) ([]Held, error) {
	var held []Held
	for i, d := range all {
		if !a.names(i, all) {
			continue
		}
		h := Held{Text: a.text, Dump: d.Name, Got: a.count(d)}
		h.OK = a.met(h.Got)
		if d.Truncated {
			h.OK, h.Why = false, "the dump is truncated"
		}
		held = append(held, h)
	}
	if held == nil {
		return nil, fmt.Errorf("assertion %q: no dump is called %q; name first, last, a number from 1 to %d or a file", a.text, a.dump, len(all))
	}
	return held, nil
}

// names says whether the assertion is about dump i of all.
func (a Assertion) names(i int, all []Dump) bool {
	file := path.Base(all[i].Name)
	unzipped := strings.TrimSuffix(file, ".gz")
	bare := strings.TrimSuffix(unzipped, path.Ext(unzipped))
	_, point, _ := strings.Cut(bare, "-") // a run calls them 02-load_15s
	switch a.dump {
	case "", all[i].Name, file, unzipped, bare, point:
		return true
	case "first":
		return i == 0
	case "last":
		return i == len(all)-1
	}
	return a.dump == strconv.Itoa(i+1)
}

func (a Assertion) met(got int) bool {
	switch a.operator {
	case "<":
		return got < a.limit
	case "<=":
		return got <= a.limit
	case ">":
		return got > a.limit
	case ">=":
		return got >= a.limit
	case "==":
		return got == a.limit
	}
	return got != a.limit
}
