package proc

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// sharedMemoryLine is the line of a postmaster.pid, counted from 0, with the key
// and the id of the server's System V shared memory segment: 56 bytes that say
// that the data folder is in use (src/include/utils/pidfile.h of PostgreSQL,
// LOCK_FILE_LINE_SHMEM_KEY).
const sharedMemoryLine = 6

// removeSharedMemory removes the segments of the servers of a folder. A server
// does that itself unless it was killed; then only its postmaster.pid knows
// which segment it was. A segment that is not that server's any more, or that
// somebody is attached to, is left alone.
func removeSharedMemory(folder string) {
	files, err := filepath.Glob(filepath.Join(folder, "*", "postmaster.pid"))
	if err != nil {
		return
	}
	for _, file := range files {
		key, id, ok := segmentOf(file)
		if !ok {
			continue
		}
		info, err := os.Stat(file)
		if err != nil {
			continue
		}
		owner, ok := info.Sys().(*syscall.Stat_t)
		if !ok {
			continue
		}
		if now, err := unix.SysvShmGet(key, 0, 0); err != nil || now != id {
			continue
		}
		var segment unix.SysvShmDesc
		if _, err := unix.SysvShmCtl(id, unix.IPC_STAT, &segment); err != nil || segment.Nattch > 0 || segment.Perm.Uid != owner.Uid {
			continue
		}
		_, _ = unix.SysvShmCtl(id, unix.IPC_RMID, nil)
	}
}

// segmentOf reads the key and the id of a segment from a postmaster.pid.
func segmentOf(file string) (key, id int, ok bool) {
	data, err := os.ReadFile(file)
	if err != nil {
		return 0, 0, false
	}
	lines := strings.Split(string(data), "\n")
	if len(lines) <= sharedMemoryLine {
		return 0, 0, false
	}
	fields := strings.Fields(lines[sharedMemoryLine])
	if len(fields) != 2 {
		return 0, 0, false
	}
	key, errKey := strconv.Atoi(fields[0])
	id, errID := strconv.Atoi(fields[1])
	return key, id, errKey == nil && errID == nil
}
