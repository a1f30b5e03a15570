//go:build linux

package main

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// ownNetworkMark is set in the environment of the program once it has a network
// of its own.
const ownNetworkMark = "CHOKEPOINT_PEERS_OWN_NETWORK"

// ownNetwork gives the program, and what it starts, a network namespace with
// nothing but a loopback. It returns only when that is done: the first time it
// starts the program anew, since a namespace belongs to a thread until then.
func ownNetwork() error {
	if os.Getenv(ownNetworkMark) != "" {
		return loopbackUp()
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("a network namespace: %w", err)
	}
	return fmt.Errorf("exec: %w", unix.Exec(self, os.Args, append(os.Environ(), ownNetworkMark+"=1")))
}

func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("socket: %w", err)
	}
	defer unix.Close(fd)
	loopback, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	loopback.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, loopback); err != nil {
		return fmt.Errorf("bringing the loopback up: %w", err)
	}
	return nil
}
