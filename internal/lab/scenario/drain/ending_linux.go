package drain

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"chokepoint/internal/adminapi"
)

// inTime is an error if it is later than it should be.
func inTime(what string, due time.Time) error {
	if by := time.Since(due); by > maxLate {
		return &Late{what, by}
	}
	return nil
}

// endGateways ends the first gateway, or all in turn, and returns when that is over: the
// balancer's part of it too.
func (w *world) endGateways(ctx context.Context) error {
	w.mu.Lock()
	w.told = time.Now()
	w.mu.Unlock()
	if !w.setup.Rolling {
		return w.end(ctx, 0)
	}
	for i := range w.gateways {
		if err := w.end(ctx, i); err != nil {
			return err
		}
		if err := w.gateways[i].stop(ctx); err != nil {
			return err
		}
		if err := w.begin(ctx, i); err != nil {
			return err
		}
		w.note(gatewayName(i), "started again", "")
		if err := w.command(ctx, fmt.Sprintf("set server %s/%s state ready", backend, gatewayName(i))); err != nil {
			return err
		}
		w.note("balancer", "registered", gatewayName(i))
	}
	return nil
}

// end tells a gateway to end as an orchestrator does: the balancer learns of it, with its
// delays, while the gateway has its own times.
func (w *world) end(ctx context.Context, i int) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	g, began := w.gateways[i], time.Now()
	w.note(g.name, "told to end", fmt.Sprintf("preStop %v, drain %v, killed after %v", w.setup.End.PreStop, w.drainInWords(), w.setup.End.grace()))
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := w.deregister(ctx, g, began); err != nil {
			cancel(err)
		}
	})
	if err := w.endProcess(ctx, g, began); err != nil {
		cancel(err)
	}
	wg.Wait()
	return context.Cause(ctx) // the first of both
}

func (w *world) drainInWords() string {
	switch {
	case w.setup.End.OnZero:
		return "until no connection is left"
	case w.setup.End.Drain == 0:
		return "without a bound"
	}
	return w.setup.End.Drain.String()
}

// endProcess is the gateway's part.
func (w *world) endProcess(ctx context.Context, g *gateway, began time.Time) error {
	if err := sleepUntil(ctx, began.Add(w.setup.End.PreStop)); err != nil {
		return err
	}
	if !w.setup.End.OnZero { // which serves on
		w.mu.Lock()
		w.signals = append(w.signals, w.setup.End.signalled(g.name, began.Sub(w.told), time.Since(w.told), w.setup.Balancer))
		w.mu.Unlock()
	}
	signal, err := g.quit()
	if err != nil {
		return err
	}
	w.note(g.name, signal, "")
	if err := inTime(signal, began.Add(w.setup.End.PreStop)); err != nil {
		return err
	}
	e := Ended{Name: g.name}
	timer := time.NewTimer(time.Until(began.Add(w.setup.End.grace())))
	defer timer.Stop()
	select {
	case <-g.child.Done():
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		if w.setup.End.OnZero {
			open, err := g.open(ctx)
			if err != nil {
				return fmt.Errorf("ask %s for its connections: %w", g.name, err)
			}
			if e.Left, err = w.trace(open); err != nil {
				return err
			}
		}
		e.Killed = true
		w.note(g.name, "SIGKILL", fmt.Sprintf("connections left: %d", len(e.Left)))
		if err := g.kill(ctx); err != nil {
			return err
		}
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	e.At = time.Since(began)
	w.note(g.name, "ended", g.child.Status())
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = append(w.ended, e)
	return nil
}

// trace follows connections of a gateway back to their clients.
func (w *world) trace(open []adminapi.GatewayConnection) ([]Connection, error) {
	legs, err := w.legs()
	if err != nil {
		return nil, err
	}
	var all []Connection
	for _, c := range open {
		all = append(all, Connection{Client: legs[c.Remote].client, Balancer: c.Remote, ID: c.ID, Requests: c.RequestIDs})
	}
	return all, nil
}

// deregister is the balancer's part.
func (w *world) deregister(ctx context.Context, g *gateway, began time.Time) error {
	b := w.setup.Balancer
	if err := sleepUntil(ctx, began.Add(b.Propagation)); err != nil {
		return err
	}
	err := w.command(ctx, fmt.Sprintf("set server %s/%s state drain", backend, g.name))
	// First: a balancer that does not answer in time is a machine that is too busy.
	if err := inTime("no new connections", began.Add(b.Propagation)); err != nil {
		return err
	}
	if err != nil {
		return err
	}
	w.note("balancer", "no new connections", "to "+g.name)
	if !b.Terminate {
		return nil
	}
	if err := sleepUntil(ctx, began.Add(b.DeregistrationDelay)); err != nil {
		return err
	}
	clients, err := w.clientsOf(g.name)
	if err != nil {
		return err
	}
	if err := w.hosts.balancer.CutOff(clients); err != nil {
		return err
	}
	w.note("balancer", "terminated", fmt.Sprintf("the clients' side of the connections to %s: %d", g.name, len(clients)))
	return nil
}

// clientsOf are the clients' ends of the connections that the balancer has open to a
// gateway: those of its log that its kernel still has.
func (w *world) clientsOf(gateway string) ([]netip.AddrPort, error) {
	legs, err := w.legs()
	if err != nil {
		return nil, err
	}
	open, err := w.hosts.balancer.Sockets(nil)
	if err != nil {
		return nil, err
	}
	var clients []netip.AddrPort
	for _, socket := range open {
		l, ok := legs[socket.Local.String()]
		if !ok || l.server != gateway || socket.State != established {
			continue
		}
		client, err := netip.ParseAddrPort(l.client)
		if err != nil {
			return nil, fmt.Errorf("the balancer's log: %w", err)
		}
		clients = append(clients, client)
	}
	return clients, nil
}

const established = "ESTABLISHED"

// command says a line to the balancer, whose answer must be silence.
func (w *world) command(ctx context.Context, line string) error {
	said, err := w.balancer.Command(ctx, line)
	if err == nil && said != "" {
		err = fmt.Errorf("the balancer answers %q to %q", said, line)
	}
	return err
}
