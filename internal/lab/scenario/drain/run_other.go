//go:build !linux

package drain

import (
	"context"

	"chokepoint/internal/lab/netlab"
)

// Database is for Linux only.
type Database struct{}

// Carry refuses: without a sandbox there are no hosts.
func Carry(ctx context.Context, _ Programs, _ *Database, _ Setup, _ string) (Outcome, error) {
	_, err := netlab.RunIn(ctx, netlab.Spec{})
	return Outcome{}, err
}
