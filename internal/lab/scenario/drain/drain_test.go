package drain

import (
	"encoding/json"
	"flag"
	"reflect"
	"strings"
	"testing"
	"time"

	"chokepoint/internal/lab/matrix/matrixtest"
	"chokepoint/internal/result"
)

func byDefault(t *testing.T) Settings {
	t.Helper()
	var s Settings
	fs := flag.NewFlagSet("", flag.ContinueOnError)
	s.Bind(fs)
	if err := fs.Parse(nil); err != nil {
		t.Fatal(err)
	}
	if err := s.Validate(); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestWhatIsWanted holds the cases to what was committed: testdata/wants.txt has a line
// for each. A line that changes takes an ADR that says why; there is no flag that writes
// the file anew.
func TestWhatIsWanted(t *testing.T) { matrixtest.HoldToWants(t, Cases(byDefault(t))) }

// TestBothSidesOfASandboxHaveTheSameCases: the settings go in as JSON.
func TestBothSidesOfASandboxHaveTheSameCases(t *testing.T) {
	s := byDefault(t)
	s.Scale = 0.3
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	inside, err := Build(text)
	if err != nil {
		t.Fatal(err)
	}
	outside := Cases(s)
	if len(inside) != len(outside) || len(inside) == 0 {
		t.Fatalf("%d and %d cases", len(inside), len(outside))
	}
	for i := range inside {
		if !reflect.DeepEqual(inside[i].Case, outside[i].Case) || inside[i].Length != outside[i].Length {
			t.Errorf("inside %+v, outside %+v", inside[i].Case, outside[i].Case)
		}
	}
	if _, err := Build(json.RawMessage("[]")); err == nil {
		t.Error("settings that are none: no error")
	}
}

// TestRestartsArePairs: what a restart loses with the one settings and not with the other
// is of the settings, as everything else is the same.
func TestRestartsArePairs(t *testing.T) {
	defaults, pairs := map[string]Setup{}, 0
	with := func(r row) (key string, setup Setup) {
		setup = r.setup
		setup.End, setup.Load.Work = End{}, nil // all have the same work: mixed
		return string(setup.Gateway) + " " + r.defence, setup
	}
	for _, r := range restartRows() {
		if key, setup := with(r); r.id == "restart-defaults" {
			defaults[key] = setup
		}
	}
	for _, r := range restartRows() {
		key, setup := with(r)
		if r.id != "restart-recommended" {
			continue
		}
		pairs++
		if other, ok := defaults[key]; !ok || !reflect.DeepEqual(setup, other) {
			t.Errorf("%q: with the recommended settings %+v, with the defaults %+v", key, setup, other)
		}
	}
	if pairs != 3 {
		t.Errorf("%d pairs, want 3", pairs)
	}
}

func TestSettingsAreRefused(t *testing.T) {
	for name, change := range map[string]func(*Settings){
		"-scale 0.01":    func(s *Settings) { s.Scale = 0.01 },
		"-scale 2":       func(s *Settings) { s.Scale = 2 },
		"-parallel 0":    func(s *Settings) { s.Parallel = 0 },
		"-parallel 1000": func(s *Settings) { s.Parallel = 1000 },
	} {
		s := byDefault(t)
		change(&s)
		if err := s.Validate(); err == nil || !strings.HasPrefix(err.Error(), name+": want ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestEveryDurationIsScaled: none is forgotten, and the cases' own setups stay as they
// are.
func TestEveryDurationIsScaled(t *testing.T) {
	const all = 100 * time.Second
	s := Setup{
		Edge: all, Balancer: Balancer{all, all, true}, End: End{PreStop: all, Drain: all, Grace: all},
		Load: Load{Every: all, Before: all, IdleTimeout: all, Work: always(all)}, Keepers: []Keeper{{all}},
	}
	got := s.in(0.1)
	const tenth = 10 * time.Second
	want := Setup{
		Edge: tenth, Balancer: Balancer{tenth, tenth, true}, End: End{PreStop: tenth, Drain: tenth, Grace: tenth},
		Load: Load{Every: tenth, Before: tenth, IdleTimeout: tenth}, Keepers: []Keeper{{tenth}},
	}
	if work := got.Load.Work(3); work != tenth {
		t.Errorf("work %v, want %v", work, tenth)
	}
	got.Load.Work = nil
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if s.Keepers[0].Every != all {
		t.Error("the setup that was scaled has changed")
	}
	// Whoever adds a duration finds this test.
	if n := durations(reflect.TypeFor[Setup]()); n != 10 {
		t.Errorf("a setup has %d durations, and 10 are scaled here", n)
	}
}

// durations counts the fields of a type that are times.
func durations(t reflect.Type) (n int) {
	switch {
	case t == reflect.TypeFor[time.Duration]():
		return 1
	case t.Kind() == reflect.Slice:
		return durations(t.Elem())
	case t.Kind() == reflect.Struct:
		for i := range t.NumField() {
			n += durations(t.Field(i).Type)
		}
	}
	return n
}

func TestShownRequestsKeepAllThatFailed(t *testing.T) {
	var all []result.CaseRequest
	for i := range 1000 {
		r := result.CaseRequest{Got: "200", Runs: 1}
		switch {
		case i%100 == 7:
			r.Got = "EOF"
		case i%100 == 8:
			r.Runs = 2
		}
		all = append(all, r)
	}
	failed, twice, plain := 0, 0, 0
	for _, r := range shown(all) {
		switch {
		case r.Got != "200":
			failed++
		case r.Runs == 2:
			twice++
		default:
			plain++
		}
	}
	if failed != 10 || twice != 10 || plain == 0 || plain > maxShown {
		t.Errorf("%d failed, %d twice, %d others; want 10, 10 and 1 to %d", failed, twice, plain, maxShown)
	}
	if got := shown(all[:50]); len(got) != 50 {
		t.Errorf("of 50 requests %d are shown", len(got))
	}
}
