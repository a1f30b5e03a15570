package scenario

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"chokepoint/internal/evidence/queueing"
	"chokepoint/internal/lab/world"
	"chokepoint/internal/result"
)

// wanted is what each fault was expected to come to, with each of the two profiles,
// before it ever ran.
var wanted = map[string]map[string]result.Outcome{
	"slow":     {"anti": result.Reproduced, "fixed": result.Protected},
	"hang":     {"anti": result.Reproduced, "fixed": result.Protected},
	"refused":  {"anti": result.Protected, "fixed": result.Protected},
	"reset":    {"anti": result.Protected, "fixed": result.Protected},
	"loss":     {"anti": result.Reproduced, "fixed": result.Protected},
	"tls_hang": {"anti": result.Reproduced, "fixed": result.Protected},
}

// TestEveryFaultHasItsOutcome: the table is the one above, and the model, which does
// not know it, comes to the same.
func TestEveryFaultHasItsOutcome(t *testing.T) {
	if len(pathFaults) != len(wanted) {
		t.Errorf("%d faults, want %d", len(pathFaults), len(wanted))
	}
	for _, f := range pathFaults {
		for name, want := range wanted[f.Name] {
			s := testSettings(t, "-scale=1", "-duration=60s", "-dump-at=15s,40s,+5s").WithFault(f).WithProfile(name)
			cell := s.Cell()
			if cell.Want != want || cell.Fault != f.Name || cell.Profile != name || cell.Label != name+" fault="+f.Name || cell.Why == "" || cell.Does == "" {
				t.Errorf("%s with %s: %+v, want %s", f.Name, name, cell, want)
			}
			config, err := s.model()
			if err != nil {
				t.Fatal(err)
			}
			p, err := queueing.Predict(config)
			if err != nil {
				t.Fatal(err)
			}
			failed := p.Endpoints["fast"].FailedRatio
			if dies := failed.Low >= diedRatio; dies != (want == result.Reproduced) || !dies && failed.High > 0 {
				t.Errorf("%s with %s: by the model %v of /fast fail, and it is to be %s", f.Name, name, failed, want)
			}
		}
	}
	if _, err := LookupFault("gremlins"); err == nil || !strings.Contains(err.Error(), `"gremlins"; choose of slow, hang, refused, reset, loss, tls_hang`) {
		t.Errorf("error %v", err)
	}
}

// TestOnlySlowIsSlow: of every other fault the upstream would answer at once, and the
// manifest says so.
func TestOnlySlowIsSlow(t *testing.T) {
	for _, f := range pathFaults {
		s := testSettings(t, "-delay=20s").WithFault(f)
		want := "0s"
		if f.Name == "slow" {
			want = "20s"
		}
		if all := s.Effective(); all["delay"] != want || all["fault"] != f.Fault {
			t.Errorf("%s: delay %s and fault %q; want %s and %q", f.Name, all["delay"], all["fault"], want, f.Fault)
		}
		if f.Name == "loss" && (s.stubFault() != "" || !s.Loses()) {
			t.Errorf("the stub is told of the loss: %q", s.stubFault())
		}
	}
}

// fakeLoss is a path that has lost something.
type fakeLoss struct {
	lost  uint64
	err   error
	ended atomic.Bool
}

func (l *fakeLoss) Counts() (uint64, uint64, error) { return l.lost, 3, l.err }
func (l *fakeLoss) End() error                      { l.ended.Store(true); return nil }

// TestLoss: connections are kept, then the path loses packets for as long as the run
// takes, and what is wrong with either makes the run invalid and is named.
func TestLoss(t *testing.T) {
	for _, test := range []struct {
		name   string
		loss   *fakeLoss
		opens  bool  // the victim opens a connection for a call
		refuse error // of Lose
		want   string
	}{
		{name: "all is well", loss: &fakeLoss{lost: 40}, opens: true},
		{name: "no connection", loss: &fakeLoss{lost: 40}, want: "the victim has opened 0 connections to the stub before the load, and 10 were to be kept"},
		{name: "nothing was lost", loss: &fakeLoss{}, opens: true, want: "was to lose packets and lost none"},
		{name: "not counted", loss: &fakeLoss{err: errors.New("no counters")}, opens: true, want: "the packets that the path lost: no counters"},
		{name: "no loss to be had", loss: &fakeLoss{}, opens: true, refuse: errors.New("no nftables"), want: "cannot be made to lose packets: no nftables"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newFakeWorld(t)
			w.opens = test.opens
			var asked string
			r := Run{
				Settings: testSettings(t, "-fault=loss", "-loss=0.5", "-delay=2s"), Progress: t.Logf,
				Start: func(_ context.Context, cfg world.Config) (world.World, error) {
					if args := strings.Join(cfg.StubArgs, " "); !strings.Contains(args, "-fault= ") {
						t.Errorf("the stub is told %s", args)
					}
					return w, nil
				},
				Lose: func(port uint16, share float64) (Lossy, error) {
					asked = fmt.Sprintf("%s/:%d %v", w.stub.URL[:strings.LastIndex(w.stub.URL, ":")], port, share)
					if test.refuse != nil {
						return nil, test.refuse
					}
					return test.loss, nil
				},
			}
			outcome, err := r.Into(t.Context(), w.dir)
			if err != nil {
				t.Fatal(err)
			}
			s := outcome.Summary
			reasons := strings.Join(s.Validity.Reasons, "\n")
			if test.want == "" && !s.Validity.Valid || !strings.Contains(reasons, test.want) {
				t.Errorf("reasons %q, want %q", s.Validity.Reasons, test.want)
			}
			if want := strings.Replace(w.stub.URL, "127.0.0.1:", "127.0.0.1/:", 1) + " 0.5"; asked != want {
				t.Errorf("asked for %s, want %s", asked, want)
			}
			if test.refuse == nil && !test.loss.ended.Load() {
				t.Error("the path loses packets for ever")
			}
			// Slow while the connections are opened, and afterwards what the run is about.
			if n := len(w.puts); n != 2 || !strings.Contains(w.puts[n-1], `"delay":"2s"`) || strings.Contains(w.puts[0], `"delay":"2s"`) {
				t.Errorf("the stub was told %q", w.puts)
			}
			if test.want != "" {
				return
			}
			if want := (result.PathLoss{Share: 0.5, Lost: 40, Passed: 3, Kept: 10}); s.Upstream.Loss == nil || *s.Upstream.Loss != want || s.Upstream.DelaySeenMS == nil {
				t.Errorf("upstream %+v, loss %+v; want %+v and a dose", s.Upstream, s.Upstream.Loss, want)
			}
			events, err := os.ReadFile(filepath.Join(w.dir, result.EventsFile))
			if err != nil || !strings.Contains(string(events), "loss_on") {
				t.Errorf("events %s, %v; want loss_on", events, err)
			}
		})
	}
}
