package draining

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"chokepoint/internal/delay"
)

// factsLoad is the load of the cells that a prototype measured: a POST of 1.5 s each
// 100 ms, every other one to the gateway that is ended 2 s after the first.
func factsLoad() []Request {
	var load []Request
	for i := range 45 {
		load = append(load, Request{At: time.Duration(i)*100*time.Millisecond - 2*time.Second, Takes: 1500 * time.Millisecond})
	}
	return load
}

// TestReplayHasWhatWasMeasured: four settings were measured by another program, with a
// propagation of 1 s.
func TestReplayHasWhatWasMeasured(t *testing.T) {
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	for _, tt := range []struct {
		preStop, drain time.Duration
		want           [3]int // ok, never reached, failed but executed
	}{
		{0, ms(1000), [3]int{38, 5, 2}},
		{0, ms(3000), [3]int{40, 5, 0}},
		{ms(1500), ms(1000), [3]int{44, 0, 1}},
		{ms(1500), ms(3000), [3]int{45, 0, 0}},
	} {
		got := Stop{tt.preStop, tt.drain}.Replay(time.Second, CloseIdle, factsLoad(), 2, ms(60))
		for i, span := range []Span{got.OK, got.NeverReached, got.FailedButExecuted} {
			if !span.Has(tt.want[i]) || span.High-span.Low > 4 {
				t.Errorf("%v then %v: %+v, measured %v (ok, never reached, failed but executed)", tt.preStop, tt.drain, got, tt.want)
			}
		}
	}
}

func TestReplayWithoutSlackIsExact(t *testing.T) {
	got := Stop{0, time.Second}.Replay(time.Second, CloseIdle, factsLoad(), 1, 0)
	// Sent to it: 20 before the end, the 4 of the last 0.4 s too late; 10 until the
	// balancer knows, which are refused. Either end of a class may be its neighbour's.
	if want := (Counts{Span{30, 32}, Span{9, 11}, Span{3, 5}}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := (Stop{2 * time.Second, 2 * time.Second}).Replay(time.Second, CloseIdle, factsLoad(), 2, 100*time.Millisecond); got != (Counts{Span{45, 45}, Span{}, Span{}}) {
		t.Errorf("a setting with room to spare: %+v", got)
	}
}

// TestExplains: of a request that the gateway was given, all but what is within the slack
// of a limit has one fate.
func TestExplains(t *testing.T) {
	const slack = 100 * time.Millisecond
	s := Stop{500 * time.Millisecond, time.Second}
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	for _, tt := range []struct {
		at, takes time.Duration
		want      []Fate
	}{
		{0, ms(1200), []Fate{OK}},
		{0, ms(1450), []Fate{OK, FailedButExecuted}},
		{0, ms(1700), []Fate{FailedButExecuted}},
		{ms(450), ms(100), []Fate{OK, NeverReached}},
		{ms(450), ms(1500), []Fate{NeverReached, FailedButExecuted}},
		{ms(550), ms(100), []Fate{OK, NeverReached}}, // the drain began late
		{ms(610), ms(100), []Fate{NeverReached}},
		{ms(950), ms(100), []Fate{NeverReached}},
		{ms(1050), ms(100), []Fate{NeverReached}}, // the balancer was late
		{ms(1150), ms(100), nil},
	} {
		var got []Fate
		for _, fate := range []Fate{OK, NeverReached, FailedButExecuted} {
			if s.Explains(time.Second, CloseIdle, Request{At: tt.at, Takes: tt.takes}, fate, slack) {
				got = append(got, fate)
			}
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("at %v for %v: %v, want %v", tt.at, tt.takes, got, tt.want)
		}
	}
}

func constant(d time.Duration) delay.Delay { return delay.Of(d.String(), []time.Duration{d}) }

func traffic(t *rapid.T) Traffic {
	d := func(name string, low, high int) time.Duration {
		return time.Duration(rapid.IntRange(low, high).Draw(t, name)) * 100 * time.Millisecond
	}
	low := d("quickest", 0, 50)
	high := low + d("slower", 1, 100)
	uniform, err := delay.Parse("uniform:" + low.String() + ".." + high.String())
	if err != nil {
		t.Fatal(err)
	}
	response := ResponseOf(uniform, high)
	var some []time.Duration // a search takes thousands of means
	for i := 10; i < points; i += 20 {
		some = append(some, response.sorted[i])
	}
	response.sorted = some
	return Traffic{
		Response: response, Rate: float64(rapid.IntRange(1, 50).Draw(t, "rate")),
		Propagation: d("propagation", 0, 100), KeepaliveIdle: rapid.SampledFrom([]time.Duration{0, d("rest", 1, 100)}).Draw(t, "keepalive"),
	}
}

var idles = rapid.SampledFrom([]Idle{CloseIdle, KeepIdle})

func setting(t *rapid.T) Stop {
	d := func(name string) time.Duration {
		return time.Duration(rapid.IntRange(0, 300).Draw(t, name)) * 100 * time.Millisecond
	}
	return Stop{d("pre-stop"), d("drain")}
}

// tiny is what floating-point sums may be off.
const tiny = 1e-6

func TestLongerIsNeverWorse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		on, idle, s := traffic(t), idles.Draw(t, "idle"), setting(t)
		more := time.Duration(rapid.IntRange(0, 100).Draw(t, "more")) * 100 * time.Millisecond
		lost := s.Expect(on, idle)
		drained := Stop{s.PreStop, s.Drain + more}.Expect(on, idle)
		if drained.NeverReached > lost.NeverReached+tiny || drained.FailedButExecuted > lost.FailedButExecuted+tiny {
			t.Fatalf("a longer drain: %+v, then %+v", lost, drained)
		}
		served := Stop{s.PreStop + more, s.Drain}.Expect(on, idle)
		if served.NeverReached > lost.NeverReached+tiny || served.FailedButExecuted > lost.FailedButExecuted+tiny {
			t.Fatalf("a longer pre-stop: %+v, then %+v", lost, served)
		}
	})
}

// TestNothingFailsExactlyByTheRule: with the rule's setting nothing does; with less of
// either something does.
func TestNothingFailsExactlyByTheRule(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		on, idle := traffic(t), idles.Draw(t, "idle")
		rule := Rule(on, idle)
		more := time.Duration(rapid.IntRange(0, 100).Draw(t, "more")) * 100 * time.Millisecond
		for _, s := range []Stop{rule, {rule.PreStop + more, rule.Drain}, {rule.PreStop, rule.Drain + more}} {
			if lost := s.Expect(on, idle); !lost.None() {
				t.Fatalf("%+v: %+v", s, lost)
			}
		}
		if short := (Stop{rule.PreStop - time.Millisecond, rule.Drain + more}); rule.PreStop > 0 && short.Expect(on, idle).NeverReached == 0 {
			t.Fatalf("%+v is enough", short)
		}
		if short := (Stop{rule.PreStop, rule.Drain - time.Millisecond}); short.Expect(on, idle).FailedButExecuted == 0 {
			t.Fatalf("%+v is enough", short)
		}
		if got := Smallest(on, idle, time.Millisecond); got != rule {
			t.Fatalf("searched %+v, derived %+v", got, rule)
		}
	})
}

// TestExpectIsTheSumOfFates over a dense stream of requests, of which each has every
// response time.
func TestExpectIsTheSumOfFates(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		on, s, idle := traffic(t), setting(t), idles.Draw(t, "idle")
		on.Rate = 1
		const step = 50 * time.Millisecond
		var times []time.Duration
		for q := 0.025; q < 1; q += 0.05 {
			times = append(times, on.Response.Quantile(q))
		}
		var sum Lost
		for at := -20*time.Second + step/2; at < 45*time.Second; at += step {
			// The share of the requests at this time that are on connections of before.
			kept := 0.
			switch rest := on.KeepaliveIdle; {
			case rest > 0 && at < s.PreStop:
				kept = 1
			case rest > 0 && idle == KeepIdle:
				kept = max(1-(at-s.PreStop).Seconds()/rest.Seconds(), 0)
			}
			for _, takes := range times {
				for i, share := range [2]float64{1 - kept, kept} {
					weight := share * step.Seconds() / 20
					switch s.Fate(on.Propagation, idle, Request{at, takes, i == 1}) {
					case NeverReached:
						sum.NeverReached += weight
					case FailedButExecuted:
						sum.FailedButExecuted += weight
					}
				}
			}
		}
		want := s.Expect(on, idle)
		if math.Abs(sum.NeverReached-want.NeverReached) > 0.1 || math.Abs(sum.FailedButExecuted-want.FailedButExecuted) > 0.15 {
			t.Fatalf("summed %+v, expected %+v", sum, want)
		}
	})
}
