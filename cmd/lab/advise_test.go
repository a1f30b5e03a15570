package main

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"chokepoint/internal/evidence/draining"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func TestAdviseRefuses(t *testing.T) {
	const asked = "drain -response p50=80ms,p99=4s -propagation 60s "
	for args, want := range map[string]string{
		"":                                     "name what to advise on",
		"soup":                                 `name what to advise on: lab advise drain [flags]; there is no "soup"`,
		"drain":                                "-response or -from is missing",
		"drain -response 1s":                   "-propagation is missing",
		asked + "more":                         `unexpected argument "more"`,
		asked + "-from x.hlog":                 "-response and -from both say",
		asked + "-endpoint work":               "-endpoint is one of -from",
		asked + "-propagation -1s":             "-propagation -1s: want 0s to",
		asked + "-propagation -1ns":            "-propagation -1ns: want 0s to",
		asked + "-rate Inf":                    "-rate +Inf: want more than 0 and at most 1e+09",
		asked + "-max-cut 2":                   "-response: max-cut 2: want a share",
		asked + "-terminate":                   "-terminate acts when the deregistration delay is over",
		"drain -response soon -propagation 1s": `-response: delay "soon"`,
		"drain -from nowhere.hlog -propagation 0": "-from: open nowhere.hlog",
	} {
		code, stdout, stderr := runLab(t.Context(), append([]string{"advise"}, strings.Fields(args)...)...)
		if code != 2 || stdout != "" || !strings.HasPrefix(stderr, "lab: "+want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%s: exit %d, stdout %q, stderr %q; want one line with %q", args, code, stdout, stderr, want)
		}
	}
}

// TestAdvise: the whole text is committed, and -json has the same numbers.
func TestAdvise(t *testing.T) {
	args := strings.Fields("advise drain -response p50=80ms,p99=4s,max=30s -propagation 60s -deregistration-delay 120s -keepalive-idle 60s")
	code, text, stderr := runLab(t.Context(), args...)
	if code != 0 || stderr != "" {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	golden := filepath.Join("testdata", "advise-drain.txt")
	if *update {
		if err := os.WriteFile(golden, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), text); diff != "" {
		t.Errorf("go test -update rewrites it (-want +got)\n%s", diff)
	}
	code, encoded, _ := runLab(t.Context(), append(args, "-json")...)
	var advice draining.Advice
	if err := json.Unmarshal([]byte(encoded), &advice); err != nil || code != 0 {
		t.Fatalf("-json: exit %d, %v", code, err)
	}
	for _, p := range advice.Products {
		if p.Recommended.PreStopS != 120 || !strings.Contains(text, strings.SplitN(p.Snippet, "\n", 2)[0]) {
			t.Errorf("%s: %+v", p.Name, p.Recommended)
		}
	}
}

// TestAdviseWithoutPropagation: nothing to wait for is no hook that waits for 0 seconds,
// which Kubernetes before 1.33 rejects.
func TestAdviseWithoutPropagation(t *testing.T) {
	code, text, stderr := runLab(t.Context(), strings.Fields("advise drain -response 10s -propagation 0s")...)
	if code != 0 || stderr != "" {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	if strings.Contains(text, "preStop") || strings.Contains(text, "grace 0s") || strings.Count(text, "  terminationGracePeriodSeconds: 23\n") != 8 {
		t.Errorf("want no preStop, and the grace period in the settings and in the snippet of four products:\n%s", text)
	}
}
