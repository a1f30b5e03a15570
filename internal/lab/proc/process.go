package proc

import (
	"context"
	"os"
	"slices"
	"syscall"
	"time"
)

// Usage is what a process has used since it started.
type Usage struct {
	CPUSeconds float64 // user + system
	// RunQueueWait is how long its threads were ready to run and had no CPU: what
	// tells a crowded machine from a slow program. 0 where the system does not
	// say.
	RunQueueWait time.Duration
}

// Usage returns what the child has used: from /proc while it runs (Linux only,
// else errors.ErrUnsupported), from its exit status afterwards, together with
// the run-queue wait of the last call before.
func (c *Child) Usage() (Usage, error) {
	select {
	case <-c.done:
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.usage, nil
	default:
	}
	u, err := readUsage(c.pid)
	if err != nil {
		return Usage{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.usage.RunQueueWait < u.RunQueueWait {
		c.usage.RunQueueWait = u.RunQueueWait
	}
	return u, nil
}

// ReadUsage returns what a process has used that is no child of the lab, such as
// a container's. Whoever asks must know that the pid is still that process's.
// Linux only, else errors.ErrUnsupported.
func ReadUsage(pid int) (Usage, error) { return readUsage(pid) }

// folderPrograms are the programs that the lab runs inside its folders.
var folderPrograms = []string{"postgres", "initdb"}

func runsInFolders(name string) bool { return slices.Contains(folderPrograms, name) }

// process is a process that is known by more than its pid.
type process struct {
	PID   int    `json:"pid"`
	Start string `json:"start"` // see startTime
	name  string
}

// alive says whether this very process still runs.
func (p process) alive() bool { return p.Start != "" && startTime(p.PID) == p.Start }

// signal sends sig to this very process, or to nobody.
func (p process) signal(sig syscall.Signal) {
	// Where the system has it, os.FindProcess holds the process itself (a pidfd):
	// if the identity is right after that, the signal cannot go astray.
	handle, err := os.FindProcess(p.PID)
	if err != nil {
		return
	}
	defer func() { _ = handle.Release() }()
	if p.alive() {
		_ = handle.Signal(sig)
	}
}

const (
	// pollEvery is how often a dying process or a folder is looked at again.
	pollEvery = 20 * time.Millisecond
	// quitGrace is how long PostgreSQL may take to end by SIGQUIT before SIGKILL.
	quitGrace = 3 * time.Second
)

// sleep waits for d and returns false if the context ends first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
