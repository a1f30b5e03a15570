package engine

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"chokepoint/internal/result"
)

// resources is what the process has used since it started.
type resources struct {
	cpu, runQueueWait time.Duration
}

// usage reads the CPU time of the process, and the time that its threads were
// runnable and had no CPU (the second field of schedstat; 0 on a kernel without
// it). Threads that have ended are not in the sum.
func usage() resources {
	var r resources
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) == nil {
		r.cpu = time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	tasks, err := filepath.Glob("/proc/self/task/*/schedstat")
	if err != nil {
		return r
	}
	for _, task := range tasks {
		var ran, waited time.Duration
		if text, err := os.ReadFile(task); err == nil {
			if _, err := fmt.Sscan(string(text), &ran, &waited); err == nil {
				r.runQueueWait += waited
			}
		}
	}
	return r
}

func (r resources) since(before resources) result.Child {
	return result.Child{
		Name:           "loadgen",
		CPUSeconds:     (r.cpu - before.cpu).Seconds(),
		RunQueueWaitMS: max(0, (r.runQueueWait-before.runQueueWait).Seconds()*1000),
	}
}
