package closerace

import (
	"context"
	"net"

	"chokepoint/internal/lab/proc"
)

// place is where the programs of a run are: both ends of a way.
type place struct {
	caller, server end
	close          func() error
}

// end is a host, or the machine itself.
type end struct {
	launcher *proc.Launcher
	address  string // on which its programs are reached from the other end
	dial     func(ctx context.Context, address string) (net.Conn, error)
}

// loopback has both ends on this machine.
func loopback(launcher *proc.Launcher) place {
	here := end{launcher: launcher, address: "127.0.0.1", dial: func(ctx context.Context, address string) (net.Conn, error) {
		var dialer net.Dialer
		return dialer.DialContext(ctx, "tcp", address)
	}}
	return place{caller: here, server: here, close: func() error { return nil }}
}
