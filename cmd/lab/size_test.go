package main

import (
	"bytes"
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"chokepoint/internal/evidence/sizing"
)

func TestSizeRefuses(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing.hlog")
	const slow = "-latency p50=80ms,p99=400ms -rate 200 -validate "
	for _, test := range []struct {
		name string
		args string
		want string
	}{
		{"nothing asked", "", "-latency is missing"},
		{"no rate", "-latency 80ms", "-rate is missing"},
		{"no distribution", "-latency soon -rate 20", `-latency: delay "soon"`},
		{"no such log", "-latency " + missing + " -rate 20", "-latency: open " + missing},
		{"an argument too many", "-latency 80ms -rate 20 more", `unexpected argument "more"`},
		{"unknown arrivals", "-latency 80ms -rate 20 -arrivals often", `-arrivals "often"`},
		{"a share over 1", "-latency 80ms -rate 20 -max-held 2", "max-held 2: want a share"},
		{"nothing to show", "-latency 80ms -rate 20 -live", "-live shows the runs of -validate, which is not given"},
		{"a scale that is no number", slow + "-scale NaN", "-validate: -scale NaN: want 0.05 to 1"},
		{"a lag below none", slow + "-max-lag -1s", "-validate: -max-lag -1s: want more than 0s"},
		{"no load", slow + "-duration 0", "-validate: -duration 0s: want more than 0s"},
		{"nobody to harm", "-latency 80ms -rate 20 -other-rate 0 -validate", "-validate needs requests that share the pool"},
	} {
		var stdout, stderr bytes.Buffer
		code := run(t.Context(), append([]string{"size"}, strings.Fields(test.args)...), &stdout, &stderr)
		if text := stderr.String(); code != 2 || !strings.HasPrefix(text, "lab: "+test.want) || strings.Count(text, "\n") != 1 || stdout.Len() > 0 {
			t.Errorf("%s: exit %d, stdout %q, stderr %q; want one line with %q", test.name, code, &stdout, text, test.want)
		}
	}
}

// TestSize: what is printed as text and as JSON is the same choice. A quick
// upstream keeps the model small.
func TestSize(t *testing.T) {
	args := []string{"size", "-latency", "uniform:5ms..15ms", "-rate", "1200/m", "-max-workers", "40", "-arrivals", "constant"}
	var text, encoded, stderr bytes.Buffer
	if code := run(t.Context(), args, &text, &stderr); code != 0 || stderr.Len() > 0 {
		t.Fatalf("exit %d: %s", code, &stderr)
	}
	if code := run(t.Context(), append(args, "-json"), &encoded, &stderr); code != 0 {
		t.Fatalf("-json: exit %d: %s", code, &stderr)
	}
	var advice sizing.Advice
	if err := json.Unmarshal(encoded.Bytes(), &advice); err != nil {
		t.Fatal(err)
	}
	best := advice.Recommended
	if advice.Schema != sizing.Schema || best == nil || best.TimeoutMS != 20 || best.Permits != 1 {
		t.Fatalf("20/s, evenly, of 15 ms at most: recommended %+v; want one permit and 20ms", best)
	}
	if want := "recommended: -timeout 20ms -permits 1 -permit-wait 100ms\n"; !strings.Contains(text.String(), want) {
		t.Errorf("no %q in:\n%s", want, &text)
	}
	if code := run(t.Context(), append(args, "-max-held", "0.01"), &text, &stderr); code != 99 {
		t.Errorf("a goal that cannot be met: exit %d, want 99", code)
	}
}

// TestWhatNoRunCanHaveIsRefusedBeforeTheModel: which takes seconds. A command that was
// interrupted in it ends with 130.
func TestWhatNoRunCanHaveIsRefusedBeforeTheModel(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for args, want := range map[string]int{"-scale=NaN": 2, "-max-lag=-1s": 2, "-duration=0": 2, "-bin-dir=/nope": 1} {
		code, stdout, stderr := runLab(ctx, "size", "-latency=p50=80ms,p99=400ms", "-rate=200", "-validate", args)
		if code != want || stdout != "" || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%s: exit %d, stdout %q, stderr %q; want %d and one line", args, code, stdout, stderr, want)
		}
	}
}

// TestSizeShowsTheCallsThatNobodyServes: with fewer workers than calls in flight none is
// refused, and most are lost. Where none is abandoned, the tables do not ask.
func TestSizeShowsTheCallsThatNobodyServes(t *testing.T) {
	lost := sizing.Candidate{TimeoutMS: 3100, Permits: 20, Abandoned: sizing.Range{Nominal: 0.5, Low: 0.5, High: 0.5}, AbandonedAtHeadroom: sizing.Range{Nominal: 0.6, Low: 0.55, High: 0.7}}
	served := sizing.Candidate{TimeoutMS: 3100, Permits: 20}
	const title = "refused at +20 %  abandoned  abandoned at +20 %"
	for _, test := range []struct {
		candidates []sizing.Candidate
		want       string
		titles     int // in how many of the tables
	}{
		{[]sizing.Candidate{lost, served}, "50 %       60 % (55 % to 70 %)", 2},
		{[]sizing.Candidate{served}, "0 %", 0},
	} {
		var out bytes.Buffer
		printAdvice(&out, sizing.Advice{Asked: sizing.Asked{Workers: 20, Goals: sizing.Goals{Headroom: 0.2}}, Timeouts: []sizing.Candidate{served}, Permits: test.candidates}, "")
		if text := out.String(); strings.Count(text, title) != test.titles || !strings.Contains(text, test.want) {
			t.Errorf("%d candidates: want %q %d times and %q in:\n%s", len(test.candidates), title, test.titles, test.want, text)
		}
	}
}
