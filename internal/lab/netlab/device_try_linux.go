package netlab

import (
	"errors"
	"fmt"
	"net"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
)

// The functions that begin with Try find out by doing it whether this kernel, and
// this user on it, have what a part of a lab needs. Each takes a host that is
// otherwise unused, leaves nothing in it, and takes some milliseconds.

// TryNAT tries the masquerade of a Router, with and without NewPort.
func TryNAT(h *Host) error {
	return errors.Join(
		tryRule(h, nftables.ChainTypeNAT, nftables.ChainHookPostrouting, []expr.Any{&expr.Masq{}}),
		tryRule(h, nftables.ChainTypeNAT, nftables.ChainHookPostrouting, []expr.Any{&expr.Masq{FullyRandom: true}}))
}

// TryReset tries the rules of the modes Drop and Reset.
func TryReset(h *Host) error {
	return tryRule(h, nftables.ChainTypeFilter, nftables.ChainHookForward, append(append(isTCP(), invalid()...), reset()...))
}

// TryLoss tries the rule of a random loss.
func TryLoss(h *Host) error {
	return tryRule(h, nftables.ChainTypeFilter, nftables.ChainHookPrerouting, append(lossy(0.5), drop()...))
}

// TryDelay tries to take packets from the kernel. The error is an *Unavailable
// where the kernel has no way to give them.
func TryDelay(h *Host) error {
	if _, err := findQueue(h); err != nil {
		return err
	}
	line, err := startDelayLine(h)
	if err != nil {
		return err
	}
	return line.close()
}

// TryConntrack tries to set the idle timeout and the mode of a device, and to read
// and empty what it remembers.
func TryConntrack(h *Host) error {
	r := Router{host: h}
	_, errEntries := r.Entries()
	_, errForget := r.Forget(nil)
	return errors.Join(
		h.WriteSysctl(idleSysctl, "3"),
		r.setLoose("0"),
		errEntries,
		errForget,
	)
}

// TryCapture tries to see a connection's packets.
func TryCapture(h *Host) error {
	c, err := h.Capture("lo")
	if err != nil {
		return err
	}
	defer c.Stop()
	if err := onLoopback(h, func(net.Conn) error { return nil }); err != nil {
		return err
	}
	if len(c.Stop()) == 0 {
		return errors.New("a connection was made and none of its packets was captured")
	}
	return c.Err()
}

// TrySockets tries to read the state of a connection's sockets.
func TrySockets(h *Host) error {
	return onLoopback(h, func(conn net.Conn) error {
		port := conn.RemoteAddr().(*net.TCPAddr).AddrPort().Port()
		sockets, err := h.Sockets(func(s Socket) bool { return s.HasPort(port) })
		if err == nil && len(sockets) != 2 {
			err = fmt.Errorf("a connection was made, and the kernel has %d sockets of it", len(sockets))
		}
		return err
	})
}

// onLoopback makes a connection from a host to itself.
func onLoopback(h *Host, f func(net.Conn) error) error {
	listener, err := h.Listen("127.0.0.1:0")
	if err != nil {
		return err
	}
	defer listener.Close()
	var conn net.Conn
	err = h.Do(func() (err error) {
		// Nothing is waited for: the kernel answers itself before connect returns.
		conn, err = net.Dial("tcp4", listener.Addr().String())
		return err
	})
	if err != nil {
		return err
	}
	defer conn.Close()
	return f(conn)
}

// tryRule has the kernel make a rule and take it back, in one transaction.
func tryRule(h *Host, kind nftables.ChainType, hook *nftables.ChainHook, exprs []expr.Any) error {
	return h.Do(func() error {
		conn, err := nftables.New()
		if err != nil {
			return err
		}
		table := conn.AddTable(&nftables.Table{Name: tableName + "_try", Family: nftables.TableFamilyIPv4})
		chain := conn.AddChain(&nftables.Chain{Name: "try", Table: table, Type: kind, Hooknum: hook, Priority: nftables.ChainPriorityFilter})
		conn.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: exprs})
		conn.DelTable(table)
		return conn.Flush()
	})
}
