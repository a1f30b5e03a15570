package engine

import (
	"fmt"
	"math"
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// What an event's Fd says if it is not a slot's.
const (
	wakeEvent  int32 = -1
	timerEvent int32 = -2
)

// forever is a timeout that never comes.
const forever = time.Duration(math.MaxInt64)

// briefWait is the longest wait that the Go scheduler is not told of. A goroutine
// that has run for 10 ms without a switch, as the loop has always, loses its
// processor in the next system call that the scheduler knows of, and the runtime's
// monitor then looks around every 20 us for a while: 2,000 wake-ups a second.
// Without them 1,000 requests a second took 0.75 of the CPU, 10,000 took 0.9, and
// 10,000 with a quantum of 10 ms 0.75 (medians of 5 interleaved pairs). What may
// take longer gives the processor back. A program has to have one more processor
// than loops (runtime.GOMAXPROCS), as cmd/loadgen does, or everything else waits.
const briefWait = 10 * time.Millisecond

// poller waits for sockets, for a time at a nanosecond's resolution, and for
// wakeUp, all at once: epoll with edge-triggered events.
type poller struct {
	epoll, wake int
	// timer is -1 while epoll_pwait2 is at hand. A kernel before 5.11, or a
	// seccomp filter, refuses it; then a timerfd ends a plain epoll_wait.
	timer int
}

func newPoller() (*poller, error) {
	p := &poller{epoll: -1, wake: -1, timer: -1}
	var err error
	if p.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, fmt.Errorf("epoll_create1: %w", err)
	}
	if p.wake, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		p.close()
		return nil, fmt.Errorf("eventfd: %w", err)
	}
	if err = p.add(p.wake, unix.EPOLLIN, wakeEvent, 0); err != nil {
		p.close()
		return nil, fmt.Errorf("epoll_ctl: %w", err)
	}
	if _, errno := p.pwait2(make([]unix.EpollEvent, 1), 0); errno != 0 {
		if err := p.useTimer(); err != nil {
			p.close()
			return nil, err
		}
	}
	return p, nil
}

// useTimer makes a timerfd end the waits.
func (p *poller) useTimer() (err error) {
	if p.timer, err = unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK); err != nil {
		p.timer = -1
		return fmt.Errorf("timerfd_create: %w", err)
	}
	if err := p.add(p.timer, unix.EPOLLIN, timerEvent, 0); err != nil {
		return fmt.Errorf("epoll_ctl: %w", err)
	}
	return nil
}

// add reports the events of fd from now on, edge by edge, with the slot and its
// generation.
func (p *poller) add(fd int, events uint32, slot int32, generation uint32) error {
	event := unix.EpollEvent{Events: events | unix.EPOLLET, Fd: slot, Pad: int32(generation)}
	return unix.EpollCtl(p.epoll, unix.EPOLL_CTL_ADD, fd, &event)
}

// wait fills events and says how many came before the timeout, or before a
// signal. A timeout of 0 or less does not block.
func (p *poller) wait(events []unix.EpollEvent, timeout time.Duration) int {
	var n int
	var errno unix.Errno
	switch {
	case timeout <= 0:
		n, errno = p.pwait(events, 0)
	case p.timer >= 0:
		p.arm(timeout)
		n, errno = p.pwait(events, -1)
	default:
		n, errno = p.pwait2(events, timeout)
	}
	if errno != 0 && errno != unix.EINTR {
		// The arguments are ours and the descriptors open: this cannot fail.
		panic("engine: epoll_wait: " + errno.Error())
	}
	if errno != 0 {
		return 0
	}
	return n
}

// arm makes the timer end the next wait; one that has been armed before and is
// not over is set anew.
func (p *poller) arm(timeout time.Duration) {
	var spec unix.ItimerSpec
	if timeout != forever {
		spec.Value = unix.NsecToTimespec(int64(timeout))
	}
	if err := unix.TimerfdSettime(p.timer, 0, &spec, nil); err != nil {
		panic("engine: timerfd_settime: " + err.Error())
	}
}

// kernelTimespec is the 64-bit timespec that new system calls take on every
// architecture.
type kernelTimespec struct{ seconds, nanoseconds int64 }

// pwait2 is epoll_pwait2, which x/sys/unix has no function for.
func (p *poller) pwait2(events []unix.EpollEvent, timeout time.Duration) (int, unix.Errno) {
	var limit *kernelTimespec
	if timeout != forever {
		limit = &kernelTimespec{int64(timeout / time.Second), int64(timeout % time.Second)}
	}
	call := unix.Syscall6
	if timeout <= briefWait {
		call = unix.RawSyscall6
	}
	n, _, errno := call(unix.SYS_EPOLL_PWAIT2, uintptr(p.epoll), uintptr(unsafe.Pointer(&events[0])),
		uintptr(len(events)), uintptr(unsafe.Pointer(limit)), 0, 0)
	runtime.KeepAlive(limit)
	return int(n), errno
}

// pwait is epoll_pwait, which every architecture has, with a timeout of 0 or -1.
func (p *poller) pwait(events []unix.EpollEvent, timeout int) (int, unix.Errno) {
	call := unix.Syscall6
	if timeout == 0 {
		call = unix.RawSyscall6 // does not block
	}
	n, _, errno := call(unix.SYS_EPOLL_PWAIT, uintptr(p.epoll), uintptr(unsafe.Pointer(&events[0])),
		uintptr(len(events)), uintptr(timeout), 0, 0)
	return int(n), errno
}

// wakeUp ends the current wait, or else the next one. It may be called from any
// goroutine until close is.
func (p *poller) wakeUp() {
	one := [8]byte{7: 1}
	// It fails only where 2^64-2 calls have gone before.
	_, _ = unix.Write(p.wake, one[:])
}

func (p *poller) close() {
	for _, fd := range []int{p.timer, p.wake, p.epoll} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
}
