//go:build e2e && compose

package e2e

import (
	"testing"

	"chokepoint/internal/result"
)

// TestCompose runs the scenario in containers: the counts are those of the
// native run, since time and wire are the same.
func TestCompose(t *testing.T) {
	for _, tc := range []struct {
		profile    string
		outcome    result.Outcome
		fastFailed between
	}{
		{"anti", result.Reproduced, between{2.0/3 - 0.02, 2.0/3 + 0.02}},
		{"fixed", result.Protected, exactly(0)},
	} {
		t.Run(tc.profile, func(t *testing.T) {
			b := exhaustion(t, "-runtime=compose", "-profile="+tc.profile)
			b.run()
			s, dir := b.summary()
			if !s.Validity.Valid {
				t.Errorf("invalid: %v", s.Validity.Reasons)
			}
			for name, e := range s.Endpoints {
				checkLedger(t, name, e)
				if e.Scheduled != 1200 || e.Dropped != 0 || e.Interrupted != 0 {
					t.Errorf("%s: scheduled %d, dropped %d, interrupted %d; want 1200, 0, 0", name, e.Scheduled, e.Dropped, e.Interrupted)
				}
			}
			if fast := s.Endpoints["fast"]; !tc.fastFailed.has(fast.FailedRatio) {
				t.Errorf("fast: %.3f failed, want %v", fast.FailedRatio, tc.fastFailed)
			}
			m, err := result.ReadManifest(dir)
			if err != nil || m.Runtime != "compose" || len(m.Images) == 0 {
				t.Errorf("manifest: runtime %q, images %v, %v", m.Runtime, m.Images, err)
			}
			b.checkNothingLeft()
		})
	}
}
