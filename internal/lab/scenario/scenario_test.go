package scenario

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"chokepoint/internal/adminapi"
	"chokepoint/internal/lab/world"
	"chokepoint/internal/result"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// run runs the scenario in a fake world.
func run(t *testing.T, ctx context.Context, w *fakeWorld, args ...string) (Outcome, error) {
	t.Helper()
	r := Run{
		Settings: testSettings(t, args...),
		Start:    func(context.Context, world.Config) (world.World, error) { return w, nil },
		Progress: func(format string, args ...any) {
			t.Logf(format, args...)
			if strings.HasPrefix(format, "recovered ") {
				close(w.recovered)
			}
		},
	}
	outcome, err := r.Into(ctx, w.dir)
	if !w.closed {
		t.Error("the world was not closed")
	}
	return outcome, err
}

// TestAllIsWell: the tests below are of what goes wrong, so first that nothing does.
func TestAllIsWell(t *testing.T) {
	w := newFakeWorld(t)
	outcome, err := run(t, t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	s := outcome.Summary
	if !s.Validity.Valid || len(s.Validity.Reasons) != 0 {
		t.Errorf("reasons %q, want a valid run", s.Validity.Reasons)
	}
	if len(s.Dumps) != 4 || !s.Recovery.Recovered || s.Upstream.DelaySeenMS == nil || len(s.Baselines) != 2 {
		t.Errorf("%d dumps, recovery %+v, dose %+v, %d baselines", len(s.Dumps), s.Recovery, s.Upstream, len(s.Baselines))
	}
	for _, name := range []string{result.TimelineFile, result.EventsFile} {
		if _, err := os.Stat(filepath.Join(w.dir, name)); err != nil {
			t.Error(err)
		}
	}
}

// TestBadEvidence: whatever is missing or wrong makes the run invalid and is
// named, and never ends the run early or crashes it.
func TestBadEvidence(t *testing.T) {
	later := func(w *fakeWorld, path string) {
		go func() {
			<-w.started
			w.breakPath(path)
		}()
	}
	for _, test := range []struct {
		name  string
		spoil func(w *fakeWorld)
		want  string
		dumps int
	}{
		{"the load generator writes half a result", func(w *fakeWorld) {
			w.load = func(l *fakeLoad) { l.writeText("json", `{"schema":`) }
		}, "load.json is not what a run writes", 4},
		{"a result of another version", func(w *fakeWorld) {
			w.load = func(l *fakeLoad) { l.writeText("json", `{"schema": "chokepoint/load/v99"}`) }
		}, "chokepoint/load/v99", 4},
		{"none at all", func(w *fakeWorld) { w.load = func(*fakeLoad) {} }, "loadgen ended by itself (exit status 0); its last lines: its last words, without a result", 4},
		{"no rows", func(w *fakeWorld) {
			w.load = func(l *fakeLoad) { l.write(goodLoad()); os.Remove(l.flags["requests"]) }
		}, "the load generator's rows: open requests.csv: no such file", 4},
		{"broken rows", func(w *fakeWorld) {
			w.load = func(l *fakeLoad) { l.write(goodLoad()); l.writeText("requests", "id,endpoint\n1,2,3\n") }
		}, "requests.csv", 4},
		{"too few rows", func(w *fakeWorld) { w.rows = w.rows[:planned] },
			"requests.csv has 0 rows of upstream, and 80 requests fell due", 4},
		{"an endpoint is missing", func(w *fakeWorld) {
			w.result = func() result.Load { l := goodLoad(); delete(l.Endpoints, "upstream"); return l }
		}, "no endpoint upstream", 4},
		{"the ledger does not balance", func(w *fakeWorld) {
			w.result = func() result.Load {
				l := goodLoad()
				e := l.Endpoints["fast"]
				e.OK--
				l.Endpoints["fast"] = e
				return l
			}
		}, "the ledger of fast does not balance: 80 scheduled, 80 started, 0 dropped, 79 outcomes", 4},
		{"fewer requests than planned", func(w *fakeWorld) {
			w.result = func() result.Load {
				l := goodLoad()
				e := l.Endpoints["fast"]
				e.Planned++
				l.Endpoints["fast"] = e
				return l
			}
		}, "of 81 requests to fast that were planned 80 fell due", 4},
		{"a request that the victim never read", func(w *fakeWorld) { w.rows[3].ID = "fast-x" },
			"1 answered requests that the victim never read, the first is fast-x", 4},
		{"no dump can be taken", func(w *fakeWorld) { later(w, adminapi.PathGoroutines) }, "dump before: ", 0},
		{"no profile beside a dump", func(w *fakeWorld) { later(w, "/debug/pprof/goroutine") }, "goroutine profile before: ", 0},
		{"no metrics", func(w *fakeWorld) { later(w, "/metrics") }, "metrics victim-before: ", 4},
		{"no state", func(w *fakeWorld) { later(w, adminapi.PathStats) }, "questions for its state", 4},
		{"no word of what was read", func(w *fakeWorld) { w.breakPath(adminapi.PathSeen) }, "could not be asked what it had read", 4},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newFakeWorld(t)
			test.spoil(w)
			outcome, err := run(t, t.Context(), w)
			if err != nil {
				t.Fatal(err)
			}
			s := outcome.Summary
			reasons := strings.Join(s.Validity.Reasons, "\n")
			if s.Validity.Valid || s.Verdict.Outcome != result.Invalid || !strings.Contains(reasons, test.want) {
				t.Errorf("valid %v, outcome %s, reasons:\n%s\nwant an invalid run and %q", s.Validity.Valid, s.Verdict.Outcome, reasons, test.want)
			}
			if strings.Contains(reasons, "ended early") || strings.Contains(reasons, w.dir) {
				t.Errorf("reasons of a run that went to its end, in a folder that gets another name:\n%s", reasons)
			}
			if len(s.Dumps) != test.dumps {
				t.Errorf("%d dumps, want %d", len(s.Dumps), test.dumps)
			}
		})
	}
}

// TestDisturbedBaseline: a baseline that its own generator does not believe is
// marked, is held to the run's own limit of lag, and does not make the run invalid.
func TestDisturbedBaseline(t *testing.T) {
	w := newFakeWorld(t)
	w.baseline = func(l *fakeLoad) {
		load := goodLoad()
		if l.flags["max-lag"] != "7ms" {
			load.Validity = result.Validity{Reasons: []string{"fast: lag p99 is 90 ms"}}
		}
		if strings.Contains(l.flags["json"], "load_rate") {
			load.Validity = result.Validity{Reasons: []string{"fast: lag p99 is 8 ms"}}
		}
		l.write(load)
	}
	outcome, err := run(t, t.Context(), w, "-max-lag=7ms")
	if err != nil {
		t.Fatal(err)
	}
	s := outcome.Summary
	if len(s.Baselines) != 2 || s.Baselines[0].Disturbed || !s.Baselines[1].Disturbed {
		t.Errorf("baselines %+v; want the second disturbed", s.Baselines)
	}
	if !s.Validity.Valid || !slices.Contains(s.Validity.Warnings, "baseline load_rate: fast: lag p99 is 8 ms") {
		t.Errorf("valid %v, warnings %q", s.Validity.Valid, s.Validity.Warnings)
	}
}

// TestEndsEarly: what ends a run in the middle is its first reason, and the dumps
// so far are kept.
func TestEndsEarly(t *testing.T) {
	const death = "victim ended by itself (signal: killed); its last lines: goodbye"
	kill := func(w *fakeWorld) {
		w.died <- world.Death{Name: "victim", Status: "signal: killed", Log: []string{"goodbye"}}
	}
	for _, test := range []struct {
		name string
		end  func(w *fakeWorld, stop context.CancelCauseFunc)
		want string
	}{
		{"a program dies under load", func(w *fakeWorld, _ context.CancelCauseFunc) { <-w.started; kill(w) }, death},
		{"a program dies while the last answers are waited for", func(w *fakeWorld, _ context.CancelCauseFunc) {
			w.load = func(l *fakeLoad) { <-w.recovered; kill(w); <-l.stop; l.write(goodLoad()) }
		}, death},
		{"the caller stops while the last answers are waited for", func(w *fakeWorld, stop context.CancelCauseFunc) {
			w.load = func(l *fakeLoad) { <-w.recovered; stop(errors.New("enough")); <-l.stop; l.write(goodLoad()) }
		}, "interrupted (enough)"},
		{"the load generator fails", func(w *fakeWorld, _ context.CancelCauseFunc) {
			w.load = func(l *fakeLoad) { l.code = 1; l.write(goodLoad()) }
		}, "loadgen ended by itself (exit status 1); its last lines: its last words"},
		{"the load generator is killed", func(w *fakeWorld, _ context.CancelCauseFunc) {
			w.load = func(l *fakeLoad) { l.code = -1 }
		}, "loadgen ended by itself (killed by a signal); its last lines: its last words"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newFakeWorld(t)
			ctx, stop := context.WithCancelCause(t.Context())
			defer stop(nil)
			ended := make(chan struct{})
			go func() { defer close(ended); test.end(w, stop) }()
			outcome, err := run(t, ctx, w, "-recovery-wait=10m", "-dump-at=1s,+1s")
			<-ended
			if err != nil {
				t.Fatal(err)
			}
			reasons := outcome.Summary.Validity.Reasons
			if got := outcome.Summary.Run.EndedEarly; got != test.want {
				t.Errorf("ended early: %q, want %q", got, test.want)
			}
			if len(reasons) == 0 || reasons[0] != "the run ended early: "+test.want {
				t.Errorf("reasons %q; want the run ended early: %s", reasons, test.want)
			}
		})
	}
}

// TestNothingMeasured: a run that is stopped before its load is none.
func TestNothingMeasured(t *testing.T) {
	for name, endBefore := range map[string]bool{"at the start": true, "as the load begins": false} {
		t.Run(name, func(t *testing.T) {
			w := newFakeWorld(t)
			w.load = func(l *fakeLoad) {
				none := goodLoad()
				for name := range none.Endpoints {
					none.Endpoints[name] = result.Endpoint{Planned: planned}
				}
				l.write(none)
			}
			ctx, stop := context.WithCancelCause(t.Context())
			defer stop(nil)
			if endBefore {
				stop(errors.New("enough"))
			} else {
				go func() { <-w.started; stop(errors.New("enough")) }()
			}
			_, err := run(t, ctx, w)
			if !errors.Is(err, ErrInterrupted) || err.Error() != "interrupted (enough) before the load: nothing was measured" {
				t.Errorf("error %v; want that nothing was measured", err)
			}
		})
	}
}

// TestSamplerFaults: a hole in the timeline is told from a late sample.
func TestSamplerFaults(t *testing.T) {
	at := func(ms ...int) []sample {
		var all []sample
		for _, m := range ms {
			all = append(all, sample{at: time.Duration(m) * time.Millisecond})
		}
		return all
	}
	for _, test := range []struct {
		name    string
		samples []sample
		tick    time.Duration
		want    string
	}{
		{"none", nil, 50 * time.Millisecond, "3s from 0s"},
		{"dense", at(-1000, 0, 1000, 2000, 2900), 50 * time.Millisecond, ""},
		{"a hole in the middle", at(0, 100, 2500, 2900), 50 * time.Millisecond, "2.4s from 100ms"},
		{"at the beginning", at(-5000, 2100, 2900), 50 * time.Millisecond, "2.1s from 0s"},
		{"at the end", at(0, 500), 50 * time.Millisecond, "2.5s from 500ms"},
		{"after the load", at(0, 1500, 2900, 9000), 50 * time.Millisecond, ""},
		{"within ten ticks", at(0, 100, 2500, 2900), time.Second, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := sampler{tick: test.tick, samples: test.samples}
			got := strings.Join(s.faults(3*time.Second), "; ")
			if (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
				t.Errorf("faults %q, want %q", got, test.want)
			}
		})
	}
}
