package plan

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Fault is one thing that is wrong with a plan.
type Fault struct {
	// At is the file and the line, as "plan.yaml:7"; empty if the fault is not of
	// a file.
	At  string
	Err error // one line with the remedy
}

func (f Fault) Error() string {
	if f.At == "" {
		return f.Err.Error()
	}
	return f.At + ": " + f.Err.Error()
}

// line is the line of the file that the fault is of; 0 if it is of the whole file, and
// the last there could be if it is of a flag.
func (f Fault) line() int {
	if f.At == "" {
		return math.MaxInt
	}
	n, err := strconv.Atoi(f.At[strings.LastIndex(f.At, ":")+1:])
	if err != nil {
		return 0
	}
	return n
}

// Faults are all that is wrong with a plan: those of its file in the order of their
// lines, and then those of flags in the order of their finding.
type Faults []Fault

// sort puts the faults in order.
func (f Faults) sort() {
	slices.SortStableFunc(f, func(a, b Fault) int { return cmp.Compare(a.line(), b.line()) })
}

// add appends a fault, once.
func (f *Faults) add(at string, err error) {
	fault := Fault{At: at, Err: err}
	for _, known := range *f {
		if known.Error() == fault.Error() {
			return
		}
	}
	*f = append(*f, fault)
}

// Error is the first fault, in one line that says how many more there are.
func (f Faults) Error() string {
	if len(f) == 1 {
		return f[0].Error()
	}
	return fmt.Sprintf("%v (and %d more: loadgen plan with the same flags lists them)", f[0], len(f)-1)
}

// nearest is the one of the known words that a mistyped word stands for, or empty.
func nearest(word string, known []string) string {
	best, least := "", len(word)/3+1
	for _, k := range known {
		if letters(word) == letters(k) || letters(word) == letters(k)+"s" {
			return k // gracefulStop, graceful_stop, headers
		}
		if d := distance(word, k); d < least || d == least && best == "" {
			best, least = k, d
		}
	}
	return best
}

// letters are the letters of a word, in lower case.
func letters(word string) string {
	return strings.Map(func(r rune) rune {
		if r == '-' || r == '_' || r == ' ' {
			return -1
		}
		return r
	}, strings.ToLower(word))
}

// distance is that of Levenshtein: how many bytes are to be put in, left out or
// changed.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// unknownKey is the fault of a key that there is not.
func unknownKey(key string, known []string) error {
	if len(key) > 40 {
		key = key[:40] + "..."
	} else if k := nearest(key, known); k != "" {
		return fmt.Errorf("unknown key %q; did you mean %s?", key, k)
	}
	return fmt.Errorf("unknown key %q; the keys are %s", key, strings.Join(known, ", "))
}
