//go:build unix

package scenario

import (
	"fmt"
	"syscall"
)

// needFiles refuses a run that one of its processes could not open files for.
func needFiles(need int) error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return nil // the system does not say; the processes will
	}
	if have := uint64(limit.Max); have < uint64(need) {
		return fmt.Errorf("this run needs %d open files in one process and the hard limit is %d: %d are missing; raise it with ulimit -Hn, or lower -rate", need, have, uint64(need)-have)
	}
	return nil
}
