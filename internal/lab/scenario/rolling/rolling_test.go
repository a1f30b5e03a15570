package rolling

import (
	"flag"
	"os"
	"strings"
	"testing"

	"chokepoint/internal/lab/matrix"
)

// byDefault are the settings with such flags.
func byDefault(t *testing.T, args ...string) Settings {
	t.Helper()
	var s Settings
	fs := flag.NewFlagSet("", flag.ContinueOnError)
	s.Bind(fs)
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	if err := s.Validate(); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestWhatIsWanted holds the matrix to what was committed: testdata/wants.txt has a line
// for each cell. A line that changes takes an ADR with the packets that say why; there is
// no flag that writes the file anew.
func TestWhatIsWanted(t *testing.T) {
	committed, err := os.ReadFile("testdata/wants.txt")
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Split(strings.TrimSpace(string(committed)), "\n")
	var have []string
	for _, c := range Cases(byDefault(t)) {
		have = append(have, matrix.Key(c.Case)+": "+c.Want)
	}
	for i := range max(len(want), len(have)) {
		line := func(all []string) string {
			if i < len(all) {
				return all[i]
			}
			return "nothing"
		}
		if line(want) != line(have) {
			t.Fatalf("line %d of %d (%d are committed):\nhave %s\nwant %s", i+1, len(have), len(want), line(have), line(want))
		}
	}
}
