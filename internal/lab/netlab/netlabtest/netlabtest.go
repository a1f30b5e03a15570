// Package netlabtest runs the tests of a package in a sandbox of package netlab,
// where they may make hosts.
package netlabtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"chokepoint/internal/cli"
	"chokepoint/internal/lab/netlab"
)

// reason is why there is no sandbox; empty if the tests run in one.
var reason string

// Main is what a TestMain exits with: it runs the package's tests in a sandbox,
// with the flags that go test gave. Where no sandbox can be had the tests run
// outside, and those that call Need are skipped.
func Main(m *testing.M) int {
	if len(os.Args) > 1 && os.Args[1] == netlab.SandboxArg {
		return netlab.RunSandbox(os.Args[2:], func(_ context.Context, args []string) int {
			os.Args = append(os.Args[:1], args...)
			return m.Run()
		})
	}
	// Under the race detector each process of a sandbox would end with a second's
	// wait for the reports of other threads.
	_ = os.Setenv("GORACE", strings.TrimSpace(os.Getenv("GORACE")+" atexit_sleep_ms=0"))
	code, err := netlab.RunIn(context.Background(), netlab.Spec{Args: os.Args[1:], Stdout: os.Stdout, Stderr: os.Stderr})
	var unavailable *netlab.Unavailable
	switch {
	case errors.As(err, &unavailable):
		reason = err.Error()
		return m.Run()
	case err != nil:
		fmt.Fprintln(os.Stderr, err)
		return cli.ExitFailure
	}
	return code
}

// Need skips a test that makes hosts where no sandbox can be had, with the
// reason. The package's TestMain must have called Main.
func Need(t testing.TB) {
	t.Helper()
	if !netlab.Inside() {
		t.Skip(reason)
	}
}
