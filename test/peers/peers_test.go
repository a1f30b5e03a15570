//go:build linux

package main

import (
	"bytes"
	"context"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chokepoint/internal/cli"
	"chokepoint/internal/result"
	"chokepoint/test/peers/refserver"
)

func TestScheduleError(t *testing.T) {
	ms := func(values ...float64) []time.Duration {
		var all []time.Duration
		for _, v := range values {
			all = append(all, time.Duration(v*float64(time.Millisecond)))
		}
		return all
	}
	for _, test := range []struct {
		name     string
		arrivals []time.Duration
		want     sample
	}{
		{"none", nil, sample{}},
		{"on time", ms(5, 105, 205, 305), sample{ArrivedPercent: 100}},
		{"the second is late", ms(5, 145, 205, 305), sample{ArrivedPercent: 100, ErrorP99MS: 40}},
		// The first cannot have been early, so all others are late.
		{"all but one are late", ms(0, 140, 240, 340), sample{ArrivedPercent: 100, ErrorP50MS: 40, ErrorP99MS: 40}},
		{"half the rate", ms(0, 200), sample{ArrivedPercent: 50, ErrorP99MS: 100}},
		{"one after the window", ms(0, 100, 200, 501), sample{ArrivedPercent: 75, ErrorP99MS: 201}},
	} {
		var got sample
		got.schedule(test.arrivals, load{rate: 10, duration: 400 * time.Millisecond})
		if diff := cmp.Diff(test.want, got, cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) < 1e-6 })); diff != "" {
			t.Errorf("%s:\n%s", test.name, diff)
		}
	}
}

// TestAccounts reads what each tool printed, cut to what matters.
func TestAccounts(t *testing.T) {
	for _, test := range []struct {
		name    string
		account func(output) (account, error)
		stdout  string
		file    string
		exit    int
		want    account
	}{
		{"wrk", wrkAccount, "  Latency Distribution\n     50%  128.00us\n     90%    1.43ms\n     99%   11.07ms\n  44819 requests in 1.00s, 2.82MB read\n", "", 0,
			account{Requests: 44819, P90MS: 1.43, P99MS: 11.07}},
		{"wrk2", wrkAccount, " 90.000%    3.00s \n 99.000%   4.80s \n 99.900%   4.90s \n  3960 requests in 20.00s, 2.82MB read\n", "", 0,
			account{Requests: 3960, P90MS: 3000, P99MS: 4800}},
		{"h2load", h2loadAccount, "requests: 200 total, 210 started, 198 done, 198 succeeded, 2 failed, 0 errored, 0 timeout\n", "", 0,
			account{Requests: 198, Note: "210 started, 2 failed; no percentiles"}},
		{"bombardier", bombardierAccount, `{"result":{"req1xx":0,"req2xx":200,"req3xx":0,"req4xx":0,"req5xx":1,"others":7,"latency":{"percentiles":{"50":112,"90":215,"99":2131}}}}`, "", 0,
			account{Requests: 208, P90MS: 0.215, P99MS: 2.131}},
		{"hey", heyAccount, "  90%% in 0.0011 secs\n  99%% in 0.0018 secs\n\nStatus code distribution:\n  [200]\t100 responses\n  [503]\t2 responses\n\nError distribution:\n  [3]\tGet \"http://x/\": timeout\n", "", 0,
			account{Requests: 105, P90MS: 1.1, P99MS: 1.8}},
		{"fortio", fortioAccount, "", `{"DurationHistogram":{"Count":100,"Percentiles":[{"Percentile":90,"Value":0.5},{"Percentile":99,"Value":0.75}]}}`, 0,
			account{Requests: 100, P90MS: 500, P99MS: 750}},
		{"k6", k6Account, "", `{"http_reqs":{"values":{"count":2400}},"http_req_duration":{"values":{"p(90)":1.5,"p(99)":2.5}},"dropped_iterations":{"values":{"count":60}}}`, 0,
			account{Requests: 2400, P90MS: 1.5, P99MS: 2.5, Note: "60 dropped"}},
	} {
		o := output{stdout: []byte(test.stdout), dir: t.TempDir(), exit: test.exit}
		if test.file != "" {
			if err := os.WriteFile(filepath.Join(o.dir, resultFile), []byte(test.file), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		got, err := test.account(o)
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
		}
		if diff := cmp.Diff(test.want, got, cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) < 1e-9 })); diff != "" {
			t.Errorf("%s:\n%s", test.name, diff)
		}
		// A report that is none is an error, or an account of nothing.
		if got, err := test.account(output{stdout: []byte("?"), dir: t.TempDir()}); err == nil && got.Requests != 0 {
			t.Errorf("%s: %+v of no report", test.name, got)
		}
	}
}

func TestLoadgenAccount(t *testing.T) {
	dir := t.TempDir()
	l := result.Load{Schema: result.LoadSchema, Validity: result.Validity{Reasons: []string{"url: 2 of 12 arrivals were dropped"}}, Endpoints: map[string]result.Endpoint{"url": {
		Planned: 12, Scheduled: 12, Dropped: 2, Started: 10, OK: 6, Timeout: 1, Interrupted: 3,
		Response: result.Percentiles{P90: 30, P95: 40, P99: 48, Max: 50, Count: 7},
	}}}
	if err := result.WriteJSON(filepath.Join(dir, resultFile), l); err != nil {
		t.Fatal(err)
	}
	got, err := loadgenAccount(output{dir: dir, exit: cli.ExitInvalid})
	want := account{Requests: 10, P90MS: 30, P99MS: 48, Note: "INVALID: url: 2 of 12 arrivals were dropped, 2 dropped, 3 interrupted"}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("error %v\n%s", err, diff)
	}
}

// TestEveryCellHasACommand: each cell of both scopes has a label of its own and
// flags that hold its load.
func TestEveryCellHasACommand(t *testing.T) {
	var found []installed
	b := &bench{tools: map[string]installed{}, dir: t.TempDir()}
	for _, tool := range tools("bin/loadgen") {
		found = append(found, installed{tool: tool})
		b.tools[tool.name] = found[len(found)-1]
	}
	for _, s := range []scope{full, short} {
		for _, p := range s.parts(found) {
			labels := map[string]bool{}
			for _, c := range p.cells {
				if labels[c.label] {
					t.Errorf("%s: two rows are labelled %q", p.name, c.label)
				}
				labels[c.label] = true
				if c.load.connections < 1 || c.load.duration < time.Second || c.load.timeout < time.Second {
					t.Errorf("%s: %s has the load %+v", p.name, c.label, c.load)
				}
				if args := b.arguments(c); !strings.Contains(args, "URL") && !strings.Contains(args, "DIR/") {
					t.Errorf("%s: %s runs %q, which has no target", p.name, c.label, args)
				}
			}
			for _, g := range p.goals(medians{}) {
				if g.Met {
					t.Errorf("%s: %q is met by nothing", p.name, g.What)
				}
			}
		}
	}
}

func TestMediansLeaveFailuresOut(t *testing.T) {
	m := medians{
		loadgen:  {{Arrived: 1e6, CPUSeconds: 9}},
		"vegeta": {{Arrived: 1e6, ArrivedPercent: 100, CPUSeconds: 5}, {Failed: "exit status 1"}, {Arrived: 1e6, ArrivedPercent: 100, CPUSeconds: 7}},
		"wrk2":   {{Arrived: 9e5, ArrivedPercent: 90, CPUSeconds: 1}},
		"wrk":    {{Failed: "exit status 1"}},
	}
	if got := m.of("vegeta", cpuPerMillion); got != 6 {
		t.Errorf("median %v, want 6", got)
	}
	if got := m.of("wrk", cpuPerMillion); !math.IsNaN(got) {
		t.Errorf("median %v of failures, want none", got)
	}
	if got, whose := m.least(cpuPerMillion); got != 6 || whose != "vegeta" {
		t.Errorf("least %v of %q, want 6 of vegeta", got, whose)
	}
}

// TestASmallBench runs the reference generator and a tool that is not one against
// the server, as the whole does.
func TestASmallBench(t *testing.T) {
	self := build(t)
	generatorCPU, serverCPU, _ := twoCPUs() // one is enough here
	failing := &tool{name: "failing", program: "false", open: true, command: func(load) ([]string, error) { return nil, nil }}
	b := &bench{
		tools: map[string]installed{roleSpinref: {tool: tools("")[0], path: self}, "failing": {tool: failing, path: "false"}},
		self:  self, dir: t.TempDir(), serverCPU: serverCPU, generatorCPU: generatorCPU,
	}
	l := load{rate: 100, duration: time.Second, connections: 10, timeout: time.Second}
	p := part{name: "small", cells: []cell{{label: "spinref", tool: roleSpinref, load: l}, {label: "failing", tool: "failing", load: l}}}
	samples, err := b.rounds(t.Context(), p, 1, &bytes.Buffer{})
	if err != nil {
		t.Fatal(err)
	}
	s := samples["spinref"][0]
	if s.Failed != "" || s.Arrived != 100 || s.ArrivedPercent <= 0 || s.CPUSeconds <= 0 || s.PeakKB <= 0 {
		t.Errorf("spinref: %+v", s)
	}
	if f := samples["failing"][0]; !strings.HasPrefix(f.Failed, "exit status 1") {
		t.Errorf("failing: %+v", f)
	}
	if left, _ := os.ReadDir(b.dir); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.run(ctx, p.cells[0]); err != context.Canceled {
		t.Errorf("error %v of a bench that was interrupted", err)
	}
}

func TestUsage(t *testing.T) {
	for args, want := range map[string]string{
		"-only cooking": `-only "cooking": the parts are pacing,`,
		"-rounds 0":     "-rounds 0: give one or more",
		"wrk":           `unexpected argument "wrk"`,
	} {
		var stdout, stderr bytes.Buffer
		if code := run(t.Context(), strings.Fields(args), &stdout, &stderr); code != cli.ExitUsage || !strings.Contains(stderr.String(), want) {
			t.Errorf("%s: exit code %d, %q; want %q", args, code, stderr.String(), want)
		}
	}
	var stdout, stderr bytes.Buffer
	missing := []string{"-netns=false", "-loadgen", filepath.Join(t.TempDir(), "none")}
	if code := run(t.Context(), missing, &stdout, &stderr); code != cli.ExitFailure || strings.Count(stderr.String(), "\n") != 1 || !strings.Contains(stderr.String(), "make build") {
		t.Errorf("without loadgen: exit code %d, %q", code, stderr.String())
	}
}

func TestArrivalsRoundTrip(t *testing.T) {
	want := []time.Duration{0, 1, time.Hour}
	var b bytes.Buffer
	if err := refserver.WriteArrivals(&b, want); err != nil {
		t.Fatal(err)
	}
	got, err := refserver.ReadArrivals(b.Bytes())
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("error %v\n%s", err, diff)
	}
	if _, err := refserver.ReadArrivals(b.Bytes()[:9]); err == nil {
		t.Error("half a number is no error")
	}
}

// build makes the program, which a bench runs itself in two roles.
func build(t *testing.T) string {
	t.Helper()
	self := filepath.Join(t.TempDir(), "peers")
	if text, err := exec.Command("go", "build", "-o", self, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return self
}

// TestAnInterruptedBenchKeepsWhatItHas: a report without parts, but whole.
func TestAnInterruptedBenchKeepsWhatItHas(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	dir := t.TempDir()
	var stdout, stderr bytes.Buffer
	code := run(ctx, []string{"-netns=false", "-loadgen", build(t), "-results", dir}, &stdout, &stderr)
	if code != cli.ExitInterrupted || !strings.Contains(stdout.String(), "Interrupted: only the parts") {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, &stdout, &stderr)
	}
	if files, _ := os.ReadDir(dir); len(files) != 2 {
		t.Errorf("files %v, want the tables twice", files)
	}
}
