package scenario

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chokepoint/internal/adminapi"
	"chokepoint/internal/evidence/live"
	"chokepoint/internal/evidence/queueing"
	"chokepoint/internal/lab/world"
	"chokepoint/internal/profile"
)

// watched runs the scenario in a fake world with a view of it.
func watched(t *testing.T, w *fakeWorld, args ...string) (live.State, []string) {
	t.Helper()
	view := live.NewView(1)
	var (
		mu    sync.Mutex
		lines []string
	)
	r := Run{
		Settings: testSettings(t, args...), Live: view,
		Start: func(context.Context, world.Config) (world.World, error) { return w, nil },
		Progress: func(format string, args ...any) {
			mu.Lock()
			defer mu.Unlock()
			lines = append(lines, fmt.Sprintf(format, args...))
		},
	}
	if _, err := r.Into(t.Context(), w.dir); err != nil {
		t.Fatal(err)
	}
	return view.State(), lines
}

func TestTheViewIsToldTheRun(t *testing.T) {
	w := newFakeWorld(t)
	s, lines := watched(t, w, "-profile=anti")
	want := live.Run{Number: 1, Of: 1, Scenario: "exhaustion", Profile: "anti", Summary: "no timeout, no bulkhead: the outage", Scale: 0.05, Workers: 200}
	if diff := cmp.Diff(want, s.Run); diff != "" {
		t.Errorf("the run (-want +got):\n%s", diff)
	}
	names := map[string]int{}
	for _, e := range s.Events {
		names[e.Name]++
		if e.AtS <= 0 || e.Text == "" {
			t.Errorf("event %+v", e)
		}
	}
	if diff := cmp.Diff(map[string]int{"load_on": 1, "load_off": 1, "dump": 4, "recovered": 1}, names); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if s.Phase.Name != "recovery" || s.Last == nil || len(s.History) < 3 {
		t.Errorf("phase %q, %d samples", s.Phase.Name, len(s.History))
	}
	said := strings.Join(lines, "\n")
	for _, beginning := range []string{"A database, the victim with profile anti", "Baseline: /fast alone", "Load: 400/s to /fast", "Load off"} {
		if !strings.Contains(said, beginning) {
			t.Errorf("nobody was told %q:\n%s", beginning, said)
		}
	}
}

// What the victim does not tell is not shown, and costs the run nothing more than
// it does without a view.
func TestTheViewOfAVictimThatDoesNotAnswer(t *testing.T) {
	w := newFakeWorld(t)
	w.breakPath(adminapi.PathStats)
	if s, _ := watched(t, w); s.Last != nil || len(s.Events) == 0 {
		t.Errorf("sample %+v, %d events", s.Last, len(s.Events))
	}
}

func TestTheViewOfAWorldThatDoesNotStart(t *testing.T) {
	view := live.NewView(1)
	r := Run{
		Settings: testSettings(t), Live: view, Progress: t.Logf,
		Start: func(context.Context, world.Config) (world.World, error) { return nil, errors.New("no database") },
	}
	if _, err := r.Into(t.Context(), t.TempDir()); err == nil {
		t.Fatal("it ran")
	}
	if s := view.State(); s.Run.Number != 1 || s.Phase.Name != "start" {
		t.Errorf("run %d, phase %q", s.Run.Number, s.Phase.Name)
	}
}

func TestSamplesAreMadeOfWhatTheVictimTells(t *testing.T) {
	view := live.NewView(1)
	settings := testSettings(t, "-profile=anti")
	f := newFeed(view, nil, &settings, t.Logf)
	at := f.began
	tell := func(stats adminapi.VictimStats) live.Sample {
		at = at.Add(time.Second)
		stats.Now = at
		f.sample(stats, at)
		return *view.State().Last
	}
	load := func(fast adminapi.EndpointStats, maxBusy, maxQueued int, cpu float64, answers ...adminapi.Answer) adminapi.VictimStats {
		return adminapi.VictimStats{
			Pool:      adminapi.PoolStats{Where: "uid", Limit: 200, Busy: 2, Queued: 7, MaxBusy: maxBusy, MaxQueued: maxQueued},
			Process:   adminapi.ProcessStats{CPUSeconds: cpu},
			Endpoints: map[string]map[string]adminapi.EndpointStats{"fast": {adminapi.PhaseLoad: fast}},
			Answers:   answers,
		}
	}
	answer := func(n int, ms float64, gone bool) adminapi.Answer {
		return adminapi.Answer{Number: n, Endpoint: "fast", Phase: adminapi.PhaseLoad, Status: 200, MS: ms, Gone: gone}
	}

	s := tell(load(adminapi.EndpointStats{}, 200, 9, 1)) // a full pool in a baseline is no event
	if s.CPUPercent != 0 || s.Fast.Count != 0 || len(view.State().Events) != 0 {
		t.Errorf("the first: %+v, events %+v", s, view.State().Events)
	}
	s = tell(load(adminapi.EndpointStats{Received: 10, Status: map[string]int{"200": 3}}, 200, 0, 1.05,
		answer(1, 9, false), answer(2, 1, true), answer(3, 2, false)))
	if want := (live.Answers{Count: 3, P50MS: 2, MaxMS: 9, Waiting: 7, Status: map[string]int{"200": 3}, Gone: 1}); !cmp.Equal(want, s.Fast) {
		t.Errorf("answers %+v, want %+v", s.Fast, want)
	}
	if s.AtS != 2 || s.Where != "uid" || s.Busy != 2 || s.Queued != 7 || s.CPUPercent < 4.99 || s.CPUPercent > 5.01 || f.answered != 3 {
		t.Errorf("sample %+v, up to answer %d", s, f.answered)
	}
	if s = tell(load(adminapi.EndpointStats{Received: 10}, 200, 1, 1.05, answer(4, 5, true))); s.Fast.Gone != 2 || s.Fast.Count != 1 {
		t.Errorf("answers %+v; want 1, and 2 gone so far", s.Fast)
	}
	tell(load(adminapi.EndpointStats{Received: 10}, 200, 1, 1.05))
	var names []string
	for _, e := range view.State().Events {
		names = append(names, e.Name)
	}
	if got := strings.Join(names, " "); got != "pool_full first_queued" {
		t.Errorf("events %q, want each once", got)
	}
}

// Each profile's sentence says what that profile does.
func TestTheSentenceOfTheLoad(t *testing.T) {
	for name, want := range map[string]string{
		"anti":      "Nothing bounds the calls, and each holds its worker for as long as it takes: the model has all 200 workers busy",
		"timeout":   "No call holds its worker for longer than its timeout, however many there are: the model has at most 4",
		"bulkhead":  "At most 20 calls at a time hold a worker, however long they take: the model has at most 2",
		"fixed":     "At most 20 calls at a time hold a worker, and none for longer than its timeout: the model has at most 2",
		"breaker":   "After 6 failures in a row the breaker lets no call by: the model has at most ",
		"shed":      "Nothing bounds the calls, and what finds 50 queued is refused: the model has all 200 workers busy",
		"cancel":    "Nothing bounds the calls, and each holds its worker for as long as it takes: the model has all 200 workers busy",
		"unbounded": "There is no pool: each request has a goroutine of its own, and up to ",
	} {
		s := testSettings(t, "-profile="+name, "-scale=0.25", "-duration=60s", "-dump-at=15s")
		config, err := s.model()
		if err != nil {
			t.Fatal(err)
		}
		prediction, err := queueing.Predict(config)
		if err != nil {
			t.Fatal(err)
		}
		got := loadSentence(&s, prediction)
		if !strings.HasPrefix(got, "Load: 80/s to /fast and 80/s to /upstream for 15s, and the upstream answers after 7.5s (30s at scale 1). "+want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if len(profile.Names()) != 8 {
		t.Errorf("there are %d profiles, and sentences for 8", len(profile.Names()))
	}
}

func TestTheSentenceOfTheRecovery(t *testing.T) {
	s := testSettings(t, "-recovery-wait=140s", "-scale=0.25")
	for _, tc := range []struct {
		prediction queueing.Prediction
		want       string
	}{
		{queueing.Prediction{RecoverySeconds: queueing.Figure{Nominal: 130}}, "By the model the pool is idle after 32.5 s (130.0 s at scale 1); it is watched for at most 35s."},
		{queueing.Prediction{RecoverySeconds: queueing.Figure{Nominal: 2}}, "Nothing much is left to do: by the model the pool is idle after 0.5 s (2.0 s at scale 1)."},
		{queueing.Prediction{NeverRecovers: true}, "By the model some workers are held for ever; this is watched for at most 35s."},
	} {
		if got := recoverySentence(&s, tc.prediction); !strings.HasSuffix(got, tc.want) {
			t.Errorf("%q, want %q", got, tc.want)
		}
	}
}
