//go:build e2e

package e2e

import (
	"testing"

	"chokepoint/internal/result"
)

// TestTheDrainMap is two of its cells: a setting that loses of both classes, and one that
// loses nothing. What was predicted of each is in the summary.
func TestTheDrainMap(t *testing.T) {
	b := newBench(t, "run", "drainmap", "-only=0s+1s,1.5s+3s")
	code := b.run()
	b.needsSandbox(code)
	if code != 0 {
		t.Fatalf("exit %d, want 0; stderr:\n%s", code, b.stderr.text())
	}
	s, _ := b.summary()
	if len(s.Cases) != 2 || s.Verdict.Outcome != result.Reproduced || len(s.Verdict.Checks) != 4 {
		t.Fatalf("%d cells, %s, checks %+v", len(s.Cases), s.Verdict.Outcome, s.Verdict.Checks)
	}
	for _, c := range s.Cases {
		p, n := c.Ending.Predicted, c.Counts
		if n.OK+n.NeverReached+n.FailedButExecuted != 45 || n.ExecutedTwice != 0 {
			t.Errorf("%s: %+v of 45 requests", c.ID, n)
		}
		for _, one := range []struct {
			what string
			n    int
			of   result.CountRange
		}{{"ok", n.OK, p.OK}, {"never reached", n.NeverReached, p.NeverReached}, {"failed but executed", n.FailedButExecuted, p.FailedButExecuted}} {
			if one.n < one.of.Low || one.n > one.of.High {
				t.Errorf("%s: %d %s, predicted %+v", c.ID, one.n, one.what, one.of)
			}
		}
		// The application's rows, by the requests' ids: what was cut off was done.
		if c.HandlerRuns != n.OK+n.FailedButExecuted {
			t.Errorf("%s: %d pieces of work for %+v", c.ID, c.HandlerRuns, n)
		}
		if lost := n.NeverReached > 0 && n.FailedButExecuted > 0; lost != (c.ID == "0s+1s") {
			t.Errorf("%s loses %+v", c.ID, n)
		}
	}
}
