package netlab

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"chokepoint/internal/lab/proc"
)

// Host is a machine of a Lab: a network namespace with an OS thread that lives
// in it. Its methods may be called from any goroutine until the Lab is closed.
type Host struct {
	name     string
	launcher *proc.Launcher // its thread is the host's
	ns       *os.File
	handle   *netlink.Handle
}

// threadNetNS is the network namespace of the calling thread. /proc/self would be
// that of the main thread.
const threadNetNS = "/proc/thread-self/ns/net"

// copied are the IPv4 settings that a new namespace takes over from the machine's
// own (net.core.devconf_inherit_init_net is 0) and that decide which packets pass.
// A machine with containers on it forwards.
var copied = []string{"net.ipv4.ip_forward", "net.ipv4.conf.all.rp_filter", "net.ipv4.conf.default.rp_filter"}

func newHost(name string) (_ *Host, err error) {
	h := &Host{name: name, launcher: proc.NewLauncher(nil)}
	defer func() {
		if err != nil {
			_ = h.close()
		}
	}()
	err = h.Do(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("make a network namespace: %w", err)
		}
		if h.ns, err = os.Open(threadNetNS); err != nil {
			return err
		}
		h.handle, err = netlink.NewHandle(unix.NETLINK_ROUTE)
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, name := range copied {
		if err := h.WriteSysctl(name, "0"); err != nil {
			return nil, err
		}
	}
	return h, h.SetLinkUp("lo")
}

func (h *Host) close() error {
	h.launcher.Close()
	if h.handle != nil {
		h.handle.Close()
	}
	if h.ns == nil {
		return nil
	}
	return h.ns.Close()
}

// Name is the name that was given to Lab.Host.
func (h *Host) Name() string { return h.name }

// NetNS is a file descriptor of the host's network namespace, for setns(2) and
// for libraries that take one. It is the host's to close.
func (h *Host) NetNS() int { return int(h.ns.Fd()) }

// Do runs f on the host's thread and returns its error: sockets that f opens are
// the host's, and stay there whoever uses them; /proc/thread-self/net and
// /proc/sys/net are the host's. One f runs at a time, and children start on the
// same thread, so f must not wait for anything.
func (h *Host) Do(f func() error) error { return h.launcher.Do(f) }

// Launcher starts children within the host. It is closed with the Lab; the
// caller stops the children before.
func (h *Host) Launcher() *proc.Launcher { return h.launcher }

// Listen listens on a TCP address of the host, such as 10.0.1.2:80 or
// 10.0.1.2:0. It speaks plain TCP, no MPTCP, and accepted connections send no
// keepalives: Go's own, every 15 s, would hide long cases.
func (h *Host) Listen(addr string) (net.Listener, error) {
	config := net.ListenConfig{KeepAlive: -1}
	config.SetMultipathTCP(false)
	var listener net.Listener
	err := h.Do(func() (err error) {
		if _, err := netip.ParseAddrPort(addr); err != nil {
			return err
		}
		listener, err = config.Listen(context.Background(), "tcp", addr)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("host %s: listen: %w", h.name, err)
	}
	return listener, nil
}

// Dial connects to a TCP address, an IP literal with a port, from within the
// host. The connection sends no keepalives. The context bounds the connecting.
func (h *Host) Dial(ctx context.Context, addr string) (net.Conn, error) {
	return h.DialWith(ctx, net.Dialer{KeepAlive: -1}, "tcp", addr)
}

// DialWith is Dial with a dialer of the caller's, whose keepalive settings hold,
// and on any network that is not a Unix socket.
func (h *Host) DialWith(ctx context.Context, dialer net.Dialer, network, addr string) (net.Conn, error) {
	if _, err := netip.ParseAddrPort(addr); err != nil {
		return nil, fmt.Errorf("host %s: dial: %w", h.name, err)
	}
	dialer.SetMultipathTCP(false)
	type dialled struct {
		conn net.Conn
		err  error
	}
	done := make(chan dialled, 1)
	// To connect may take long, so it has a thread of its own, which ends with
	// the goroutine that has locked it.
	go func() {
		runtime.LockOSThread()
		if err := unix.Setns(h.NetNS(), unix.CLONE_NEWNET); err != nil {
			done <- dialled{err: err}
			return
		}
		conn, err := dialer.DialContext(ctx, network, addr)
		done <- dialled{conn, err}
	}()
	d := <-done
	if d.err != nil {
		return nil, fmt.Errorf("host %s: %w", h.name, d.err)
	}
	return d.conn, nil
}
