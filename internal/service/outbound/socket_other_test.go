//go:build unix && !linux

package outbound

import (
	"net"
	"time"
)

// acknowledged waits where the state of a socket cannot be asked for.
func acknowledged(*net.TCPConn) bool {
	time.Sleep(20 * time.Millisecond)
	return true
}
