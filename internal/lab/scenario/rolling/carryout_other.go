//go:build !linux

package rolling

import (
	"context"

	"chokepoint/internal/lab/netlab"
	"chokepoint/internal/result"
)

// run refuses: without a sandbox there are no hosts.
func (cell) run(ctx context.Context, _ string, _ *result.Case) error {
	_, err := netlab.RunIn(ctx, netlab.Spec{})
	return err
}
