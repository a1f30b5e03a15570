package drainmap

import (
	"encoding/json"
	"flag"
	"slices"
	"strings"
	"testing"
	"time"

	"chokepoint/internal/lab/matrix"
	"chokepoint/internal/lab/scenario/drain"
	"chokepoint/internal/result"
)

// settings are the defaults, as args change them.
func settings(t *testing.T, args ...string) Settings {
	t.Helper()
	var s Settings
	fs := flag.NewFlagSet("test", flag.ContinueOnError)
	s.Bind(fs)
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	return s
}

func mustCases(t *testing.T, s Settings) []matrix.Case {
	t.Helper()
	if err := s.Validate(); err != nil {
		t.Fatal(err)
	}
	cases, err := Cases(s)
	if err != nil {
		t.Fatal(err)
	}
	return cases
}

func findCase(t *testing.T, cases []matrix.Case, id string) matrix.Case {
	t.Helper()
	i := slices.IndexFunc(cases, func(c matrix.Case) bool { return c.ID == id })
	if i < 0 {
		t.Fatalf("no cell %s of %v", id, matrix.IDs(cases))
	}
	return cases[i]
}

// TestTheCellsOfThePrototypeAreInTheMap, and what it measured is what is predicted.
func TestTheCellsOfThePrototypeAreInTheMap(t *testing.T) {
	cases := mustCases(t, settings(t))
	if len(cases) != 16 {
		t.Errorf("%d cells: %v", len(cases), matrix.IDs(cases))
	}
	for id, want := range map[string]result.CaseCounts{
		"0s+1s":   {OK: 38, NeverReached: 5, FailedButExecuted: 2},
		"0s+3s":   {OK: 40, NeverReached: 5},
		"1.5s+1s": {OK: 44, FailedButExecuted: 1},
		"1.5s+3s": {OK: 45},
	} {
		var got result.Case
		c := findCase(t, cases, id)
		w, err := newWorld(settings(t))
		if err != nil {
			t.Fatal(err)
		}
		judge(w.predicted(stopOf(c.Case)), nil, drain.Outcome{Counts: want}, &got)
		if !got.OK || c.Ending.Predicted.OK.High-c.Ending.Predicted.OK.Low > 4 {
			t.Errorf("%s: the prototype's %s, and wanted is %s", id, got.Got, c.Want)
		}
	}
}

func TestJudge(t *testing.T) {
	w, err := newWorld(settings(t))
	if err != nil {
		t.Fatal(err)
	}
	want := w.predicted(stopOf(findCase(t, mustCases(t, settings(t)), "1.5s+3s").Case))
	for _, tt := range []struct {
		counts result.CaseCounts
		ok     bool
		got    string
	}{
		{result.CaseCounts{OK: 45}, true, "45 ok, 0 never reached, 0 failed but executed"},
		{result.CaseCounts{OK: 44, NeverReached: 1}, false, "44 ok, 1 never reached, 0 failed but executed"},
		{result.CaseCounts{OK: 44, FailedButExecuted: 1}, false, "44 ok, 0 never reached, 1 failed but executed"},
		{result.CaseCounts{OK: 45, ExecutedTwice: 1}, false, "45 ok, 0 never reached, 0 failed but executed, 1 executed twice"},
	} {
		var got result.Case
		judge(want, nil, drain.Outcome{Counts: tt.counts, Requests: []result.CaseRequest{{Runs: 1}, {Runs: 2}}, Ended: []drain.Ended{{At: 2 * time.Second}}}, &got)
		if got.OK != tt.ok || got.Got != tt.got || got.Counts != tt.counts || got.HandlerRuns != 3 || got.Seconds != 2 {
			t.Errorf("%+v: %+v, want %v and %q", tt.counts, got, tt.ok, tt.got)
		}
	}
}

// TestEachRequestIsHeldAgainstTheModel: one that fared otherwise than others at its
// moment makes the cell wrong, whatever the counts.
func TestEachRequestIsHeldAgainstTheModel(t *testing.T) {
	w, err := newWorld(settings(t))
	if err != nil {
		t.Fatal(err)
	}
	stop := stopOf(findCase(t, mustCases(t, settings(t)), "500ms+1s").Case)
	ok := func(id string, at float64, server string) result.CaseRequest {
		return result.CaseRequest{ID: id, AtS: at, Got: "200", Runs: 1, Server: server}
	}
	failed := func(id string, at float64, server string, runs int) result.CaseRequest {
		return result.CaseRequest{ID: id, AtS: at, Got: "EOF", Runs: runs, Server: server}
	}
	right := []result.CaseRequest{
		ok("r0", -2, "gw1"), ok("r1", -1.9, "gw2"), failed("r22", 0.2, "gw1", 1), failed("r28", 0.8, "", 0), ok("r44", 2.4, "gw2"),
		ok("r20", -0.05, "gw1"), failed("r20", -0.05, "gw1", 1), // a tie
	}
	wrong := []result.CaseRequest{
		failed("r0", -2, "gw1", 1),   // it was answered before the drain
		ok("r22", 0.3, "gw1"),        // it outlasts the drain
		failed("r1", -1.9, "gw2", 1), // its gateway stays
		failed("r33", 1.3, "", 0),    // the balancer knows
		failed("r22", 0.2, "gw1", 0), // it was accepted, so that it was done
	}
	out := drain.Outcome{Requests: append(right, wrong...), Ended: []drain.Ended{{Name: "gw1"}}}
	strange, err := w.unexplained(stop, out)
	if err != nil || len(strange) != len(wrong) || strange[0] != `r0 of -2.000 s at "gw1": EOF` {
		t.Errorf("%v, %d: %v", err, len(strange), strange)
	}
	var got result.Case
	judge(w.predicted(stop), strange, drain.Outcome{Counts: result.CaseCounts{OK: 40, NeverReached: 3, FailedButExecuted: 2}}, &got)
	if got.OK || !strings.Contains(got.Got, "5 not as the model says") {
		t.Errorf("%v: %s", got.OK, got.Got)
	}
	if _, err := w.unexplained(stop, drain.Outcome{Requests: []result.CaseRequest{ok("k1-7", 0, "gw1")}}); err == nil {
		t.Error("a request that the load does not have is taken")
	}
}

func TestOfManyRequestsThoseThatFailedAreKept(t *testing.T) {
	all := make([]result.CaseRequest, maxKept+1)
	for i := range all {
		all[i] = result.CaseRequest{Got: "200", Runs: 1}
	}
	all[7].Got = "EOF"
	if few, many := kept(all[:10]), kept(all); len(few) != 10 || len(many) != 1 || many[0].Got != "EOF" {
		t.Errorf("of 10 %d, of %d %v", len(few), len(all), many)
	}
}

// TestBothSidesOfTheSandboxHaveTheSameCells, of a distribution that is drawn from.
func TestBothSidesOfTheSandboxHaveTheSameCells(t *testing.T) {
	s := settings(t, "-response=p50=200ms,p99=1s,max=1500ms", "-gateway=net/http", "-seed=7", "-pre-stops=0s,1.5s", "-drains=1s,3s")
	outside := mustCases(t, s)
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	inside, err := Build(text)
	if err != nil {
		t.Fatal(err)
	}
	if len(outside) != 4 || len(inside) != 4 {
		t.Fatalf("%d outside, %d inside", len(outside), len(inside))
	}
	for i := range outside {
		if a, b := outside[i].Case, inside[i].Case; matrix.Key(a) != matrix.Key(b) || a.Want != b.Want || *a.Ending != *b.Ending {
			t.Errorf("outside %+v, inside %+v", a, b)
		}
	}
	if _, err := Build([]byte("{")); err == nil {
		t.Error("half of the settings are taken")
	}
}

func TestConclude(t *testing.T) {
	s := settings(t)
	lost := func(id string, counts result.CaseCounts) result.Case {
		c := findCase(t, mustCases(t, s), id).Case
		c.Counts, c.OK = counts, true
		return c
	}
	for _, tt := range []struct {
		name      string
		cases     []result.Case
		rule      string
		quickest  string
		reproduce bool
	}{
		{"as it is", []result.Case{lost("0s+1s", result.CaseCounts{OK: 38, NeverReached: 5, FailedButExecuted: 2}), lost("1.5s+3s", result.CaseCounts{OK: 45}), lost("1.2s+1.75s", result.CaseCounts{OK: 45})},
			"0 lost in 2 such cells", "pre-stop 1.2s, drain 1.75s", true},
		{"the rule is broken", []result.Case{lost("1.5s+3s", result.CaseCounts{OK: 44, FailedButExecuted: 1})}, "1 lost in 1 such cells", "none was without one", false},
		{"nothing to hold it against", []result.Case{lost("0s+3s", result.CaseCounts{OK: 40, NeverReached: 5})}, "0 lost in 0 such cells", "none was without one", true},
	} {
		summary := result.Summary{Cases: tt.cases, Verdict: result.Verdict{Outcome: result.Reproduced}}
		if err := Conclude(s, &summary); err != nil {
			t.Fatal(err)
		}
		checks := map[string]result.Check{}
		for _, c := range summary.Verdict.Checks {
			checks[c.Name] = c
		}
		if got := checks["smallest"]; !got.OK || !strings.HasPrefix(got.Got, "pre-stop 1s, drain 1.5s, ") {
			t.Errorf("%s: smallest %+v", tt.name, got)
		}
		if checks["rule"].Got != tt.rule || checks["smallest_measured"].Got != tt.quickest || (summary.Verdict.Outcome == result.Reproduced) != tt.reproduce {
			t.Errorf("%s: %+v, %s", tt.name, checks, summary.Verdict.Outcome)
		}
	}
}

func TestValidateRefuses(t *testing.T) {
	for args, want := range map[string]string{
		"-gateway=envoy":                   `-gateway "envoy": want haproxy, nginx or net/http`,
		"-response=soon":                   `-response: delay "soon"`,
		"-response=1h":                     "-response: the slowest 1h0m0s: want 300ms to 1m0s",
		"-response=p50=1s,p99=90s,max=30m": "-response: the slowest 30m0s: want",
		"-propagation=0s":                  "-propagation 0s: want 300ms to 1m0s",
		"-every=1ms":                       "-every 1ms: want 10ms to 1m0s",
		"-requests=20":                     "-requests 20: want 34 to 5000",
		"-pre-stops=0s,-1s":                "-pre-stops -1s: want 0s to 1m0s",
		"-drains=0s":                       "-drains 0s: want 10ms to 1m0s",
		"-drains=1s,1000ms":                "-pre-stops and -drains: 0s+1s is there twice",
		"-parallel=0":                      "-parallel 0: want 1 to 64",
	} {
		if err := settings(t, args).Validate(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
	var d durations
	if err := d.Set("1s,soon"); err == nil || !strings.Contains(err.Error(), `"soon" is not a duration`) {
		t.Errorf("%v", err)
	}
}
