package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"chokepoint/internal/result"
)

// full is a stdout that takes nothing.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left") }

func TestWhatCannotBePrintedIsAFailure(t *testing.T) {
	for _, args := range [][]string{{"help"}, {"version"}, {"profiles"}, {"report", "-h"}, {"run", "exhaustion", "-h"}} {
		var stderr bytes.Buffer
		if code := run(t.Context(), args, full{}, &stderr); code != 1 || stderr.String() != "lab: stdout: no space left\n" {
			t.Errorf("lab %s: exit %d, stderr %q", strings.Join(args, " "), code, &stderr)
		}
	}
}

// TestCommandsWithoutFlags: help goes to stdout, what is wrong is one line that
// names it and the remedy, and one bad folder does not hide the next.
func TestCommandsWithoutFlags(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, result.ReportFile)
	if err := os.WriteFile(file, []byte("a report"), 0o644); err != nil {
		t.Fatal(err)
	}
	missing := filepath.Join(dir, "missing")
	endless := t.TempDir()
	if err := os.Symlink("/dev/zero", filepath.Join(endless, result.SummaryFile)); err != nil {
		t.Fatal(err)
	}
	malformed := t.TempDir()
	for name, text := range map[string]string{result.SummaryFile: `{"schema": "` + result.SummarySchema + `"}`, result.TimelineFile: "x"} {
		if err := os.WriteFile(filepath.Join(malformed, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		name           string
		args           []string
		code           int
		stdout, stderr []string // the beginning of each line
	}{
		{"help of report", []string{"report", "-h"}, 0, []string{"Usage: lab report FOLDER...", "", "Renders", "report.html"}, nil},
		{"help of profiles", []string{"profiles", "--help"}, 0, []string{"Usage: lab profiles", "", "Lists"}, nil},
		{"a doctor with an argument", []string{"doctor", "nginx"}, 2, nil, []string{`lab: unexpected argument "nginx"; lab doctor has flags only`}},
		{"no folder", []string{"report"}, 2, nil, []string{"lab: name a results folder: lab report results/<run>"}},
		{"no such flag", []string{"report", "-x"}, 2, nil, []string{"lab: flag provided but not defined: -x (lab report -h shows the usage)"}},
		{"an argument too many", []string{"profiles", "extra"}, 2, nil, []string{`lab: unexpected argument "extra"; lab profiles takes none`}},
		{"a file and no folder", []string{"report", file, missing}, 1, nil, []string{
			fmt.Sprintf("lab: %s is a file; name the folder that it is in: lab report %s", file, dir), "lab: " + missing,
		}},
		{"a summary without an end", []string{"report", endless}, 1, nil, []string{
			"lab: " + filepath.Join(endless, result.SummaryFile) + " is not a regular file",
		}},
		{"a malformed timeline", []string{"report", malformed}, 1,
			[]string{filepath.Join(malformed, result.ReportFile), filepath.Join(malformed, result.PageFile)},
			[]string{"lab: " + filepath.Join(malformed, result.TimelineFile) + ` has no column "at_s"`}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			if code := run(t.Context(), test.args, &stdout, &stderr); code != test.code {
				t.Errorf("exit %d, want %d", code, test.code)
			}
			for _, out := range []struct {
				name string
				got  string
				want []string
			}{{"stdout", stdout.String(), test.stdout}, {"stderr", stderr.String(), test.stderr}} {
				lines := strings.Split(strings.TrimSuffix(out.got, "\n"), "\n")
				if out.got == "" {
					lines = nil
				}
				ok := len(lines) == len(out.want)
				for i := 0; ok && i < len(lines); i++ {
					ok = strings.HasPrefix(lines[i], out.want[i])
				}
				if !ok {
					t.Errorf("%s:\n%s\nwant lines that begin with %q", out.name, out.got, out.want)
				}
			}
		})
	}
}

func TestPrintComparison(t *testing.T) {
	spread := func(n int, median float64) result.Spread { return result.Spread{N: n, Median: median} }
	metric := func(name string, anti, fixed result.Spread) result.ComparedMetric {
		return result.ComparedMetric{Name: name, Values: map[string]result.Spread{"anti": anti, "fixed": fixed}}
	}
	c := result.Comparison{
		Profiles: []string{"anti", "fixed"},
		Runs: []result.ComparedRun{
			{Profile: "anti", Valid: true, Outcome: result.Reproduced},
			{Profile: "fixed", Outcome: result.Invalid, Reasons: []string{"too late", "too few"}},
			{Profile: "anti", Valid: true, Outcome: result.NotReproduced},
		},
		Metrics: []result.ComparedMetric{
			metric("fast.failed_ratio", spread(2, 0.667), spread(0, 0)),
			metric("fast.p50_ms", spread(2, 30000), spread(0, 0)),
			metric("upstream.failed_ratio", spread(2, 1), spread(0, 0)),
			metric("dump.before.upstream_read", spread(2, 0), spread(0, 0)),
			metric("dump.load_15s.upstream_read", spread(2, 200), spread(0, 0)),
			metric("dump.load_15s.workers", spread(2, 200), spread(0, 0)),
		},
		Warnings: []string{"too few valid runs"},
	}
	var got bytes.Buffer
	printComparison(&got, c, "results/x")
	want := `
  run 1: anti       reproduced
  run 2: fixed      invalid
    too late
    too few
  run 3: anti       not_reproduced

medians of the valid runs:
  profile  runs  valid                       outcome  fast failed %  fast p50 ms  fast p95 ms  upstream failed %  upstream read load_15s
     anti     2      2  not_reproduced or reproduced           66.7      30000.0            -              100.0                   200.0
    fixed     1      0                       invalid              -            -            -                  -                       -

warning: too few valid runs
report: results/x/report.html
`
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestPrintVerdict: a reason a line, and no prediction of a run that was cut short.
func TestPrintVerdict(t *testing.T) {
	rows := []result.PredictionRow{
		{Name: "fast.ok", OK: true}, {Name: "fast.p50_ms", Predicted: 3, Low: 2, High: 4, Measured: 9},
		{Name: "dump.load_15s.idle", Note: "the run has no dump at this point"},
	}
	for _, test := range []struct {
		name    string
		summary result.Summary
		want    []string
		without string
	}{
		{"an invalid run", result.Summary{Validity: result.Validity{Reasons: []string{"one", "two"}}},
			[]string{"\nINVALID run:\n  one\n  two\nverdict: "}, "; two"},
		{"a prediction that does not hold", result.Summary{Prediction: result.Prediction{Rows: rows}}, []string{
			"\nprediction: 1 of 3 figures agree\n", "\n  fast.p50_ms: predicted 3 (2 to 4), measured 9\n",
			"measured 0; the run has no dump at this point\n",
		}, "stopped early"},
		{"a run that was cut short", result.Summary{Run: result.Run{EndedEarly: "interrupted"}, Prediction: result.Prediction{Rows: rows}},
			[]string{"\n\nprediction not judged: the run was stopped early\nreport: "}, "predicted 3"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var out bytes.Buffer
			printVerdict(&out, test.summary, "results/x")
			for _, want := range test.want {
				if !strings.Contains(out.String(), want) {
					t.Errorf("stdout:\n%s\nwant %q in it", out.String(), want)
				}
			}
			if strings.Contains(out.String(), test.without) || strings.Contains(out.String(), " \n") {
				t.Errorf("stdout:\n%s\nwant no %q and no trailing blank", out.String(), test.without)
			}
		})
	}
}

// TestProgramsAreLookedForBeforeAnythingIsMade: a command that cannot run leaves no
// results folder.
func TestProgramsAreLookedForBeforeAnythingIsMade(t *testing.T) {
	plan := filepath.Join(t.TempDir(), "plan.yaml")
	results := filepath.Join(t.TempDir(), "results")
	for _, args := range [][]string{
		{"run", "exhaustion"},
		{"compare", "exhaustion"},
		{"compare", "exhaustion", "-profiles=anti", "-vary=bin-dir=/nope,/neither"},
		{"attach", "-plan=" + plan, "-protect=fast", "-dump-url=http://127.0.0.1:1/"},
		{"size", "-latency=80ms", "-rate=20", "-validate"},
	} {
		code, stdout, stderr := runLab(t.Context(), append(args, "-bin-dir=/nope", "-results="+results)...)
		if code != 1 || stdout != "" || !strings.HasPrefix(stderr, "lab: no program loadgen in /nope; ") || strings.Count(stderr, "\n") != 1 {
			t.Errorf("lab %q: exit %d, stdout %q, stderr %q", args, code, stdout, stderr)
		}
		if _, err := os.Stat(results); err == nil {
			t.Fatalf("lab %q made its results folder", args)
		}
	}
}
