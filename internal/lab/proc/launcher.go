// Package proc starts, watches and ends the child processes of the lab, and
// makes sure that none of them, and none of the lab's temporary folders,
// outlives it: not after a normal end, not after Ctrl-C, not after SIGKILL.
//
// Four things work together:
//
//   - Every child has a process group of its own, so that a Ctrl-C in the
//     terminal reaches the lab alone, which then ends its children in order.
//   - On Linux every child gets a parent-death signal. The kernel sends it when
//     the thread that forked the child ends (prctl(2), PR_SET_PDEATHSIG), so a
//     Launcher starts all children from one locked OS thread.
//   - A Reaper, a second process of the lab's own binary in a session of its
//     own, waits for the lab to be gone and then ends what is left, runs the
//     lab's last commands and removes the folders. It is what guards systems
//     without a parent-death signal, and what is no child of the lab.
//   - Sweep, at the next start, removes the folders of labs that died together
//     with their reaper.
//
// The package refuses to signal a process that it cannot identify: a pid alone
// is never enough, since the system reuses them. It does not restart anything,
// and it does not know what its children do.
package proc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// environmentPrefix marks the variables that set the flags of the lab. The lab
// hands its children flags; a variable that leaked through would set theirs.
const environmentPrefix = "CHOKEPOINT_"

// outputDelay bounds the wait for the end of a child's standard output after
// the child itself has ended: a grandchild may still hold the pipe.
const outputDelay = time.Second

// errClosed is returned by Start after Close.
var errClosed = errors.New("the launcher is closed")

// Spec says what to start.
type Spec struct {
	// Name is what errors and reports call the child.
	Name string
	// Path is the program; Args are its arguments, without the program's name.
	Path string
	Args []string
	// Env is the whole environment; nil means that of the lab. Variables that
	// begin with CHOKEPOINT_ are taken out of either.
	Env []string
	// Dir is the working folder; empty means that of the lab.
	Dir string
	// User is whom the child runs as; nil means the user of the lab.
	User *syscall.Credential
	// LogPath is the file that gets the child's stderr and stdout. It is
	// created, or appended to. Required.
	LogPath string
	// Announces says that the child prints an adminapi.Listening line on stdout,
	// which Child.Listening waits for.
	Announces bool
	// DeathSignal is what the child gets when the lab dies; 0 means SIGKILL.
	DeathSignal syscall.Signal
	// StopSignal is what Child.Stop sends first; 0 means SIGTERM.
	StopSignal syscall.Signal
}

func (s Spec) withDefaults() Spec {
	if s.DeathSignal == 0 {
		s.DeathSignal = syscall.SIGKILL
	}
	if s.StopSignal == 0 {
		s.StopSignal = syscall.SIGTERM
	}
	if s.Env == nil {
		s.Env = os.Environ()
	}
	s.Env = withoutLabVariables(s.Env)
	return s
}

func (s Spec) validate() error {
	switch {
	case s.Name == "":
		return errors.New("start a child: it has no name")
	case s.Path == "":
		return fmt.Errorf("start %s: no program given", s.Name)
	case s.LogPath == "":
		return fmt.Errorf("start %s: no log file given", s.Name)
	}
	return nil
}

// withoutLabVariables returns env without the lab's own variables.
func withoutLabVariables(env []string) []string {
	kept := make([]string, 0, len(env))
	for _, kv := range env {
		if !strings.HasPrefix(kv, environmentPrefix) {
			kept = append(kept, kv)
		}
	}
	return kept
}

// Launcher starts children from one OS thread that lives as long as it does,
// and tells the reaper of each.
type Launcher struct {
	reaper  *Reaper
	starts  chan func()
	closing chan struct{}
	once    sync.Once
	ended   chan struct{}
}

// NewLauncher returns a Launcher whose children and folders the reaper ends
// when the lab is gone. A nil reaper leaves that to the parent-death signal and
// to the next Sweep.
func NewLauncher(reaper *Reaper) *Launcher {
	l := &Launcher{
		reaper:  reaper,
		starts:  make(chan func()),
		closing: make(chan struct{}),
		ended:   make(chan struct{}),
	}
	go l.run()
	return l
}

// run is the thread that all children are started from. It never unlocks, so
// the thread ends with it.
func (l *Launcher) run() {
	runtime.LockOSThread()
	if onMainThread() {
		// That one ends with the program alone. Held until the next goroutine has
		// begun, it cannot be the one that it gets.
		next := make(chan struct{})
		go func() {
			close(next)
			l.run()
		}()
		<-next
		runtime.UnlockOSThread()
		return
	}
	defer close(l.ended)
	for {
		select {
		case start := <-l.starts:
			start()
		case <-l.closing:
			return
		}
	}
}

// Close ends the launcher's thread. On Linux a child that still runs gets its
// parent-death signal then, so stop the children first. It may be called more
// than once.
func (l *Launcher) Close() {
	l.once.Do(func() { close(l.closing) })
	<-l.ended
}

// Do runs f on the thread that children are started from, and returns its error.
// What f changes of the thread, such as its network namespace, every child that
// is started afterwards inherits. f must not wait for anything: nothing is
// started meanwhile.
func (l *Launcher) Do(f func() error) error {
	done := make(chan error, 1)
	select {
	case l.starts <- func() { done <- f() }:
		return <-done
	case <-l.closing:
		return errClosed
	}
}

// Start starts a child. The context bounds the start, not the child's life: the
// child runs until it ends by itself, or Child.Stop. Every child is waited for
// once, whether anybody asks or not. Errors name the child and the program.
func (l *Launcher) Start(ctx context.Context, spec Spec) (*Child, error) {
	if err := spec.validate(); err != nil {
		return nil, err
	}
	spec = spec.withDefaults()
	type started struct {
		child *Child
		err   error
	}
	done := make(chan started, 1)
	start := func() {
		child, err := start(spec)
		done <- started{child, err}
	}
	select {
	case <-ctx.Done():
		return nil, fmt.Errorf("start %s: %w", spec.Name, context.Cause(ctx))
	default:
	}
	select {
	case l.starts <- start:
	case <-ctx.Done():
		return nil, fmt.Errorf("start %s: %w", spec.Name, context.Cause(ctx))
	case <-l.closing:
		return nil, fmt.Errorf("start %s: %w", spec.Name, errClosed)
	}
	s := <-done
	if s.err != nil {
		return nil, s.err
	}
	if err := l.reaper.watchChild(s.child.pid, spec.DeathSignal); err != nil {
		s.child.kill()
		<-s.child.Done()
		return nil, fmt.Errorf("start %s: %w", spec.Name, err)
	}
	return s.child, nil
}

// start forks and execs on the calling thread.
func start(spec Spec) (*Child, error) {
	// The kernel's answer does not say whether program or folder is missing.
	if spec.Dir != "" {
		if _, err := os.Stat(spec.Dir); err != nil {
			return nil, fmt.Errorf("start %s: working folder: %w", spec.Name, err)
		}
	}
	log, err := os.OpenFile(spec.LogPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("start %s: open its log: %w", spec.Name, err)
	}
	var logFrom int64
	if info, err := log.Stat(); err == nil {
		logFrom = info.Size()
	}
	cmd := exec.Command(spec.Path, spec.Args...)
	cmd.Env = spec.Env
	cmd.Dir = spec.Dir
	cmd.Stdout = log
	cmd.Stderr = log
	cmd.WaitDelay = outputDelay
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: spec.User}
	setDeathSignal(cmd.SysProcAttr, spec.DeathSignal)
	var out *announcement
	if spec.Announces {
		out = newAnnouncement(log)
		cmd.Stdout = out
	}
	if err := cmd.Start(); err != nil {
		log.Close()
		return nil, fmt.Errorf("start %s: %s: %w", spec.Name, spec.Path, startCause(err))
	}
	c := &Child{
		spec:    spec,
		cmd:     cmd,
		pid:     cmd.Process.Pid,
		log:     log,
		logFrom: logFrom,
		out:     out,
		done:    make(chan struct{}),
		status:  "running",
	}
	go c.wait()
	return c, nil
}

// startCause takes the "fork/exec PATH:" off an error whose text has the path
// already.
func startCause(err error) error {
	var pathErr *os.PathError
	if errors.As(err, &pathErr) {
		return pathErr.Err
	}
	return err
}
