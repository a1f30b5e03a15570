package netlab_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"chokepoint/internal/cli"
	"chokepoint/internal/lab/netlab"
	"chokepoint/internal/lab/proc"
)

// act is what the tests have done in a sandbox of their own.
func act(ctx context.Context, args []string) int {
	code, err := map[string]func(context.Context, []string) (int, error){
		"exit":      exitWith,
		"die":       dieBySignal,
		"echo":      echo,
		"identity":  tellIdentity,
		"lab":       holdLab,
		"deaf":      ignoreTheEnd,
		"filtered":  exitWith,
		"orphans":   leaveOrphans,
		"main":      stayOnMain,
		"forbidden": nestWithoutNetworks,
	}[args[1]](ctx, args[2:])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return cli.ExitFailure
	}
	return code
}

func exitWith(_ context.Context, args []string) (int, error) { return strconv.Atoi(args[0]) }

func dieBySignal(context.Context, []string) (int, error) {
	return 0, syscall.Kill(os.Getpid(), syscall.SIGKILL)
}

// echo writes its argument, a variable, its stdin and its extra file to stdout.
func echo(_ context.Context, args []string) (int, error) {
	in, err := io.ReadAll(os.Stdin)
	if err != nil {
		return 0, err
	}
	extra, err := io.ReadAll(os.NewFile(3, "extra"))
	if err != nil {
		return 0, err
	}
	fmt.Printf("%s %s %s %s", args[0], os.Getenv("NETLAB_ECHO"), in, extra)
	return 0, nil
}

// identity is who a sandbox's process and its child in a host are.
type identity struct {
	UID, ChildUID  int
	Named          bool // the user has a name, as PostgreSQL's initdb wants
	Processes      int  // in /proc
	LoopbackIsUp   bool
	Capabilities   uint64 // of the child
	HostIsOwn      bool   // the host's network namespace is not the sandbox's
	ChildInTheHost bool
}

func tellIdentity(ctx context.Context, _ []string) (int, error) {
	id := identity{UID: os.Geteuid()}
	_, err := user.LookupId(strconv.Itoa(id.UID))
	id.Named = err == nil
	lab, err := netlab.New()
	if err != nil {
		return 0, err
	}
	defer lab.Close()
	host, err := lab.Host("host")
	if err != nil {
		return 0, err
	}
	listener, err := host.Listen("127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	id.LoopbackIsUp = listener.Close() == nil
	lines, err := runInHost(ctx, host, "id -u; readlink /proc/self/ns/net; set -- /proc/[0-9]*; echo $#; sed -n 's/^CapEff:\t//p' /proc/self/status")
	if err != nil {
		return 0, err
	}
	if id.ChildUID, err = strconv.Atoi(lines[0]); err != nil {
		return 0, err
	}
	if id.Processes, err = strconv.Atoi(lines[2]); err != nil {
		return 0, err
	}
	own, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		return 0, err
	}
	hosts, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(host.NetNS()))
	if err != nil {
		return 0, err
	}
	id.HostIsOwn = hosts != own
	id.ChildInTheHost = lines[1] == hosts
	if id.Capabilities, err = strconv.ParseUint(lines[3], 16, 64); err != nil {
		return 0, err
	}
	return 0, json.NewEncoder(os.Stdout).Encode(id)
}

// runInHost runs a shell script as a child of the host and returns its lines.
func runInHost(ctx context.Context, host *netlab.Host, script string) ([]string, error) {
	dir, err := os.MkdirTemp("", "netlab-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	child, err := host.Launcher().Start(ctx, proc.Spec{
		Name: "script", Path: "/bin/sh", Args: []string{"-c", script}, LogPath: filepath.Join(dir, "log"),
	})
	if err != nil {
		return nil, err
	}
	<-child.Done()
	return child.LastLog(100), child.Err()
}

// holdLab makes three hosts with a child and a grandchild in each, says so, and
// waits for the end.
func holdLab(ctx context.Context, _ []string) (int, error) {
	lab, err := netlab.New()
	if err != nil {
		return 0, err
	}
	defer lab.Close()
	for _, name := range []string{"caller", "router", "upstream"} {
		host, err := lab.Host(name)
		if err != nil {
			return 0, err
		}
		// A session of its own: no signal to a group or a terminal reaches it.
		child, err := host.Launcher().Start(ctx, proc.Spec{
			Name: name, Path: "/bin/sh", Args: []string{"-c", "setsid sleep 300 & sleep 300"}, LogPath: os.DevNull,
		})
		if err != nil {
			return 0, err
		}
		defer func() { _ = child.Stop(context.Background(), time.Second) }()
	}
	fmt.Println("ready")
	<-ctx.Done()
	return cli.ExitInterrupted, nil
}

func ignoreTheEnd(context.Context, []string) (int, error) {
	fmt.Println("ready")
	select {}
}

// stayOnMain fails if the main goroutine is ever on another thread than the main
// one. A host could have that then, and Go cannot end it.
func stayOnMain(context.Context, []string) (int, error) {
	for range 100 {
		if unix.Gettid() != os.Getpid() {
			return 0, errors.New("the main goroutine has left the main thread")
		}
		time.Sleep(50 * time.Microsecond)
	}
	return 0, nil
}

// leaveOrphans has children that leave theirs behind, and succeeds when those
// are gone from /proc: somebody has waited for them.
func leaveOrphans(context.Context, []string) (int, error) {
	const orphans = 5
	for range orphans {
		if err := exec.Command("/bin/sh", "-c", "sleep 0.05 & exit").Run(); err != nil {
			return 0, err
		}
	}
	for end := time.Now().Add(deadline); ; time.Sleep(5 * time.Millisecond) {
		entries, err := filepath.Glob("/proc/[0-9]*")
		switch {
		case err != nil:
			return 0, err
		case len(entries) == 2: // the first process, and this one
			return 0, nil
		case time.Now().After(end):
			return 0, fmt.Errorf("%d processes are left, want 2", len(entries))
		}
	}
}

// nestWithoutNetworks forbids network namespaces to its own user namespace, and
// asks for one more sandbox.
func nestWithoutNetworks(context.Context, []string) (int, error) {
	const limit = "/proc/sys/user/max_net_namespaces"
	before, err := os.ReadFile(limit)
	if err != nil {
		return 0, err
	}
	if err := os.WriteFile(limit, []byte("0"), 0); err != nil {
		return 0, err
	}
	defer func() { _ = os.WriteFile(limit, before, 0) }()
	return outer([]string{"exit", "0"}), nil
}

// forbidNamespaces puts a seccomp filter on this process that answers EPERM to a
// clone(2) of namespaces, as containers do.
func forbidNamespaces() error {
	const (
		load  = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
		equal = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		set   = unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K
		ret   = unix.BPF_RET | unix.BPF_K
	)
	// Offsets in struct seccomp_data: the number of the call, the low half of its
	// first argument.
	program := []unix.SockFilter{
		{Code: load, K: 0},
		{Code: equal, K: unix.SYS_CLONE, Jf: 3},
		{Code: load, K: 16},
		{Code: set, K: unix.CLONE_NEWUSER | unix.CLONE_NEWNET, Jf: 1},
		{Code: ret, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)},
		{Code: ret, K: unix.SECCOMP_RET_ALLOW},
	}
	// Both hold for the calling thread and, by TSYNC, for all others.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	filter := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&filter)))
	if errno != 0 {
		return errno
	}
	return nil
}
