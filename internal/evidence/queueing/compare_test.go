package queueing

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chokepoint/internal/adminapi"
	"chokepoint/internal/result"
)

// asPredicted is the summary of a run that went exactly as the nominal case.
func asPredicted(p Prediction) result.Summary {
	s := result.Summary{
		Endpoints: map[string]result.Endpoint{},
		Pool:      result.Pool{MaxBusy: int(p.Pool.MaxBusy.Nominal), MaxQueued: int(p.Pool.MaxQueued.Nominal)},
		Recovery:  result.Recovery{WaitedS: p.RecoveryWait.Seconds()},
	}
	if seconds := p.RecoverySeconds.Nominal; seconds < p.RecoveryWait.Seconds() {
		s.Recovery = result.Recovery{Recovered: true, WaitedS: seconds, Seconds: &seconds}
	}
	counts := func(figures map[string]Figure) map[string]int {
		n := map[string]int{}
		for k, f := range figures {
			n[k] = int(f.Nominal)
		}
		return n
	}
	for name, e := range p.Endpoints {
		s.Endpoints[name] = result.Endpoint{
			Planned: int(e.Scheduled.Nominal), Scheduled: int(e.Scheduled.Nominal),
			Dropped: int(e.Dropped.Nominal), Interrupted: int(e.Interrupted.Nominal), Timeout: int(e.Timeout.Nominal),
			FailedRatio: e.FailedRatio.Nominal, Response: result.Percentiles{P50: e.P50MS.Nominal},
			Status: counts(e.Status), ErrorBodies: counts(e.Causes),
		}
	}
	for _, d := range p.Dumps {
		where := counts(d.Where)
		where["database"] = where[WhereServing]
		delete(where, WhereServing)
		s.Dumps = append(s.Dumps, result.Dump{Point: d.Point, Where: where})
	}
	return s
}

func row(t *testing.T, p result.Prediction, name string) result.PredictionRow {
	t.Helper()
	i := slices.IndexFunc(p.Rows, func(r result.PredictionRow) bool { return r.Name == name })
	if i < 0 {
		t.Fatalf("no row %s", name)
	}
	return p.Rows[i]
}

// disagreeing names the rows that do not agree.
func disagreeing(p result.Prediction) []string {
	var names []string
	for _, r := range p.Rows {
		if !r.OK {
			names = append(names, r.Name)
		}
	}
	return names
}

func TestCompareRows(t *testing.T) {
	p := predict(t, exhaustion(t, "fixed", 0.05))
	got := Compare(p, asPredicted(p))
	if !got.Agrees || len(disagreeing(got)) > 0 {
		t.Errorf("a run as predicted disagrees: %v", disagreeing(got))
	}
	var names []string
	for _, r := range got.Rows {
		names = append(names, r.Name+" "+r.Unit)
		if r.Note != "" {
			t.Errorf("%s: note %q on a row that agrees", r.Name, r.Note)
		}
	}
	want := []string{
		"fast.scheduled count", "fast.dropped count", "fast.interrupted count", "fast.timeout count",
		"fast.failed_ratio ratio", "fast.p50_ms ms", "fast.status_200 count",
		"upstream.scheduled count", "upstream.dropped count", "upstream.interrupted count", "upstream.timeout count",
		"upstream.failed_ratio ratio", "upstream.p50_ms ms", "upstream.status_503 count", "upstream.status_504 count",
		"upstream.bulkhead_full count", "upstream.upstream_timeout count",
	}
	for _, point := range []string{"before", "load_15s", "load_40s", "after_5s"} {
		for _, where := range []string{"idle", "permit_wait", "queued", "serving", "upstream_connect", "upstream_read", "other"} {
			if where != "idle" || point == "before" {
				want = append(want, fmt.Sprintf("dump.%s.%s count", point, where))
			}
		}
	}
	want = append(want, "pool.max_busy count", "pool.max_queued count", "recovery.seconds s")
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
}

// Each figure may be off by its tolerance around the range, and by no more.
func TestTolerances(t *testing.T) {
	tests := []struct {
		profile string
		scale   float64
		row     string
		want    float64
		set     func(s *result.Summary, v float64)
	}{
		{"anti", 1, "fast.failed_ratio", 0.02, func(s *result.Summary, v float64) {
			e := s.Endpoints["fast"]
			e.FailedRatio = v
			s.Endpoints["fast"] = e
		}},
		{"anti", 0.05, "fast.p50_ms", 30, func(s *result.Summary, v float64) { // 2 % of 1,500 ms
			e := s.Endpoints["fast"]
			e.Response.P50 = v
			s.Endpoints["fast"] = e
		}},
		{"fixed", 1, "fast.p50_ms", 5, func(s *result.Summary, v float64) {
			e := s.Endpoints["fast"]
			e.Response.P50 = v
			s.Endpoints["fast"] = e
		}},
		{"anti", 1, "upstream.timeout", 16, func(s *result.Summary, v float64) { // 2 % of 800
			e := s.Endpoints["upstream"]
			e.Timeout = int(v)
			s.Endpoints["upstream"] = e
		}},
		{"breaker", 1, "upstream.upstream_timeout", 2, func(s *result.Summary, v float64) {
			s.Endpoints["upstream"].ErrorBodies[adminapi.CauseUpstreamTimeout] = int(v)
		}},
		// A full pool may be short by the hand-overs; any other count by its 2 % or 2.
		{"anti", 1, "dump.load_15s.upstream_read", 2, setWhere(1, WhereUpstreamRead)},
		{"anti", 0.05, "dump.load_15s.upstream_read", 5, setWhere(1, WhereUpstreamRead)},
		{"fixed", 0.05, "dump.load_15s.upstream_read", 2, setWhere(1, WhereUpstreamRead)},
		{"anti", 1, "dump.load_40s.queued", 0.02 * 802, setWhere(2, WhereQueued)},
		{"fixed", 1, "dump.load_40s.serving", 2, setWhere(2, "running")},
		{"fixed", 1, "dump.load_40s.other", 2, setWhere(2, "other")},
		{"anti", 1, "pool.max_busy", 4, func(s *result.Summary, v float64) { s.Pool.MaxBusy = int(v) }},
		// The observer polls four times a second of real time.
		{"fixed", 1, "recovery.seconds", 0.25, func(s *result.Summary, v float64) { s.Recovery.Seconds = &v }},
		{"fixed", 0.05, "recovery.seconds", 5, func(s *result.Summary, v float64) { s.Recovery.Seconds = &v }},
	}
	type scenario struct {
		profile string
		scale   float64
	}
	predictions := map[scenario]Prediction{}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%s/%v/%s", tt.profile, tt.scale, tt.row), func(t *testing.T) {
			p, done := predictions[scenario{tt.profile, tt.scale}]
			if !done {
				p = predict(t, exhaustion(t, tt.profile, tt.scale))
				predictions[scenario{tt.profile, tt.scale}] = p
			}
			r := row(t, Compare(p, asPredicted(p)), tt.row)
			if math.Abs(r.Tolerance-tt.want) > 0.02*tt.want {
				t.Errorf("tolerance %v, want %v", r.Tolerance, tt.want)
			}
			step := 1.0 // of a count; of anything else a little
			edge := math.Floor(r.High + r.Tolerance)
			if r.Unit != unitCount {
				step = 0.01 * r.Tolerance
				edge = r.High + r.Tolerance - step/2
			}
			for v, ok := range map[float64]bool{edge: true, edge + step: false} {
				s := asPredicted(p)
				if tt.row == "dump.load_40s.serving" {
					s.Dumps[2].Where["database"] = 0
				}
				tt.set(&s, v)
				got := Compare(p, s)
				if r := row(t, got, tt.row); r.OK != ok || r.Measured != v {
					t.Errorf("measured %v: %+v, want ok %v", v, r, ok)
				}
				if got.Agrees != ok {
					t.Errorf("measured %v: agrees %v; disagreeing: %v", v, got.Agrees, disagreeing(got))
				}
			}
		})
	}
}

func setWhere(i int, where string) func(*result.Summary, float64) {
	return func(s *result.Summary, v float64) { s.Dumps[i].Where[where] = int(v) }
}

// What the run lacks, and what nobody predicted, disagrees and says so.
func TestNothingAgreesSilently(t *testing.T) {
	tests := []struct {
		name string
		set  func(*result.Summary)
		rows []string // that disagree, by prefix
		note string
	}{
		{"no dump", func(s *result.Summary) { s.Dumps = s.Dumps[:3] }, []string{"dump.after_5s."}, "no dump at this point"},
		{"no endpoint", func(s *result.Summary) { delete(s.Endpoints, "fast") }, []string{"fast."}, "no such endpoint"},
		{"stopped early", func(s *result.Summary) {
			e := s.Endpoints["upstream"]
			e.Scheduled = 1199
			s.Endpoints["upstream"] = e
		}, []string{"upstream."}, "stopped early: 1199 of 1200"},
		{"a status that nobody predicted", func(s *result.Summary) { s.Endpoints["fast"].Status["500"] = 3 }, []string{"fast.status_500"}, ""},
		{"a predicted status that never came", func(s *result.Summary) { delete(s.Endpoints["upstream"].Status, "504") }, []string{"upstream.status_504"}, ""},
		{"a cause that nobody predicted", func(s *result.Summary) { s.Endpoints["fast"].ErrorBodies["database"] = 3 }, []string{"fast.database"}, ""},
		{"lost connections", func(s *result.Summary) {
			e := s.Endpoints["fast"]
			e.ConnectError, e.TransportError = 3, 4
			s.Endpoints["fast"] = e
		}, []string{"fast.connect_error", "fast.transport_error"}, ""},
		{"an empty summary", func(s *result.Summary) { *s = result.Summary{} }, []string{"fast.", "upstream.", "dump.", "pool.max_busy", "recovery."}, ""},
		{"not a number", func(s *result.Summary) {
			e := s.Endpoints["fast"]
			e.FailedRatio = math.NaN()
			s.Endpoints["fast"] = e
		}, []string{"fast.failed_ratio"}, ""},
	}
	p := predict(t, exhaustion(t, "fixed", 1))
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := asPredicted(p)
			tt.set(&s)
			got := Compare(p, s)
			if got.Agrees {
				t.Error("the prediction agrees")
			}
			for _, r := range got.Rows {
				named := slices.ContainsFunc(tt.rows, func(prefix string) bool { return strings.HasPrefix(r.Name, prefix) })
				if r.OK == named {
					t.Errorf("%s: ok %v (%+v)", r.Name, r.OK, r)
				}
				if named && !strings.Contains(r.Note, tt.note) {
					t.Errorf("%s: note %q, want %q", r.Name, r.Note, tt.note)
				}
			}
		})
	}
}

func TestCompareRecovery(t *testing.T) {
	after := func(s float64) result.Recovery { return result.Recovery{Recovered: true, WaitedS: s, Seconds: &s} }
	tests := []struct {
		name      string
		predicted Figure
		never     bool
		measured  result.Recovery
		ok        bool
		note      string
	}{
		{"neither within the wait", Figure{130, 129, 131}, false, result.Recovery{WaitedS: 45}, true, "not recovered within the wait of 45 s, as predicted"},
		{"never, and not", Figure{45, 45, 45}, true, result.Recovery{WaitedS: 45}, true, "as predicted"},
		{"predicted not to, but it did", Figure{130, 129, 131}, false, after(20), false, "predicted not to recover within the wait of 45 s"},
		{"predicted to, but it did not", Figure{2, 2, 2}, false, result.Recovery{WaitedS: 45}, false, "not recovered within the wait of 45 s"},
		{"a tie decides whether", Figure{30, 30, 60}, false, result.Recovery{WaitedS: 45}, true, "as predicted"},
		{"the run gave up watching", Figure{130, 129, 131}, false, result.Recovery{WaitedS: 10}, false, "stopped watching after 10 s of 45 s"},
		{"both, at the same time", Figure{2, 2, 2}, false, after(2.2), true, ""},
		{"both, not at the same time", Figure{2, 2, 2}, false, after(3), false, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := Prediction{Scale: 1, RecoveryWait: 45 * time.Second, RecoverySeconds: tt.predicted, NeverRecovers: tt.never}
			got := row(t, Compare(p, result.Summary{Recovery: tt.measured}), "recovery.seconds")
			if got.OK != tt.ok || !strings.Contains(got.Note, tt.note) || (tt.note == "") != (got.Note == "") {
				t.Errorf("%+v, want ok %v, note %q", got, tt.ok, tt.note)
			}
		})
	}
}

// TestStallShortensABoundedQueue: only where the wait is bounded may a stall's
// worth of requests be missing from the queue of a dump.
func TestStallShortensABoundedQueue(t *testing.T) {
	for _, test := range []struct {
		stall    float64
		measured int
		ok       bool
	}{{16, 28, true}, {16, 15, false}, {0, 28, false}} {
		p := Prediction{Scale: 0.05, PoolMax: 200, StallArrivals: test.stall,
			Dumps: []Dump{{Point: "load_40s", Where: map[string]Figure{WhereQueued: {Nominal: 40, Low: 32, High: 42}}}}}
		got := Compare(p, result.Summary{Dumps: []result.Dump{{Point: "load_40s", Where: map[string]int{WhereQueued: test.measured}}}})
		for _, row := range got.Rows {
			if row.Name == "dump.load_40s.queued" && row.OK != test.ok {
				t.Errorf("%d queued with a stall of %v: agrees %v, want %v", test.measured, test.stall, row.OK, test.ok)
			}
		}
	}
}
