package matrix

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"chokepoint/internal/result"
)

func cell(id, client, method, defence string, run func(ctx context.Context, folder string, c *result.Case) error) Case {
	return Case{Case: result.Case{ID: id, Client: client, Method: method, Defence: defence, Want: "200"}, Run: run}
}

// answers is a case that gets what it is told, and wants 200.
func answers(got string) func(context.Context, string, *result.Case) error {
	return func(_ context.Context, folder string, c *result.Case) error {
		c.Got, c.OK = got, got == c.Want
		return os.WriteFile(filepath.Join(folder, "packets.txt"), []byte(got), 0o600)
	}
}

func quiet(string, ...any) {}

func TestEveryCaseHasItsFolderAndKeepsItsPlace(t *testing.T) {
	dir := t.TempDir()
	cases := []Case{
		cell("A2", "net/http", "GET", "none", answers("200")),
		cell("A2", "net/http", "GET", "user_timeout=500ms", answers("503")),
		cell("K+0", "fasthttp", "POST", "a b/c", answers("200")),
	}
	got, err := Run(t.Context(), cases, Options{Dir: dir, Parallel: 2, Progress: quiet}, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"cases/A2-net-http-GET/", "cases/A2-net-http-GET-user_timeout-500ms/", "cases/K+0-fasthttp-POST-a-b-c/"}
	for i, c := range got {
		if c.Evidence != want[i] {
			t.Errorf("case %d: evidence %q, want %q", i, c.Evidence, want[i])
		}
		if text, err := os.ReadFile(filepath.Join(dir, c.Evidence, "packets.txt")); err != nil || string(text) != c.Got {
			t.Errorf("case %d: evidence %q, %v; want %q", i, text, err, c.Got)
		}
	}
	if got[0].OK != true || got[1].OK != false || cases[0].Evidence != "" {
		t.Errorf("ok %v %v; the caller's cases were written to: %q", got[0].OK, got[1].OK, cases[0].Evidence)
	}
}

func TestTwoCasesThatNothingTellsApartAreRefused(t *testing.T) {
	same := cell("A2", "net/http", "GET", "none", answers("200"))
	if _, err := Run(t.Context(), []Case{same, same}, Options{Dir: t.TempDir(), Progress: quiet}, nil); err == nil {
		t.Error("no error")
	}
}

func TestAsManyRunAtATimeAsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running, most atomic.Int32
		var cases []Case
		for i := range 20 {
			cases = append(cases, cell(fmt.Sprint(i), "net/http", "GET", "none", func(context.Context, string, *result.Case) error {
				most.Store(max(most.Load(), running.Add(1)))
				time.Sleep(time.Second)
				running.Add(-1)
				return nil
			}))
		}
		began := time.Now()
		if _, err := Run(t.Context(), cases, Options{Dir: t.TempDir(), Parallel: 8, Progress: quiet}, nil); err != nil {
			t.Fatal(err)
		}
		if most.Load() != 8 || time.Since(began) != 3*time.Second {
			t.Errorf("%d at a time for %v; want 8 for 3s", most.Load(), time.Since(began))
		}
	})
}

func TestTheLongestBeginFirst(t *testing.T) {
	var began []string
	var cases []Case
	for i, length := range []time.Duration{0, 2, 1, 2, 0} {
		id := fmt.Sprint(i)
		c := cell(id, "", "", "", func(context.Context, string, *result.Case) error {
			began = append(began, id)
			return nil
		})
		c.Length = length * time.Second
		cases = append(cases, c)
	}
	got, err := Run(t.Context(), cases, Options{Dir: t.TempDir(), Parallel: 1, Progress: quiet}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"1", "3", "2", "0", "4"}; !slices.Equal(began, want) || got[3].ID != "3" {
		t.Errorf("began %v, want %v; the result at place 3 is of %s", began, want, got[3].ID)
	}
}

func TestARunThatIsCutShortKeepsWhatHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		sleeps := func(d time.Duration) func(context.Context, string, *result.Case) error {
			return func(ctx context.Context, _ string, c *result.Case) error {
				c.Got = "half"
				select {
				case <-time.After(d):
					c.Got, c.OK = "200", true
					return nil
				case <-ctx.Done():
					return context.Cause(ctx)
				}
			}
		}
		cases := []Case{
			cell("1", "", "", "", sleeps(time.Second)),
			cell("2", "", "", "", sleeps(time.Minute)),
			cell("3", "", "", "", sleeps(time.Second)),
		}
		time.AfterFunc(1500*time.Millisecond, func() { cancel(errors.New("interrupt")) })
		got, err := Run(ctx, cases, Options{Dir: t.TempDir(), Parallel: 2, Progress: quiet}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if !got[0].OK || got[0].Failure != "" {
			t.Errorf("the case that had ended: %+v", got[0])
		}
		for _, c := range got[1:] {
			if c.Got != "" || c.Failure != "not run to its end: interrupt" {
				t.Errorf("a case that had not ended: got %q, failure %q", c.Got, c.Failure)
			}
		}
		s := Summarise("deadconn", time.Now(), got, "interrupt")
		if s.Validity.Valid || s.Verdict.Outcome != result.Invalid || s.Run.EndedEarly != "interrupt" {
			t.Errorf("validity %+v, verdict %+v, run %+v", s.Validity, s.Verdict, s.Run)
		}
	})
}

func TestTheVerdict(t *testing.T) {
	ok, other := result.Case{ID: "A1", OK: true}, result.Case{ID: "A2", Got: "timeout"}
	broken := result.Case{ID: "A3", Failure: "no namespace"}
	var apart []result.Case
	for i := range 9 {
		apart = append(apart, result.Case{ID: "A4", Failure: fmt.Sprintf("reason %d", i)})
	}
	for _, tc := range []struct {
		name    string
		cases   []result.Case
		outcome result.Outcome
		got     string
		reasons int
	}{
		{"all as wanted", []result.Case{ok, ok}, result.Reproduced, "2 of 2", 0},
		{"one is not", []result.Case{ok, other}, result.NotReproduced, "1 of 2", 0},
		{"one could not run", []result.Case{ok, other, broken}, result.Invalid, "1 of 3", 1},
		{"many could not, for one reason", slices.Repeat([]result.Case{broken}, 9), result.Invalid, "0 of 9", 1},
		{"many could not, each for its own", apart, result.Invalid, "0 of 9", maxReasons + 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := Summarise("deadconn", time.Now(), tc.cases, "")
			check := s.Verdict.Checks[0]
			if s.Verdict.Outcome != tc.outcome || check.Got != tc.got || check.OK != (tc.outcome == result.Reproduced) || len(s.Validity.Reasons) != tc.reasons {
				t.Errorf("outcome %s, check %+v, reasons %q; want %s, %q, %d", s.Verdict.Outcome, check, s.Validity.Reasons, tc.outcome, tc.got, tc.reasons)
			}
		})
	}
}

func TestAReasonIsSaidOnce(t *testing.T) {
	cases := []result.Case{{ID: "PG", Failure: "no server"}, {ID: "A1", OK: true}, {ID: "PR", Failure: "no server"}, {ID: "X1", Failure: "no file"}}
	want := []string{"case PG    and 1 more: no server", "case X1   : no file"}
	if got := failures(cases); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestCasesFitIntoTheLimitOfFiles(t *testing.T) {
	for _, tc := range []struct {
		parallel int
		files    uint64
		want     int
	}{{48, 1 << 62, 48}, {48, 1024, 48}, {192, 1024, 50}, {48, 64, 2}, {48, 44, 1}} {
		if got, err := Within(tc.parallel, tc.files); got != tc.want || err != nil {
			t.Errorf("%d cases within %d files: %d, %v; want %d", tc.parallel, tc.files, got, err, tc.want)
		}
	}
	if _, err := Within(1, 43); err == nil || !strings.Contains(err.Error(), "ulimit -n") {
		t.Errorf("%v, want the remedy", err)
	}
}

func TestSelect(t *testing.T) {
	cases := []Case{cell("A1", "net/http", "", "", nil), cell("A1", "fasthttp", "", "", nil), cell("C3", "", "", "", nil), cell("X1", "", "", "", nil)}
	for _, tc := range []struct {
		only string
		want []string
		err  string
	}{
		{"", []string{"A1", "A1", "C3", "X1"}, ""},
		{" X1, A1 ", []string{"A1", "A1", "X1"}, ""},
		{"A1,C9", nil, `-only: no case "C9"; the cases are A1 C3 X1`},
		{"A1,", nil, `-only: no case ""; the cases are A1 C3 X1`},
	} {
		got, err := Select(cases, tc.only)
		var ids []string
		for _, c := range got {
			ids = append(ids, c.ID)
		}
		if text := fmt.Sprint(err); !slices.Equal(ids, tc.want) || (tc.err != "") != (err != nil) || (err != nil && text != tc.err) {
			t.Errorf("Select(%q) = %v, %v; want %v, %q", tc.only, ids, err, tc.want, tc.err)
		}
	}
}

// serving is a sandbox that is no sandbox: Serve, in this process.
func serving(builders map[string]Builder) Launch {
	return func(ctx context.Context, stdin io.Reader, stdout, stderr io.Writer) (int, error) {
		return Serve(ctx, stdin, stdout, stderr, builders), nil
	}
}

func TestASandboxAnswersLikeARunHere(t *testing.T) {
	dir := t.TempDir()
	build := func(settings json.RawMessage) ([]Case, error) {
		var got string
		if err := json.Unmarshal(settings, &got); err != nil {
			return nil, err
		}
		fails := func(context.Context, string, *result.Case) error { return errors.New("no namespace") }
		return []Case{
			cell("A1", "net/http", "GET", "none", answers("200")), cell("A2", "net/http", "GET", "none", answers(got)),
			cell("A3", "net/http", "GET", "none", fails), cell("A4", "net/http", "GET", "none", fails),
		}, nil
	}
	settings := json.RawMessage(`"503"`)
	cases, err := build(settings)
	if err != nil {
		t.Fatal(err)
	}
	var told []string
	got, err := Drive(t.Context(), Plan{Scenario: "s", Settings: settings, Dir: dir, Parallel: 1}, cases[:3],
		serving(map[string]Builder{"s": build}), func(format string, args ...any) { told = append(told, fmt.Sprintf(format, args...)) })
	if err != nil {
		t.Fatal(err)
	}
	want, err := Run(t.Context(), cases[:3], Options{Dir: t.TempDir(), Parallel: 1, Progress: quiet}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 3 || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	wantTold := []string{
		"A1 net/http GET none: 200 (1 of 3)", "A2 net/http GET none: 503; want 200 (2 of 3)",
		"A3 net/http GET none: could not be carried out: no namespace (3 of 3)",
	}
	if !slices.Equal(told, wantTold) {
		t.Errorf("told %q, want %q", told, wantTold)
	}
}

func TestASandboxThatEndsTooEarly(t *testing.T) {
	cases := []Case{cell("A1", "net/http", "GET", "none", nil), cell("A2", "net/http", "GET", "none", nil)}
	first := `{"id":"A1","client":"net/http","method":"GET","defence":"none","got":"200","ok":true}` + "\n"
	for _, tc := range []struct {
		name, stdout string
		code         int
		launch       error
		failures     []string // of the cases; nil where nothing was measured
	}{
		{"after one case", first, 137, nil, []string{"", "the sandbox ended with code 137; its last words: out of memory"}},
		{"with success, and a case short", first, 0, nil, []string{"", "the sandbox ended with code 0"}},
		{"at once", "", 1, nil, nil},
		{"before it began", "", 0, errors.New("user namespaces are forbidden"), nil},
		{"with no JSON", first + "panic\n", 2, nil, []string{"", `the sandbox said "panic"`}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			launch := func(_ context.Context, _ io.Reader, stdout, stderr io.Writer) (int, error) {
				io.WriteString(stdout, tc.stdout)
				io.WriteString(stderr, "starting\nout of memory")
				return tc.code, tc.launch
			}
			got, err := Drive(t.Context(), Plan{Scenario: "s"}, cases, launch, quiet)
			if (err != nil) != (tc.failures == nil) {
				t.Fatalf("error %v; failures wanted %q", err, tc.failures)
			}
			for i, want := range tc.failures {
				if (want == "") != (got[i].Failure == "") || !strings.HasPrefix(got[i].Failure, want) {
					t.Errorf("case %d: failure %q, want %q", i, got[i].Failure, want)
				}
			}
		})
	}
}

func TestWhatServeRefuses(t *testing.T) {
	builders := map[string]Builder{"s": func(json.RawMessage) ([]Case, error) { return nil, nil }}
	for _, tc := range []struct{ stdin, want string }{
		{"", "read the plan"},
		{`{"scenario":"t"}`, `no scenario "t"`},
		{`{"scenario":"s","keys":["A1 net/http GET none"]}`, "0 of the plan's 1 cases are known"},
	} {
		var stdout, stderr strings.Builder
		if code := Serve(t.Context(), strings.NewReader(tc.stdin), &stdout, &stderr, builders); code != 1 || !strings.Contains(stderr.String(), tc.want) || stdout.Len() > 0 {
			t.Errorf("Serve(%q) = %d, stdout %q, stderr %q; want 1 and %q", tc.stdin, code, &stdout, &stderr, tc.want)
		}
	}
}
