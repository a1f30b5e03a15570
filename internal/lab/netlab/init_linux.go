package netlab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"sync/atomic"
	"syscall"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"chokepoint/internal/cli"
)

// A sandbox has two processes of this binary: the first sets it up and waits
// for whatever ends in it, the second does the work. In one, nobody could tell
// an orphan from a child that somebody is about to wait for.
const (
	stageFirst = "first"
	stageWork  = "work"
)

var inside atomic.Bool

// In a sandbox the main goroutine keeps the main thread, on which it runs until
// the end of the last init. Else a host could get that thread, and Go cannot end
// it: the host's namespace would stay, and /proc/self would show it.
func init() {
	if len(os.Args) > 1 && os.Args[1] == SandboxArg {
		runtime.LockOSThread()
	}
}

// Inside says whether this process is the one that does a sandbox's work.
func Inside() bool { return inside.Load() }

// RunSandbox is the sandbox's side of RunIn: it gets the arguments after
// SandboxArg, sets the sandbox up, calls run with the Spec's Args and returns
// the exit code of the process. The context ends when RunIn's does.
func RunSandbox(args []string, run func(ctx context.Context, args []string) int) int {
	if len(args) > 0 {
		switch {
		case args[0] == stageFirst && os.Getpid() == 1:
			return runFirst(args[1:])
		case args[0] == stageWork && os.Getppid() == 1:
			inside.Store(true)
			ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
			defer stop()
			return run(ctx, args[1:])
		}
	}
	fmt.Fprintln(os.Stderr, SandboxArg+" is how the lab starts itself in a sandbox; it is not for the command line")
	return cli.ExitUsage
}

// runFirst is the first process of the sandbox: the kernel gives it every
// orphan, and kills everything else when it ends.
func runFirst(args []string) int {
	go func() {
		// Nothing is ever sent: the read ends when the caller does.
		_, _ = os.NewFile(lifelineFD, "lifeline").Read(make([]byte, 1))
		os.Exit(128 + int(syscall.SIGKILL))
	}()
	status := os.NewFile(statusFD, "status")
	if err := setUp(); err != nil {
		var u *Unavailable
		if !errors.As(err, &u) {
			u = &Unavailable{What: "sandbox", Err: err}
		}
		_ = json.NewEncoder(status).Encode(refusal{What: u.What, Err: u.Err.Error(), Remedy: u.Remedy})
		return cli.ExitFailure
	}
	// Before the worker starts, or a stop in between would be lost.
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	worker, err := startWorker(args)
	if err != nil {
		_ = json.NewEncoder(status).Encode(refusal{What: "second process", Err: err.Error(), Remedy: "see the limits of this user (ulimit -u)"})
		return cli.ExitFailure
	}
	status.Close()
	go func() {
		for range stop {
			_ = syscall.Kill(worker, syscall.SIGTERM)
		}
	}()
	return reap(worker)
}

// startWorker starts the process that does the work, with what the caller gave.
func startWorker(args []string) (pid int, err error) {
	files := []uintptr{0, 1, 2}
	unix.CloseOnExec(lifelineFD)
	unix.CloseOnExec(statusFD)
	for fd := uintptr(extraFD); ; fd++ {
		// Go opens nothing of its own without close-on-exec; what is open without it
		// came with the Spec, in one row.
		flags, err := unix.FcntlInt(fd, unix.F_GETFD, 0)
		if err != nil || flags&unix.FD_CLOEXEC != 0 {
			break
		}
		files = append(files, fd)
	}
	for _, fd := range files[3:] {
		unix.CloseOnExec(int(fd))
	}
	argv := append([]string{os.Args[0], SandboxArg, stageWork}, args...)
	return syscall.ForkExec(self, argv, &syscall.ProcAttr{Env: os.Environ(), Files: files})
}

// reap waits for everything that ends in the sandbox, until the worker does.
func reap(worker int) int {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			fmt.Fprintln(os.Stderr, "sandbox:", err)
			return cli.ExitFailure
		case pid == worker:
			return codeOf(status)
		}
	}
}

// setUp makes the new namespaces usable: what is mounted from now on is the
// sandbox's alone, /proc shows its processes, and 127.0.0.1 answers.
func setUp() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return unavailable("mount namespace of its own", err)
	}
	const inert = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	if err := unix.Mount("proc", "/proc", "proc", inert, ""); err != nil {
		return unavailable("/proc of its own", err)
	}
	// PostgreSQL's POSIX shared memory goes with the sandbox.
	if err := unix.Mount("shm", "/dev/shm", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, ""); err != nil && !errors.Is(err, unix.ENOENT) {
		return unavailable("/dev/shm of its own", err)
	}
	if err := nameUser(); err != nil {
		return err
	}
	// The lab reads nothing from /sys; where a container covers parts of it, the
	// kernel allows no new one, and children see the machine's interfaces there.
	_ = unix.Mount("sysfs", "/sys", "sysfs", inert, "")
	return bringLoopbackUp()
}

func bringLoopbackUp() error {
	lo, err := netlink.LinkByName("lo")
	if err == nil {
		err = netlink.LinkSetUp(lo)
	}
	if err != nil {
		return unavailable("loopback of its own", err)
	}
	return nil
}
