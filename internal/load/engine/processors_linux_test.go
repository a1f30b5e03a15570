package engine

import (
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

func TestASpareProcessorUnlessTheClassIsRealTime(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for policy, spare := range map[uint32]int{unix.SCHED_NORMAL: 1, unix.SCHED_BATCH: 1, unix.SCHED_FIFO: 0, unix.SCHED_RR: 0} {
		before := runtime.GOMAXPROCS(0)
		done := make(chan error)
		go func() {
			// The thread is changed, and ends with this goroutine.
			runtime.LockOSThread()
			attr := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: policy}
			if spare == 0 {
				attr.Priority = 1
			}
			err := unix.SchedSetAttr(0, &attr, 0)
			if err == nil {
				SpareProcessor()
			}
			done <- err
		}()
		switch err := <-done; err {
		case nil:
			if got := runtime.GOMAXPROCS(0) - before; got != spare {
				t.Errorf("policy %d: %d processors more, want %d", policy, got, spare)
			}
		case unix.EPERM:
			t.Logf("policy %d is not allowed here", policy)
		default:
			t.Error(err)
		}
	}
}
