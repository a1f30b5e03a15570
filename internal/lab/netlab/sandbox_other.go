//go:build !linux

package netlab

import (
	"context"
	"errors"

	"chokepoint/internal/cli"
)

// RunIn is for Linux only.
func RunIn(context.Context, Spec) (exitCode int, err error) {
	return cli.ExitFailure, &Unavailable{What: "network namespaces", Err: errors.ErrUnsupported, Remedy: "run the lab on Linux"}
}

// RunSandbox is for Linux only.
func RunSandbox([]string, func(ctx context.Context, args []string) int) int { return cli.ExitFailure }

// Inside is false: there are no sandboxes here.
func Inside() bool { return false }
