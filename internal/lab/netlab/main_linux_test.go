package netlab_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	"chokepoint/internal/cli"
	"chokepoint/internal/lab/netlab"
	"chokepoint/internal/lab/netlab/netlabtest"
)

// The test binary is also a lab: outerArg makes it the one outside, that runs
// the act which its next argument names in a sandbox; actArg is what that one
// is called inside. plainArg makes it a program that asks for a lab outside.
const (
	outerArg = "outer"
	actArg   = "act"
	plainArg = "plain"
)

func TestMain(m *testing.M) {
	switch {
	case len(os.Args) > 2 && os.Args[1] == outerArg:
		os.Exit(outer(os.Args[2:]))
	case len(os.Args) > 1 && os.Args[1] == plainArg:
		_, err := netlab.New()
		fmt.Println(err)
		os.Exit(cli.ExitOK)
	case len(os.Args) > 3 && os.Args[1] == netlab.SandboxArg && os.Args[3] == actArg:
		os.Exit(netlab.RunSandbox(os.Args[2:], act))
	}
	os.Exit(netlabtest.Main(m))
}

// outer runs an act in a sandbox. Its exit code is the act's, or 3 if there can
// be no sandbox.
func outer(args []string) int {
	if args[0] == "filtered" {
		if err := forbidNamespaces(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return cli.ExitFailure
		}
	}
	code, err := netlab.RunIn(context.Background(), netlab.Spec{
		Args: append([]string{actArg}, args...), Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		if unavailable := (*netlab.Unavailable)(nil); errors.As(err, &unavailable) {
			return cli.ExitInvalid
		}
		return cli.ExitFailure
	}
	return code
}
