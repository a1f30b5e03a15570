package world

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"chokepoint/internal/lab/proc"
)

const (
	// usageEvery is how often a load generator's use is read: when it has ended,
	// nobody can any more.
	usageEvery = 500 * time.Millisecond
	// signalWait bounds the wait for a container that is still being started.
	signalWait = 15 * time.Second
	// exitKilled is the exit status that the engine gives a program that SIGKILL
	// ended: 128 + 9.
	exitKilled = 137
)

// StartLoad implements World. The child of the lab is "compose run", which ends
// with the container's exit code.
func (w *Compose) StartLoad(ctx context.Context, args []string) (Load, error) {
	w.loads++
	name := fmt.Sprintf("%s-loadgen-%d", w.project, w.loads)
	argv := append(w.composeArgs(), "run", "--rm", "-T", "--no-deps", "--name", name, "loadgen")
	child, err := w.launcher.Start(ctx, proc.Spec{
		Name: "loadgen", Path: argv[0], Args: append(argv[1:], args...), LogPath: w.logPath("loadgen"),
	})
	if err != nil {
		return nil, err
	}
	l := &composeLoad{Child: child, engine: w.engine, container: name, err: errNotSeen}
	go l.watchUsage()
	return l, nil
}

// errNotSeen is the use of a load generator before its first reading.
var errNotSeen = errors.New("the load generator's container has not been seen yet")

// composeLoad is a load generator in a container.
type composeLoad struct {
	*proc.Child
	engine    *engine
	container string // its name

	mu    sync.Mutex
	usage proc.Usage
	err   error // of the last reading, if there was none before
}

// ExitCode implements Load.
func (l *composeLoad) ExitCode() int {
	err, ok := errors.AsType[*exec.ExitError](l.Err())
	if !ok {
		return 0
	}
	if code := err.ExitCode(); code != exitKilled {
		return code
	}
	return -1
}

// Interrupt implements Load. Compose would stop the container instead of passing
// a signal on, so the engine is asked.
func (l *composeLoad) Interrupt() error {
	ctx, cancel := context.WithTimeoutCause(context.Background(), signalWait, errors.New("the load generator's container does not start"))
	defer cancel()
	return l.signal(ctx, "INT")
}

// signal waits for the container to run, if need be, and sends a signal.
func (l *composeLoad) signal(ctx context.Context, signal string) error {
	for {
		_, err := l.engine.ask(ctx, "kill", "--signal", signal, l.container)
		if err == nil {
			return nil
		}
		select {
		case <-l.Done():
			return os.ErrProcessDone
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		case <-time.After(readyEvery):
		}
	}
}

// Stop implements Load.
func (l *composeLoad) Stop(ctx context.Context) error {
	stopping, cancel := context.WithTimeout(ctx, stopGrace)
	defer cancel()
	if err := l.signal(stopping, "INT"); err == nil {
		select {
		case <-l.Done():
			return nil
		case <-stopping.Done():
		}
	}
	// Without its container, compose ends.
	_, killErr := l.engine.ask(context.WithoutCancel(ctx), "rm", "--force", "--volumes", l.container)
	if err := l.Child.Stop(ctx, stopGrace); err != nil {
		return errors.Join(err, killErr)
	}
	return nil
}

// Usage implements Load: the last reading of the generator itself, not of the
// compose program.
func (l *composeLoad) Usage() (proc.Usage, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.usage, l.err
}

// watchUsage reads what the generator has used until it ends.
func (l *composeLoad) watchUsage() {
	ticker := time.NewTicker(usageEvery)
	defer ticker.Stop()
	var c container
	for {
		select {
		case <-l.Done():
			return
		case <-ticker.C:
		}
		if c.State.Pid == 0 {
			var err error
			if c, err = l.engine.inspect(context.Background(), l.container); err != nil || c.State.Pid == 0 {
				continue
			}
		}
		u, err := c.usage()
		l.mu.Lock()
		if err == nil {
			l.usage, l.err = u, nil
		} else if l.usage == (proc.Usage{}) {
			l.err = err
		}
		l.mu.Unlock()
	}
}

// usage reads what the container's main process has used, if it can be seen from
// here: not where the engine runs in a virtual machine.
func (c container) usage() (proc.Usage, error) {
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(c.State.Pid), "cgroup"))
	if err != nil {
		return proc.Usage{}, err
	}
	// A control group named like the container proves that the pid is its own.
	if c.ID == "" || !bytes.Contains(data, []byte(c.ID)) {
		return proc.Usage{}, fmt.Errorf("process %d is not that of container %s", c.State.Pid, c.ID)
	}
	return proc.ReadUsage(c.State.Pid)
}
