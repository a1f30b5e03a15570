package proc

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// ticksPerSecond is the unit of the times in /proc/<pid>/stat: USER_HZ, which is
// 100 on every Linux architecture that Go runs on (proc(5), sysconf(3)).
const ticksPerSecond = 100

func setDeathSignal(attr *syscall.SysProcAttr, sig syscall.Signal) { attr.Pdeathsig = sig }

// onMainThread says whether the caller runs on the thread that the process began
// with.
func onMainThread() bool { return unix.Gettid() == os.Getpid() }

// awaitExit blocks until the process has ended and leaves it to be waited for.
// It returns false if it could not wait.
func awaitExit(pid int) bool {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return err == nil
		}
	}
}

// processStat is the part of /proc/<pid>/stat that is used here.
type processStat struct {
	name  string
	state string
	cpu   float64 // seconds, user + system
	start string  // in clock ticks since the boot
}

// readStat reads /proc/<pid>/stat; see proc(5) for the numbers of its fields.
func readStat(pid int) (processStat, error) {
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return processStat{}, err
	}
	// The name may hold spaces and parentheses; the last one ends it.
	open, end := bytes.IndexByte(data, '('), bytes.LastIndexByte(data, ')')
	if open < 0 || end < open {
		return processStat{}, fmt.Errorf("/proc/%d/stat: no process name in it", pid)
	}
	fields := strings.Fields(string(data[end+1:])) // from field 3 on
	if len(fields) < 20 {
		return processStat{}, fmt.Errorf("/proc/%d/stat: %d fields after the name, want 20 or more", pid, len(fields))
	}
	field := func(number int) string { return fields[number-3] } // as proc(5) counts
	user, errUser := strconv.ParseFloat(field(14), 64)
	system, errSystem := strconv.ParseFloat(field(15), 64)
	if err := errors.Join(errUser, errSystem); err != nil {
		return processStat{}, fmt.Errorf("/proc/%d/stat: %w", pid, err)
	}
	return processStat{
		name:  string(data[open+1 : end]),
		state: field(3),
		cpu:   (user + system) / ticksPerSecond,
		start: field(22),
	}, nil
}

// startTime tells a process from a later one with the same pid. It is empty if
// there is no such process, or only a zombie that nobody has waited for.
func startTime(pid int) string {
	stat, err := readStat(pid)
	if err != nil || stat.state == "Z" || stat.state == "X" {
		return ""
	}
	return stat.start
}

// pidNamespace names the namespace in which this process's pid was given.
func pidNamespace() string {
	name, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return ""
	}
	return name
}

// processesIn finds the processes that run from a folder: those of the programs
// that the lab runs there (so that a shell which somebody opened in it is left
// alone) and that either have their working folder in it or name it in their
// arguments. The second is for a root without CAP_SYS_PTRACE, as in a container,
// who cannot read the working folder of another user's process.
func processesIn(folder string) []process {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	inside := strings.TrimSuffix(folder, "/") + "/"
	var found []process
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		stat, err := readStat(pid)
		if err != nil || stat.state == "Z" || !runsInFolders(stat.name) {
			continue
		}
		// The link of a removed folder ends in " (deleted)".
		cwd, _ := os.Readlink(filepath.Join("/proc", entry.Name(), "cwd"))
		cwd = strings.TrimSuffix(cwd, " (deleted)")
		args, _ := os.ReadFile(filepath.Join("/proc", entry.Name(), "cmdline"))
		if strings.HasPrefix(cwd+"/", inside) || bytes.Contains(args, []byte(inside)) {
			found = append(found, process{PID: pid, Start: stat.start, name: stat.name})
		}
	}
	return found
}

// readUsage reads what a live process has used. Threads that have ended are in
// its CPU time, but no longer in its run-queue wait.
func readUsage(pid int) (Usage, error) {
	stat, err := readStat(pid)
	if err != nil {
		return Usage{}, err
	}
	u := Usage{CPUSeconds: stat.cpu}
	tasks, err := filepath.Glob(filepath.Join("/proc", strconv.Itoa(pid), "task", "*", "schedstat"))
	if err != nil {
		return Usage{}, err
	}
	for _, path := range tasks {
		data, err := os.ReadFile(path)
		if err != nil {
			continue // the thread has ended, or the kernel keeps no scheduler statistics
		}
		// Time on the CPU, time waiting on a run queue (both ns), time slices:
		// Documentation/scheduler/sched-stats.rst of the kernel.
		if fields := strings.Fields(string(data)); len(fields) == 3 {
			if ns, err := strconv.ParseInt(fields[1], 10, 64); err == nil {
				u.RunQueueWait += time.Duration(ns)
			}
		}
	}
	return u, nil
}
