//go:build !linux

package engine

import (
	"time"

	"chokepoint/internal/result"
)

// resources is what the process has used, which is only read on Linux.
type resources struct{}

func usage() resources { return resources{} }

func (resources) since(resources) result.Child { return result.Child{Name: "loadgen"} }

func processCPU() time.Duration { return 0 }

func threadID() int { return 0 }

func timesOf(int) threadTime { return threadTime{} }
