//go:build e2e

package e2e

import (
	"encoding/json"
	"testing"

	"chokepoint/internal/evidence/sizing"
	"chokepoint/internal/result"
)

// TestSizeIsValidated: three pairs, each on the healthy upstream and in an outage,
// as runs that are kept.
func TestSizeIsValidated(t *testing.T) {
	b := newBench(t, "size", "-latency=p50=20ms,p99=100ms", "-rate=60", "-max-workers=60", "-validate", "-json",
		"-scale=0.5", "-duration=6s", "-max-lag=10s")
	// 4: a crowded machine holds more workers than the model has.
	if code := b.run(); code != 0 && code != 4 {
		t.Fatalf("exit %d; stderr:\n%s", code, b.stderr.text())
	}
	b.checkNothingLeft()
	var advice sizing.Advice
	if err := json.Unmarshal(b.stdout.Bytes(), &advice); err != nil {
		t.Fatal(err)
	}
	v := advice.Validation
	if advice.Recommended == nil || v == nil || !v.Valid || len(v.Runs) != 6 {
		t.Fatalf("recommended %+v, validation %+v; want six valid runs", advice.Recommended, v)
	}
	for i, r := range v.Runs {
		load := []string{sizing.LoadHealthy, sizing.LoadOutage}[i%2]
		if r.Load != load || r.Recommended != (i/2 == 1) || len(r.Figures) < 2 {
			t.Errorf("run %d: %+v; want a %s one, the recommended pair in the middle", i, r, load)
		}
		s, err := result.ReadSummary(r.Folder)
		if err != nil {
			t.Fatal(err)
		}
		for name, e := range s.Endpoints {
			if w := e.Waits; w == nil || w.Requests != e.Scheduled-e.Dropped-e.Interrupted {
				t.Errorf("%s, %s: the waits %+v are not of all %d requests", r.Folder, name, w, e.Scheduled)
			}
		}
		if load == sizing.LoadOutage && s.Endpoints["upstream"].OK != 0 {
			t.Errorf("%s: %d calls answered in an outage", r.Folder, s.Endpoints["upstream"].OK)
		}
	}
}

// TestTheListenerIsTheLimit: where the victim accepts fewer connections than it has
// workers, the wait is in the kernel, the overflow of its queue is no reason to
// disbelieve the run, and the model knows how long the queue is.
func TestTheListenerIsTheLimit(t *testing.T) {
	b := exhaustion(t, "-profile=anti", "-max-connections=100", "-accept-backlog=10", "-recovery-wait=10s")
	if code := b.run(); code != 4 { // with half of its workers busy, the outage is another one
		t.Errorf("exit %d; stderr:\n%s", code, b.stderr.text())
	}
	s, _ := b.summary()
	if !s.Validity.Valid {
		t.Errorf("invalid: %v", s.Validity.Reasons)
	}
	if s.Pool.MaxBusy > 100 || s.Pool.MaxQueued != 0 || s.Pool.MaxAcceptQueue != 11 || s.Pool.AcceptDrops == 0 {
		t.Errorf("pool %+v; want at most 100 busy, none queued, 11 in the accept queue and drops", s.Pool)
	}
	for _, row := range s.Prediction.Rows {
		if row.Name == "pool.max_accept_queue" && !row.OK {
			t.Errorf("%+v", row)
		}
	}
	if w := s.Endpoints["upstream"].Waits; w == nil || w.Accept < 2*w.Upstream || w.Queue > 0.01*w.Accept {
		t.Errorf("the wait of /upstream: %+v; want most of it in the accept queue", w)
	}
}
