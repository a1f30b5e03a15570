package report

import (
	"fmt"
	"strings"
	"testing"

	"chokepoint/internal/result"
)

// TestWhatDiffersIsMarked: of what came, in the verdict and in the cell's own section.
func TestWhatDiffersIsMarked(t *testing.T) {
	for _, tt := range []struct{ want, got, marked string }{
		{"200, 2 attempts, 0.00 to 0.70 s, after client none", "200, 1 attempt, 0.200 s, after client none", "200, **1 attempt**, 0.200 s, after client none"},
		{"200, 2 attempts, 0.00 to 0.70 s", "200, 2 attempts, 0.701 s", "200, 2 attempts, **0.701 s**"},
		{"EOF or ECONNRESET, 2.95 to 3.70 s", "ECONNRESET, 2.949 s", "ECONNRESET, **2.949 s**"},
		{"EOF or ECONNRESET, 2.95 to 3.70 s", "200, no answer", "**200**, **no answer**"},
		{"0 to 5 % fail, none twice", "5.2 % of 96 fail, none twice", "**5.2 % of 96 fail**, none twice"},
		{"0 to 5 % fail, none twice", "4.0 % of 96 fail, 1 twice", "4.0 % of 96 fail, **1 twice**"},
		{"ok 40 to 45, never reached 0", "ok 40, never reached 3", "ok 40, **never reached 3**"},
		{"ok 40 to 45, never reached 0", "failed 40, never reached 0", "**failed 40**, never reached 0"},
		{"200, 1 attempt", "EOF", "**EOF**"},
	} {
		c := result.Case{ID: "A1", Client: result.ClientNetHTTP, Method: "GET", Want: tt.want, Got: tt.got, Why: "a rule"}
		got := reportOf(t, c).Markdown
		if row := "| " + tt.want + " | " + tt.marked + " | a rule |"; !strings.Contains(got, row) {
			t.Errorf("want %q, got %q: the verdict has no row %s", tt.want, tt.got, row)
		}
		for part := range strings.SplitSeq(tt.marked, ", ") {
			if strings.HasPrefix(part, "**") && !strings.Contains(got, " | "+part+" |\n") {
				t.Errorf("want %q, got %q: the cell does not mark %s", tt.want, tt.got, part)
			}
		}
	}
}

// TestWhatWasNotCarriedOutIsSaidOnce: a run that is interrupted leaves hundreds of cells
// without anything to show.
func TestWhatWasNotCarriedOutIsSaidOnce(t *testing.T) {
	cases := []result.Case{cellOf("A1", "GET", "none", "", true, 1)}
	for i := range 100 {
		cases = append(cases, result.Case{ID: fmt.Sprintf("B%d", i), Method: "GET", Want: "200", Failure: "not run to its end: interrupt"})
	}
	cases = append(cases, result.Case{ID: "C1", Method: "GET", Want: "200", Failure: "no namespace", Files: []result.EvidenceFile{{Name: "victim.log"}}})
	r := reportOf(t, cases...)
	list := "- B0 GET; B1 GET; B2 GET; B3 GET; B4 GET; B5 GET; B6 GET; B7 GET and 92 more: not run to its end: interrupt\n" +
		"- [C1 GET](#cell-c1-get): no namespace\n"
	if !strings.Contains(r.Markdown, list) {
		t.Errorf("it does not say\n%s", list)
	}
	if n := strings.Count(r.Markdown, "not run to its end"); n != 1 {
		t.Errorf("the reason that they share is said %d times", n)
	}
	for format, text := range map[string]string{"Markdown": r.Markdown, "HTML": r.HTML} {
		if strings.Contains(text, `"cell-b0-get"`) || strings.Contains(text, `#cell-b0-get`) {
			t.Errorf("%s has a section, or leads to one, of a cell that left nothing", format)
		}
		if !strings.Contains(text, `<details id="cell-c1-get">`) {
			t.Errorf("%s has no section of the cell that left a file", format)
		}
	}
}
