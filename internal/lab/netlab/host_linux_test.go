package netlab_test

import (
	"context"
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"chokepoint/internal/cli"
	"chokepoint/internal/lab/netlab"
	"chokepoint/internal/lab/netlab/netlabtest"
)

// exchange sends a byte on a new connection and waits for it on the other side.
func exchange(t *testing.T, from, to *netlab.Host, addr string) {
	t.Helper()
	listener, err := to.Listen(addr)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	conn, err := from.Dial(t.Context(), addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	accepted, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer accepted.Close()
	if got, want := accepted.RemoteAddr().String(), conn.LocalAddr().String(); got != want {
		t.Errorf("%s is reached from %s, dialled from %s", addr, got, want)
	}
}

func TestABridgeIsOneSubnet(t *testing.T) {
	netlabtest.Need(t)
	lab, hosts := newHosts(t, "switch", "a", "b", "balancer")
	end := func(i int, addr string) netlab.End {
		return netlab.End{Host: hosts[i], Name: "eth0", Addr: prefix(addr)}
	}
	if err := lab.Bridge(hosts[0], "a-very-long-name"[:15], prefix("10.0.0.1/24"), end(1, "10.0.0.2/24"), end(2, "10.0.0.3/24"), end(3, "10.0.0.4/24")); err != nil {
		t.Fatal(err)
	}
	exchange(t, hosts[1], hosts[2], "10.0.0.3:80")
	exchange(t, hosts[2], hosts[0], "10.0.0.1:80")
	exchange(t, hosts[0], hosts[3], "10.0.0.4:80")
	if err := lab.Bridge(hosts[0], "a-very-long-name"[:15], netip.Prefix{}); !errors.Is(err, syscall.EEXIST) {
		t.Errorf("a second bridge of the same name: %v", err)
	}
}

// newHosts is a lab of hosts without links, which ends with the test.
func newHosts(t *testing.T, names ...string) (*netlab.Lab, []*netlab.Host) {
	t.Helper()
	lab, err := netlab.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := lab.Close(); err != nil {
			t.Error(err)
		}
	})
	var hosts []*netlab.Host
	for _, name := range names {
		host, err := lab.Host(name)
		if err != nil {
			t.Fatal(err)
		}
		hosts = append(hosts, host)
	}
	return lab, hosts
}

// An address that is taken away answers no more, not even on a connection that
// was there before; nor does a link that is down.
func TestAHostThatGoes(t *testing.T) {
	netlabtest.Need(t)
	for name, step := range map[string]struct{ away, back func(*netlab.Host) error }{
		"address": {
			func(h *netlab.Host) error { return h.RemoveAddr("eth0", prefix("10.0.2.2/24")) },
			func(h *netlab.Host) error {
				return errors.Join(h.AddAddr("eth0", prefix("10.0.2.2/24")), h.Route(prefix("0.0.0.0/0"), netip.MustParseAddr("10.0.2.1")))
			},
		},
		"link": {
			func(h *netlab.Host) error { return h.SetLinkDown("eth0") },
			func(h *netlab.Host) error {
				return errors.Join(h.SetLinkUp("eth0"), h.Route(prefix("0.0.0.0/0"), netip.MustParseAddr("10.0.2.1")))
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			top := build(t)
			defer top.lab.Close()
			exchange(t, top.caller, top.upstream, "10.0.2.2:80")
			listener, err := top.upstream.Listen("10.0.2.2:80")
			if err != nil {
				t.Fatal(err)
			}
			defer listener.Close()
			if err := step.away(top.upstream); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			// Somebody who waits for an answer keeps nobody else from dialling.
			waiting := make(chan error, 1)
			go func() {
				_, err := top.caller.Dial(ctx, "10.0.2.2:80")
				waiting <- err
			}()
			exchange(t, top.caller, top.router, "10.0.1.1:80")
			if err := <-waiting; !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("dial: %v, want its deadline", err)
			}
			if err := step.back(top.upstream); err != nil {
				t.Fatal(err)
			}
			eventually(t, "it answers again", func() bool {
				ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
				defer cancel()
				conn, err := top.caller.Dial(ctx, "10.0.2.2:80")
				if err == nil {
					conn.Close()
				}
				return err == nil
			})
		})
	}
}

// A new namespace copies IPv4 settings from the machine, on which ip_forward is
// often 1.
func TestSysctlsAreTheHostsOwn(t *testing.T) {
	netlabtest.Need(t)
	_, hosts := newHosts(t, "a", "b")
	const name = "/proc/sys/net/ipv4/ip_forward"
	if err := hosts[0].WriteSysctl("net.ipv4.ip_forward", "1"); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"1\n", "0\n"} {
		var got []byte
		err := hosts[i].Do(func() (err error) {
			got, err = os.ReadFile(name)
			return err
		})
		if string(got) != want || err != nil {
			t.Errorf("host %d: %q, %v; want %q", i, got, err, want)
		}
	}
	if err := hosts[0].WriteSysctl("net.no.such", "1"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a parameter that is not there: %v", err)
	}
	if err := hosts[0].WriteSysctl("kernel.panic", "1"); err == nil || !strings.Contains(err.Error(), "only net.* is a host's own") {
		t.Errorf("a parameter of the machine: %v", err)
	}
}

func TestErrorsNameTheHostAndTheValue(t *testing.T) {
	netlabtest.Need(t)
	lab, hosts := newHosts(t, "caller", "upstream")
	a, b := netlab.End{Host: hosts[0], Name: "eth0"}, netlab.End{Host: hosts[1], Name: "eth0"}
	if err := lab.Link(a, b); err != nil {
		t.Fatal(err)
	}
	_, errHost := lab.Host("caller")
	_, errName := hosts[0].Dial(t.Context(), "upstream:80")
	_, errListen := hosts[0].Listen("10.9.9.9:80")
	_, errDial := hosts[0].Dial(t.Context(), "10.9.9.9:80")
	closed, err := netlab.New()
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(closed.Close(), closed.Close()); err != nil {
		t.Fatal(err)
	}
	_, errClosed := closed.Host("late")
	for want, err := range map[string]error{
		"host caller: the lab has one already":                                                           errHost,
		"host late: the lab is closed":                                                                   errClosed,
		"link caller/eth0 and upstream/eth0: file exists":                                                lab.Link(a, b),
		"host caller: add 10.0.0.1/24 to eth9: Link not found":                                           hosts[0].AddAddr("eth9", prefix("10.0.0.1/24")),
		"host caller: add fd00::1/64 to eth0: not an IPv4 address, and the lab's networks have no other": hosts[0].AddAddr("eth0", prefix("fd00::1/64")),
		"host caller: remove 10.0.0.1/24 from eth0: cannot assign requested address":                     hosts[0].RemoveAddr("eth0", prefix("10.0.0.1/24")),
		"host caller: route to 0.0.0.0/0 via 10.0.0.9: network is unreachable":                           hosts[0].Route(prefix("0.0.0.0/0"), netip.MustParseAddr("10.0.0.9")),
		`host caller: dial: ParseAddr("upstream"): unable to parse IP`:                                   errName,
		"host caller: dial tcp 10.9.9.9:80: connect: network is unreachable":                             errDial,
		"host caller: listen: listen tcp 10.9.9.9:80: bind: cannot assign requested address":             errListen,
	} {
		if err == nil || err.Error() != want {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// A lab that is closed has given back its threads, files and namespaces.
func TestClosedLabsLeaveNothing(t *testing.T) {
	netlabtest.Need(t)
	build(t).lab.Close() // what the libraries open once
	own := func() (files int, networks map[string]bool) {
		networks = map[string]bool{}
		for _, name := range linksOf(t, "/proc/self/task/*/ns/net") {
			networks[name] = true
		}
		return len(linksOf(t, "/proc/self/fd/*")), networks
	}
	back := func() bool { _, in := own(); return len(in) == 1 } // a thread takes a moment to end
	eventually(t, "there is the sandbox's own namespace alone", back)
	files, _ := own()
	for range 10 {
		eventually(t, "the one before has gone", back)
		top := build(t)
		if _, in := own(); len(in) != 1+3 {
			t.Errorf("%d network namespaces, want the sandbox's and three", len(in))
		}
		if err := top.lab.Close(); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the namespaces are gone", back)
	if after, _ := own(); after > files { // the tests before may still close theirs
		t.Errorf("%d files are open after ten labs, %d before", after, files)
	}
}

// The argument with which the lab starts itself is not for users, and a process
// that is not in a sandbox does not take itself for one that is.
func TestOutsideOfASandbox(t *testing.T) {
	for _, stage := range []string{"first", "work", ""} {
		out, err := exec.Command("/proc/self/exe", netlab.SandboxArg, stage).CombinedOutput()
		if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != cli.ExitUsage || !strings.Contains(string(out), "not for the command line") {
			t.Errorf("stage %q: %v, %q", stage, err, out)
		}
	}
	out, err := exec.Command("/proc/self/exe", plainArg).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "in a sandbox only") {
		t.Errorf("a lab outside of a sandbox: %v, %q", err, out)
	}
}

func BenchmarkLab(b *testing.B) {
	netlabtest.Need(b)
	for b.Loop() {
		if err := build(b).lab.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDo(b *testing.B) {
	netlabtest.Need(b)
	top := build(b)
	defer top.lab.Close()
	for b.Loop() {
		if err := top.caller.Do(func() error { return nil }); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDial(b *testing.B) {
	netlabtest.Need(b)
	top := build(b)
	defer top.lab.Close()
	listener, err := top.upstream.Listen("10.0.2.2:80")
	if err != nil {
		b.Fatal(err)
	}
	defer listener.Close()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			conn.Close()
		}
	}()
	for b.Loop() {
		conn, err := top.caller.Dial(b.Context(), "10.0.2.2:80")
		if err != nil {
			b.Fatal(err)
		}
		conn.Close()
	}
}
