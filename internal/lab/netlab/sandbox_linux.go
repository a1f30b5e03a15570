package netlab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"chokepoint/internal/cli"
)

// sandboxFlags are the namespaces of a sandbox. That of IPC is for PostgreSQL,
// whose System V shared memory would stay behind.
const sandboxFlags = unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWIPC

// self is this very binary, even if another has taken its name meanwhile.
const self = "/proc/self/exe"

// What a sandbox's first process has open besides what the Spec gives it.
const (
	lifelineFD = 3
	statusFD   = 4
	extraFD    = 5
)

// RunIn runs this binary again in a sandbox, where RunSandbox calls its function
// with spec.Args, and waits for its end. The exit code is the function's, or 128
// and the number of the signal that ended it. When RunIn returns, no process of
// the sandbox is left.
//
// When ctx ends, the function's context ends; after spec.Grace everything in the
// sandbox is killed. If the caller dies, by SIGKILL too, everything in the
// sandbox is killed at once. The sandbox has a process group of its own: a
// Ctrl-C reaches the caller alone.
//
// If the machine, or the user on it, can have no sandbox, the error is an
// *Unavailable.
func RunIn(ctx context.Context, spec Spec) (exitCode int, err error) {
	done := make(chan struct{})
	// The parent-death signal comes when the thread that forked ends: it is held
	// until the sandbox has ended.
	go func() {
		defer close(done)
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		exitCode, err = runIn(ctx, spec)
	}()
	<-done
	return exitCode, err
}

func runIn(ctx context.Context, spec Spec) (exitCode int, err error) {
	// The lifeline is open for as long as the caller lives. It tells a sandbox
	// whose caller died before the parent-death signal was set.
	lifeline, lifelineKept, err := os.Pipe()
	if err != nil {
		return cli.ExitFailure, fmt.Errorf("start a sandbox: %w", err)
	}
	defer lifelineKept.Close()
	status, statusGiven, err := os.Pipe()
	if err != nil {
		lifeline.Close()
		return cli.ExitFailure, fmt.Errorf("start a sandbox: %w", err)
	}
	defer status.Close()

	cmd := exec.CommandContext(ctx, self)
	cmd.Args = append([]string{os.Args[0], SandboxArg, stageFirst}, spec.Args...)
	cmd.Env = spec.Env
	cmd.Stdin, cmd.Stdout, cmd.Stderr = spec.Stdin, spec.Stdout, spec.Stderr
	cmd.ExtraFiles = append([]*os.File{lifeline, statusGiven}, spec.ExtraFiles...)
	cmd.SysProcAttr = sandboxAttr()
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = spec.Grace
	if spec.Grace == 0 {
		cmd.WaitDelay = stopGrace
	}
	err = cmd.Start()
	lifeline.Close()
	statusGiven.Close()
	switch {
	case err != nil && ctx.Err() != nil:
		return cli.ExitFailure, fmt.Errorf("start a sandbox: %w", context.Cause(ctx))
	case err != nil:
		return cli.ExitFailure, cloneRefused(err)
	}
	refusal, errStatus := readStatus(status)
	// Whatever Wait says of a context or of a pipe, the state says how it ended.
	errWait := cmd.Wait()
	switch {
	case refusal != nil:
		return cli.ExitFailure, refusal
	case errStatus != nil:
		return cli.ExitFailure, fmt.Errorf("start a sandbox: %w", errStatus)
	case cmd.ProcessState == nil:
		return cli.ExitFailure, fmt.Errorf("wait for the sandbox: %w", errWait)
	}
	return codeOf(cmd.ProcessState.Sys().(syscall.WaitStatus)), nil
}

// sandboxAttr makes the first process of a sandbox. Who is not privileged gets a
// user namespace, in which the user keeps its own id, so that PostgreSQL is
// content, and has every capability over the namespaces of the sandbox. They are
// ambient: an ordinary user's would end with exec.
func sandboxAttr() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{
		Cloneflags: sandboxFlags,
		Pdeathsig:  syscall.SIGKILL,
		Setpgid:    true,
	}
	if privileged() {
		return attr
	}
	attr.Cloneflags |= unix.CLONE_NEWUSER
	attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Geteuid(), HostID: os.Geteuid(), Size: 1}}
	attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getegid(), HostID: os.Getegid(), Size: 1}}
	for c := range lastCapability() + 1 {
		attr.AmbientCaps = append(attr.AmbientCaps, c)
	}
	return attr
}

// lastCapability is the highest that both the kernel and this program know.
func lastCapability() uintptr {
	last, err := strconv.ParseUint(readSetting("/proc/sys/kernel/cap_last_cap"), 10, 8)
	if err != nil {
		return unix.CAP_LAST_CAP
	}
	return min(uintptr(last), unix.CAP_LAST_CAP)
}

// privileged says that this process can make the namespaces without a user
// namespace. Root in a container often cannot.
func privileged() bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if unix.Capget(&header, &data[0]) != nil {
		return false
	}
	const needed = 1<<unix.CAP_SYS_ADMIN | 1<<unix.CAP_NET_ADMIN
	return data[0].Effective&needed == needed
}

// refusal is an *Unavailable on its way out of a sandbox.
type refusal struct{ What, Err, Remedy string }

// readStatus waits until the sandbox's first process has set it up, and returns
// why it could not.
func readStatus(status io.Reader) (*Unavailable, error) {
	var r refusal
	switch err := json.NewDecoder(status).Decode(&r); {
	case errors.Is(err, io.EOF):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return &Unavailable{What: r.What, Err: errors.New(r.Err), Remedy: r.Remedy}, nil
}

// codeOf is a process's exit code as a shell has it.
func codeOf(status syscall.WaitStatus) int {
	if status.Signaled() {
		return 128 + int(status.Signal())
	}
	return status.ExitStatus()
}
