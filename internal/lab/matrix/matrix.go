// Package matrix runs scenarios that are a matrix: cases that are independent of each
// other, each with what it wants, carried out side by side, judged one by one.
//
// A scenario hands over its cases as data and a way to carry one out. The package
// bounds how many run at a time, gives each its folder of evidence, keeps what was
// found when the run is cut short, and draws the verdict. Where the cases need hosts
// of their own, the outer lab starts the same program again in a sandbox (Drive), which
// carries them out (Serve): settings and names go in as JSON on standard input, cases
// come out as JSON lines on standard output, progress is text on standard error.
//
// It does not know what a case is about, and it does not judge one: whether got is what
// was wanted is the scenario's to say. It never changes what is wanted.
package matrix

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"chokepoint/internal/result"
)

// Case is a cell that can be carried out. The embedded result holds what is known
// before the run: id, group, title, client, method, defence, want, why, predicted.
type Case struct {
	result.Case
	// Run carries the case out and fills c: got, ok, and what was observed. folder is
	// the case's own, for its evidence; it exists. What Run starts has ended when it
	// returns. An error says why the case could not be carried out, which makes the
	// run invalid; that got is not what was wanted is no error. It ends soon after ctx
	// does.
	Run func(ctx context.Context, folder string, c *result.Case) error
	// Length is about how long it takes: the longest begin first. Zero is of no matter.
	Length time.Duration
}

// Key tells a case from every other of its matrix: several may share an id.
func Key(c result.Case) string {
	return strings.Join([]string{c.ID, c.Client, c.Method, c.Defence}, " ")
}

// prepare gives every case its folder, relative to the run's: cases/<id>-<client>-
// <method>/, with the defence behind it where there is one. It refuses two cases that
// nothing tells apart.
func prepare(cases []Case) error {
	keys := map[string]bool{}
	for i := range cases {
		c := &cases[i].Case
		if keys[Key(*c)] {
			return fmt.Errorf("the matrix has two cases %q", Key(*c))
		}
		keys[Key(*c)] = true
		parts := []string{c.ID, c.Client, c.Method}
		if c.Defence != result.DefenceNone {
			parts = append(parts, c.Defence)
		}
		c.Evidence = result.CasesDir + "/" + folderName(parts...) + "/"
	}
	return nil
}

// folderName joins parts into a name that is one folder, and needs no quotes.
func folderName(parts ...string) string {
	parts = slices.DeleteFunc(parts, func(p string) bool { return p == "" })
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', strings.ContainsRune("-_.+", r):
			return r
		}
		return '-'
	}, strings.Join(parts, "-"))
}

// IDs are the ids of the cases, each once, in their order.
func IDs(cases []Case) []string {
	var ids []string
	for _, c := range cases {
		if !slices.Contains(ids, c.ID) {
			ids = append(ids, c.ID)
		}
	}
	return ids
}

// Select are the cases whose ids a comma-separated list names, in their own order; all
// of them if it is empty. The error names an id that there is not, and is one of usage.
func Select(cases []Case, only string) ([]Case, error) {
	if strings.TrimSpace(only) == "" {
		return cases, nil
	}
	wanted := map[string]bool{}
	known := IDs(cases)
	for id := range strings.SplitSeq(only, ",") {
		id = strings.TrimSpace(id)
		if !slices.Contains(known, id) {
			return nil, fmt.Errorf("-only: no case %q; the cases are %s", id, strings.Join(known, " "))
		}
		wanted[id] = true
	}
	return slices.DeleteFunc(slices.Clone(cases), func(c Case) bool { return !wanted[c.ID] }), nil
}
