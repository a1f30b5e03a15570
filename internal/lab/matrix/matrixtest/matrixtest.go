// Package matrixtest holds the cases of a scenario to what was committed. It never writes
// that file: a line of it changes by hand, with what says why.
package matrixtest

import (
	"os"
	"strings"
	"testing"

	"chokepoint/internal/lab/matrix"
)

// wantsFile has a line for each case, in the order of the cases: its key and what is
// wanted of it. It lies beside the tests of the scenario.
const wantsFile = "testdata/wants.txt"

// HoldToWants fails the test at the first case whose want is not the committed one, and
// where either side has a line more.
func HoldToWants(t *testing.T, cases []matrix.Case) {
	t.Helper()
	committed, err := os.ReadFile(wantsFile)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Split(strings.TrimSpace(string(committed)), "\n")
	for i := range max(len(want), len(cases)) {
		have, committed := "nothing", "nothing"
		if i < len(cases) {
			have = matrix.Key(cases[i].Case) + ": " + cases[i].Want
		}
		if i < len(want) {
			committed = want[i]
		}
		if have != committed {
			t.Fatalf("line %d of %d (%d are committed):\nhave %s\nwant %s", i+1, len(cases), len(want), have, committed)
		}
	}
}
