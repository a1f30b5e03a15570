package compare

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"chokepoint/internal/result"
	"chokepoint/internal/stats"
)

// load is a valid run whose response times and failed ratio are given.
func load(p50, failed float64) result.Load {
	p := result.Percentiles{Min: p50 / 2, P50: p50, P90: 2 * p50, P95: 3 * p50, P99: 10 * p50, Max: 20 * p50, Count: 500}
	busy := int(500*failed + 0.5)
	ok := p
	ok.Count = int64(500 - busy)
	return result.Load{
		Validity: result.Validity{Valid: true},
		Endpoints: map[string]result.Endpoint{"fast": {
			Planned: 500, Scheduled: 500, Started: 500, OK: 500 - busy, HTTPError: busy,
			Status: map[string]int{"200": 500 - busy, "503": busy}, FailedRatio: failed, TargetRate: 50, AchievedRate: 50, Response: p, OKResponse: ok,
		}},
	}
}

func runs(loads ...result.Load) []Run {
	var all []Run
	for i, l := range loads {
		all = append(all, Run{fmt.Sprintf("%d.json", i), l})
	}
	return all
}

// differs is the verdict of every metric.
func differs(d result.LoadDiff) map[string]string {
	all := map[string]string{}
	for _, m := range d.Metrics {
		word := m.Differs
		if m.Regression {
			word += " (worse)"
		}
		all[m.Name] = word
	}
	return all
}

func TestLoads(t *testing.T) {
	base := runs(load(10, 0), load(10.2, 0), load(9.9, 0))
	slow := load(20, 0)
	slow.Endpoints["fast"] = func(e result.Endpoint) result.Endpoint { e.AchievedRate = 30; return e }(slow.Endpoints["fast"])
	for _, tt := range []struct {
		name       string
		other      []Run
		times      string // of every percentile
		failed     string
		rate       string
		regressed  bool
		noFailures bool
	}{
		{"the same", base, "~", "~", "~", false, true},
		{"a little slower", runs(load(11, 0), load(11.2, 0), load(11.1, 0)), "~", "~", "~", false, true},
		{"slower", runs(slow, slow, slow), "higher (worse)", "~", "lower (worse)", true, true},
		{"faster", runs(load(5, 0), load(5.1, 0), load(5.2, 0)), "lower", "~", "~", false, true},
		{"more failures", runs(load(10, 0.2), load(10, 0.3), load(10, 0.25)), "~", "higher (worse)", "~", true, false},
		{"two runs", runs(load(90, 0.9), load(90, 0.9)), "?", "?", "?", false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := Loads(base, tt.other)
			want := map[string]string{"fast.failed_ratio": tt.failed, "fast.achieved_rate": tt.rate}
			names := []string{"response_ms", "ok_response_ms"}
			if tt.noFailures {
				names = names[:1] // the good answers are all there are
			}
			for _, name := range names {
				for _, p := range []string{"p50", "p90", "p99"} {
					want["fast."+name+"."+p] = tt.times
				}
			}
			if diff := cmp.Diff(want, differs(d)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if d.Regressed != tt.regressed {
				t.Errorf("regressed %v, want %v", d.Regressed, tt.regressed)
			}
			if few := strings.Contains(strings.Join(d.Warnings, "\n"), "new: 2 valid runs are too few"); few != (len(tt.other) == 2) {
				t.Errorf("warnings %q", d.Warnings)
			}
		})
	}
}

func TestFiguresOfADiff(t *testing.T) {
	d := Loads(runs(load(10, 0), load(12, 0), load(8, 0)), runs(load(15, 0.5), load(30, 0.5), load(20, 0.5)))
	p50, failed, rate := d.Metrics[2], d.Metrics[0], d.Metrics[1]
	if p50.Name != "fast.response_ms.p50" || p50.Base != (result.LoadSpread{Spread: result.Spread{N: 3, Median: 10, Min: 8, Max: 12}}) || p50.Shift != nil || p50.New.Median != 20 || *p50.Change != 1 {
		t.Errorf("p50 %+v", p50)
	}
	if failed.Unit != "ratio" || *failed.Change != 0.5 || *rate.Change != 0 {
		t.Errorf("failed %+v, rate %+v", failed, rate)
	}
	// Without a base there is no share of it.
	zero := Loads(runs(load(0, 0), load(0, 0), load(0, 0)), runs(load(15, 0), load(15, 0), load(15, 0)))
	if c := zero.Metrics[2].Change; c != nil {
		t.Errorf("change %v of nothing", *c)
	}
}

func TestIntervals(t *testing.T) {
	var base, other []result.Load
	for i := range 6 {
		base, other = append(base, load(float64(10+i), 0)), append(other, load(float64(40+2*i), 0))
	}
	d := Loads(runs(base...), runs(other...))
	p50 := d.Metrics[2]
	interval := result.Interval{Low: 10, High: 15, Confidence: 0.96875}
	if p50.Base.Interval == nil || *p50.Base.Interval != interval || p50.Base.Median != 12.5 {
		t.Errorf("base %+v, want the interval %+v", p50.Base, interval)
	}
	// The two figures that do not differ take no part in the correction, and p50 is the
	// first of the other three: of the 36 differences, U = 3 cuts off three at each end.
	want := result.Shift{Estimate: 32.5, Interval: result.Interval{Low: 27, High: 38, Confidence: 1 - stats.Alpha/3}}
	if p50.Shift == nil || *p50.Shift != want {
		t.Errorf("shift %+v, want %+v", p50.Shift, want)
	}
	if p50.Differs != "higher" || !p50.Regression || len(d.Warnings) != 0 {
		t.Errorf("%+v, warnings %q", p50, d.Warnings)
	}
	if rate := d.Metrics[1]; rate.Differs != "~" || rate.Shift == nil || rate.Shift.Low != 0 || rate.Shift.High != 0 {
		t.Errorf("a rate that is the same in every run: %+v", rate)
	}
}

func TestFewRunsAreSaid(t *testing.T) {
	few := func(base, other int) (warnings []string) {
		all := runs(load(10, 0), load(11, 0), load(12, 0), load(13, 0), load(14, 0), load(15, 0))
		return Loads(all[:base], all[:other]).Warnings
	}
	tooFew := "2 valid runs are too few to claim a difference; at least 3 are needed"
	noInterval := "valid runs give no interval of a median (± ∞); need >= 6 runs for a confidence interval at level 0.95"
	noTest := "3 runs a side carry no rank test: a difference is claimed where the ranges are disjoint and the medians are far apart (ADR 0009)"
	for _, tt := range []struct {
		base, other int
		want        []string
	}{
		{2, 6, []string{"base: " + tooFew}},
		{3, 6, []string{"base: 3 " + noInterval, noTest}},
		{4, 5, []string{"base: 4 " + noInterval, "new: 5 " + noInterval}},
		{6, 6, nil},
	} {
		if diff := cmp.Diff(tt.want, few(tt.base, tt.other)); diff != "" {
			t.Errorf("%d and %d runs (-want +got)\n%s", tt.base, tt.other, diff)
		}
	}
}

func TestWhatIsLeftOutIsNamed(t *testing.T) {
	invalid := load(10, 0)
	invalid.Validity = result.Validity{Reasons: []string{"stopped early"}}
	other := load(10, 0)
	other.Endpoints["slow"] = result.Endpoint{TargetRate: 1}
	faster := load(10, 0)
	faster.Endpoints["fast"] = func(e result.Endpoint) result.Endpoint { e.TargetRate = 60; return e }(faster.Endpoints["fast"])
	silent := load(10, 0)
	silent.Validity = result.Validity{}
	unbalanced := load(10, 0)
	unbalanced.Endpoints["fast"] = func(e result.Endpoint) result.Endpoint { e.Started--; return e }(unbalanced.Endpoints["fast"])
	d := Loads(runs(load(10, 0), invalid, silent, unbalanced), runs(other, faster))
	want := []string{
		"1.json is invalid and left out: stopped early",
		"2.json is invalid and left out: it does not say why",
		"3.json is invalid and left out: fast: ledger: 500 scheduled, but 499 started + 0 dropped",
		"endpoint slow is in 1 of 3 runs and left out",
		"fast: the target rates differ, 50/s and 50/s or 60/s: what follows from that cannot be told from what follows from the change",
		"base: 1 valid run is too few to claim a difference; at least 3 are needed",
		"new: 2 valid runs are too few to claim a difference; at least 3 are needed",
	}
	if diff := cmp.Diff(want, d.Warnings); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if diff := cmp.Diff([]string{"0.json", "1.json", "2.json", "3.json"}, d.Base); diff != "" {
		t.Error(diff)
	}
	nothing := Loads(runs(invalid), nil)
	if nothing.Metrics == nil || len(nothing.Metrics) != 0 || nothing.New == nil {
		t.Errorf("no valid run: %+v, want empty lists", nothing)
	}
}

func TestSettingsThatDifferAreNamed(t *testing.T) {
	for name, change := range map[string]func(*result.Load, *result.Endpoint){
		"target rates":    func(_ *result.Load, e *result.Endpoint) { e.TargetRate = 60 },
		"client timeouts": func(_ *result.Load, e *result.Endpoint) { e.ClientTimeoutMS = 500 },
		"workers":         func(_ *result.Load, e *result.Endpoint) { e.Workers = 7 },
		"windows":         func(l *result.Load, _ *result.Endpoint) { l.WindowS = 30 },
		"engines":         func(l *result.Load, _ *result.Endpoint) { l.Engine = "goroutines" },
	} {
		changed := load(10, 0)
		e := changed.Endpoints["fast"]
		change(&changed, &e)
		changed.Endpoints["fast"] = e
		same, mixed := runs(load(10, 0), load(10, 0)), runs(load(10, 0), changed)
		for _, sets := range [][2][]Run{{same, mixed}, {mixed, same}, {mixed, mixed}} {
			if w := Loads(sets[0], sets[1]).Warnings; len(w) != 3 || !strings.HasPrefix(w[0], "fast: the "+name+" differ, ") {
				t.Errorf("%s: warnings %q, want one of them and two of few runs", name, w)
			}
		}
	}
}

func TestP999NeedsEveryRun(t *testing.T) {
	has := load(10, 0)
	has.Endpoints["fast"] = func(e result.Endpoint) result.Endpoint { v := 1.0; e.Response.P999 = &v; return e }(has.Endpoints["fast"])
	named := func(d result.LoadDiff) bool { _, ok := differs(d)["fast.response_ms.p99_9"]; return ok }
	if named(Loads(runs(has, load(10, 0)), runs(has))) || !named(Loads(runs(has), runs(has))) {
		t.Error("p99.9 is compared where a run has none, or not where all have it")
	}
}

func TestModelsAreNotMixed(t *testing.T) {
	open, closed := load(10, 0), load(10, 0)
	open.Model, closed.Model = result.ModelOpen, result.ModelClosed
	if err := CheckModel(runs(closed, closed), runs(closed)); err != nil {
		t.Error(err)
	}
	for _, sets := range [][2][]Run{{runs(open), runs(closed)}, {runs(open, closed), runs(open)}, {nil, runs(open, closed)}} {
		if err := CheckModel(sets[0], sets[1]); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("got %v, want one line", err)
		}
	}
}
