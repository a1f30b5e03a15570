//go:build !linux

package engine

import "time"

// Limits are only read on Linux; elsewhere the run itself shows what is missing.

func raiseFileLimit() int { return 0 }

func localPorts() int { return 0 }

func timeWaits() (any, loopback time.Duration) { return 0, 0 }

func availableMemory() int64 { return 0 }
