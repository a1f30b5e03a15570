package rolling

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"chokepoint/internal/adminapi"
	"chokepoint/internal/lab/balancer"
	"chokepoint/internal/lab/proc"
)

const (
	startWait = 30 * time.Second // for a program to say that it listens
	stopGrace = 2 * time.Second  // between SIGTERM and SIGKILL
	// endWait is how much longer than its requests a server may take to end.
	endWait = 10 * time.Second
	// warmUps is how many requests are sent at the most until each server has had one.
	warmUps = 20
)

// world is the programs of a case.
type world struct {
	c      cell
	n      *network
	folder string
	was    [2]*proc.Child
	lb     *balancer.Balancer
	caller caller
}

func requestLog(folder, server string) string { return filepath.Join(folder, server+"-requests.jsonl") }

// start starts the servers and the balancer in their hosts.
func (c cell) start(ctx context.Context, n *network, folder string) (w *world, err error) {
	w = &world{c: c, n: n, folder: folder, caller: newCaller(n.client, c.method)}
	ctx, cancel := context.WithTimeout(ctx, startWait)
	defer cancel()
	shutdown := graceful
	if c.row.how == immediate {
		shutdown = immediate
	}
	for i, name := range []string{was1, was2} {
		w.was[i], err = n.was[i].Launcher().Start(ctx, proc.Spec{
			Name: name, Path: c.s.Stub, LogPath: filepath.Join(folder, name+".log"), Announces: true,
			Args: []string{
				"-name=" + name, "-listen=" + addrOf(wasAddrs[i], wasPort), "-admin=" + net.JoinHostPort("127.0.0.1", strconv.Itoa(adminPort)),
				"-delay=0s", "-shutdown=" + string(shutdown), "-request-log=" + requestLog(folder, name),
			},
		})
		if err != nil {
			return w, err
		}
		if _, err = w.was[i].Listening(ctx); err != nil {
			return w, err
		}
	}
	w.lb, err = c.s.Nginx.Start(ctx, n.lb.Launcher(), balancer.Options{Name: "lb", Folder: folder, Config: c.config(false)})
	return w, err
}

func addrOf(addr netip.Addr, port uint16) string { return netip.AddrPortFrom(addr, port).String() }

// config is the balancer's, with the server that goes or without it.
func (c cell) config(out bool) balancer.Config {
	return c.s.config(addrOf(frontAddr, lbPort), addrOf(wasAddrs[0], wasPort), addrOf(wasAddrs[1], wasPort), c.row.defence.directives, out)
}

// stop ends the programs, and waits for them.
func (w *world) stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 4*stopGrace)
	defer cancel()
	var errs []error
	if w.lb != nil {
		errs = append(errs, w.lb.Stop(ctx))
	}
	for _, child := range w.was {
		if child != nil {
			errs = append(errs, child.Stop(ctx, stopGrace))
		}
	}
	return errors.Join(errs...)
}

// runs are those of both servers' handlers, from their logs, which outlive them.
func (w *world) runs() ([]adminapi.StubRequest, error) {
	var all []adminapi.StubRequest
	for _, name := range []string{was1, was2} {
		text, err := os.ReadFile(requestLog(w.folder, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		runs, err := adminapi.ParseRequestLog(text)
		if err != nil {
			return nil, err
		}
		all = append(all, runs...)
	}
	return all, nil
}

// warmUp sends requests until each server has had one, so that the balancer keeps a
// connection to each. It sends an even number: the next one is the first server's turn.
func (w *world) warmUp(ctx context.Context) error {
	served := map[string]bool{}
	for i := 1; i <= warmUps; i++ {
		r := w.caller.send(ctx, call{id: fmt.Sprintf("warm-up-%d", i), timeout: startWait})
		if r.outcome != answered200 {
			return fmt.Errorf("the balancer did not answer before anything was done to it: %s", r.outcome)
		}
		served[r.server] = true
		if len(served) == len(w.was) && i%len(w.was) == 0 {
			return nil
		}
	}
	return fmt.Errorf("%d requests through the balancer did not reach both servers, so that ending one shows nothing", warmUps)
}

// awaitRuns waits until so many of the requests in flight are at a handler.
func (w *world) awaitRuns(ctx context.Context, n int) error {
	return poll(ctx, "the requests in flight have not reached the servers", func() (bool, error) {
		runs, err := w.runs()
		at := 0
		for _, r := range runs {
			if isInFlight(r.ID) {
				at++
			}
		}
		return at >= n, errors.Join(err, w.lb.Died())
	})
}

// end ends the first server as the case says, and takes its address away when it has
// ended, if that is part of the case.
func (w *world) end(ctx context.Context, told func(what, detail string)) error {
	signal, name := syscall.SIGTERM, "SIGTERM"
	if w.c.row.how == killed {
		signal, name = syscall.SIGKILL, "SIGKILL"
	}
	told(name, "the server is told to end: "+string(w.c.row.how))
	if err := w.was[0].Signal(signal); err != nil {
		return fmt.Errorf("end %s: %w", was1, err)
	}
	timer := time.NewTimer(w.c.s.InFlight + endWait)
	defer timer.Stop()
	select {
	case <-w.was[0].Done():
	case <-timer.C:
		return fmt.Errorf("%s has not ended %v after it was told to", was1, w.c.s.InFlight+endWait)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	told("ended", w.was[0].Status())
	if !w.c.row.gone {
		return nil
	}
	if err := w.n.was[0].RemoveAddr(interfaceName, netip.PrefixFrom(wasAddrs[0], 24)); err != nil {
		return err
	}
	told("address gone", wasAddrs[0].String())
	if !w.c.row.defence.flush {
		return nil
	}
	told("neighbour flushed", "the balancer's kernel forgets the link-layer address")
	return w.n.lb.ForgetNeighbour(wasAddrs[0])
}

// check says which program, other than the server that goes, has ended by itself.
func (w *world) check() error {
	if err := w.lb.Died(); err != nil {
		return err
	}
	select {
	case <-w.was[1].Done():
		return fmt.Errorf("%s ended by itself: %s", was2, w.was[1].Status())
	default:
		return nil
	}
}

// because is that a program has ended by itself, if one has, and else err. A connection
// to it may break a moment before its end is known.
func (w *world) because(err error) error {
	timer := time.NewTimer(probeWait)
	defer timer.Stop()
	select {
	case <-w.lb.Child.Done():
	case <-w.was[1].Done():
	case <-timer.C:
	}
	if died := w.check(); died != nil {
		return died
	}
	return err
}

// watch ends a case early when one of them has, with that as the cause.
func (w *world) watch(ctx context.Context, endEarly context.CancelCauseFunc) {
	select {
	case <-w.lb.Child.Done():
	case <-w.was[1].Done():
	case <-ctx.Done():
		return
	}
	endEarly(w.check())
}
