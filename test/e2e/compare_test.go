//go:build e2e

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"chokepoint/internal/result"
)

// comparison prepares a comparison of one round.
func comparison(t *testing.T, args ...string) *bench {
	t.Helper()
	return newBench(t, append([]string{"compare", "exhaustion", "-profiles=anti,fixed", "-runs=1", "-scale=" + scale, "-max-lag=10s"}, args...)...)
}

// published reads the one comparison of the bench.
func (b *bench) published() (result.Comparison, string) {
	b.t.Helper()
	dirs, _ := filepath.Glob(filepath.Join(b.results, "*-compare-*"))
	if len(dirs) != 1 {
		b.t.Fatalf("%d comparisons, want 1: %v; stderr:\n%s", len(dirs), dirs, b.stderr.text())
	}
	c, err := result.ReadComparison(dirs[0])
	if err != nil {
		b.t.Fatal(err)
	}
	for _, run := range c.Runs {
		checkBelieved(b.t, run.Reasons)
		dir := filepath.Join(dirs[0], filepath.FromSlash(run.Path))
		if filepath.IsAbs(run.Path) || filepath.Dir(dir) != filepath.Clean(b.results) {
			b.t.Errorf("the path of a run is %q; want one relative to the comparison", run.Path)
		}
		s, err := result.ReadSummary(dir)
		if err != nil || s.Run.Profile != run.Profile || s.Verdict.Outcome != run.Outcome {
			b.t.Errorf("%s: %s, %s, %v; the comparison says %+v", run.Path, s.Run.Profile, s.Verdict.Outcome, err, run)
		}
	}
	return c, dirs[0]
}

// TestCompare: one round is compared and said to be too few.
func TestCompare(t *testing.T) {
	b := comparison(t)
	if code := b.run(); code != 0 && code != 3 && code != 4 {
		t.Errorf("exit %d; stderr:\n%s\n%s", code, b.stderr.text(), b.stdout.String())
	}
	c, dir := b.published()
	if len(c.Runs) != 2 || c.Runs[0].Profile != "anti" || c.Runs[1].Profile != "fixed" || c.Planned != 1 || c.ID != filepath.Base(dir) {
		t.Errorf("comparison %s of %+v, %d planned; want %s of anti and fixed, 1 planned", c.ID, c.Runs, c.Planned, filepath.Base(dir))
	}
	if !strings.Contains(strings.Join(c.Warnings, "\n"), "too few") {
		t.Errorf("warnings %q; want too few runs", c.Warnings)
	}
	// The reports are made of the other files alone.
	texts := map[string]string{}
	for _, name := range []string{result.ReportFile, result.PageFile} {
		report := filepath.Join(dir, name)
		text, err := os.ReadFile(report)
		if err != nil {
			t.Fatal(err)
		}
		for _, run := range c.Runs {
			if !strings.Contains(string(text), run.Path+"/"+name) {
				t.Errorf("%s has no link to that of %s", name, run.Path)
			}
		}
		texts[report] = string(text)
		if err := os.Remove(report); err != nil {
			t.Fatal(err)
		}
	}
	again := newBench(t, "report", dir)
	if code := again.run(); code != 0 {
		t.Errorf("lab report: exit %d: %s", code, again.stderr.text())
	}
	for report, text := range texts {
		if rebuilt, err := os.ReadFile(report); err != nil || string(rebuilt) != text {
			t.Errorf("%s is not what it was: %v", report, err)
		}
	}
	b.checkNothingLeft()
}

// TestCompareInterrupted: what has run is compared.
func TestCompareInterrupted(t *testing.T) {
	t.Parallel()
	b := comparison(t, "-duration=45s", "-dump-at=15s,40s", "-recovery-wait=5s")
	b.start()
	b.stderr.await(t, "round 1 of 1: fixed")
	b.interrupt()
	if code := b.wait(); code != 130 {
		t.Errorf("exit %d, want 130", code)
	}
	c, dir := b.published()
	if len(c.Runs) != 1 || c.Runs[0].Profile != "anti" {
		t.Errorf("runs %+v; want the one of anti", c.Runs)
	}
	if !strings.Contains(strings.Join(c.Warnings, "\n"), "fixed: 0 runs made of 1 planned") {
		t.Errorf("warnings %q; want that fixed did not run", c.Warnings)
	}
	checkFile(t, filepath.Join(dir, result.ReportFile))
	checkFile(t, filepath.Join(dir, result.PageFile))
	b.checkNothingLeft()
}

// TestCompareKilled: the runs that are done stay, and no half comparison.
func TestCompareKilled(t *testing.T) {
	t.Parallel()
	b := comparison(t, "-profiles=fixed,anti", "-duration=20s", "-dump-at=15s", "-recovery-wait=5s")
	b.start()
	b.stderr.await(t, "round 1 of 1: anti")
	b.cmd.Process.Kill()
	b.wait()
	b.checkNothingLeft()
	dirs, _ := filepath.Glob(filepath.Join(b.results, "2*"))
	if len(dirs) != 1 || !strings.Contains(dirs[0], "-fixed-") {
		t.Fatalf("results %v; want the one run of fixed", dirs)
	}
	checkFiles(t, dirs[0], 800)
}
