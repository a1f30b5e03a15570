//go:build unix

package scenario

import (
	"fmt"
	"syscall"
)

// NeedFiles refuses a run that one of its processes could not open so many files for. It
// raises the soft limit to the hard one first. Go has done so for this process
// already, but would give the old one back to its children (os/exec, since Go
// 1.19) if it were not set here: Go programs raise it again, PostgreSQL does not.
func NeedFiles(need int) error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return nil // the system does not say; the processes will
	}
	if have := uint64(limit.Max); have < uint64(need) {
		return fmt.Errorf("this run needs %d open files in one process and the hard limit is %d: %d are missing; raise it with ulimit -Hn, or lower -rate", need, have, uint64(need)-have)
	}
	before := limit.Cur
	limit.Cur = limit.Max
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil && uint64(before) < uint64(need) {
		return fmt.Errorf("this run needs %d open files in one process; raising the limit from %d to the hard one of %d: %w", need, before, limit.Max, err)
	}
	return nil
}
