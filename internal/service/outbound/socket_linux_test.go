package outbound

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"chokepoint/internal/profile"
)

// acknowledged says whether the peer's kernel has the FIN that was sent on c.
func acknowledged(c *net.TCPConn) bool {
	raw, err := c.SyscallConn()
	if err != nil {
		return true
	}
	there := true // the peer may have closed its side, too
	raw.Control(func(fd uintptr) {
		info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
		const finWait1 = 4 // of include/net/tcp_states.h
		there = err != nil || info.State != finWait1
	})
	return there
}

// The options that a dialled socket has, as its kernel says.
func TestSocketOptions(t *testing.T) {
	type options struct{ KeepAlive, Idle, Interval, Count, UserTimeout int }
	for _, tc := range []struct {
		kept profile.Connections
		want options // of those that are on
	}{
		{profile.Connections{}, options{}},
		{profile.Connections{KeepAlive: profile.KeepAlive{Idle: 2 * time.Second, Interval: 500 * time.Millisecond, Count: 3}}, options{1, 2, 1, 3, 0}},
		{profile.Connections{KeepAlive: profile.KeepAlive{Idle: 15 * time.Second, Interval: 15 * time.Second, Count: 9}}, options{1, 15, 15, 9, 0}},
		{profile.Connections{UserTimeout: 1500 * time.Millisecond}, options{UserTimeout: 1500}},
	} {
		k := keep(t, answerOK)
		var made tally
		d, err := newDialer(tc.kept, nil, true, &made)
		if err != nil {
			t.Fatal(err)
		}
		c, err := d.dialTCP(t.Context(), strings.Trim(k.url, "htp:/"))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		raw, err := c.Conn.(*net.TCPConn).SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		var got options
		raw.Control(func(fd uintptr) {
			get := func(level, name int) int {
				n, err := unix.GetsockoptInt(int(fd), level, name)
				if err != nil {
					t.Error(err)
				}
				return n
			}
			got.UserTimeout = get(unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT)
			if got.KeepAlive = get(unix.SOL_SOCKET, unix.SO_KEEPALIVE); got.KeepAlive == 1 {
				got.Idle, got.Interval = get(unix.IPPROTO_TCP, unix.TCP_KEEPIDLE), get(unix.IPPROTO_TCP, unix.TCP_KEEPINTVL)
				got.Count = get(unix.IPPROTO_TCP, unix.TCP_KEEPCNT)
			}
		})
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%+v (-want +got)\n%s", tc.kept, diff)
		}
	}
}
