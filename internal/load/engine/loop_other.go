//go:build !linux

package engine

import (
	"context"
	"fmt"
)

// loopSupported says that this system has the loop's epoll.
const loopSupported = false

func newLoopEngine(context.Context, Config) (Engine, error) {
	return nil, fmt.Errorf("engine %s runs on Linux only; choose %s", Loop, Goroutines)
}
