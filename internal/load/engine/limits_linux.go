package engine

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// raiseFileLimit raises the soft limit on open files to the hard one and returns
// what holds then; 0 if it is not known.
func raiseFileLimit() int {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil {
		return 0
	}
	if limit.Cur < limit.Max {
		raised := unix.Rlimit{Cur: limit.Max, Max: limit.Max}
		if unix.Setrlimit(unix.RLIMIT_NOFILE, &raised) == nil {
			limit = raised
		}
	}
	return int(min(limit.Cur, 1<<31))
}

// localPorts is how many ports an outgoing connection can have; 0 if unknown.
func localPorts() int {
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		return 0
	}
	var first, last int
	if _, err := fmt.Sscan(string(text), &first, &last); err != nil || last < first {
		return 0
	}
	return last - first + 1
}

// timeWaits is how long a port that a connection was closed on cannot be used for
// its destination again, and the same on loopback.
//
// The kernel keeps it for 60 s (TCP_TIMEWAIT_LEN), but gives it to a new connection
// after a second or tcp_tw_reuse_delay where tcp_tw_reuse is 1, or 2 for loopback.
func timeWaits() (any, loopback time.Duration) {
	const length = 60 * time.Second
	reuse := time.Second
	if ms, ok := sysctl("tcp_tw_reuse_delay"); ok {
		reuse = time.Duration(ms) * time.Millisecond
	}
	switch n, _ := sysctl("tcp_tw_reuse"); n {
	case 1:
		return reuse, reuse
	case 2:
		return length, reuse
	}
	return length, length
}

// sysctl reads a number that the kernel has for IP.
func sysctl(name string) (int, bool) {
	text, err := os.ReadFile("/proc/sys/net/ipv4/" + name)
	if err != nil {
		return 0, false
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	return n, err == nil
}

// availableMemory is what can be had without swapping, in bytes: the less of the
// machine's and the container's (cgroup v2); 0 if neither is known.
func availableMemory() int64 {
	available := machineMemory()
	limit, used := cgroupBytes("memory.max"), cgroupBytes("memory.current")
	if limit > 0 && used > 0 && (available == 0 || limit-used < available) {
		available = max(1, limit-used)
	}
	return available
}

func machineMemory() int64 {
	f, err := os.Open("/proc/meminfo")
	if err != nil {
		return 0
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var kilobytes int64
		if _, err := fmt.Sscanf(lines.Text(), "MemAvailable: %d kB", &kilobytes); err == nil {
			return kilobytes << 10
		}
	}
	return 0
}

// cgroupBytes reads a figure of the cgroup that a container sees as its root; 0
// if there is none, or no limit.
func cgroupBytes(file string) int64 {
	text, err := os.ReadFile("/sys/fs/cgroup/" + file)
	if err != nil {
		return 0
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return 0
	}
	return n
}
