package outbound

import (
	"context"
	"crypto/tls"
	"net"
	"time"

	"chokepoint/internal/profile"
)

// dialer makes the connections of a client.
type dialer struct {
	net    net.Dialer
	tls    *tls.Config // nil: plain
	kept   profile.Connections
	byAddr bool
	tally  *tally
}

// NewDialer makes a dialer whose TCP sockets have the keepalive and the user timeout
// that were asked for, and nothing of Go's own.
func NewDialer(k profile.KeepAlive, userTimeout time.Duration) (net.Dialer, error) {
	var d net.Dialer
	d.SetMultipathTCP(false)
	if k == (profile.KeepAlive{}) {
		d.KeepAlive = -1
	} else {
		d.KeepAliveConfig = net.KeepAliveConfig{Enable: true, Idle: k.Idle, Interval: k.Interval, Count: k.Count}
	}
	if userTimeout > 0 {
		if err := setUserTimeout(&d, userTimeout); err != nil {
			return d, err
		}
	}
	return d, nil
}

func newDialer(c profile.Connections, config *tls.Config, byAddr bool, t *tally) (*dialer, error) {
	d, err := NewDialer(c.KeepAlive, c.UserTimeout)
	if err != nil {
		return nil, err
	}
	return &dialer{net: d, tls: config, kept: c, byAddr: byAddr, tally: t}, nil
}

// dialTCP connects within ctx.
func (d *dialer) dialTCP(ctx context.Context, addr string) (*conn, error) {
	raw, err := d.net.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, &dialError{err}
	}
	c := &conn{Conn: raw, tally: d.tally, after: d.kept.StaleCheckAfter, maxAge: d.kept.MaxIdleAge, byAddr: d.byAddr}
	if d.kept.StaleCheck != "" && d.kept.StaleCheck != profile.StaleOff {
		if c.look, err = NewLook(d.kept.StaleCheck, raw.(*net.TCPConn), d.tls != nil); err != nil {
			raw.Close()
			return nil, &dialError{err}
		}
	}
	d.tally.open.Add(1)
	return c, nil
}

// dial connects within ctx, and shakes hands if the upstream speaks TLS.
func (d *dialer) dial(ctx context.Context, addr string) (net.Conn, error) {
	if d.tls != nil {
		return d.dialTLS(ctx, addr)
	}
	c, err := d.dialTCP(ctx, addr)
	if err != nil {
		return nil, err
	}
	c.established()
	return c, nil
}

// dialTLS connects and shakes hands within ctx. It is done here because fasthttp puts
// no bound on a handshake unless WriteTimeout is set: it leaves the handshake to the
// first write, under a write deadline alone, and a server that accepts and never
// speaks then holds the caller for ever.
func (d *dialer) dialTLS(ctx context.Context, addr string) (net.Conn, error) {
	c, err := d.dialTCP(ctx, addr)
	if err != nil {
		return nil, err
	}
	encrypted := tls.Client(c, d.tls)
	if deadline, ok := ctx.Deadline(); ok {
		c.SetDeadline(deadline)
	}
	if err := encrypted.Handshake(); err != nil {
		c.Close()
		return nil, &dialError{err}
	}
	c.SetDeadline(time.Time{})
	c.established()
	return encrypted, nil
}

// dialError marks an error as one of connecting.
type dialError struct{ error }

func (e *dialError) Unwrap() error { return e.error }
