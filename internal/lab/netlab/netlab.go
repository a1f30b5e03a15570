// Package netlab makes hosts on one machine: Linux network namespaces that are
// joined by veth pairs, bridges and a NAT router, without Docker, without an
// iptables binary and without root.
//
// Everything happens in a sandbox: RunIn runs this same binary as the first
// process of new pid, network, mount and IPC namespaces, and of a user
// namespace where the caller is not privileged. When that process ends, the
// kernel kills whatever else is within and the namespaces are gone; and it ends
// when its caller does, by SIGKILL too. Inside, New makes a Lab, a Lab makes
// Hosts, and a Host runs functions, listens, dials and starts children in its
// namespace.
//
// The package refuses to make a host outside of a sandbox: it would be left
// behind on the machine. It resolves no names: a host has no resolver, so that
// addresses are IP literals. It changes nothing of the machine's own network.
//
// Outside of Linux RunIn returns an *Unavailable, and there are no hosts.
package netlab

import (
	"fmt"
	"io"
	"os"
	"time"
)

// SandboxArg is the first argument of the binary that RunIn re-executes. A
// program that calls RunIn must hand what follows it to RunSandbox, before it
// does anything else.
const SandboxArg = "netlab-sandbox"

// stopGrace is the default of Spec.Grace: a lab that stops its children in
// order, each with a grace of its own, gets that done.
const stopGrace = 20 * time.Second

// Spec says what runs in a sandbox.
type Spec struct {
	// Args are what the function given to RunSandbox gets.
	Args []string
	// Stdin, Stdout and Stderr are those of the sandbox; nil means /dev/null.
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Env is the whole environment; nil means that of the caller.
	Env []string
	// ExtraFiles are open in the sandbox as 3, 4 and so on.
	ExtraFiles []*os.File
	// Grace is how long the sandbox may take to end after SIGTERM, before
	// SIGKILL; 0 means 20 s.
	Grace time.Duration
}

// Unavailable says that this machine, or this user on it, cannot have a
// sandbox or a part of a lab. It is one line: what failed, which setting or
// permission forbids it, and what to do.
type Unavailable struct {
	// What could not be had, such as "a user namespace".
	What string
	// Err is the system's answer.
	Err error
	// Remedy names the sysctl, capability, kernel module or container option, and
	// what to do about it.
	Remedy string
}

func (u *Unavailable) Error() string {
	return fmt.Sprintf("this machine has no %s for the lab: %v; %s", u.What, u.Err, u.Remedy)
}

func (u *Unavailable) Unwrap() error { return u.Err }
