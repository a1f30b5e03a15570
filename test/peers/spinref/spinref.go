//go:build linux

// Package spinref is a load generator that shows what the machine allows: raw
// sockets, one thread that never sleeps, and no statistics. A gap between it and
// another generator is that generator's; what both have is the machine's.
//
// It refuses to be useful: it takes a core and reads no answer but to see that
// its connection is free again.
package spinref

import (
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// Config is the load.
type Config struct {
	Addr        netip.AddrPort // an IPv4 address
	Rate        float64        // per second
	Duration    time.Duration
	Connections int // all opened before the first request
}

// Report is what became of the requests.
type Report struct {
	Sent     int `json:"sent"`
	Answered int `json:"answered"`
}

// drainFor is how long the last answers are waited for.
const drainFor = 2 * time.Second

// Run plays the load.
func Run(c Config) (Report, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return Report{}, fmt.Errorf("epoll_create1: %w", err)
	}
	defer unix.Close(epoll)
	free := make([]int32, 0, c.Connections)
	for range c.Connections {
		fd, err := connect(c.Addr)
		if err != nil {
			return Report{}, err
		}
		defer unix.Close(fd)
		event := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET, Fd: int32(fd)}
		if err := unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, fd, &event); err != nil {
			return Report{}, fmt.Errorf("epoll_ctl: %w", err)
		}
		free = append(free, int32(fd))
	}
	return spin(c, epoll, free)
}

func spin(c Config, epoll int, free []int32) (Report, error) {
	var r Report
	request := []byte("GET / HTTP/1.1\r\nHost: " + c.Addr.String() + "\r\nUser-Agent: spinref\r\n\r\n")
	planned := int(c.Rate * c.Duration.Seconds())
	events := make([]unix.EpollEvent, 256)
	buffer := make([]byte, 64<<10)
	start := time.Now()
	for r.Answered < planned {
		now := time.Since(start)
		due := time.Duration(float64(r.Sent) / c.Rate * float64(time.Second))
		if r.Sent < planned && due <= now {
			if last := len(free) - 1; last >= 0 {
				if _, err := unix.Write(int(free[last]), request); err != nil {
					return r, fmt.Errorf("write: %w", err)
				}
				free = free[:last]
				r.Sent++
				continue
			}
		}
		if now > c.Duration+drainFor {
			return r, fmt.Errorf("%d of %d requests were not answered in time", planned-r.Answered, planned)
		}
		n, err := unix.EpollWait(epoll, events, 0)
		if err != nil && err != unix.EINTR {
			return r, fmt.Errorf("epoll_wait: %w", err)
		}
		for _, event := range events[:max(n, 0)] {
			switch n, err := unix.Read(int(event.Fd), buffer); {
			case err != nil:
				return r, fmt.Errorf("read: %w", err)
			case n == 0:
				return r, errors.New("the server ended a connection")
			}
			free = append(free, event.Fd)
			r.Answered++
		}
	}
	return r, nil
}

// connect opens a non-blocking connection.
func connect(to netip.AddrPort) (int, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, fmt.Errorf("socket: %w", err)
	}
	err = unix.Connect(fd, &unix.SockaddrInet4{Addr: to.Addr().As4(), Port: int(to.Port())})
	if err == nil {
		err = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	}
	if err == nil {
		err = unix.SetNonblock(fd, true)
	}
	if err != nil {
		unix.Close(fd)
		return 0, fmt.Errorf("connect to %s: %w", to, err)
	}
	return fd, nil
}
