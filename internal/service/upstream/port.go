package upstream

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// port is a listening address that can be closed and opened again. While it is
// closed, connections are refused by the kernel itself.
type port struct {
	address  string // host:port; after the first open without a port 0
	listener *net.TCPListener
	held     int // a socket that holds the port while it is closed, or noSocket
}

const noSocket = -1

func newPort(address string) *port { return &port{address: address, held: noSocket} }

// open listens. The error is one line that names the address and a remedy.
func (p *port) open(ctx context.Context) error {
	p.release()
	l, err := listen(ctx, p.address)
	if err != nil {
		return err
	}
	p.listener = l
	p.address = l.Addr().String()
	return nil
}

// refuse closes the listener but keeps the port from being given to anyone
// else, so that open finds it again.
func (p *port) refuse() error {
	addr := p.listener.Addr().(*net.TCPAddr)
	err := p.listener.Close()
	p.listener = nil
	p.held = hold(addr)
	return err
}

// close gives the port up.
func (p *port) close() {
	if p.listener != nil {
		p.listener.Close()
		p.listener = nil
	}
	p.release()
}

func (p *port) release() {
	if p.held != noSocket {
		unix.Close(p.held)
		p.held = noSocket
	}
}

// hold binds addr without listening on it: a SYN is answered with a RST, and
// the kernel does not hand the port to somebody's outgoing connection. It is a
// precaution: where it fails, the port is merely unprotected.
func hold(addr *net.TCPAddr) int {
	family := unix.AF_INET6
	var sockaddr unix.Sockaddr
	if ip := addr.IP.To4(); ip != nil {
		family = unix.AF_INET
		sockaddr = &unix.SockaddrInet4{Port: addr.Port, Addr: [4]byte(ip)}
	} else {
		sockaddr = &unix.SockaddrInet6{Port: addr.Port, Addr: [16]byte(addr.IP.To16())}
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM, 0)
	if err != nil {
		return noSocket
	}
	unix.CloseOnExec(fd)
	if err := errors.Join(
		// Accepted connections still hold the port.
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1),
		unix.Bind(fd, sockaddr),
	); err != nil {
		unix.Close(fd)
		return noSocket
	}
	return fd
}

// listen opens a TCP listener without multipath TCP, which answers a zero
// linger differently, and without keepalive probes, which would notice a dead
// caller that a plain socket does not.
func listen(ctx context.Context, address string) (*net.TCPListener, error) {
	lc := net.ListenConfig{KeepAlive: -1}
	lc.SetMultipathTCP(false)
	l, err := lc.Listen(ctx, "tcp", address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("%s is in use; stop what listens there, or choose another port (0 takes a free one)", address)
	case err != nil:
		return nil, fmt.Errorf("cannot listen on %q: %w; write the address as host:port, with a host of this machine", address, err)
	}
	return l.(*net.TCPListener), nil
}
