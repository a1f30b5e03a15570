package report

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"chokepoint/internal/result"
)

// deadconnFixture is a part of a run of a matrix: see the README in it.
var deadconnFixture = filepath.Join("testdata", "deadconn")

func TestMatrixGolden(t *testing.T) {
	r, err := Run(deadconnFixture)
	if err != nil || len(r.Malformed) > 0 {
		t.Fatalf("error %v, malformed %v", err, r.Malformed)
	}
	golden(t, "matrix.md", r.Markdown)
	checkTables(t, r.Markdown)
}

// writeMatrix is the folder of a valid run of these cases.
func writeMatrix(t *testing.T, cases ...result.Case) string {
	t.Helper()
	dir := t.TempDir()
	s := result.Summary{Schema: result.SummarySchema, Run: result.Run{ID: "1", Scenario: "deadconn", Scale: 1},
		Validity: result.Validity{Valid: true}, Verdict: result.Verdict{Outcome: result.Reproduced, Expected: result.Reproduced}, Cases: cases}
	if err := result.WriteJSON(filepath.Join(dir, result.SummaryFile), s); err != nil {
		t.Fatal(err)
	}
	return dir
}

func reportOf(t *testing.T, cases ...result.Case) Report {
	t.Helper()
	r, err := Run(writeMatrix(t, cases...))
	if err != nil || len(r.Malformed) > 0 {
		t.Fatalf("error %v, malformed %v", err, r.Malformed)
	}
	return r
}

// cellOf is a cell of one request that was answered after so many handler runs, or
// failed.
func cellOf(id, method, defence, fault string, answered bool, runs int) result.Case {
	c := result.Case{ID: id, Client: result.ClientNetHTTP, Method: method, Defence: defence, Fault: fault, Want: "200", Got: "200", OK: true, Seconds: 0.5, HandlerRuns: runs}
	switch {
	case answered:
		c.Counts.OK = 1
	case runs > 0:
		c.Got, c.Counts.FailedButExecuted = "EOF", 1
	default:
		c.Got, c.Counts.NeverReached = "ECONNRESET", 1
	}
	if runs > 1 {
		c.Counts.ExecutedTwice = 1
	}
	return c
}

func TestAMatrixLeadsToEachOfItsCells(t *testing.T) {
	r, err := Run(deadconnFixture)
	if err != nil {
		t.Fatal(err)
	}
	summary, err := result.ReadSummary(deadconnFixture)
	if err != nil {
		t.Fatal(err)
	}
	sections := regexp.MustCompile(`<details id="(cell-[^"]*)">`).FindAllStringSubmatch(r.HTML, -1)
	want := 0
	for _, c := range summary.Cases {
		if c.Failure == "" {
			want++
		}
	}
	if want == len(summary.Cases) {
		t.Error("the fixture has no cell that was not carried out")
	}
	if len(sections) != want {
		t.Errorf("%d sections of cells, want one for each that was carried out: %d", len(sections), want)
	}
	for _, s := range sections {
		// From the matrix and from the table of all.
		if n := strings.Count(r.HTML, `href="#`+s[1]+`"`); n < 2 {
			t.Errorf("%d links lead to %s, want at least 2", n, s[1])
		}
	}
	const retransmission = "0.831 caller:57372 &gt; upstream:8080 [P.] 92 bytes (retransmission)"
	if n := strings.Count(r.HTML, retransmission); n != 1 {
		t.Errorf("the retransmission is there %d times, want in the cell that has it", n)
	}
	if strings.Contains(r.Markdown, "0.831 caller") {
		t.Error("the Markdown holds packets, which are linked there")
	}
	for _, want := range []string{"[response timeout](cases/A2-net-http-GET/) 3.00 s, ok", "[ECONNRESET](#cell-b4-net-http-post-keepalive) 0.496 ms, 1 run, **not as wanted**", `<details id="cell-b4-net-http-post-keepalive">`} {
		if !strings.Contains(r.Markdown, want) {
			t.Errorf("the Markdown has no %s", want)
		}
	}
	for _, want := range []string{`href="cases/A2-net-http-GET/packets.txt"`, `href="cases/A2-net-http-GET/victim.log"`} {
		if !strings.Contains(r.HTML, want) {
			t.Errorf("the page has no %s", want)
		}
	}
}

func TestCellsThatAreAlikeHaveAnchorsOfTheirOwn(t *testing.T) {
	same := cellOf("A1", "GET", "none", "loose", true, 1)
	r := reportOf(t, same, same)
	for _, want := range []string{`<details id="cell-a1-net-http-get-none">`, `<details id="cell-a1-net-http-get-none-2">`} {
		if !strings.Contains(r.HTML, want) {
			t.Errorf("the page has no %s", want)
		}
	}
	if want := "| [200](#cell-a1-net-http-get-none) 500.0 ms, ok; [200](#cell-a1-net-http-get-none-2) 500.0 ms, ok |"; !strings.Contains(r.Markdown, want) {
		t.Errorf("the matrix does not have both in one place: %s", want)
	}
}

func TestTheTitleOfAMatrixCountsItsCells(t *testing.T) {
	good, other := cellOf("A1", "GET", "none", "loose", true, 1), cellOf("A2", "GET", "none", "drop", false, 0)
	other.OK = false
	if first, _, _ := strings.Cut(reportOf(t, good, other).Markdown, "\n"); first != "# Deadconn: 1 of 2 cells as wanted" {
		t.Errorf("first line %q", first)
	}
}

// TestEvidenceThatCannotBeShown: what a summary names may be missing, damaged, large, or
// not of the run at all.
func TestEvidenceThatCannotBeShown(t *testing.T) {
	const evidence = "cases/A1/"
	file := func(names ...string) (c result.Case) {
		c = cellOf("A1", "GET", "none", "loose", true, 1)
		c.Evidence = evidence
		for _, name := range names {
			c.Files = append(c.Files, result.EvidenceFile{Name: name})
		}
		return c
	}
	dir := writeMatrix(t, file("packets-missing.txt", "packets-folder.txt", "packets-large.txt", "packets/../../../../secret.txt", "packets-link.txt", "packets-binary.txt"))
	folder := filepath.Join(dir, filepath.FromSlash(evidence))
	outside := filepath.Join(filepath.Dir(dir), "secret.txt")
	for _, err := range []error{
		os.MkdirAll(filepath.Join(folder, "packets-folder.txt"), 0o755),
		os.WriteFile(filepath.Join(folder, "packets-large.txt"), make([]byte, maxInlined+1), 0o644),
		os.WriteFile(outside, []byte("a secret"), 0o644),
		os.Symlink(outside, filepath.Join(folder, "packets-link.txt")),
		os.WriteFile(filepath.Join(folder, "packets-binary.txt"), []byte("\x1b[31mred\x00\xff"), 0o644),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	r, err := Run(dir)
	if err != nil {
		t.Fatal(err)
	}
	var malformed []string
	for _, err := range r.Malformed {
		malformed = append(malformed, relative(dir, err.Error()))
	}
	want := []string{"cases/A1/packets-folder.txt is not a regular file", "../secret.txt: path escapes from parent", "cases/A1/packets-link.txt: path escapes from parent"}
	want[1] = strings.Replace(want[1], "../secret.txt", outside, 1)
	if diff := cmp.Diff(want, malformed); diff != "" {
		t.Errorf("malformed (-want +got)\n%s", diff)
	}
	for _, want := range []string{"packets-missing.txt is missing.", "Unreadable: cases/A1/packets-folder.txt is not a regular file.",
		"packets-large.txt is not shown here: it has 8,193 bytes, and at most 8,192 of a file are."} {
		if !strings.Contains(r.HTML, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	for _, unwanted := range []string{"a secret", "\x1b", "\x00"} {
		if strings.Contains(r.HTML, unwanted) {
			t.Errorf("the page holds %q", unwanted)
		}
	}
}

// TestALargeMatrix: 120 cells, each with as many packets as are shown at all.
func TestALargeMatrix(t *testing.T) {
	var cases []result.Case
	line := "+0.206 caller:40112 > upstream:8080 [P.] 78 bytes (retransmission)\n"
	for i := range 120 {
		c := cellOf(fmt.Sprintf("C%d", i/4), []string{"GET", "POST"}[i%2], fmt.Sprintf("defence %d", i/2%2), "drop", true, 1)
		c.Title, c.Why = strings.Repeat("title ", 10), strings.Repeat("why ", 30)
		c.Want, c.Got = "200, new connection, 1 attempt, 1 handler run, 0.00 to 0.70 s", "200, new connection, 1 attempt, 1 handler run, 0.003 s"
		state := slices.Repeat([]string{"ESTABLISHED 10.81.0.10:40112 -> 10.82.0.10:8080 timer keepalive 0.9s"}, 8)
		c.Before, c.After = &result.Observed{Client: state, Server: state, Conntrack: state}, &result.Observed{Client: state, Server: state, Conntrack: state}
		c.Evidence = fmt.Sprintf("cases/%d/", i)
		c.Files = []result.EvidenceFile{{Name: "packets.txt", What: "packets"}, {Name: "victim.log", What: "log"}}
		cases = append(cases, c)
	}
	dir := writeMatrix(t, cases...)
	for i := range cases {
		if err := result.WriteFile(filepath.Join(dir, "cases", fmt.Sprint(i), "packets.txt"), []byte(strings.Repeat(line, maxInlined/len(line)))); err != nil {
			t.Fatal(err)
		}
	}
	r, err := Run(dir)
	if err != nil || len(r.Malformed) > 0 {
		t.Fatalf("error %v, malformed %v", err, r.Malformed)
	}
	if len(r.HTML) > 2<<20 {
		t.Errorf("the page has %d bytes, want 2 MiB at the most", len(r.HTML))
	}
	// In whole files, as many as fit.
	shown := strings.Count(r.HTML, "<p>packets:</p>")
	if want := maxAllInlined / (maxInlined / len(line) * len(line)); shown != want {
		t.Errorf("the packets of %d cells are shown, want %d", shown, want)
	}
	if left := strings.Count(r.HTML, "packets.txt is not shown here: the page holds as many packets of other cells as it may."); left != len(cases)-shown {
		t.Errorf("the page says of %d cells that their packets are left out, want %d", left, len(cases)-shown)
	}
}

func TestManyRequests(t *testing.T) {
	c := cellOf("short-drain", "PUT", "none", "", true, 1)
	c.OK = false
	c.Counts = result.CaseCounts{OK: 97, NeverReached: 1, FailedButExecuted: 2, ExecutedTwice: 1}
	for i := range 100 {
		r := result.CaseRequest{ID: fmt.Sprintf("r%03d", i), AtS: float64(i) / 10, Got: "200", Seconds: 0.2, Runs: 1}
		switch i {
		case 30, 31:
			r.Got = "502, by the edge"
		case 32:
			r.Got, r.Runs = "ECONNREFUSED", 0
		case 33:
			r.Runs = 2
		}
		c.Requests = append(c.Requests, r)
	}
	c.Events = []result.CaseEvent{{AtS: -1, Where: "gateway", What: "SIGTERM"}, {AtS: 3.1, Where: "client", What: "FIN", Detail: "port 40112"}, {AtS: 3.1, Where: "client", What: "RST"}}
	r := reportOf(t, c)
	if want := "| [short-drain net/http PUT](#cell-short-drain-net-http-put-none) | 97 | 1 | 2 | 1 |\n"; !strings.Contains(r.Markdown, want) {
		t.Errorf("the counts are not there: %s", want)
	}
	if want := "| [97 of 100 answered](#cell-short-drain-net-http-put-none), 1 never reached, 2 failed but executed, 1 executed twice, **not as wanted** |"; !strings.Contains(r.Markdown, want) {
		t.Errorf("the matrix does not have the counts: %s", want)
	}
	rows := regexp.MustCompile(`<td><code>(r\d+)</code></td>`).FindAllStringSubmatch(r.HTML, -1)
	var ids []string
	for _, row := range rows {
		ids = append(ids, row[1])
	}
	if want := []string{"r030", "r031", "r032", "r033"}; !slices.Equal(ids, want) {
		t.Errorf("of 100 requests %q are listed, want %q", ids, want)
	}
	lanes := regexp.MustCompile(`<svg [^>]*aria-label="(\d+) marks?"`).FindAllStringSubmatch(r.HTML, -1)
	var marks []string
	for _, l := range lanes {
		marks = append(marks, l[1])
	}
	if want := []string{"97", "2", "1", "1", "2"}; !slices.Equal(marks, want) { // 200, 502, ECONNREFUSED, gateway, client
		t.Errorf("lanes of %q marks, want %q", marks, want)
	}
	// The axis goes from -1 s to 10.1 s: FIN is at 4.1 of 11.1.
	if want := fmt.Sprintf(`x="%v" width="3" height="16"><title>FIN at 3.100 s port 40112</title>`, 369.37); !strings.Contains(r.HTML, want) {
		t.Errorf("the page has no %s", want)
	}
}

func TestDrawnRequests(t *testing.T) {
	var requests []result.CaseRequest
	for i := range 1000 {
		r := result.CaseRequest{ID: fmt.Sprint(i), Got: "200", Runs: 1}
		if i%100 == 7 {
			r.Got = "502"
		}
		requests = append(requests, r)
	}
	kept := drawn(requests, 100)
	failed, last := 0, -1
	for _, r := range kept {
		at, err := strconv.Atoi(r.ID)
		if err != nil || at <= last || at-last > 20 {
			t.Errorf("after request %d comes %s, want the next of 1,000 within 20", last, r.ID)
		}
		last = at
		if r.Got == "502" {
			failed++
		}
	}
	if len(kept) != 100 || failed != 10 {
		t.Errorf("%d are drawn, %d of them failed: want 100 and 10", len(kept), failed)
	}
	if all := drawn(requests[:50], 100); len(all) != 50 {
		t.Errorf("of 50, %d are drawn", len(all))
	}
	if failed := drawn(slices.Repeat(requests[7:8], 300), 100); len(failed) != 100 {
		t.Errorf("of 300 that failed, %d are drawn", len(failed))
	}
}

// TestCellsThatNoRunWrites: a file that was edited may say anything. There is a report of
// it all the same.
func TestCellsThatNoRunWrites(t *testing.T) {
	c := result.Case{Seconds: -1, HandlerRuns: -2, Attempts: -3, Counts: result.CaseCounts{OK: -1, NeverReached: 5, FailedButExecuted: -7},
		Requests: []result.CaseRequest{{AtS: -math.MaxFloat64, Seconds: math.MaxFloat64}, {AtS: math.MaxFloat64, Seconds: -1}},
		Events:   []result.CaseEvent{{AtS: math.MaxFloat64}, {AtS: -math.MaxFloat64}}, Before: &result.Observed{}, Evidence: "/", Files: []result.EvidenceFile{{}, {Name: "packets\x00"}}}
	r, err := Run(writeMatrix(t, c, result.Case{}))
	if err != nil {
		t.Fatal(err)
	}
	for _, unwanted := range []string{"NaN", `x="-`, `="+Inf`} {
		if strings.Contains(r.HTML[strings.Index(r.HTML, "<main"):strings.Index(r.HTML, "</main>")], unwanted) {
			t.Errorf("the page holds %s", unwanted)
		}
	}
	if n := strings.Count(r.HTML, `<details id="cell-`); n != 2 {
		t.Errorf("%d sections of cells, want 2", n)
	}
}

func TestSafeDefaults(t *testing.T) {
	none := []result.Case{cellOf("A2", "GET", "none", "drop", false, 0), cellOf("A3", "POST", "none", "reset", false, 0), cellOf("X1", "POST", "none", "server dies", false, 1)}
	for _, tt := range []struct {
		name      string
		with      []result.Case
		want, not []string
	}{
		{"one that had all answered", []result.Case{cellOf("B2", "GET", "evict", "drop", true, 1), cellOf("B2", "POST", "evict", "reset", true, 1)},
			[]string{"**Recommended:** `evict`. It had all of them answered, in 500.0 ms at the most. In none of its cells did", "It does not cover: [X1 POST](#cell-x1-net-http-post-none), where", "| `evict` | – | 2 of 2 | – | – |"}, []string{"No single"}},
		{"one that repeats what is idempotent", []result.Case{cellOf("B2", "GET", "retry", "drop", true, 1), cellOf("B2", "POST", "retry", "reset", true, 1), cellOf("X1", "GET", "retry", "server dies", true, 2)},
			[]string{"**Recommended:** `retry`.", "A handler ran more than once for one idempotent request in [X1 GET](#cell-x1-net-http-get-retry)."}, []string{"No single"}},
		{"two, each enough", []result.Case{cellOf("B2", "GET", "evict", "drop", true, 1), cellOf("B2", "POST", "evict", "reset", true, 1), cellOf("B4", "GET", "probes", "drop", true, 1), cellOf("B4", "POST", "probes", "reset", true, 1)},
			[]string{"**Recommended, any one of these 2:**\n\n- `evict`. It had all of them answered, in 500.0 ms at the most.", "\n- `probes`. It had all of them"}, []string{"Recommended:**"}},
		{"one that repeats what is not", []result.Case{cellOf("C1", "GET", "retry", "drop", true, 1), cellOf("C2", "POST", "retry", "reset", true, 1), cellOf("X1", "POST", "retry", "server dies", true, 2)},
			[]string{"**No single defence is recommended.**", "`retry` had all of them answered, in 500.0 ms at the most, but executes twice what is not idempotent: [X1 POST](#cell-x1-net-http-post-retry)."}, []string{"Recommended:**"}},
		{"two, each in part", []result.Case{cellOf("B2", "GET", "evict", "drop", true, 1), cellOf("B2", "POST", "evict", "reset", false, 0), cellOf("C2", "POST", "retry", "reset", true, 1)},
			[]string{"Of 2 faults, `retry` and `evict` had 2 answered, each in cells of its own; to have them at once is not what these cells ran.",
				"| `evict` | – | 1 of 2 | [B2 POST](#cell-b2-net-http-post-evict) | – |", "| `retry` | – | 1 of 2 | – | [A2 GET](#cell-a2-net-http-get-none) |"}, []string{"Left open", "Recommended:**"}},
		{"one that a cell contradicts", []result.Case{cellOf("B2", "GET", "evict", "drop", true, 1), cellOf("B3", "GET", "evict", "drop", false, 0)},
			[]string{"Left open: [A2 GET](#cell-a2-net-http-get-none), [A3 POST](#cell-a3-net-http-post-none).", "| `evict` | – | 0 of 2 |"}, []string{"Recommended:**"}},
		{"another method", []result.Case{cellOf("B2", "GET", "evict", "drop", true, 1), cellOf("B2", "GET", "evict", "reset", true, 1)},
			[]string{"`evict` had 1 answered, each in cells of its own. Left open: [A3 POST](#cell-a3-net-http-post-none)."}, []string{"Recommended:**"}},
		{"another fault", []result.Case{cellOf("B2", "GET", "evict", "drop", true, 1), cellOf("C8", "GET", "patience", "slow", true, 1)},
			[]string{"No cell tried these on any of them: `patience`."}, []string{"| `patience`"}},
		{"a cell that was not carried out", []result.Case{func() result.Case {
			c := cellOf("B2", "GET", "evict", "drop", true, 1)
			c.Failure = "no namespace"
			return c
		}(), cellOf("B2", "POST", "evict", "reset", true, 1)},
			[]string{"Left open: [A2 GET](#cell-a2-net-http-get-none)."}, []string{"Recommended:**"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := reportOf(t, slices.Concat(none, tt.with)...).Markdown
			_, got, _ = strings.Cut(got, "## Safe defaults\n")
			got, _, _ = strings.Cut(got, "## The cells\n")
			for _, want := range tt.want {
				if !strings.Contains(got, want) {
					t.Errorf("it does not say %q:\n%s", want, got)
				}
			}
			for _, not := range tt.not {
				if strings.Contains(got, not) {
					t.Errorf("it says %q:\n%s", not, got)
				}
			}
		})
	}
	if strings.Contains(reportOf(t, none...).Markdown, "Safe defaults") {
		t.Error("without a defence in any cell there is a section of them")
	}
}
