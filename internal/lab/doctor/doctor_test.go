package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"chokepoint/internal/cli"
	"chokepoint/internal/lab/netlab"
)

// What this test binary does in a sandbox instead of its tests.
const (
	insideArg  = "inside"
	brokenArg  = "broken"
	partialArg = "partial"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == netlab.SandboxArg {
		os.Exit(netlab.RunSandbox(os.Args[2:], inSandbox))
	}
	// Under the race detector each process of a sandbox would end with a second's
	// wait for the reports of other threads.
	_ = os.Setenv("GORACE", strings.TrimSpace(os.Getenv("GORACE")+" atexit_sleep_ms=0"))
	os.Exit(m.Run())
}

func inSandbox(ctx context.Context, args []string) int {
	switch args[0] {
	case insideArg:
		if err := Inside(ctx, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return cli.ExitFailure
		}
		return cli.ExitOK
	case partialArg:
		_ = json.NewEncoder(os.Stdout).Encode(networkChecks[0].find(ctx))
	}
	fmt.Fprintln(os.Stderr, "it broke")
	return cli.ExitFailure
}

// needSandbox skips a test where there is none, with the reason.
func needSandbox(t *testing.T, findings []Finding) {
	t.Helper()
	if f := findings[0]; f.Name != "sandbox" || f.Problem != "" && !strings.HasPrefix(f.Problem, "it ended with code") {
		t.Skipf("%s: %s; %s", f.Name, f.Problem, f.Remedy)
	}
}

// Where there is a sandbox, this kernel has what the lab's own tests need.
func TestNetworks(t *testing.T) {
	findings := networks(t.Context(), []string{insideArg})
	needSandbox(t, findings)
	if len(findings) != 1+len(networkChecks) {
		t.Errorf("%d findings, want the sandbox and %d checks", len(findings), len(networkChecks))
	}
	for i, f := range findings {
		if !f.OK || f.Found == "" || f.Problem != "" {
			t.Errorf("%+v", f)
		}
		if i > 0 && f.Name != networkChecks[i-1].name {
			t.Errorf("%q comes after %q", f.Name, findings[i-1].Name)
		}
	}
}

func TestASandboxThatBreaks(t *testing.T) {
	for arg, tried := range map[string]int{brokenArg: 0, partialArg: 1} {
		findings := networks(t.Context(), []string{arg})
		needSandbox(t, findings)
		if f := findings[0]; f.OK || f.Problem != "it ended with code 1: it broke" || f.Remedy == "" {
			t.Errorf("%s: %+v", arg, f)
		}
		if len(findings) != 1+len(networkChecks) {
			t.Fatalf("%s: %d findings, want the sandbox and %d checks", arg, len(findings), len(networkChecks))
		}
		for i, f := range findings[1:] {
			if f.OK != (i < tried) || !f.OK && f.Problem != notTried {
				t.Errorf("%s: %+v", arg, f)
			}
		}
	}
}

func TestFind(t *testing.T) {
	unavailable := &netlab.Unavailable{What: "queue", Err: errors.New("first\nsecond"), Remedy: "load it"}
	for name, tc := range map[string]struct {
		try  func(context.Context) (string, error)
		want Finding
	}{
		"found":              {func(context.Context) (string, error) { return "1.22.1", nil }, Finding{OK: true, Found: "1.22.1"}},
		"missing":            {func(context.Context) (string, error) { return "", errors.New("not there\nat all") }, Finding{Problem: "not there; at all", Remedy: "install it"}},
		"has its own remedy": {func(context.Context) (string, error) { return "", fmt.Errorf("try: %w", unavailable) }, Finding{Problem: "no queue: first; second", Remedy: "load it"}},
	} {
		check := check{name: name, neededFor: "everything", remedy: "install it", try: tc.try}
		tc.want.Name, tc.want.NeededFor = name, "everything"
		if diff := cmp.Diff(tc.want, check.find(t.Context())); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// A try that never ends is given up.
func TestATryThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		defer close(release)
		check := check{remedy: "restart", try: func(context.Context) (string, error) { <-release; return "", nil }}
		want := Finding{Problem: "no answer within 10s", Remedy: "restart"}
		if diff := cmp.Diff(want, check.find(t.Context())); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	})
}

func TestEveryCheckSaysWhatItIsForAndWhatToDo(t *testing.T) {
	names := map[string]bool{}
	for _, c := range append(append(networkChecks, programChecks...), limitChecks...) {
		if c.name == "" || c.neededFor == "" || c.remedy == "" || strings.Contains(c.remedy, "\n") || names[c.name] {
			t.Errorf("check %+v", c)
		}
		names[c.name] = true
	}
}

func TestExamine(t *testing.T) {
	t.Setenv("DATABASE_URL", "postgres://somewhere")
	t.Setenv("PATH", t.TempDir())
	report, err := Examine(t.Context(), []string{insideArg})
	if err != nil || report.UID != os.Geteuid() {
		t.Errorf("%+v, %v", report, err)
	}
	if want := 1 + len(networkChecks) + len(programChecks) + len(limitChecks); len(report.Checks) != want {
		t.Errorf("%d checks, want %d", len(report.Checks), want)
	}
	for _, f := range report.Checks {
		switch f.Name {
		case "PostgreSQL":
			if !f.OK || f.Found != "the server that DATABASE_URL names" {
				t.Errorf("%+v", f)
			}
		case "Chromium": // in /usr/bin, which the PATH has not
			if f.OK || !strings.Contains(f.Problem, "Chromium is not installed") || f.Remedy != "on Debian: apt-get install chromium" {
				t.Errorf("%+v", f)
			}
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Examine(ctx, []string{insideArg}); !errors.Is(err, context.Canceled) {
		t.Errorf("with its context at an end: %v", err)
	}
}
