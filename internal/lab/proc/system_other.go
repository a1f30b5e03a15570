//go:build !linux

package proc

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// setDeathSignal does nothing: only Linux has a parent-death signal. The reaper
// alone ends the children of a lab that was killed.
func setDeathSignal(*syscall.SysProcAttr, syscall.Signal) {}

// onMainThread matters to the parent-death signal only.
func onMainThread() bool { return false }

// awaitExit cannot wait without reaping here.
func awaitExit(int) bool { return false }

// ps returns one column of ps(1) for a process, empty if there is none.
func ps(pid int, column string) string {
	out, err := exec.Command("ps", "-o", column+"=", "-p", strconv.Itoa(pid)).Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

// startTime tells a process from a later one with the same pid, to a second. It
// is empty if there is no such process, or only a zombie.
func startTime(pid int) string {
	if strings.HasPrefix(ps(pid, "stat"), "Z") {
		return ""
	}
	return ps(pid, "lstart")
}

// pidNamespace is empty: all pids are the host's.
func pidNamespace() string { return "" }

// processesIn finds the PostgreSQL server of a folder by its postmaster.pid, if
// the process of that number names the folder in its arguments. The server ends
// its own children.
func processesIn(folder string) []process {
	files, err := filepath.Glob(filepath.Join(folder, "*", "postmaster.pid"))
	if err != nil {
		return nil
	}
	var found []process
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		line, _, _ := strings.Cut(string(data), "\n")
		pid, err := strconv.Atoi(strings.TrimSpace(line))
		if err != nil || pid <= 1 || !strings.Contains(ps(pid, "command"), folder+"/") {
			continue
		}
		found = append(found, process{PID: pid, Start: startTime(pid), name: "postgres"})
	}
	return found
}

// readUsage is not supported while a process runs; its CPU time is known once it
// has ended.
func readUsage(int) (Usage, error) { return Usage{}, errors.ErrUnsupported }
