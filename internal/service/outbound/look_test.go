package outbound

import (
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"chokepoint/internal/profile"
)

// ends are the two ends of a connection over loopback.
func ends(t testing.TB) (here, there *net.TCPConn) {
	t.Helper()
	l, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if here, err = net.DialTCP("tcp4", nil, l.Addr().(*net.TCPAddr)); err != nil {
		t.Fatal(err)
	}
	if there, err = l.AcceptTCP(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { here.Close(); there.Close() })
	return here, there
}

func newLook(t testing.TB, kind profile.StaleCheck, c *net.TCPConn, encrypted bool) *Look {
	t.Helper()
	l, err := NewLook(kind, c, encrypted)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

var kinds = []profile.StaleCheck{profile.StalePeek, profile.StaleTCPInfo, profile.StaleRead}

func TestLook(t *testing.T) {
	for _, kind := range kinds {
		for _, tc := range []struct {
			name   string
			happen func(c *net.TCPConn)
			want   error
		}{
			{"FIN", func(c *net.TCPConn) { c.CloseWrite() }, io.EOF},
			{"close", func(c *net.TCPConn) { c.Close() }, io.EOF},
			{"RST", func(c *net.TCPConn) { c.SetLinger(0); c.Close() }, syscall.ECONNRESET},
			{"data", func(c *net.TCPConn) { io.WriteString(c, "x") }, errUnsolicited},
		} {
			t.Run(string(kind)+" "+tc.name, func(t *testing.T) {
				here, there := ends(t)
				l := newLook(t, kind, here, false)
				for range 3 {
					if err := l.Dead(); err != nil {
						t.Fatalf("alive, and %v", err)
					}
				}
				tc.happen(there)
				if kind == profile.StaleTCPInfo {
					switch tc.want {
					case errUnsolicited: // the state of the socket does not tell
						time.Sleep(20 * time.Millisecond)
						if err := l.Dead(); err != nil {
							t.Errorf("%v, want nil", err)
						}
						return
					case syscall.ECONNRESET: // nor does it tell how the connection ended
						tc.want = io.EOF
					}
				}
				var err error
				eventually(t, "what has happened", func() bool { err = l.Dead(); return err != nil })
				if !errors.Is(err, tc.want) {
					t.Errorf("%v, want %v", err, tc.want)
				}
			})
		}
	}
}

// What TLS sends by itself is no reason to drop a connection, and stays to be read.
func TestLookLeavesTheDataOfTLS(t *testing.T) {
	here, there := ends(t)
	l := newLook(t, profile.StalePeek, here, true)
	io.WriteString(there, "ticket")
	time.Sleep(20 * time.Millisecond)
	if err := l.Dead(); err != nil {
		t.Errorf("%v, want nil", err)
	}
	buf := make([]byte, 16)
	if n, err := here.Read(buf); err != nil || string(buf[:n]) != "ticket" {
		t.Errorf("read %q, %v", buf[:n], err)
	}
	// As TLS ends a connection: a word, and the FIN behind it.
	io.WriteString(there, "close_notify")
	there.CloseWrite()
	eventually(t, "the FIN behind the data", func() bool { return l.Dead() == io.EOF })
	if _, err := NewLook(profile.StaleRead, here, true); err == nil {
		t.Error("a read that eats the data of TLS is not refused")
	}
}

// A read leaves no deadline behind, and a connection that was closed here is dead.
func TestLookLeavesNoDeadline(t *testing.T) {
	here, there := ends(t)
	l := newLook(t, profile.StaleRead, here, false)
	if err := l.Dead(); err != nil {
		t.Fatal(err)
	}
	go func() { time.Sleep(20 * time.Millisecond); io.WriteString(there, "late") }()
	buf := make([]byte, 16)
	if n, err := here.Read(buf); err != nil || string(buf[:n]) != "late" {
		t.Errorf("read %q, %v", buf[:n], err)
	}
	here.Close()
	for _, kind := range kinds {
		if l, err := NewLook(kind, here, false); err == nil && l.Dead() == nil {
			t.Errorf("%s: a closed connection looks alive", kind)
		}
	}
}

func TestLookDoesNotAllocate(t *testing.T) {
	for _, kind := range []profile.StaleCheck{profile.StalePeek, profile.StaleTCPInfo} {
		here, there := ends(t)
		l := newLook(t, kind, here, false)
		if n := testing.AllocsPerRun(100, func() { l.Dead() }); n != 0 {
			t.Errorf("%s, alive: %v allocations a look, want 0", kind, n)
		}
		there.CloseWrite()
		eventually(t, "the FIN", func() bool { return l.Dead() != nil })
		if n := testing.AllocsPerRun(100, func() { l.Dead() }); n != 0 {
			t.Errorf("%s, dead: %v allocations a look, want 0", kind, n)
		}
	}
}

// BenchmarkStale is what one look at a living connection costs.
func BenchmarkStale(b *testing.B) {
	for _, kind := range kinds {
		b.Run(string(kind), func(b *testing.B) {
			here, _ := ends(b)
			l := newLook(b, kind, here, false)
			b.ReportAllocs()
			for b.Loop() {
				if err := l.Dead(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkStaleUncached is a look as it is easily written: the RawConn and the closure
// are made each time.
func BenchmarkStaleUncached(b *testing.B) {
	here, _ := ends(b)
	b.ReportAllocs()
	for b.Loop() {
		l, err := NewLook(profile.StalePeek, here, false)
		if err != nil || l.Dead() != nil {
			b.Fatal(err)
		}
	}
}
