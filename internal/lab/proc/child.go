package proc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"chokepoint/internal/adminapi"
)

// killWait bounds the wait for a child that got SIGKILL. Only a process in an
// uninterruptible system call takes longer.
const killWait = 5 * time.Second

// linesInErrors is how many of a child's last log lines an error shows.
const linesInErrors = 5

// Child is a running or ended child process. Its methods may be called from any
// goroutine, at any time.
type Child struct {
	spec Spec
	cmd  *exec.Cmd
	pid  int
	log  *os.File
	// logFrom is where the log file ended before the child: others may have
	// written to it.
	logFrom int64
	out     *announcement // nil if the child does not announce
	done    chan struct{}

	mu      sync.Mutex
	reaped  bool // the pid may belong to somebody else from now on
	stopped bool // Stop was called before the child ended
	status  string
	err     error
	tail    []string // of the log, kept at the end: the file may be removed
	usage   Usage
}

// wait reaps the child, exactly once.
func (c *Child) wait() {
	if awaitExit(c.pid) {
		// The child is a zombie: its pid, and so the number of its group, still
		// belongs to it. This is the one safe moment to end what it left behind.
		c.mu.Lock()
		_ = syscall.Kill(-c.pid, syscall.SIGKILL)
		c.reaped = true
		c.mu.Unlock()
	}
	err := c.cmd.Wait()
	if errors.Is(err, exec.ErrWaitDelay) {
		err = nil // a grandchild held stdout; the child itself ended well
	}
	c.log.Close()

	c.mu.Lock()
	c.reaped = true
	c.err = err
	c.status = c.cmd.ProcessState.String()
	c.tail = tailLines(c.spec.LogPath, c.logFrom, tailKept)
	c.usage.CPUSeconds = (c.cmd.ProcessState.UserTime() + c.cmd.ProcessState.SystemTime()).Seconds()
	c.mu.Unlock()
	close(c.done)
}

// Name is the name from the Spec.
func (c *Child) Name() string { return c.spec.Name }

// PID is the child's process id, which is also that of its process group.
func (c *Child) PID() int { return c.pid }

// Done is closed when the child has ended and has been waited for.
func (c *Child) Done() <-chan struct{} { return c.done }

// Err is how the child ended: nil while it runs and after exit status 0, else an
// *exec.ExitError whose text is "exit status 1" or "signal: killed".
func (c *Child) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Status is "running", "exit status 0", "signal: killed" and the like.
func (c *Child) Status() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.status
}

// LastLog returns the last n lines of the child's log, without empty ones, the
// oldest first; fewer if there are fewer. What was in the file before the child
// started is not the child's. After the child's end it knows the
// last 50 of them even if the file is gone.
func (c *Child) LastLog(n int) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	lines := c.tail
	if !c.reaped {
		lines = tailLines(c.spec.LogPath, c.logFrom, n)
	}
	if len(lines) > n {
		lines = lines[len(lines)-n:]
	}
	return append([]string(nil), lines...)
}

// lastWords is the end of an error about the child: its last log lines, in one
// line.
func (c *Child) lastWords() string {
	lines := c.LastLog(linesInErrors)
	if len(lines) == 0 {
		return "it logged nothing"
	}
	return "its last log lines: " + strings.Join(lines, " | ")
}

// Listening waits for the line with which the child says that it listens. If
// the child ends first, or the context, the error has the child's last log
// lines. The Spec must say Announces.
func (c *Child) Listening(ctx context.Context) (adminapi.Listening, error) {
	if c.out == nil {
		return adminapi.Listening{}, fmt.Errorf("%s does not announce where it listens", c.spec.Name)
	}
	select {
	case <-c.out.found:
	case <-c.done:
	case <-ctx.Done():
		return adminapi.Listening{}, fmt.Errorf("%s did not say that it listens: %w; %s", c.spec.Name, context.Cause(ctx), c.lastWords())
	}
	select {
	case <-c.done:
		// Even if it announced itself before, the address is of no use any more.
		return adminapi.Listening{}, fmt.Errorf("%s ended at its start: %s; %s", c.spec.Name, c.Status(), c.lastWords())
	default:
	}
	c.out.mu.Lock()
	defer c.out.mu.Unlock()
	return c.out.listening, nil
}

// Signal sends sig to the child alone, not to its group. It returns
// os.ErrProcessDone if the child has ended.
func (c *Child) Signal(sig os.Signal) error { return c.cmd.Process.Signal(sig) }

// Stop ends the child and waits for its end: first the Spec's StopSignal to the
// child; after grace, or when the context ends, SIGKILL to its whole process
// group. It returns an error only if the child survives that. Stopping an ended
// child does nothing.
func (c *Child) Stop(ctx context.Context, grace time.Duration) error {
	select {
	case <-c.done:
		return nil
	default:
	}
	c.mu.Lock()
	c.stopped = !c.reaped || c.stopped
	c.mu.Unlock()
	if grace > 0 && c.Signal(c.spec.StopSignal) == nil {
		timer := time.NewTimer(grace)
		defer timer.Stop()
		select {
		case <-c.done:
			return nil
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	c.kill()
	timer := time.NewTimer(killWait)
	defer timer.Stop()
	select {
	case <-c.done:
		return nil
	case <-timer.C:
		return fmt.Errorf("%s (pid %d) has not ended %s after SIGKILL", c.spec.Name, c.pid, killWait)
	}
}

// kill sends SIGKILL to the child's process group, unless the number might be
// somebody else's by now.
func (c *Child) kill() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.reaped {
		_ = syscall.Kill(-c.pid, syscall.SIGKILL)
	}
}

// endedByItself says whether the child ended before anybody called Stop.
func (c *Child) endedByItself() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.reaped && !c.stopped
}
