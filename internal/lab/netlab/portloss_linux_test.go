package netlab_test

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"chokepoint/internal/lab/netlab"
	"chokepoint/internal/lab/netlab/netlabtest"
)

// echoOnPort is a server on the sandbox's loopback, and how to connect to it.
func echoOnPort(t *testing.T) (port uint16, dial func() (net.Conn, error)) {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				b := make([]byte, 1)
				for {
					if _, err := conn.Read(b); err != nil {
						return
					}
					conn.Write(b)
				}
			}()
		}
	}()
	addr := netip.MustParseAddrPort(l.Addr().String())
	return addr.Port(), func() (net.Conn, error) {
		d := net.Dialer{Timeout: 300 * time.Millisecond}
		return d.Dial("tcp4", addr.String())
	}
}

// says sends a byte and waits for it to come back.
func says(conn net.Conn, wait time.Duration) error {
	conn.SetDeadline(time.Now().Add(wait))
	if _, err := conn.Write([]byte("x")); err != nil {
		return err
	}
	_, err := conn.Read(make([]byte, 1))
	return err
}

// TestLosePort: an open connection falls silent and a new one is not made, neither
// with an error of the kernel; other ports do not notice; and it ends.
func TestLosePort(t *testing.T) {
	netlabtest.Need(t)
	port, dial := echoOnPort(t)
	_, dialOther := echoOnPort(t)
	open, err := dial()
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	if err := says(open, 5*time.Second); err != nil {
		t.Fatalf("before: %v", err)
	}
	loss, err := netlab.LosePort(port, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := says(open, 300*time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("on an open connection: %v, want silence", err)
	}
	if conn, err := dial(); err == nil {
		conn.Close()
		t.Error("a connection was made")
	} else if timeout, ok := errors.AsType[net.Error](err); !ok || !timeout.Timeout() {
		t.Errorf("a new connection: %v, want a timeout", err)
	}
	other, err := dialOther()
	if err != nil {
		t.Fatalf("another port: %v", err)
	}
	defer other.Close()
	if err := says(other, 5*time.Second); err != nil {
		t.Errorf("another port: %v", err)
	}
	// The request, sent again at the least once, and a SYN.
	if lost, passed, err := loss.Counts(); err != nil || lost < 3 || passed != 0 {
		t.Errorf("%d lost, %d passed, %v; want at least 3 and none", lost, passed, err)
	}
	if err := loss.End(); err != nil {
		t.Fatal(err)
	}
	again, err := dial()
	if err != nil {
		t.Fatalf("after: %v", err)
	}
	defer again.Close()
	if err := says(again, 5*time.Second); err != nil {
		t.Errorf("after: %v", err)
	}
}

// TestLosePortSome: a share of the packets, give or take six standard deviations.
func TestLosePortSome(t *testing.T) {
	netlabtest.Need(t)
	port, dial := echoOnPort(t)
	conn, err := dial()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	loss, err := netlab.LosePort(port, 0.2)
	if err != nil {
		t.Fatal(err)
	}
	defer loss.End()
	conn.(*net.TCPConn).SetNoDelay(true)
	go func() {
		b := make([]byte, 1<<10)
		for {
			if _, err := conn.Read(b); err != nil {
				return
			}
		}
	}()
	// Each write is a packet, or waits for an earlier one to be sent again; how many
	// that makes is up to the kernel.
	var lost, passed uint64
	for range 4000 {
		if _, err := conn.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Millisecond)
		if lost, passed, err = loss.Counts(); err != nil || lost+passed >= 200 {
			break
		}
	}
	all := float64(lost + passed)
	if share := float64(lost) / all; err != nil || all < 200 || share < 0.05 || share > 0.37 {
		t.Errorf("%d lost, %d passed, %v; want about a fifth of at least 200", lost, passed, err)
	}
}
