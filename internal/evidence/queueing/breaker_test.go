package queueing

import (
	"errors"
	"testing"
	"time"

	"github.com/sony/gobreaker/v2"
	"pgregory.net/rapid"
)

// The model's breaker and the real one are driven by the same calls, which
// overlap, end in any order and in any way, inside a bubble of fake time. They
// must admit the same calls.
func TestBreakerFollowsGobreaker(t *testing.T) {
	var (
		errFailed   = errors.New("failed")
		errExcluded = errors.New("excluded")
	)
	rapid.Check(t, func(t *rapid.T) {
		threshold := rapid.IntRange(1, 3).Draw(t, "threshold")
		openFor := time.Duration(rapid.IntRange(1, 20).Draw(t, "open for")) * time.Millisecond
		type step struct {
			Wait time.Duration
			End  int // which of the calls in flight ends; -1: one begins
			Err  error
		}
		steps := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) step {
			return step{
				// Often none, so that the exact end of the open time is met.
				Wait: time.Duration(rapid.IntRange(0, 10).Draw(t, "wait")) * time.Millisecond,
				End:  rapid.IntRange(-1, 3).Draw(t, "end"),
				Err:  rapid.SampledFrom([]error{errFailed, errFailed, errExcluded, nil}).Draw(t, "err"),
			}
		}), 100, 300).Draw(t, "steps")

		rapid.SyncTest(t, func(t *rapid.T) {
			real := gobreaker.NewTwoStepCircuitBreaker[any](gobreaker.Settings{
				Timeout:     openFor,
				ReadyToTrip: func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= uint32(threshold) },
				IsExcluded:  func(err error) bool { return errors.Is(err, errExcluded) },
			})
			model := breaker{threshold: threshold, openFor: openFor}
			start := time.Now()
			type inFlight struct {
				done       func(error)
				generation int
			}
			var calls []inFlight
			for i, st := range steps {
				time.Sleep(st.Wait)
				now := time.Since(start)
				if st.End < 0 || st.End >= len(calls) {
					done, err := real.Allow()
					generation, ok := model.admit(now)
					if ok != (err == nil) {
						t.Fatalf("step %d at %v: the model admits %v, gobreaker says %v", i, now, ok, err)
					}
					if ok {
						calls = append(calls, inFlight{done, generation})
					}
					continue
				}
				call := calls[st.End]
				calls = append(calls[:st.End], calls[st.End+1:]...)
				call.done(st.Err)
				switch st.Err {
				case nil:
					model.report(now, call.generation, succeeded)
				case errFailed:
					model.report(now, call.generation, failed)
				case errExcluded:
					model.report(now, call.generation, excluded)
				}
				if got, want := model.state, real.State(); int(got) != map[gobreaker.State]int{
					gobreaker.StateClosed: int(closed), gobreaker.StateOpen: int(open), gobreaker.StateHalfOpen: int(halfOpen),
				}[want] {
					t.Fatalf("step %d at %v: the model is in state %d, gobreaker is %v", i, now, got, want)
				}
			}
		})
	})
}

// An excluded result says nothing of the upstream: it must give the probe's
// place back, or the breaker would stay half-open for ever.
func TestExcludedProbeGivesItsPlaceBack(t *testing.T) {
	b := breaker{threshold: 1, openFor: 10}
	generation, _ := b.admit(0)
	b.report(0, generation, failed)
	probe, ok := b.admit(11)
	if _, second := b.admit(11); !ok || second {
		t.Fatalf("half-open let by the first: %v, the second: %v; want one", ok, second)
	}
	b.report(12, probe, excluded)
	probe, ok = b.admit(12)
	if !ok {
		t.Fatal("no probe after an excluded one")
	}
	b.report(13, probe, succeeded)
	if b.state != closed {
		t.Errorf("state %d after a good probe, want closed", b.state)
	}
}

func TestNoBreakerAdmitsAll(t *testing.T) {
	var b breaker
	for range 100 {
		generation, ok := b.admit(0)
		if !ok {
			t.Fatal("a breaker that is none refused a request")
		}
		b.report(0, generation, failed)
	}
}
