package report

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"chokepoint/internal/result"
)

func asWanted(c result.Case) bool { return c.OK && c.Failure == "" }

func notCarriedOut(c result.Case) bool { return c.Failure != "" }

// leftNothing says that a cell was not carried out and has no file to show: its reason
// is all there is to it.
func leftNothing(c result.Case) bool { return notCarriedOut(c) && len(c.Files) == 0 }

// maxNamed bounds how many cells are named that could not be carried out for one reason.
const maxNamed = 8

// failures are the cells that could not be carried out, by the reason.
func (m matrixRun) failures() (l list) {
	failed := m.where(notCarriedOut)
	for _, reason := range m.valuesIn(failed, func(c result.Case) string { return c.Failure }) {
		of := slices.DeleteFunc(slices.Clone(failed), func(i int) bool { return m.cases[i].Failure != reason })
		var named text
		for n, i := range of {
			if n == maxNamed {
				named = join(named, plain(fmt.Sprintf(" and %s more", count(len(of)-n))))
				break
			}
			if n > 0 {
				named = join(named, plain("; "))
			}
			named = join(named, m.cellLink(i))
		}
		l.items = append(l.items, join(named, plain(": "+reason)))
	}
	return l
}

// verdictBlocks put what was wanted beside what came, of the cells that were carried out
// and where they differ.
func (m matrixRun) verdictBlocks() []block {
	blocks := []block{paragraph{strong(m.sentence())}}
	t := table{columns: []column{words("cell"), words("wanted"), words("got"), words("the rule behind it")}}
	for _, i := range m.unwanted() {
		c := m.cases[i]
		if notCarriedOut(c) {
			continue
		}
		var got text
		for n, part := range besides(c) {
			if n > 0 {
				got = join(got, plain(", "))
			}
			got = join(got, part.told())
		}
		t.rows = append(t.rows, []text{m.cellLink(i), plain(c.Want), got, plain(c.Why)})
	}
	if len(t.rows) > 0 {
		blocks = append(blocks, paragraph{plain("Not as wanted; what differs is in bold:")}, t)
	}
	checks := table{columns: []column{words("check"), words("wanted"), words("got"), words("holds")}}
	for _, c := range m.summary.Verdict.Checks {
		// A check of a single cell only repeats it.
		if slices.ContainsFunc(m.cases, func(of result.Case) bool { return of.Want == c.Want && of.Got == c.Got }) {
			continue
		}
		checks.rows = append(checks.rows, []text{plain(c.Name), plain(c.Want), plain(c.Got), yesNo(c.OK)})
	}
	if len(checks.rows) > 0 {
		blocks = append(blocks, checks)
	}
	return blocks
}

// sideBySide has a row for each part of what was wanted.
func sideBySide(c result.Case) table {
	t := table{columns: []column{words("wanted"), words("got")}, small: true}
	for _, part := range besides(c) {
		t.rows = append(t.rows, []text{plain(part.want), part.told()})
	}
	return t
}

// wantedPart is a part of what was wanted beside that of what came.
type wantedPart struct{ want, got string }

// besides are the parts of a cell: what was wanted and what came are in the same words and
// the same order. It is one part where they are not.
func besides(c result.Case) (parts []wantedPart) {
	want, got := strings.Split(c.Want, ", "), strings.Split(c.Got, ", ")
	if len(want) != len(got) {
		return []wantedPart{{c.Want, c.Got}}
	}
	for i := range want {
		parts = append(parts, wantedPart{want[i], got[i]})
	}
	return parts
}

// told is what came, marked where it is not what was wanted.
func (p wantedPart) told() text {
	if p.met() {
		return plain(p.got)
	}
	return bad(p.got)
}

// A part that wants a band, such as "2.95 to 3.70 s" or "ok 40 to 45", and what came of it.
var (
	wantedBand = regexp.MustCompile(`^(\D*)([0-9.]+) to ([0-9.]+)( \S+|$)`)
	cameOf     = regexp.MustCompile(`^(\D*)([0-9.]+)( \S+|$)`)
)

// met reads a part as the scenarios write them: a figure within a band, one of two
// outcomes as in "EOF or ECONNRESET", or the same words.
func (p wantedPart) met() bool {
	band, came := wantedBand.FindStringSubmatch(p.want), cameOf.FindStringSubmatch(p.got)
	if band == nil {
		return slices.Contains(strings.Split(p.want, " or "), p.got)
	}
	if came == nil || came[1] != band[1] || came[3] != band[4] {
		return false
	}
	var figures [3]float64
	for i, s := range []string{band[2], came[2], band[3]} {
		v, err := strconv.ParseFloat(s, 64)
		if err != nil {
			return false
		}
		figures[i] = v
	}
	return slices.IsSorted(figures[:])
}
