package engine

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"chokepoint/internal/result"
)

// resources is what the process has used since it started.
type resources struct {
	cpu, runQueueWait time.Duration
}

// usage reads the CPU time of the process, and the time that its threads were
// runnable and had no CPU. Threads that have ended are not in the latter.
func usage() resources {
	r := resources{cpu: processCPU()}
	tasks, err := filepath.Glob("/proc/self/task/*")
	if err != nil {
		return r
	}
	for _, task := range tasks {
		r.runQueueWait += schedstat(task).waited
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

// processCPU is the CPU time of the process, user and system.
func processCPU() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func threadID() int { return unix.Gettid() }

// timesOf is what a thread of this process has used, nothing if it has ended.
func timesOf(thread int) threadTime { return schedstat("/proc/self/task/" + strconv.Itoa(thread)) }

// schedstat reads the first two fields of a task's schedstat; both are 0 on a
// kernel without it.
func schedstat(task string) threadTime {
	text, err := os.ReadFile(task + "/schedstat")
	if err != nil {
		return threadTime{}
	}
	var t threadTime
	if _, err := fmt.Sscan(string(text), &t.ran, &t.waited); err != nil {
		return threadTime{}
	}
	return t
}
